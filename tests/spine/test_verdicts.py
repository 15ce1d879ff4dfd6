"""The three verdicts: on numbers made up here, so that each is known beforehand."""

import json

import numpy as np
import pytest
import xarray

import giantstep as gs
from giantstep.agreement import combine, trials_for_gap, visible_gap
from giantstep.family import Question, Variable
from giantstep.verdicts import SEE

TRIALS = 20


def compared(limit, gap, error, trials=TRIALS):
    """Return the report on one variable over a grid, with these gaps and standard errors."""
    limit, gap, error = np.broadcast_arrays(*(np.asarray(value, dtype=float) for value in (limit, gap, error)))
    status = {"converged": ("field", np.ones(limit.size, bool)), "status": ("field", np.full(limit.size, ""))}
    low = xarray.Dataset({"value": ("field", limit), **status})
    high = xarray.Dataset({"value": ("field", limit + gap), "value_stderr": ("field", error), **status})
    high.attrs["trials"] = trials
    both = combine(low, high, Question("?", (Variable("value", (), "v", "a value"),)))
    return gs.agreement(both.assign_attrs(engine="comparison", trials=trials))


@pytest.mark.parametrize(
    ("gap", "error", "verdict"),
    [
        (0.00, 0.002, "agrees"),
        (0.02, 0.020, "cannot tell"),
        (0.00, 0.500, "cannot tell"),
        (0.20, 0.002, "disagrees"),
        (0.02, 0.002, "disagrees"),
        (0.00, 0.000, "agrees"),
    ],
)
def test_each_verdict(gap, error, verdict):
    report = compared([1.0, 2.0, 1.5], [gap, 0, 0], error)
    assert report.rows[0].verdict().verdict == report.verdict().verdict == verdict
    assert verdict in str(report)


def test_the_gap_granted_to_the_finite_dimension_is_then_the_size_asked_for():
    report = compared([1.0, 2.0, 1.5], [0.04, 0, 0], 0.002)
    assert report.verdict().verdict == "disagrees"
    granted = report.verdict(allow=0.08)
    assert (granted.verdict, granted.asked) == ("agrees", 0.08)
    assert report.verdict(see=0.03, allow=0.08).asked == 0.08


def test_the_trials_that_would_tell_are_those_that_see_the_gap():
    error = 0.03
    verdict = compared([1.0], [0.0], error).verdicts()[0]
    spread = error * np.sqrt(TRIALS)
    assert verdict.trials_that_would_tell == int(trials_for_gap(spread, SEE, 1, 0.9)) > TRIALS
    assert verdict.visible_gap == pytest.approx(float(visible_gap(spread, TRIALS)))
    more = verdict.trials_that_would_tell
    assert compared([1.0], [0.0], spread / np.sqrt(more), more).verdict().verdict == "agrees"
    assert compared([1.0], [0.0], spread / np.sqrt(more - 1), more - 1).verdict().verdict == "cannot tell"
    assert f"{more} trials would see one of 5%" in verdict.sentence


def test_a_large_gap_that_chance_explains_is_no_agreement():
    """All points but one are measured well; that one is off by 30%, which its error bar covers."""
    report = compared(np.ones(9), [0.3] + [0.0] * 8, [0.15] + [0.002] * 8)
    verdict = report.verdicts()[0]
    assert report.rows[0].visible_gap < SEE and verdict.gap == pytest.approx(0.3)
    assert verdict.verdict == "cannot tell"
    assert verdict.trials_that_would_tell == int(trials_for_gap(0.15 * np.sqrt(TRIALS), SEE, 9, 0.9))


def test_a_value_that_passes_through_zero_is_not_divided_by():
    through_zero = compared(np.linspace(-1, 1, 5), 0.0, 0.001)
    row = through_zero.rows[0]
    assert through_zero.verdict().verdict == "agrees"
    assert row.visible_gap < 0.02
    beside = compared(np.linspace(-1, 1, 5), [0, 0, 0.1, 0, 0], 0.001).rows[0]
    assert beside.failed_gap == pytest.approx(0.1 / 0.6)  # the mean size over the grid
    large = compared([1.0, 10.0], [0.0, 1.0], 0.001).rows[0]
    assert large.failed_gap == pytest.approx(0.1)  # where the value is larger than that, its own size


def test_a_limit_of_zero_has_no_relative_gap():
    verdict = compared([0.0, 0.0], [0.1, -0.1], 0.1).verdicts()[0]
    assert (verdict.verdict, verdict.trials_that_would_tell) == ("cannot tell", None)
    assert "limit is zero" in verdict.sentence


def test_events_that_nobody_saw_were_not_measured_exactly():
    """A counted variable without spread cannot tell; any other number without spread is exact."""
    variables = gs.MixtureGLM.example().questions["errors"].variables
    counted = next(variable for variable in variables if variable.counted)
    status = {"converged": True, "status": ""}
    low = xarray.Dataset({counted.name: 1e-9, **status})
    high = xarray.Dataset({counted.name: 0.0, f"{counted.name}_stderr": 0.0, **status}, attrs={"trials": 5})
    both = combine(low, high, Question("?", (counted,))).assign_attrs(engine="comparison", trials=5)
    seen = gs.agreement(both.assign_attrs(family="mixture-glm", what="errors")).verdicts()[0]
    assert (seen.verdict, seen.trials_that_would_tell) == ("cannot tell", None)
    assert "no trial differs from another" in seen.sentence
    assert compared([1.0], [0.0], 0.0).rows[0].visible_gap == 0


def test_verdicts_are_json_and_say_what_they_mean():
    report = compared([1.0, 2.0], 0.0, 0.05)
    data = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert data["verdict"] == data["variables"][0]["verdict"] == "cannot tell"
    assert data["see"] == SEE and data["passes"] is True
    for key in ("gap", "visible_gap", "asked", "trials", "trials_that_would_tell", "sentence"):
        assert key in data and key in data["variables"][0]
    assert data["sentence"].startswith("Limit and experiment do not disagree, but a gap of 5% could hide in value; ")
    single = compared([1.0], 0.1, np.nan, trials=1)
    assert single.verdict().verdict == "cannot tell" and not single.passes()
    assert json.dumps(single.to_dict(), allow_nan=False)


def test_what_is_asked_for_decides_what_passes():
    report = compared([1.0, 2.0], 0.0, 0.02)
    assert report.passes() and report.passes(see=0.5)
    assert not report.passes(see=0.03) and report.failures(see=0.03) == ["value"]
    with pytest.raises(gs.InputError, match="see"):
        report.verdict(see=-0.1)


def test_a_row_of_a_stored_table_has_the_same_verdict():
    report = compared([1.0, 2.0, 1.5], [0.01, 0, 0], 0.01)
    row = report.rows[0]
    record = {"variable": "value", "points": row.points, "trials": TRIALS, "largest_z": row.largest_z}
    record |= {"line": row.chance_z, "largest_gap": row.largest_relative_gap, "visible": row.smallest_visible}
    again = type(row).from_record(record)
    assert again.visible_gap == pytest.approx(row.visible_gap)
    assert again.verdict().verdict == row.verdict().verdict

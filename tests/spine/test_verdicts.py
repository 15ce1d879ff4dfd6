"""The three verdicts: on numbers made up here, so that each is known beforehand."""

import json

import numpy as np
import pytest
import xarray

import giantstep as gs
from giantstep.core.result.comparison import combine
from giantstep.core.result.verdicts import SEE, trials_for_gap, visible_gap
from giantstep.core.scenario.family import Question, Variable

TRIALS = 20


def compared(limit, gap, error, trials=TRIALS, own=(), **attrs):
    """Return the report on one variable over a grid (and `own` dimensions), with these
    gaps and standard errors.
    """
    limit, gap, error = np.broadcast_arrays(
        *(np.asarray(value, dtype=float) for value in (limit, gap, error))
    )
    count = len(limit)
    dims = ("field", *own)
    status = {
        "converged": ("field", np.ones(count, bool)),
        "status": ("field", np.full(count, "")),
    }
    low = xarray.Dataset({"value": (dims, limit), **status})
    high = xarray.Dataset(
        {"value": (dims, limit + gap), "value_stderr": (dims, error), **status}
    )
    high.attrs["trials"] = trials
    both = combine(
        {"limit": low, "experiment": high},
        Question("?", (Variable("value", tuple(own), "v", "a value"),)),
    )
    return gs.agreement(both.assign_attrs(engine="comparison", trials=trials, **attrs))


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
    assert (
        verdict.trials_that_would_tell
        == int(trials_for_gap(spread, SEE, 1, 0.9))
        > TRIALS
    )
    assert verdict.visible_gap == pytest.approx(float(visible_gap(spread, TRIALS)))
    more = verdict.trials_that_would_tell
    assert (
        compared([1.0], [0.0], spread / np.sqrt(more), more).verdict().verdict
        == "agrees"
    )
    assert (
        compared([1.0], [0.0], spread / np.sqrt(more - 1), more - 1).verdict().verdict
        == "cannot tell"
    )
    assert f"{more} trials would see one of 5%" in verdict.sentence


def test_a_large_gap_that_chance_explains_is_no_agreement():
    """All points but one are measured well; that one is off by 30%, which its error bar
    covers.
    """
    report = compared(np.ones(9), [0.3] + [0.0] * 8, [0.15] + [0.002] * 8)
    verdict = report.verdicts()[0]
    assert report.rows[0].visible_gap < SEE and verdict.gap == pytest.approx(0.3)
    assert verdict.verdict == "cannot tell"
    assert verdict.trials_that_would_tell == int(
        trials_for_gap(0.15 * np.sqrt(TRIALS), SEE, 9, 0.9)
    )


def test_a_value_that_passes_through_zero_is_not_divided_by():
    through_zero = compared(np.linspace(-1, 1, 5), 0.0, 0.001)
    row = through_zero.rows[0]
    assert through_zero.verdict().verdict == "agrees"
    assert row.visible_gap < 0.02
    beside = compared(np.linspace(-1, 1, 5), [0, 0, 0.1, 0, 0], 0.001).rows[0]
    assert beside.failed_gap == pytest.approx(0.1 / 0.6)  # the mean size over the grid
    large = compared([1.0, 10.0], [0.0, 1.0], 0.001).rows[0]
    # where the value is larger than that, its own size
    assert large.failed_gap == pytest.approx(0.1)


def test_a_limit_of_zero_has_no_relative_gap():
    verdict = compared([0.0, 0.0], [0.1, -0.1], 0.1).verdicts()[0]
    assert (verdict.verdict, verdict.trials_that_would_tell) == ("cannot tell", None)
    assert "limit is zero" in verdict.sentence


def test_events_that_nobody_saw_were_not_measured_exactly():
    """A counted variable without spread cannot tell; any other number without spread is
    exact.
    """
    variables = gs.MixtureGLM.example().questions["errors"].variables
    counted = next(variable for variable in variables if variable.counted)
    status = {"converged": True, "status": ""}
    low = xarray.Dataset({counted.name: 1e-9, **status})
    high = xarray.Dataset(
        {counted.name: 0.0, f"{counted.name}_stderr": 0.0, **status},
        attrs={"trials": 5},
    )
    both = combine(
        {"limit": low, "experiment": high}, Question("?", (counted,))
    ).assign_attrs(engine="comparison", trials=5)
    seen = gs.agreement(
        both.assign_attrs(family="mixture-glm", what="errors")
    ).verdicts()[0]
    assert (seen.verdict, seen.trials_that_would_tell) == ("cannot tell", None)
    assert "no trial differs from another" in seen.sentence
    assert compared([1.0], [0.0], 0.0).rows[0].visible_gap == 0


def test_verdicts_are_json_and_say_what_they_mean():
    report = compared([1.0, 2.0], 0.0, 0.05)
    data = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert data["verdict"] == data["variables"][0]["verdict"] == "cannot tell"
    assert data["see"] == SEE and data["passes"] is True
    for key in (
        "gap",
        "visible_gap",
        "asked",
        "trials",
        "trials_that_would_tell",
        "sentence",
    ):
        assert key in data and key in data["variables"][0]
    assert data["sentence"].startswith(
        "Limit and experiment do not disagree, but a gap of 5% could hide in value; "
    )
    single = compared([1.0], 0.1, np.nan, trials=1)
    assert single.verdict().verdict == "cannot tell" and not single.passes()
    assert json.dumps(single.to_dict(), allow_nan=False)


def test_what_is_asked_for_decides_what_passes():
    report = compared([1.0, 2.0], 0.0, 0.02)
    assert report.passes() and report.passes(see=0.5)
    assert not report.passes(see=0.03) and report.failures(see=0.03) == ["value"]
    with pytest.raises(gs.InputError, match="see"):
        report.verdict(see=-0.1)


def test_a_gap_is_relative_to_the_variable_at_the_same_time():
    """Catches gaps of trajectories divided by the largest value over time: 15.2% read
    as 8.98%.
    """
    report = compared([[2.0, 1.8, 1.4, 1.18]], [[0, 0, 0, 0.18]], 0.004, own=("time",))
    row = report.rows[0]
    assert row.failed_gap == row.largest_relative_gap == pytest.approx(0.18 / 1.18)
    assert row.where == "" and "a gap of 15.3%" in report.verdicts()[0].sentence
    # one object: as large as its peak
    across = compared([[2.0, 1.8, 1.4, 1.18]], [[0, 0, 0, 0.18]], 0.004, own=("x",))
    assert across.rows[0].failed_gap == pytest.approx(0.09)


def test_where_a_variable_is_nearly_zero_its_gap_is_relative_to_its_size_elsewhere():
    noisy = compared(
        [[0.0, 0.2, 0.8]], [[0.01, 0, 0]], [[0.002, 0.001, 0.001]], own=("time",)
    )
    assert noisy.rows[0].failed_gap == pytest.approx(0.01 / 0.8)
    assert "relative to its size elsewhere" in noisy.verdicts()[0].sentence
    # not hidden by noise: 1% of the size
    tiny = compared([[1e-3, 0.2, 0.8]], [[1e-3, 0, 0]], 1e-5, own=("time",))
    assert tiny.rows[0].failed_gap == pytest.approx(1e-3 / 8e-3)
    assert "relative to 1% of its size elsewhere" in tiny.verdicts()[0].sentence
    small = compared([[0.02, 0.2, 0.8]], [[1e-3, 0, 0]], 1e-5, own=("time",))
    assert (
        small.rows[0].failed_gap == pytest.approx(0.05)
        and small.rows[0].relative_to == ""
    )


def test_table_and_sentences_give_the_same_number():
    """A gap of 39% that noise explains beside one of 32% that it does not: both places
    must say 32%.
    """
    report = compared([1.0, 1.0, 1.0], [0.39, 0.32, 0.0], [0.2, 0.01, 0.01])
    assert report.rows[0].largest_relative_gap == pytest.approx(0.39)
    table = str(report).splitlines()[1]
    sentence = report.verdicts()[0].sentence
    assert (
        table.split()[4] == "32%"
        and "a gap of 32% " in sentence
        and "39" not in str(report)
    )


@pytest.mark.parametrize(
    ("gap", "attrs", "cause"),
    [
        (0.02, {}, "the finite dimension, which leaves small gaps"),
        (0.20, {}, "Compare at twice the dimension"),
        (
            0.20,
            {"finite_size": 0},
            "the finite dimension, whose correction was left out (finite_size=False)",
        ),
        (
            0.02,
            {"approximations": '{"the batch is isotropic": "up to 16%"}'},
            "theory: the batch is isotropic.",
        ),
    ],
)
def test_a_disagreement_names_its_likeliest_cause(gap, attrs, cause):
    report = compared([1.0, 2.0], [gap, 0.0], 0.001, **attrs)
    assert (
        report.verdict().verdict == "disagrees"
        and cause in report.verdicts()[0].sentence
    )
    assert ("finite dimension" in report.verdicts()[0].sentence) == (
        "finite dimension" in cause
    )


def test_the_verdict_is_about_the_variables_of_the_question():
    """Catches a report that says "cannot tell" of the test error because some order
    parameter is noisy.
    """
    both = gs.compare(gs.OneStep.example(), dim=30, trials=4)
    report = gs.agreement(both)
    assert (
        [row.variable for row in report.judged]
        == ["test_error", "train_error"]
        == [r.variable for r in report.rows[:2]]
    )
    assert report.verdict().sentence in str(report).partition("Other variables")[0]
    shifted = both.assign(norm_z=both["norm_z"] + 99)
    wrong = gs.agreement(shifted)
    assert (
        wrong.verdict().verdict == report.verdict().verdict
        and not wrong.passes()
        and wrong.failures() == ["norm"]
    )
    assert "Of the other variables norm disagrees." in str(wrong)
    assert (
        wrong.to_dict()["verdict"] == report.verdict().verdict
        and wrong.to_dict()["passes"] is False
    )
    alone = gs.agreement(shifted, variables="norm")
    assert alone.verdict().verdict == "disagrees" and [
        row.variable for row in alone.rows
    ] == ["norm"]
    assert gs.agreement(shifted, ["test_error"]).rows == report.rows[:1]
    with pytest.raises(
        gs.InputError,
        match=r"among those compared \(test_error, train_error.*did you mean `norm`",
    ):
        gs.agreement(both, ["nrm"])
    with pytest.raises(gs.InputError, match="variables"):
        gs.agreement(both, [])

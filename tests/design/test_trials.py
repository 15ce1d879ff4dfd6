"""How many trials see a gap: the formula against its own definition, and against
experiments.
"""

import numpy as np
import pytest

import giantstep as gs
from giantstep.core.result.verdicts import chance_line, student_line, trials_for_gap

SCENARIO = gs.OneStep(
    width_per_dim=1.5,
    samples_per_dim=2.0,
    ridge=0.1,
    second_layer=gs.Vocabulary([1]),
    noise=0.1,
)


@pytest.mark.parametrize("spread", [0.01, 0.1, 0.7])
@pytest.mark.parametrize("points", [1, 40])
def test_the_trials_are_the_fewest_that_see_the_gap(spread, points):
    trials = int(trials_for_gap(spread, 0.05, points))

    def visible(n):
        return float(student_line(chance_line(points), n - 1)) * spread / np.sqrt(n)

    assert visible(trials) <= 0.05 and (trials == 2 or visible(trials - 1) > 0.05)


def test_gaps_of_that_size_are_seen_as_often_as_promised():
    spread = 0.2
    relative = 0.1
    power = 0.9
    trials = int(trials_for_gap(spread, relative, 1, power))
    draws = np.random.default_rng(1).normal(1 + relative, spread, (20_000, trials))
    t = (draws.mean(axis=1) - 1) / (draws.std(axis=1, ddof=1) / np.sqrt(trials))
    seen = float(np.mean(t > student_line(chance_line(1), trials - 1)))
    # t is a bit more than normal plus a shift
    assert power - 0.02 < seen < power + 0.05


def test_a_pilot_over_a_grid():
    needed = gs.trials_needed(SCENARIO, dim=40, see=0.05, pilot=6, ridge=[0.1, 1.0])
    assert needed.trials.dims == ("ridge",)
    assert (needed.trials_at_most > needed.trials).all() and (needed.trials >= 2).all()
    measured = gs.simulate(SCENARIO, dim=40, trials=6, ridge=[0.1, 1.0])
    spread = measured.test_error_stderr * np.sqrt(6) / measured.test_error
    np.testing.assert_allclose(needed.spread, spread, rtol=1e-12)
    np.testing.assert_array_equal(needed.trials, trials_for_gap(spread, 0.05, 2, 0.9))
    assert "Trials at which a gap of 5% in test_error" in str(needed)


def test_a_dimension_by_place_and_the_earlier_word_are_the_same_question():
    by_name = gs.trials_needed(SCENARIO, dim=30, see=0.1, pilot=3)
    assert int(
        gs.trials_needed(SCENARIO, 30, {"noise": 0.1}, relative=0.1, pilot=3).trials
    ) == int(by_name.trials)
    report = gs.agreement(gs.compare(SCENARIO, dim=30, trials=3))
    # the gap that verdicts ask for where none is said
    assert report.trials_needed() == report.trials_needed(see=0.05)


def test_entries_and_the_report_of_an_agreement():
    few = gs.trials_needed(
        gs.FewSteps.example(), 30, see=0.1, pilot=3, of="test_error[time=1]"
    )
    assert int(few.trials) >= 2
    report = gs.agreement(gs.compare(SCENARIO, dim=40, trials=6))
    row = next(row for row in report.rows if row.variable == "test_error")
    assert report.trials_needed(row.smallest_visible, power=0.5)["test_error"] == 6
    assert report.trials_needed(0.001)["test_error"] > 1000


def test_a_report_that_could_not_see_much_says_so():
    report = gs.agreement(gs.compare(SCENARIO, dim=12, trials=3))
    assert report.rows[0].smallest_visible > 0.1
    said = report.verdicts()[0].sentence
    assert said.startswith("test_error: cannot tell; 3 trials see gaps from ")
    assert said.endswith("trials would see one of 5%.")
    assert "cannot tell; " in str(report)


def test_a_visible_gap_above_the_value_itself_is_said_in_words():
    """Two trials have one degree of freedom: Student's line is far out, and "visible
    gap 226%" read as a mistake.
    """
    report = gs.agreement(gs.compare(SCENARIO, dim=12, trials=2))
    row = report.rows[0]
    assert row.visible_gap > 1
    if row.visible_gap > 10:
        floor = "1000%"
    else:
        floor = f"{float(f'{100 * row.visible_gap:.3g}'):g}%"
    assert f"none below {floor}" in str(report).splitlines()[1]
    said = row.verdict().sentence
    assert said.startswith(
        f"test_error: cannot tell; 2 trials cannot see gaps below {floor}, "
    )
    assert said.endswith("trials would see one of 5%.")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"see": 0}, "`see`"),
        ({"power": 1}, "`power`"),
        ({"pilot": 2}, "`pilot`"),
        ({"of": "tset"}, "`of`"),
    ],
)
def test_bad_questions_are_refused(arguments, message):
    with pytest.raises(gs.InputError, match=message):
        gs.trials_needed(SCENARIO, 30, **arguments)

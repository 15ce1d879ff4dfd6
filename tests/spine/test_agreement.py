import numpy as np
import pytest
import xarray
from scipy import special

import giantstep as gs
from giantstep.core.result.comparison import combine
from giantstep.core.result.verdicts import chance_line, normal_score, student_line
from giantstep.core.scenario.family import Question, Variable

from .toy import Toy


def test_scores_have_the_tail_probability_of_student():
    t = np.linspace(-8, 8, 33)
    for freedom in (1, 2, 4, 30):
        np.testing.assert_allclose(
            special.ndtr(normal_score(t, freedom)), special.stdtr(freedom, t), rtol=1e-9
        )


def test_large_scores_are_finite_sensible_and_symmetric():
    score = float(normal_score(50.0, 4))
    assert special.ndtr(-score) == pytest.approx(special.stdtr(4, -50.0), rel=1e-10)
    assert 4.5 < score < 5.5
    assert float(normal_score(-50.0, 4)) == -score
    assert np.isfinite(normal_score([1e3, 1e6, 1e100], [1e3, 1e4, 4])).all()
    assert (
        normal_score(np.inf, 4) == np.inf
        and np.isnan(normal_score(np.nan, 4))
        and np.isnan(normal_score(1.0, 0))
    )
    assert normal_score(0.0, 4) == 0


def test_scores_join_smoothly_where_probabilities_underflow():
    for freedom in (4.0, 50.0, 1e3, 1e5):
        t = np.geomspace(1, 1e90 if freedom < 10 else 1e7, 4000)
        score = normal_score(t, freedom)
        assert (np.diff(score) > 0).all()
        slope = np.diff(np.log(score[score > 3]))
        assert np.abs(np.diff(slope)).max() < 2e-3


def test_infinite_freedom_is_the_normal_law():
    np.testing.assert_array_equal(
        normal_score([-3.0, 0.5, 1e5], np.inf), [-3.0, 0.5, 1e5]
    )
    assert float(normal_score(30.0, 1e9)) == pytest.approx(30, rel=1e-5)


def test_student_line_is_the_inverse():
    for freedom in (3, 4, 19, 500):
        assert float(
            normal_score(student_line(4.2, freedom), freedom)
        ) == pytest.approx(4.2, rel=1e-8)
    assert student_line(4.2, np.inf) == 4.2


def test_the_line_of_many_points():
    assert chance_line(1) == pytest.approx(3.2905, abs=1e-4)
    tail = 2 * special.ndtr(-chance_line(500))
    assert 1 - (1 - tail) ** 500 == pytest.approx(1e-3, rel=1e-9)


def tails_are_normal(z):
    for line in (1.0, 1.96, 2.576):
        tail = 2 * special.ndtr(-line)
        error = np.sqrt(tail * (1 - tail) / z.size)
        assert abs((np.abs(z) > line).mean() - tail) < 4 * error


@pytest.mark.parametrize("trials", [2, 5, 20])
def test_scores_are_calibrated(trials):
    """100,000 experiments that agree: the tails of the scores are those of a normal
    law, within 6%.

    A score that forgot Student's law would have 12% beyond 1.96 with 5 trials, 6.5%
    with 20, not 5%.
    """
    values = np.random.default_rng(trials).standard_normal((100_000, trials))
    t = values.mean(axis=1) / (values.std(axis=1, ddof=1) / trials**0.5)
    tails_are_normal(normal_score(t, trials - 1))


def test_comparisons_are_calibrated():
    """600 comparisons with 5 trials: 5% +- 3.6% beyond 1.96, where a plain ratio would
    have 12%.
    """
    result = gs.compare(Toy(), dim=10, trials=5, level=np.linspace(2.5, 50, 600))
    tails_are_normal(result["mean_z"].values)


def test_welch_counts_both_errors():
    result = gs.compare(Toy(), what="sampled", dim=100, trials=6, noise__size=1.0)
    low, high = (
        float(result["sampled_stderr"].sel(source=source))
        for source in ("theory", "experiment")
    )
    freedom = (low**2 + high**2) ** 2 / (high**4 / 5)
    t = float(result["sampled_gap"]) / np.hypot(low, high)
    assert float(result["sampled_z"]) == pytest.approx(float(normal_score(t, freedom)))
    assert freedom > 5


def test_agreement_passes_where_it_should():
    report = gs.agreement(gs.compare(Toy(), dim=400, trials=20, level=[1, 3, 5]))
    assert report.passes()
    assert [row.variable for row in report.rows] == ["mean", "parts"]
    assert [row.points for row in report.rows] == [3, 12]
    text = str(report)
    assert text.splitlines()[0].split()[:2] == ["variable", "points"]
    assert len({len(line) for line in text.splitlines()[1:3]}) == 1
    assert report.to_dict()["passes"] is True


def test_a_wrong_theory_is_seen_and_can_be_allowed():
    result = gs.compare(Toy(), theory="wrong", dim=400, trials=20, level=[1, 3, 5])
    report = gs.agreement(result)
    assert not report.passes() and not report.passes(allow=0.05)
    assert report.passes(allow=0.2)
    assert report.failures() == ["mean", "parts"]
    assert (
        report.verdict().verdict == "disagrees"
        and "mean disagrees: a gap of " in str(report)
    )
    row = report.rows[0]
    assert row.largest_relative_gap == pytest.approx(0.1, abs=0.05)
    assert 0 < row.smallest_visible < 0.15


def test_what_could_have_been_seen_is_what_reaches_the_line():
    result = gs.compare(Toy(), dim=400, trials=5)
    row = gs.agreement(result).rows[0]
    theory = float(result["mean"].sel(source="theory"))
    error = float(result["mean_stderr"].sel(source="experiment"))
    assert float(
        normal_score(row.smallest_visible * theory / error, 4)
    ) == pytest.approx(row.chance_z, rel=1e-6)


def test_exact_numbers_agree_and_nothing_compared_does_not():
    exact = gs.compare(Toy(), dim=400, trials=3, noise__size=0.0, level=0.1)
    assert gs.agreement(exact).passes()
    single = gs.agreement(gs.compare(Toy(), dim=400, trials=1))
    assert not single.passes()
    assert "One trial has no standard error" in str(single)
    with pytest.warns(gs.GiantstepWarning):
        failed = gs.compare(Toy(), dim=400, trials=3, level=200)
    assert not gs.agreement(failed).passes()


def test_entries_without_spread_are_not_exact():
    """Two trials that count the same in one bin have not measured it; a variable
    without any spread has.
    """
    from giantstep.core.result.comparison import combine
    from giantstep.core.scenario.family import Question, Variable

    def side(values, errors):
        status = {"converged": True, "status": ""}
        data = {
            "count": ("x", values),
            "count_stderr": ("x", errors),
            "exact": values[0],
            "exact_stderr": 0.0,
        }
        return xarray.Dataset(
            {**data, **status}, {"x": [0.0, 1.0, 2.0]}, attrs={"trials": 5}
        )

    question = Question(
        "?",
        (Variable("count", ("x",), "n", "counts"), Variable("exact", (), "e", "exact")),
    )
    limit = side([1.0, 2.0, 1e-17], [0.0, 0.0, 0.0]).drop_vars(
        ["count_stderr", "exact_stderr"]
    )
    limit.attrs.clear()
    result = combine(
        {"limit": limit, "experiment": side([1.1, 2.1, 0.0], [0.0, 0.1, 0.2])}, question
    )
    assert (
        float(result["count_z"][0])
        == float(result["count_z"][1])
        == pytest.approx(float(normal_score(1.0, 4)))
    )
    assert abs(float(result["count_z"][2])) < 1e-10
    assert float(result["exact_z"]) > 5


def test_agreement_refuses_one_sided_results():
    with pytest.raises(gs.InputError, match="compare"):
        gs.agreement(gs.predict(Toy()))
    with pytest.raises(gs.InputError, match="allow"):
        gs.agreement(gs.compare(Toy(), dim=10)).passes(allow=-1)


@pytest.mark.parametrize(("limit", "agrees"), [(4.6e-9, True), (0.5, False)])
def test_an_event_that_no_trial_saw_contradicts_only_a_frequent_one(limit, agrees):
    def side(value, **more):
        data = {"seen": ((), value), "converged": ((), True), "status": ((), "")}
        data |= {name: ((), error) for name, error in more.items()}
        return xarray.Dataset(data, attrs={"trials": 40})

    question = Question(
        "?", (Variable("seen", (), "s", "fraction of an event", counted=True),)
    )
    exact = side(limit)
    del exact.attrs["trials"]
    both = combine({"limit": exact, "experiment": side(0.0, seen_stderr=0.0)}, question)
    assert (abs(float(both.seen_z)) < 3) is agrees


def test_a_variable_that_is_zero_is_judged_on_a_scale_that_is_given():
    s = gs.BatchReuse(
        target="h4(z)", activation="relu", samples_per_dim=3.0, rate=0.1, steps=2
    )
    # the overlap of a fourth Hermite polynomial stays at zero
    both = gs.compare(s, dim=200, trials=60, seed=1)
    (alone,) = gs.agreement(both, "M").rows
    (row,) = gs.agreement(both, "M", scale={"M": 0.1}).rows
    gaps = np.abs(both["M_gap"].values)
    assert alone.verdict().verdict == "cannot tell" and alone.largest_relative_gap > 0.3
    assert (
        row.largest_relative_gap == pytest.approx(gaps.max() / 0.1)
        and row.relative_to == "0.1"
    )
    assert row.largest_z == alone.largest_z
    (large,) = gs.agreement(both, "M", scale={"M": 10.0}).rows
    assert large.verdict().verdict == "agrees" and large.visible_gap == pytest.approx(
        row.visible_gap / 100
    )
    with pytest.raises(
        gs.InputError,
        match=r"`scale` must be among the variables judged \(M\), but is .*norm",
    ):
        gs.agreement(both, "M", scale={"norm": 1.0})
    with pytest.raises(gs.InputError, match=r"`scale\.M` must be a number above 0"):
        gs.agreement(both, "M", scale={"M": 0.0})

"""The best fields of a limit: against closed forms, maps of the limit, and by hand
where constraints bind.
"""

import re

import numpy as np
import pytest

import giantstep as gs
from giantstep.tools.design.measured import Place, judge

LINEAR = gs.MixtureGLM(labels="linear", noise=0.3, ridge=1.0, samples_per_dim=1.5)
STEP = gs.OneStep(
    activation="relu",
    target="tanh(z)",
    noise=0.1,
    width_per_dim=1.5,
    samples_per_dim=2.0,
    ridge=0.1,
    second_layer=gs.Vocabulary([1, -1]),
    step=gs.MaximalStep(rate=1.0),
)


def test_the_ridge_of_a_gaussian_teacher_is_noise_over_signal_at_every_point_of_a_grid():
    best = gs.optimize(
        LINEAR,
        over={"ridge": (1e-5, 1e3)},
        minimise="test_mse",
        noise=[0.1, 0.4],
        teacher_norm=[1.0, 2],
    )
    assert best.ridge.dims == ("noise", "teacher_norm")
    np.testing.assert_allclose(best.ridge, best.noise / best.teacher_norm, rtol=1e-5)
    assert (
        best.converged.all()
        and (best.minima == 1).all()
        and (best.worse_at_half > 1).all()
    )


def test_a_row_does_not_depend_on_its_neighbours():
    over = {"ridge": (1e-4, 1e2), "samples_per_dim": (0.2, 5.0)}
    many = gs.optimize(LINEAR, over=over, minimise="test_mse", noise=[0.1, 0.3, 1.0])
    single = gs.optimize(LINEAR.replace(noise=0.3), over=over, minimise="test_mse")
    for name in ("ridge", "samples_per_dim", "test_mse", "evaluations"):
        assert many[name].values[1] == single[name].values


def test_two_fields_are_as_good_as_the_best_point_of_a_map():
    over = {"ridge": (1e-1, 1e1), "step.rate": (0.3, 30.0)}
    s = STEP.replace(target="h2(z) + z", step__batch_per_dim=4.0)
    best = gs.optimize(s, over=over)
    ridges, rates = (np.geomspace(*over[name], 11) for name in over)
    brute = gs.predict(s, {"ridge": ridges, "step.rate": rates}).test_error
    assert float(best.test_error) <= float(brute.min())
    fine = [float(best[name]) * np.exp(np.linspace(-0.03, 0.03, 5)) for name in over]
    near = gs.predict(s, dict(zip(over, fine))).test_error
    assert float(best.test_error) == pytest.approx(float(near.min()), rel=1e-9)
    assert np.unravel_index(int(near.values.argmin()), near.shape) == (2, 2)


def test_worse_at_half_and_twice_is_the_limit_there():
    best = gs.optimize(STEP, over={"ridge": (1e-3, 1e2)})
    there = (
        gs.predict(
            STEP, ridge=[0.5 * float(best.ridge), 2 * float(best.ridge)]
        ).test_error
        / best.test_error
        - 1
    )
    np.testing.assert_allclose(
        [best.worse_at_half[0], best.worse_at_twice[0]], 100 * there, rtol=1e-9
    )


def test_a_budget_is_kept_and_split_best():
    s = LINEAR.replace(noise=0.2)
    best = gs.optimize(
        s,
        over={"samples_per_dim": (0.1, 20), "ridge": (1e-3, 10)},
        minimise="test_mse",
        budget="samples_per_dim*ridge = 2",
    )
    assert float(best.samples_per_dim * best.ridge) == pytest.approx(2.0, rel=1e-9)
    samples = np.geomspace(0.2, 20, 400)
    line = [
        float(gs.predict(s, samples_per_dim=n, ridge=2 / n).test_mse)
        for n in samples[::40]
    ]
    assert float(best.test_mse) <= min(line)
    exact = float(
        gs.predict(
            s, samples_per_dim=float(best.samples_per_dim), ridge=float(best.ridge)
        ).test_mse
    )
    assert float(best.test_mse) == pytest.approx(exact, rel=1e-12)


def test_a_field_that_only_the_budget_names_is_free():
    best = gs.optimize(
        LINEAR,
        over={"ridge": (1e-3, 10)},
        minimise="test_mse",
        budget="samples_per_dim + 2*ridge = 5",
    )
    assert float(best.samples_per_dim + 2 * best.ridge) == pytest.approx(5.0)
    assert set(best.field.values) == {"ridge", "samples_per_dim"}


def test_an_inequality_that_binds_is_met_exactly_and_one_that_does_not_changes_nothing():
    over = {"ridge": (1e-3, 10), "samples_per_dim": (0.1, 20)}
    bound = gs.optimize(
        LINEAR, over=over, minimise="test_mse", budget="samples_per_dim <= 3"
    )
    assert float(bound.samples_per_dim) == pytest.approx(3.0, rel=1e-9)
    assert float(bound.ridge) == pytest.approx(0.3, rel=1e-5)
    single = {"ridge": (1e-3, 10)}
    free = gs.optimize(LINEAR, over=single, minimise="test_mse")
    loose = gs.optimize(
        LINEAR, over=single, minimise="test_mse", budget=["0.01 <= ridge <= 5"]
    )
    assert float(loose.ridge) == pytest.approx(float(free.ridge), rel=1e-5)


def test_choices_are_compared_and_named():
    best = gs.optimize(
        STEP,
        over={"activation": ["relu", "tanh", "erf"], "ridge": (1e-3, 1e2)},
        noise=[0.0, 0.5],
    )
    ridge = {"ridge": (1e-3, 1e2)}
    names = ("relu", "tanh", "erf")
    each = {
        name: gs.optimize(STEP.replace(activation=name), over=ridge, noise=[0.0, 0.5])
        for name in names
    }
    for row in range(2):
        values = {name: float(result.test_error[row]) for name, result in each.items()}
        assert str(best.activation[row].values) == min(values, key=values.get)
        assert float(best.test_error[row]) == min(values.values())
    layers = [gs.Vocabulary([1.0]), gs.Vocabulary([1, -1])]
    assert "Vocabulary" in str(
        gs.optimize(STEP, over={"second_layer": layers}).second_layer.values
    )


def test_the_end_of_a_range_is_returned_exactly_and_said():
    best = gs.optimize(LINEAR, over={"ridge": (0.01, 10.0)}, minimise="train_loss")
    assert float(best.ridge) == 0.01 and "lower end" in str(best.remark.values)
    assert (
        float(
            gs.optimize(
                LINEAR, over={"ridge": (0.01, 10.0)}, maximise="train_loss"
            ).ridge
        )
        == 10.0
    )


def test_entries_of_a_variable_with_dimensions():
    s = gs.FewSteps.example()
    best = gs.optimize(
        s, over={"ridge": (1e-3, 10.0)}, minimise="test_error[time=1]", starts=3
    )
    errors = gs.predict(s, ridge=float(best.ridge)).test_error
    assert float(best.test_error) == pytest.approx(float(errors.sel(time=1)), rel=1e-12)
    # the test error where the trajectory ends
    last = gs.optimize(s, over={"ridge": (1e-3, 10.0)}, starts=3)
    assert last.attrs["observable"] == "test_error[time=last]"
    whole = gs.optimize(
        s,
        over={"ridge": (1e-3, 10.0)},
        starts=3,
        minimise=f"test_error[time={s.steps}]",
    )
    assert float(last.test_error) == float(whole.test_error)
    # the last time is meant
    named = gs.optimize(
        s, over={"ridge": (1e-3, 10.0)}, starts=3, minimise="test_error"
    )
    assert float(named.test_error) == float(last.test_error)
    with pytest.raises(
        gs.InputError,
        match=r'dimensions `time`, `block`: write "Q2\[time=last, block=1\]"',
    ):
        gs.optimize(s, over={"ridge": (1e-3, 10.0)}, minimise="Q2")
    with pytest.raises(
        gs.InputError, match="`test_error` has no entry time=9; along time it has 0, 1"
    ):
        gs.optimize(
            s, over={"ridge": (1e-3, 10.0)}, minimise="test_error[time=9]", starts=3
        )


class Failing(gs.MixtureGLM):
    """A family whose limit is not solved below a ridge."""

    family = ""

    def limit(self, points, what, settings):
        answer = super().limit(points, what, settings)
        answer.status = np.where(
            points["ridge"] < settings_floor, "too small a ridge", answer.status
        )
        return answer

    @classmethod
    def _engine(cls, name):
        return gs.MixtureGLM._engine(name)


settings_floor = 0.5


def test_the_optimum_is_taken_where_the_limit_was_solved():
    s = Failing(labels="linear", noise=0.3, ridge=1.0, samples_per_dim=1.5)
    best = gs.optimize(s, over={"ridge": (1e-3, 1e2)}, minimise="test_mse")
    assert (
        float(best.ridge) == pytest.approx(0.5, rel=2e-3)
        and 0.3 < float(best.failed_share) < 0.9
    )
    assert "first reason: too small a ridge" in str(best.remark.values)
    none = gs.optimize(s, over={"ridge": (1e-3, 0.4)}, minimise="test_mse")
    assert (
        not none.converged
        and np.isnan(none.ridge)
        and "too small a ridge" in str(none.status.values)
    )


def test_what_the_limit_remarks_is_passed_on_once():
    inputs = gs.InputBlocks([2.5, 0.5], [0.25, 0.75], [0.5, 0.5])
    s = gs.FewSteps.example().replace(
        target="tanh(z1)", inputs=inputs, steps=1, batch_per_dim=9.0
    )
    with pytest.warns(gs.GiantstepWarning) as caught:
        best = gs.optimize(
            s, over={"ridge": (0.01, 1.0)}, minimise="test_error[time=1]", starts=3
        )
    assert len(caught) == 1 and best.attrs["theory"] == "isotropic"


def test_two_minima_within_one_percent_are_reported():
    # without noise both a vanishing step and a large one are good here, and the error
    # between them is not
    best = gs.optimize(
        gs.OneStep(
            width_per_dim=1.5,
            samples_per_dim=4.0,
            ridge=0.3,
            second_layer=gs.Vocabulary([1]),
            noise=0.1,
            step=gs.MaximalStep(rate=1.0),
        ),
        over={"step.rate": (0.01, 10.0)},
    )
    assert int(best.minima) >= 2
    gap = abs(float(best.rival_test_error / best.test_error) - 1)
    assert ("another optimum is within 1%" in str(best.remark.values)) == (gap <= 0.01)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"over": {}}, "at least one field"),
        ({"over": {"rigde": (0.1, 1)}}, "did you mean `ridge`"),
        ({"over": {"ridge": (1.0, 0.1)}}, "low < high"),
        ({"over": {"ridge": (-1.0, 1.0)}}, "at least 0"),
        ({"over": {"ridge": 1.0}}, r"a range \(low, high\) or a list of choices"),
        ({"over": {"ridge": (0.1, 1.0, "cubic")}}, '"linear"'),
        ({"over": {"ridge": (0.0, 1.0, "log")}}, "above 0 where its scale is log"),
        (
            {"over": {"labels": (0.1, 1.0)}},
            "list of choices: it does not hold one number",
        ),
        (
            {"over": {"ridge": (0.1, 1.0)}, "ridge": [0.1, 1.0]},
            "searched over and given a value",
        ),
        (
            {"over": {"ridge": (0.1, 1.0)}, "budget": "ridge + samples_per_dimm = 4"},
            "did you mean `samples_per_dim`",
        ),
        ({"over": {"ridge": (0.1, 1.0)}, "budget": "ridge"}, "has no relation"),
        ({"over": {"ridge": (0.1, 1.0)}, "budget": "4 = 5"}, "names no field"),
        (
            {"over": {"ridge": (0.1, 1.0)}, "budget": "labels = 5"},
            "does not hold a number",
        ),
        (
            {"over": {"ridge": (0.1, 1.0)}, "budget": "ridge >= __import__('os')"},
            "no field",
        ),
        (
            {"over": {"ridge": (0.1, 1.0)}, "budget": "ridge >= 5"},
            "No point of the ranges fulfils",
        ),
        (
            {"over": {"ridge": (0.1, 1.0)}, "budget": "ridge ^ 2 <= 5"},
            "powers are written",
        ),
        ({"over": {"ridge": (0.1, 1.0)}, "starts": 2}, "`starts`"),
        (
            {"over": {"ridge": (0.1, 1.0)}, "minimise": "test_err"},
            "did you mean `test_error`",
        ),
        (
            {"over": {"ridge": (0.1, 1.0)}, "minimise": "test_mse[time=1]"},
            "without brackets",
        ),
        (
            {
                "over": {"ridge": (0.1, 1.0)},
                "minimise": "test_mse",
                "maximise": "test_mse",
            },
            "not both",
        ),
    ],
)
def test_bad_questions_are_refused_in_a_sentence(arguments, message):
    with pytest.raises(gs.InputError, match=message):
        gs.optimize(LINEAR, **arguments)


def test_the_result_prints_saves_and_plots(tmp_path):
    best = gs.optimize(
        LINEAR, over={"ridge": (1e-3, 10)}, minimise="test_mse", noise=[0.1, 0.2, 0.4]
    )
    text = str(best)
    assert (
        text.splitlines()[0].startswith("Smallest test_mse of")
        and "worse at half ridge" in text
    )
    gs.save(best, tmp_path / "best.nc")
    assert gs.load(tmp_path / "best.nc").ridge.equals(best.ridge)
    gs.save(best, tmp_path / "best.csv")
    assert "worse_at_half[ridge]" in (tmp_path / "best.csv").read_text()
    assert len(gs.plot(best, "ridge").axes) == 1
    assert best.attrs["engine"] == "optimum" and best.attrs["family"] == "mixture-glm"
    single = str(gs.optimize(LINEAR, over={"ridge": (1e-3, 10)}, minimise="test_mse"))
    assert "test_mse = " in single and "worse at twice" in single


def test_best_ridge_takes_grids():
    best = gs.best_ridge(LINEAR, "test_mse", noise=[0.1, 0.3])
    np.testing.assert_allclose(best.ridge, [0.1, 0.3], rtol=1e-5)


def test_the_last_time_is_that_of_each_point():
    s = gs.FewSteps.example().replace(target="tanh(z)")
    both = gs.optimize(s, over={"ridge": (1e-3, 10.0)}, starts=3, steps=[1, 2])
    alone = [
        gs.optimize(s.replace(steps=steps), over={"ridge": (1e-3, 10.0)}, starts=3)
        for steps in (1, 2)
    ]
    np.testing.assert_allclose(
        both.test_error, [float(one.test_error) for one in alone], rtol=1e-9
    )


# -- where the limit jumps, what the theory leaves out, and networks at the optimum ----


SPLIT = STEP.replace(
    ridge=1.02,
    samples_per_dim=0.847,
    step=gs.MaximalStep(rate=1.0, batch_per_dim=5.153),
)


@pytest.mark.parametrize("low", [1e-4, 0.1])
def test_an_optimum_near_a_jump_of_the_limit_is_answered_at_a_finite_dim_with_the_limit_beside_it(
    low,
):
    best = gs.optimize(SPLIT, over={"step.rate": (low, 30)})
    remark = str(best.remark.values)
    assert (
        remark.startswith("the limit jumps at step.rate = 0")
        and "give dim=" in remark
        and "d = 1000" in remark
    )
    assert "lower end" not in remark  # nobody is sent nearer to the jump
    assert float(best["step.rate"]) > 1 and float(best["limit_step.rate"]) < 0.2
    at_dim = gs.predict(SPLIT, step__rate=float(best["step.rate"]), dim=1000)
    assert float(best.test_error) == pytest.approx(float(at_dim.test_error), rel=1e-9)
    assert "at d = 1000" in str(best)
    bare = gs.predict(SPLIT, step__rate=float(best["limit_step.rate"]))
    assert float(best.limit_test_error) == pytest.approx(
        float(bare.test_error), rel=1e-9
    )
    given = gs.optimize(SPLIT, over={"step.rate": (low, 30)}, dim=1000)
    assert float(given["step.rate"]) == float(best["step.rate"]) and "jumps" not in str(
        given.remark.values
    )


def test_an_optimum_far_from_a_jump_is_that_of_the_limit():
    best = gs.optimize(
        STEP,
        over={"step.rate": (1.0, 30.0)},
        target="h2(z) + z",
        step__batch_per_dim=4.0,
    )
    assert "jumps" not in str(best.remark.values) and "limit_test_error" not in best


def test_a_field_that_is_not_searched_over_changes_no_dimension_but_is_remarked():
    best = gs.optimize(SPLIT.replace(step__rate=1e-3), over={"ridge": (0.1, 10.0)})
    assert (
        "the limit jumps at step.rate = 0" in str(best.remark.values)
        and "limit_test_error" not in best
    )


def test_an_optimum_where_the_theory_leaves_much_out_says_how_much():
    near = STEP.replace(
        width_per_dim=1.0, samples_per_dim=1.05, ridge=1e-6, step=gs.MaximalStep(2.0)
    )
    best = gs.optimize(near, over={"step.rate": (1.5, 2.5)}, starts=3, dim=200)
    assert 0.05 < float(best.neglected) < 0.2
    assert "leaves out about 9.1% there" in str(best.remark.values)
    usual = gs.optimize(STEP, over={"ridge": (0.1, 10.0)}, starts=5, dim=200)
    assert float(usual.neglected) < 0.01 and "leaves out" not in str(
        usual.remark.values
    )


def places(*theory):
    names = [("", 0.0), ("ridge", 0.5), ("ridge", 2.0)]
    return [
        Place(name, factor, STEP, value) for (name, factor), value in zip(names, theory)
    ]


def drawn(*means, noise=0.02, shared=0.03, trials=20):
    """Values of places on the same draws, whose means are those asked for: most of
    their noise is common.
    """
    generator = np.random.default_rng(5)
    common = shared * generator.normal(size=trials)
    deviations = common + noise * generator.normal(size=(len(means), trials))
    deviations -= deviations.mean(axis=1, keepdims=True)
    return np.array(means)[:, None] * (1 + deviations)


def test_the_verdicts_on_an_optimum():
    assert (
        judge(places(1.0, 1.1, 1.1), drawn(1.0, 1.1, 1.1), 1.0, "").verdict == "stands"
    )
    off = judge(places(0.8, 0.9, 0.9), drawn(1.0, 1.1, 1.1), 1.0, " at d = 200")
    assert (
        off.verdict == "theory is 25% off there"
        and "20 networks at d = 200 have 1 +- 0.0072" in off.sentence
    )
    cannot = judge(places(1.0, 1.1, 1.1), drawn(1.0, 1.1, 1.1, shared=0.3), 1.0, "")
    assert cannot.verdict == "cannot tell"
    needed = int(re.search(r"(\d+) trials would show a gap of 5%", cannot.sentence)[1])
    assert (
        judge(
            places(1.0, 1.1, 1.1),
            drawn(1.0, 1.1, 1.1, shared=0.3, trials=2 * needed),
            1.0,
            "",
        ).verdict
        == "stands"
    )
    beside = judge(places(1.0, 1.1, 1.1), drawn(1.0, 0.9, 1.1), 1.0, "")
    assert (
        beside.verdict == "theory is 20% off beside it"
        and "better by 1" in beside.sentence
    )
    assert "half of ridge" in beside.sentence


def test_what_is_made_large_is_better_where_it_is_larger():
    assert (
        judge(places(1.0, 0.9, 0.9), drawn(1.0, 0.9, 0.9), -1.0, "").verdict == "stands"
    )
    found = judge(places(1.0, 0.9, 0.9), drawn(1.0, 0.9, 1.1), -1.0, "")
    assert (
        found.verdict == "theory is 20% off beside it"
        and "twice of ridge" in found.sentence
    )
    assert found.worse["ridge", 0.5][0] == pytest.approx(10, abs=2)


def test_networks_at_the_optimum_and_beside_it():
    best = gs.optimize(STEP, over={"ridge": (0.05, 20)}, dim=60, check=8, starts=5)
    ridge = float(best.ridge)
    alone = gs.simulate(
        STEP,
        ridge=[ridge, ridge / 2, 2 * ridge],
        dim=60,
        trials=8,
        paired=True,
        keep_trials=True,
    )
    values = alone.test_error.values
    assert float(best.test_error_measured) == pytest.approx(values[0].mean(), rel=1e-9)
    assert float(best.test_error_measured_stderr) == pytest.approx(
        values[0].std(ddof=1) / np.sqrt(8), rel=1e-9
    )
    worse = 100 * (values[1] - values[0]) / values[0].mean()
    assert float(best.measured_worse_at_half[0]) == pytest.approx(
        worse.mean(), rel=1e-6
    )
    assert float(best.measured_worse_at_half_stderr[0]) == pytest.approx(
        worse.std(ddof=1) / np.sqrt(8), rel=1e-6
    )
    text = str(best)
    assert (
        str(best.verdict.values) in ("stands", "cannot tell")
        and str(best.checked.values) in text
    )
    assert (
        "measured worse at half" in text
        and " +- " in text
        and "8 networks at d = 60" in text
    )


def test_networks_have_a_dimension_where_none_is_given():
    best = gs.optimize(
        LINEAR, over={"ridge": (1e-2, 10.0)}, minimise="test_mse", check=2, starts=3
    )
    assert "2 networks at d = 200" in str(best.checked.values)
    with pytest.raises(gs.InputError, match="`check`"):
        gs.optimize(LINEAR, over={"ridge": (1e-2, 10.0)}, minimise="test_mse", check=1)

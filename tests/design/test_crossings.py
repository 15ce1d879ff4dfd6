"""Where an observable reaches a value: against closed forms, and by putting the answer
back into the limit.
"""

import sys

import numpy as np
import pytest

import giantstep as gs

LINEAR = gs.MixtureGLM(labels="linear", noise=0.3, ridge=1.0, samples_per_dim=1.5)
PEAKED = gs.OneStep(
    target="z",
    width_per_dim=1.5,
    samples_per_dim=2.0,
    ridge=1e-3,
    second_layer=gs.Vocabulary([1]),
    noise=0.1,
)


def test_samples_at_the_best_ridge_are_those_of_bayes():
    noise = np.array([0.1, 0.3])
    wanted = np.array([0.4, 0.6])
    need = gs.solve_for(
        LINEAR,
        "samples_per_dim",
        test_mse=wanted,
        between=(0.01, 100),
        over={"ridge": (1e-4, 1e2)},
        noise=noise,
    )
    # mse of Bayes E = 1/(1 + alpha/(noise + E)), and the label noise comes on top of it
    error = wanted[None, :] - noise[:, None]
    np.testing.assert_allclose(
        need.samples_per_dim[..., 0], (1 / error - 1) * wanted, rtol=1e-8
    )
    np.testing.assert_allclose(
        need.ridge[..., 0], np.tile(noise[:, None], 2), rtol=1e-4
    )
    assert (
        need.samples_per_dim.dims == ("noise", "test_mse", "crossing")
        and need.converged.all()
    )


def test_all_crossings_of_a_double_descent_solve_the_limit():
    need = gs.solve_for(PEAKED, "samples_per_dim", test_error=1.08, between=(0.05, 50))
    assert int(need.crossings) == 3 and need.direction.values.tolist() == [
        "falls",
        "rises",
        "falls",
    ]
    errors = gs.predict(PEAKED, samples_per_dim=need.samples_per_dim.values).test_error
    np.testing.assert_allclose(errors, 1.08, rtol=1e-8)


def test_a_pair_of_crossings_between_two_points_of_the_scan_is_found():
    peak = gs.optimize(
        PEAKED, over={"samples_per_dim": (0.5, 5.0)}, maximise="test_error"
    )
    wanted = float(peak.test_error) * (1 - 1e-5)
    need = gs.solve_for(
        PEAKED, "samples_per_dim", test_error=wanted, between=(0.5, 20), points=9
    )
    assert int(need.crossings) == 2
    low, high = need.samples_per_dim.values
    assert low < float(peak.samples_per_dim) < high < 1.02 * low


def test_what_is_not_reached_says_how_near_one_comes():
    need = gs.solve_for(
        LINEAR, "samples_per_dim", test_mse=0.2, between=(0.1, 100), ridge=[0.3, 3.0]
    )
    assert not need.converged.any() and np.isnan(need.samples_per_dim).all()
    end = float(gs.predict(LINEAR, samples_per_dim=100.0, ridge=0.3).test_mse)
    assert (
        str(need.status[0].values)
        == f"not reached; smallest {end:.6g} at samples_per_dim = 100"
    )
    assert "not reached; smallest" in str(need)
    much = gs.solve_for(LINEAR, "samples_per_dim", test_mse=50.0, between=(0.1, 100))
    assert str(much.status.values).startswith("not reached; largest")


def test_a_row_does_not_depend_on_its_neighbours():
    many = gs.solve_for(
        PEAKED,
        "samples_per_dim",
        test_error=0.6,
        between=(0.05, 50),
        ridge=[1e-3, 1e-1, 3.0],
    )
    single = gs.solve_for(
        PEAKED.replace(ridge=1e-1),
        "samples_per_dim",
        test_error=0.6,
        between=(0.05, 50),
    )
    count = int(single.crossings)
    assert count and np.array_equal(
        many.samples_per_dim[1, :count], single.samples_per_dim
    )


hole = 0.0


class Jumping(gs.MixtureGLM):
    """A family whose error jumps at a noise of 0.7, and is not solved above 2."""

    family = ""

    def limit(self, points, what, settings):
        answer = super().limit(points, what, settings)
        answer.values["test_mse"] = np.where(points["noise"] < 0.7, 1.0, 2.0)
        unsolved = (points["noise"] > 2) | (np.abs(points["noise"] - 0.7) < hole)
        answer.status = np.where(unsolved, "beyond", answer.status)
        return answer

    @classmethod
    def _engine(cls, name):
        return gs.MixtureGLM._engine(name)


def test_a_jump_is_a_crossing_and_points_that_fail_are_none():
    s = Jumping(labels="linear", noise=0.3, ridge=1.0, samples_per_dim=1.5)
    need = gs.solve_for(s, "noise", test_mse=1.5, between=(0.1, 10))
    assert need.noise.values.tolist() == pytest.approx([0.7], rel=1e-10)
    assert need.direction.values.tolist() == ["jumps up"]


@pytest.mark.parametrize(
    "between", [(0.01, 0.3), (0.125, 0.499), (0.2, 0.3)]
)  # 1/4 is the middle of two of them
def test_a_search_may_walk_onto_a_place_where_the_limit_has_no_value(between):
    step = gs.GrowingStep(rate=1.0, exponent=0.1, batch_per_dim=4.0, update="rank-one")
    stairs = gs.OneStep(
        activation="relu(z) - 1/sqrt(2*pi)",
        target="h1(z) + h2(z)/sqrt(2)",
        width_per_dim=2.0,
        samples_per_dim=4.0,
        ridge=0.2,
        second_layer="gaussian",
        step=step,
    )
    drop = gs.solve_for(stairs, "step.exponent", train_error=0.55, between=between)
    assert int(drop.crossings) == 1 and drop.direction.values.tolist() == ["jumps down"]
    assert float(drop["step.exponent"][0]) == pytest.approx(0.25, abs=1e-9)


def test_a_crossing_on_the_way_to_which_the_limit_fails_is_none(monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "hole", 1e-6)
    s = Jumping(labels="linear", noise=0.3, ridge=1.0, samples_per_dim=1.5)
    need = gs.solve_for(s, "noise", test_mse=1.5, between=(0.1, 10))
    assert (
        int(need.crossings) == 0
        and not need.converged
        and need.direction.values.tolist() == [""]
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"between": (0.1, 1)}, "Name one observable"),
        ({"between": (0.1, 1), "test_mse": 1, "test_error": 1}, "Name one observable"),
        ({"between": (1.0, 0.1), "test_mse": 1}, "low < high"),
        ({"between": 3, "test_mse": 1}, "`between`"),
        ({"between": (0.1, 1), "test_mse": "much"}, "to be reached"),
        ({"between": (0.1, 1), "test_mse": np.inf}, "finite"),
        ({"between": (0.1, 1), "reach": {"q": 1.0}}, r"write \"q\[cluster=1\]\""),
        (
            {"between": (0.1, 1), "test_mse": 1, "over": {"samples_per_dim": (1, 2)}},
            "other fields than",
        ),
        (
            {"between": (0.1, 1), "test_mse": 1, "samples_per_dim": 3.0},
            "solved for and given a value",
        ),
        ({"between": (0.1, 1), "test_mse": 1, "points": 1}, "`points`"),
    ],
)
def test_bad_questions_are_refused_in_a_sentence(arguments, message):
    with pytest.raises(gs.InputError, match=message):
        gs.solve_for(LINEAR, "samples_per_dim", **arguments)


def test_a_field_that_does_not_exist_is_refused():
    with pytest.raises(gs.InputError, match="did you mean `samples_per_dim`"):
        gs.solve_for(LINEAR, "sample_per_dim", test_mse=1.0, between=(0.1, 1))


def test_the_result_saves_and_plots(tmp_path):
    need = gs.solve_for(
        LINEAR,
        "samples_per_dim",
        test_mse=[0.5, 0.6],
        between=(0.01, 100),
        noise=[0.1, 0.2, 0.3],
    )
    for ending in ("nc", "json"):
        gs.save(need, tmp_path / f"need.{ending}")
        assert gs.load(tmp_path / f"need.{ending}").samples_per_dim.equals(
            need.samples_per_dim
        )
    gs.save(need, tmp_path / "need.csv")
    assert "samples_per_dim[1]" in (tmp_path / "need.csv").read_text()
    assert len(gs.plot(need, "samples_per_dim").axes) == 1

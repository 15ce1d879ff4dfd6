"""How far an answer reaches: notes where the bare limit jumps, and on what a finite
size leaves out.
"""

import numpy as np
import pytest

import giantstep as gs
from giantstep.core.run.reach import Jump, jumps_of, neglected_of
from giantstep.core.scenario.answer import Answer

STEP = gs.OneStep(
    activation="relu",
    target="tanh(z)",
    noise=0.1,
    width_per_dim=1.5,
    samples_per_dim=0.847,
    ridge=1.02,
    second_layer=gs.Vocabulary([1, -1]),
    step=gs.MaximalStep(rate=1.0, batch_per_dim=5.15),
)
NEAR_SQUARE = gs.Network(
    activation="relu",
    target="tanh(z)",
    noise=0.1,
    width_per_dim=1.0,
    samples_per_dim=1.05,
    readout=gs.Ridge(1e-6),
    second_layer=gs.Vocabulary([1, -1]),
    steps=[gs.MaximalStep(2.0)],
)


def notes(result):
    return " ".join(result.attrs.get("notes", []))


def test_a_limit_near_its_jump_says_so_with_what_a_network_of_a_thousand_dimensions_has():
    tiny = STEP.replace(step__rate=1e-4)
    said = notes(gs.predict(tiny))
    at_dim = float(gs.predict(tiny, dim=1000).test_error)
    assert "The limit jumps at step.rate = 0" in said and "give dim=" in said
    assert f"test_error is 0.194 in the limit and {at_dim:.3g} at d = 1000" in said
    assert "jumps" not in notes(gs.predict(tiny, dim=1000))
    assert "jumps" not in notes(gs.predict(STEP.replace(step__rate=2.0)))


def test_of_a_grid_the_points_near_the_jump_are_counted():
    assert "At 2 of 3 points the limit jumps" in notes(
        gs.predict(STEP, step__rate=[1e-4, 1e-2, 3.0])
    )


def test_a_rate_of_zero_is_no_jump_but_random_features():
    assert "jumps" not in notes(gs.predict(STEP.replace(step__rate=0.0)))


@pytest.mark.parametrize(
    ("steps", "field"),
    [
        ([gs.PlantedSpike(1e-3)], "steps.0.strength"),
        ([gs.MaximalStep(1e-3, batch_per_dim=3.0)], "steps.0.rate"),
        ([gs.SignStep(1e-3, batch_per_dim=3.0)], "steps.0.rate"),
    ],
)
def test_every_step_names_its_own_field(steps, field):
    network = NEAR_SQUARE.replace(
        steps=steps, readout=gs.Ridge(0.1), samples_per_dim=2.0
    )
    assert f"The limit jumps at {field} = 0" in notes(gs.predict(network))


def test_the_dimension_of_a_jump_goes_like_one_over_the_square_of_the_rate():
    points = {name: np.full(2, value) for name, value in STEP.point().items()}
    points |= {"step.rate": np.array([1e-3, 1e-4]), "dim": np.full(2, np.inf)}
    answer = STEP.limit(points, "errors", STEP.prepare(points, "errors", {}))
    near, nearer = answer.jumps["step.rate"]
    assert nearer / near == pytest.approx(100, rel=1e-3)
    assert jumps_of(answer, 0) == Jump("step.rate", near)


def test_n_near_p_at_a_tiny_ridge_says_how_much_is_left_out():
    # independent networks, 400 of d = 200: 9.9 +- 3.4% above the theory after the step
    result = gs.predict(NEAR_SQUARE, dim=200)
    assert "leaves out about 9.1% of test_error" in notes(result)
    assert "leaves out" not in notes(gs.predict(NEAR_SQUARE))
    assert "leaves out" not in notes(
        gs.predict(NEAR_SQUARE.replace(readout=gs.Ridge(0.1)), dim=200)
    )
    assert "leaves out" not in notes(
        gs.predict(STEP.replace(samples_per_dim=2.0), dim=200)
    )


def test_without_a_layer_that_learns_the_size_is_that_of_the_known_formula():
    """The noise of n - 1 samples and p parameters is (n - 1)/(n - p - 1), of which
    n/(n - p) is the theory.
    """
    network = NEAR_SQUARE.replace(
        steps=[], readout=gs.Ridge(1e-9), samples_per_dim=1.05
    )
    points = {**network.point(), "dim": np.array([400.0])}
    answer = network.limit(points, "errors", network.prepare(points, "errors", {}))
    n = 420
    p = 400
    expected = (n - 1) / (n - p - 1) / (n / (n - p)) - 1
    assert neglected_of(answer, 0)[0] == pytest.approx(expected, rel=0.15)


def test_answers_are_joined_with_what_they_say_of_themselves():
    one = Answer.blank(1)
    other = Answer.blank(2)
    one.jumps["rate"], other.neglected["noise"] = np.array([5.0]), np.array([0.1, 0.2])
    whole = Answer.joined([(np.array([1]), one), (np.array([0, 2]), other)])
    assert whole.jumps["rate"].tolist() == [0.0, 5.0, 0.0] and whole.neglected[
        "noise"
    ].tolist() == [0.1, 0.0, 0.2]


class Jumpy(gs.MixtureGLM):
    """A family of somebody else whose limit jumps where its ridge vanishes, and is
    twice as large at any dimension.
    """

    family = ""

    def limit(self, points, what, settings):
        answer = super().limit(points, what, settings)
        if np.isfinite(points["dim"]).all():
            answer.values = {name: 2 * value for name, value in answer.values.items()}
        answer.jumps = {
            "ridge": np.where(np.isinf(points["dim"]), 1 / points["ridge"] ** 2, 0.0)
        }
        return answer

    @classmethod
    def _engine(cls, name):
        return gs.MixtureGLM._engine(name)


def test_any_family_can_say_where_its_limit_jumps():
    scenario = Jumpy(labels="linear", noise=0.3, ridge=1e-3, samples_per_dim=1.5)
    assert "The limit jumps at ridge = 0" in notes(gs.predict(scenario))
    assert "jumps" not in notes(gs.predict(scenario.replace(ridge=1.0)))

"""Error and output resolved along the learnt direction."""

import numpy as np
import pytest

import giantstep as gs

KAPPA = np.linspace(-2.5, 2.5, 11)
SCENARIO = gs.OneStep(
    activation="relu",
    target="tanh",
    noise=0.05,
    width_per_dim=1.2,
    samples_per_dim=2.0,
    ridge=0.05,
    second_layer=gs.Vocabulary([1, -1], [0.6, 0.4]),
    step=gs.PlantedSpike(1.0, alignment=0.8),
)


@pytest.mark.parametrize(
    "step",
    [
        gs.PlantedSpike(1.0, alignment=0.8),
        gs.MaximalStep(2.0),
        gs.MaximalStep(2.0, 1.0),
    ],
)
def test_the_error_along_averages_to_the_test_error(step):
    s = SCENARIO.replace(step=step)
    places = np.linspace(-8, 8, 1601)
    weights = np.exp(-(places**2) / 2)
    found = gs.predict(s, what="along", kappa=places)
    average = float(np.sum(weights * found.error_along.values) / weights.sum())
    assert average == pytest.approx(float(gs.predict(s).test_error), rel=1e-5)
    assert (found.error_along > s.noise).all()


def test_limit_against_experiment():
    found = gs.compare(SCENARIO, what="along", dim=200, trials=8, kappa=KAPPA)
    rows = {row.variable: row for row in gs.agreement(found).rows}
    # cells are half a unit wide: their averages differ from the values in the middle by
    # a few percent
    assert rows["error_along"].passes(allow=0.06), rows["error_along"]
    assert rows["mean_along"].passes(allow=0.06), rows["mean_along"]


def test_an_even_problem_is_even():
    s = SCENARIO.replace(
        activation="tanh", target="sin", second_layer=gs.Vocabulary([1.0])
    )
    found = gs.predict(s, what="along", kappa=KAPPA)
    np.testing.assert_allclose(found.error_along, found.error_along[::-1], rtol=1e-8)
    np.testing.assert_allclose(found.mean_along, -found.mean_along[::-1], atol=1e-8)


def test_bad_places_are_refused():
    for bad in ([1.0], [1.0, 0.0], [-20.0, 20.0]):
        with pytest.raises(gs.InputError, match="`kappa` must be"):
            gs.predict(SCENARIO, what="along", kappa=bad)
    small = SCENARIO.replace(step=gs.SmallStep(1.0, 2.0, "rank-one"))
    with pytest.raises(gs.InputError, match="`dim` must be given"):
        gs.predict(small, what="along")
    assert np.isfinite(gs.predict(small, what="along", dim=500).error_along).all()

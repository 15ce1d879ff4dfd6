"""How far outputs can be trusted: the reference values and identities of
beyond_the_error section 3, and networks.
"""

import dataclasses

import numpy as np
import pytest

import giantstep as gs
from giantstep.core.base.errors import InputError
from giantstep.core.readout.calibration import LogitLaw, wrong_signs
from giantstep.core.readout.pairs import ridge_parts
from giantstep.problems.network.answers.errors import Table
from giantstep.problems.network.beyond.laws import solved_groups
from giantstep.problems.network.beyond.tested import of_classes
from giantstep.problems.network.beyond.variance import overlaps_of
from giantstep.problems.network.follow import follow
from giantstep.problems.network.problem import share_points
from giantstep.problems.network.shift import FreshLaw

from .beyond_settings import (
    CALIBRATION,
    CLASSES,
    P1,
    REGRESSION,
    RIDGE_ON_CLASSES,
    TABLE_C,
    planted,
)

pytestmark = pytest.mark.filterwarnings(
    "ignore::giantstep.core.base.errors.GiantstepWarning"
)
NAMES = (
    *("log_loss", "brier", "calibration_error", "temperature", "log_loss_recalibrated"),
    *("calibration_error_recalibrated", "log_loss_floor"),
)


def asked(network, **more):
    return gs.predict(network, what="calibration", progress=False, **more).isel(time=-1)


@pytest.mark.parametrize("name", CALIBRATION)
def test_scores_are_those_printed(name):
    """Catches an error in the law of the logit, and a density that is too coarse."""
    result = asked(RIDGE_ON_CLASSES if name == "R1" else CLASSES[name])
    tolerance = [1e-6, 1e-6, 6e-6, 2e-6, 1e-6, 6e-6, 6e-6]
    found = np.array([float(result[score]) for score in NAMES])
    assert np.all(np.abs(found - CALIBRATION[name]) < tolerance)
    assert result.log_loss_floor <= result.log_loss_recalibrated <= result.log_loss


@pytest.mark.parametrize(
    ("name", "wanted"), [("L1", 0.383747), ("L2", 0.731729), ("R1", 0.487104)]
)
def test_the_log_loss_at_longer_inputs_is_that_printed(name, wanted):
    """Catches a law of the logit whose means or fluctuations are those of the fit:
    column "log loss, scale".
    """
    network = (RIDGE_ON_CLASSES if name == "R1" else CLASSES[name]).replace(
        shift=gs.Shift(scale=1.4)
    )
    point = fitted_point(network)
    longer = network.shift.law(2, network.point(), 0)
    assert of_classes(point, longer, np.zeros(1))["log_loss"] == pytest.approx(
        wanted, abs=1e-6
    )


@pytest.mark.parametrize("name", TABLE_C)
def test_intervals_are_those_printed(name):
    result = asked(REGRESSION[name])
    wanted = TABLE_C[name][:2]
    np.testing.assert_allclose(
        [float(result.coverage), float(result.honest_width)], wanted, atol=3e-6
    )


def test_a_strong_ridge_is_too_cautious_and_a_weak_one_too_sure():
    """Section 10, L2 at lambda .01, .1, 1: T* 4.00, 1.49, .960."""
    found = asked(CLASSES["L2"], readout__ridge=[0.01, 0.1, 1.0]).temperature
    np.testing.assert_allclose(found, [4.00, 1.49, 0.960], atol=6e-3)


def fitted_point(network, dim=np.inf):
    """Return the law of the output of a network after its last step."""
    return next(fits_of(network, dim).points())


def fits_of(network, dim):
    """Return the fit of a network after its last step."""
    points = {**network.point(), "dim": np.array([dim])}
    (share,) = share_points(network, points, np.arange(1))
    moment = list(follow(share.problem, "exact", {}))[-1]
    (fits,) = solved_groups(Table(network, points, 2), share, moment, {})
    return fits


@pytest.mark.parametrize("name", ["L1", "L2", "R1"])
def test_the_spread_of_fitted_means_is_that_of_disagreements(name):
    """Holds F of (2.13) at z, which log losses and gradients have, against that at
    kappa of two classifiers.
    """
    network = RIDGE_ON_CLASSES if name == "R1" else CLASSES[name]
    fits = fits_of(network, 300.0)
    point = next(fits.points())
    inputs, output = point.plain(point.own_law)
    if name == "R1":
        own = ridge_parts(fits.fit.first, np.zeros(1), fits.group.asked.size).everything
    else:
        own = overlaps_of(fits)[0]
    spread = float(inputs.weights @ output.spread)
    assert spread > 0.002 * float(own.mean[0])
    assert float(own.mean[0] - inputs.weights @ output.variance) == pytest.approx(
        spread, rel=1e-3
    )


def test_a_rule_that_does_not_resolve_the_sign_is_not_used():
    """Section 6: where the output is narrow the rule of the features is silently off,
    the one used is not.
    """
    point = fitted_point(
        planted(
            "tanh",
            "sign(z1)",
            [1.0],
            [[1.2]],
            [1],
            1.5,
            1.2,
            gs.Logistic(0.1),
            flip=0.1,
        )
    )
    own = point.fitted
    law = FreshLaw.of_the_fit(1)
    narrow = dataclasses.replace(
        own, x=own.x * 0 + 0.4, theta=own.theta + 1, Q1=1e-5 * own.Q1, Q2=1e-5 * own.Q2
    )
    point = dataclasses.replace(point, fitted=narrow)

    def wrong(inputs, output):
        return wrong_signs(
            output.mean, output.variance, 0.5 * (1 + inputs.label), inputs.weights
        )

    wanted = wrong(*point.at(law, (1e-4,)))
    assert wrong(*point.signs(law)) == pytest.approx(wanted, rel=1e-7)
    assert abs(wrong(*point.plain(law)) / wanted - 1) > 1e-3


def test_a_perfectly_calibrated_logit_has_no_calibration_error():
    """A logit l ~ N(v/2, v) of the label 1 and N(-v/2, v) of the label -1 is its own
    log odds.
    """
    v = 2.0
    law = LogitLaw.of(
        np.array([v / 2, -v / 2]), np.full(2, v), np.array([1.0, 0.0]), np.full(2, 0.5)
    )
    assert law.calibration_error() == pytest.approx(0, abs=1e-7)
    assert law.sharpness == pytest.approx(1, rel=1e-10)
    assert law.floor == pytest.approx(law.log_loss(), rel=1e-9)
    np.testing.assert_allclose(
        law.reliability(np.array([-1.0, 0.0, 2.0])),
        1 / (1 + np.exp([1.0, 0.0, -2.0])),
        rtol=1e-5,
    )


def test_an_output_of_the_wrong_sign_has_no_temperature():
    law = LogitLaw.of(
        np.array([-1.0, 1.0]), np.ones(2), np.array([1.0, 0.0]), np.full(2, 0.5)
    )
    assert law.sharpness == 0.0


def test_logits_that_are_refused():
    with pytest.raises(
        InputError, match="Field `logit` must be finite numbers in increasing order"
    ):
        asked(P1, logit=[1.0, 0.0])


def test_networks_at_d_400():
    """Catches probabilities that are said of another output than the network's."""
    network = RIDGE_ON_CLASSES
    theory = asked(network, dim=400)
    networks = gs.simulate(
        network,
        what="calibration",
        dim=400,
        trials=4,
        seed=2,
        test_samples=8000,
        progress=False,
    )
    networks = networks.isel(time=-1)
    for name in ("log_loss", "brier", "log_loss_recalibrated"):
        gap = float(networks[name] - theory[name])
        error = float(networks[f"{name}_stderr"])
        assert abs(gap) < 0.02 * float(theory[name]) + 3 * error, name
        assert error < 0.02 * float(theory[name]), name

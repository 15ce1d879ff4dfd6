"""Labels of any probability pi(z): the rows L3 to L6 and R2 of beyond_the_error section
8, asked of the engine.

No scenario says such labels. What a network is asked is asked here of the same
functions, with other labels.
"""

import functools

import numpy as np
import pytest
from scipy.special import entr

import giantstep as gs
from giantstep.core.readout.calibration import LogitLaw, wrong_signs
from giantstep.core.readout.class_pairs import class_parts
from giantstep.core.readout.pairs import ridge_parts
from giantstep.core.readout.sensitivity import GradientLaw, attacked_classes
from giantstep.core.readout.signs import sign_disagreement
from giantstep.problems.network.beyond.tested import calibrated
from giantstep.problems.network.beyond.variance import (
    averaged_output,
    half_disagreements,
    opposite_signs_of,
)

from .labelled import SETTINGS, fitted

SCORES = {
    "L3": (0.753620, 0.268231, 0.152926, 3.749479, 0.681367, 0.080647, 0.664917),
    "L4": (0.652701, 0.223311, 0.093675, 1.906394, 0.612611, 0.009532, 0.611730),
    "L5": (0.612647, 0.202356, 0.095194, 1.851938, 0.563324, 0.004158, 0.563208),
    "L6": (0.420057, 0.137588, 0.149215, 0.987902, 0.420040, 0.149210, 0.329944),
    "R2": (0.652285, 0.230282, 0.021695, 1.205046, 0.650774, 0.006906, 0.650596),
}
"""Log loss, Brier, ECE, T, log loss and ECE at T, refined log loss; ECE and the last to
5e-6.
"""
ERRORS = {
    "L3": (0.435945, 0.877725, 0.379367, 1.603460, 1.116548, 0.647197),
    "L4": (0.344930, 0.714085, 0.376949, 4.500847, 1.188615, 0.597781),
    "L5": (0.295659, 0.621513, 0.243848, 6.179144, 3.783420, 0.531818),
    "L6": (0.202855, 0.374528, 0.117730, 6.900442, 0.023047, 0.472464),
    "R2": (0.385004, 0.660498, 0.404492, 0.985264, 0.470417, 0.650600),
}
"""Error, log loss under scale, error under mean, E|grad f|^2, its part across the
target, 0/1 error at eps = 0.5.
"""
PAIRS = {
    "L3": (2.032653, 1.105607, 2.136402, 0.426012, 0.726366),
    "L4": (1.868418, 1.358075, 1.930268, 0.280745, 0.624262),
    "L5": (4.872607, 2.714494, 5.900199, 0.352084, 0.564730),
    "L6": (0.037514, 0.020352, 0.040127, 0.037819, 0.419642),
    "R2": (0.704864, 0.547100, 0.721959, 0.390500, 0.636976),
}
"""Disagreements i, ii, iii, sign disagreement iii, log loss of the mean of two networks
on the same samples.
"""


@functools.cache
def fits_of(name):
    return fitted(SETTINGS[name])


def at(name, point, law, plain=False):
    """Return the law of the output at inputs of a law, P(y = 1|z) there, and the
    weights of the inputs.
    """
    inputs, output = point.plain(law) if plain else point.signs(law)
    return (
        output,
        SETTINGS[name].positive(inputs.z @ point.layer.frame[point.row].T),
        inputs.weights,
    )


def logits(name, point, law):
    output, positive, weights = at(name, point, law)
    return LogitLaw.of(output.mean, output.variance, positive, weights)


@pytest.mark.parametrize("name", SCORES)
def test_scores_are_those_printed(name):
    """Catches a probability of labels that the fit or the law of the logit does not
    know.
    """
    point = next(fits_of(name).points())
    law = logits(name, point, point.own_law)
    found = calibrated(law)
    tolerance = [1e-6, 1e-6, 6e-6, 2e-6, 1e-6, 6e-6, 6e-6]
    assert np.all(np.abs(np.array(list(found.values())) - SCORES[name]) < tolerance)
    _, positive, weights = at(name, point, point.own_law)
    assert (
        weights @ (entr(positive) + entr(1 - positive))
        <= found["log_loss_floor"]
        <= found["log_loss_recalibrated"]
        <= found["log_loss"]
    )


@pytest.mark.parametrize("name", ERRORS)
def test_errors_shifts_and_gradients_are_those_printed(name):
    setting = SETTINGS[name]
    point = next(fits_of(name).points())
    directions = setting.network.target.directions
    longer = gs.Shift(scale=1.4)
    moved = gs.Shift(mean=0.8 if directions == 1 else [0.8, -0.5])
    laws = [
        shift.law(directions, setting.network.replace(shift=shift).point(), 0)
        for shift in (longer, moved)
    ]

    def wrong(law):
        output, positive, weights = at(name, point, law)
        return wrong_signs(output.mean, output.variance, positive, weights)

    output, positive, weights = at(name, point, point.own_law)
    gradient = GradientLaw(output)
    found = (
        *(
            wrong(point.own_law),
            logits(name, point, laws[0]).log_loss(),
            wrong(laws[1]),
        ),
        *(weights @ (gradient.along + gradient.across), weights @ gradient.across),
        attacked_classes(gradient, positive, weights, np.array([0.5]))[0],
    )
    np.testing.assert_allclose(found, ERRORS[name], rtol=0, atol=2e-6)
    if setting.readout.classes:
        assert float(fits_of(name).fit.solution.test[0]) == pytest.approx(
            ERRORS[name][0], abs=6e-7
        )


@pytest.mark.parametrize("name", PAIRS)
def test_pairs_are_those_printed(name):
    """Catches an error in (2.10), (2.11) or the sign disagreement of (2.6)."""
    fits = fits_of(name)
    point = next(fits.points())
    own, layer, samples = overlaps(fits)
    pair = averaged_output(point, samples, 0.5)
    found = (
        *(2 * half_disagreements(own, layer, samples))[0],
        opposite_signs_of(point, layer, samples)[2],
        logits(name, pair, point.own_law).log_loss(),
    )
    np.testing.assert_allclose(found, PAIRS[name], rtol=0, atol=2e-6)


def overlaps(fits):
    solution = fits.fit.solution
    size = fits.group.asked.size
    if fits.fit.first is not None:
        parts = ridge_parts(fits.fit.first, np.zeros(1), size)
        return parts.everything, parts.layer, parts.samples
    parts = class_parts(fits.fit.equations, solution, "logistic", np.zeros(1), size, 1)
    return parts.own, parts.layer, parts.samples


def test_a_rule_for_the_features_is_silently_wrong_about_signs():
    """Section 6: with the step .2 of the features the sign disagreement of L6 is far
    off, here by 9%, unnoticed.
    """
    point = next(fits_of("L6").points())

    def opposite(plain):
        output, _, weights = at("L6", point, point.own_law, plain)
        return sign_disagreement(
            output.mean, output.variance, np.zeros_like(output.mean), weights
        )

    assert opposite(plain=False) == pytest.approx(0.037819, abs=6e-7)
    assert abs(opposite(plain=True) / 0.037819 - 1) > 0.08

"""Where the variance of the fit comes from after every step, and what averages of
networks do about it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from giantstep.core.base.errors import InputError
from giantstep.core.base.types import Floats
from giantstep.core.readout.calibration import wrong_signs
from giantstep.core.readout.pairs import Overlap, Parts
from giantstep.core.readout.signs import sign_disagreement
from giantstep.problems.network.answers.errors import Table
from giantstep.problems.network.beyond.laws import Fits, FittedPoint, solved_groups
from giantstep.problems.network.beyond.questions import SHARED
from giantstep.problems.network.follow import Moment
from giantstep.problems.network.problem import Share

SUM_OF_PARTS = 1e-6
"""Relative difference of the test error and the sum of its parts above which digits are
lost.
"""

FEW = 1 / 64
"""Least 1/K at which the sign of the mean of K classifiers is resolved; the error of
more is good to 1e-5.
"""


def answer_variance(
    table: Table, share: Share, moment: Moment, time: int, settings: Mapping[str, Any]
) -> None:
    """Fill ``what="variance"``: beyond_the_error (2.6)-(2.8), and (2.10), (2.11) for
    classes.
    """
    classes = table.network.readout.classes
    members = settings["members"]
    for fits in solved_groups(table, share, moment, settings, time):
        test = fits.fit.solution.test
        # classes have no parts of the variance: section 12
        values = dict[str, Floats]()
        own, layer, samples = overlaps_of(fits)
        apart = half_disagreements(own, layer, samples)
        signs = np.full(apart.shape, np.nan)
        errors = averaged(test, apart, settings)
        if not classes:
            values = _parts_of_ridge(table, fits, time)
        # signs need a rule of their own at every point, and a sign to be held against
        for point in fits.points() if table.network.sign_direction is not None else ():
            signs[point.number] = opposite_signs_of(point, layer, samples)
            if classes:
                shares = (layer, samples, None)
                # the share of wrong signs is no square, and not affine in 1/K as (2.8)
                # is
                errors[point.number] = [
                    [_misclassified(point, shared, 1 / k) for k in members]
                    for shared in shares
                ]
        values |= {
            "test_error": test,
            "disagreement": 2 * apart,
            "sign_disagreement": signs,
            "ensemble_error": errors,
        }
        for name, array in values.items():
            table.put(name, fits.group.points, time, array)


def _parts_of_ridge(table: Table, fits: Fits, time: int) -> dict[str, Floats]:
    """Return the parts of the variance, and note where they do not sum to the error."""
    assert isinstance(fits.parts, Parts)
    # the parts are without label noise, the test error has it: beyond_the_error (2.7)
    noise = fits.group.asked.points["noise"]
    test = fits.fit.solution.test
    values = fits.parts.variance()
    lost = np.abs(sum(values.values()) + noise - test) > SUM_OF_PARTS * test
    status = np.where(
        lost, "digits lost: the parts of the variance do not sum to the error", ""
    )
    table.note(fits.group.points, status, time=time)
    return values


def overlaps_of(fits: Fits) -> tuple[Overlap, Overlap, Overlap]:
    """Return the overlap of a fit with itself, and of fits that share the layer or the
    samples.
    """
    # a ridge fit has overlaps of samples without their label noise, too, which are left
    # out here
    parts = fits.parts
    return (
        parts.everything if isinstance(parts, Parts) else parts.own,
        parts.layer,
        parts.samples,
    )


def averaged_output(
    point: FittedPoint, shared: Overlap | None, share: float
) -> FittedPoint:
    """Return the mean of 1/share networks whose pairs have this overlap: Q -> Q/K +
    (1 - 1/K) Q_ab of (3.7).
    """
    own = point.fitted
    number = point.number
    # networks that share nothing have no overlap
    if shared is None:
        Q1, Q2 = (0.0, 0.0)
    else:
        Q1, Q2 = (shared.Q1[number], shared.Q2[number])
    mean = dataclasses.replace(
        own, Q1=share * own.Q1 + (1 - share) * Q1, Q2=share * own.Q2 + (1 - share) * Q2
    )
    return dataclasses.replace(point, fitted=mean)


def _misclassified(point: FittedPoint, shared: Overlap | None, share: float) -> float:
    """Return how often the sign of such a mean is not the label; NaN where no rule
    resolves it.

    The mean of many networks that share nothing changes its sign within less than a
    rule resolves: its error, a smooth function of 1/K, is extrapolated from those of
    fewer networks.
    """
    if shared is None and share < FEW:
        # Lagrange's parabola through 1/K = FEW, 2 FEW and 4 FEW, at x FEW
        fewer = [_misclassified(point, None, FEW * number) for number in (1, 2, 4)]
        x = share / FEW
        return float(
            np.dot(
                fewer,
                [(x - 2) * (x - 4) / 3, (x - 1) * (4 - x) / 2, (x - 1) * (x - 2) / 6],
            )
        )
    try:
        inputs, output = averaged_output(point, shared, share).signs(point.own_law)
    except InputError:
        return np.nan
    # without the spread of the means, which over-corrects a 0/1 error: section 2
    return wrong_signs(
        output.mean, output.variance, point.positive(inputs), inputs.weights
    )


def opposite_signs_of(point: FittedPoint, layer: Overlap, samples: Overlap) -> Floats:
    """Return how often networks that share the layer, the samples, nothing differ in
    sign (3,): (2.6).

    NaN where no rule resolves it. At a finite dimension the fitted means vary with the
    samples, (2.13).
    """
    try:
        inputs, output = point.signs(point.own_law)
    except InputError:
        return np.full(len(SHARED), np.nan)
    # what the two outputs of a pair have in common given z: Q_ab of (2.1)
    of_layer, of_samples = (
        output.quadratic(part.Q1[point.number], part.Q2[point.number])
        for part in (layer, samples)
    )
    # the spread of the fitted means belongs to the samples: networks on the same ones
    # share it, (2.13)
    whole = output.variance + output.spread
    pairs = (of_layer, of_samples + output.spread, np.zeros_like(whole))
    return np.array(
        [
            sign_disagreement(output.mean, whole, shared, inputs.weights)
            for shared in pairs
        ]
    )


def half_disagreements(own: Overlap, layer: Overlap, samples: Overlap) -> Floats:
    """Return E(f_a - f_b)^2/2 of networks that share the layer, the samples, nothing
    (B, 3): (2.6).
    """
    # networks alike have one mean, which cancels: Q_a = Q_b, and Q - Q_ab is left
    return np.stack([own.mean - layer.mean, own.mean - samples.mean, own.mean], axis=1)


def averaged(test: Floats, apart: Floats, settings: Mapping[str, Any]) -> Floats:
    """Return the error of the mean of networks whose pairs are `apart` (B, 3), for all
    members (B, 3, K): (2.8).
    """
    return (
        test[:, None, None]
        - (1 - 1 / np.asarray(settings["members"])) * apart[:, :, None]
    )

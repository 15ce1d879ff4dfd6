"""Where the variance of the fit comes from after every step, and what averages of networks do about it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from giantstep.errors import InputError
from giantstep.families.network.answers.laws import Fits, FittedPoint, solved_groups
from giantstep.families.network.answers.table import Table
from giantstep.families.network.problem import Share
from giantstep.families.network.questions import SHARED
from giantstep.families.network.shift import FreshLaw
from giantstep.families.network.trajectory import Moment
from giantstep.readout import Classifier
from giantstep.readout.calibration import wrong_signs
from giantstep.readout.class_pairs import ClassParts, class_parts
from giantstep.readout.pairs import Overlap, ridge_parts
from giantstep.types import Floats

SUM_OF_PARTS = 1e-6
"""Relative difference of the test error and the sum of its parts above which digits are lost."""

MANY_MEMBERS = 1e4
"""Classifiers whose mean stands for that of infinitely many: its sign jumps, which no rule of many directions sees."""


def answer_variance(table: Table, share: Share, moment: Moment, time: int, settings: Mapping[str, Any]) -> None:
    """Fill ``what="variance"``: beyond_the_error (2.6)-(2.8), and (2.10), (2.11) for classes."""
    for fits in solved_groups(table, share, moment, settings):
        values = _of_classes(fits, settings) if table.network.readout.classes else _of_ridge(table, fits, settings)
        for name, array in values.items():
            table.put(name, fits.group.index, time, array)


def _of_ridge(table: Table, fits: Fits, settings: Mapping[str, Any]) -> dict[str, Floats]:
    assert fits.fit.first is not None
    noise, test = fits.group.asked.points["noise"], fits.fit.solution.test
    parts = ridge_parts(fits.fit.first, noise, fits.group.asked.size)
    values = parts.variance()
    lost = np.abs(sum(values.values()) + noise - test) > SUM_OF_PARTS * test
    table.note(fits.group.index, np.where(lost, "digits lost: the parts of the variance do not sum to the error", ""))
    apart = half_disagreements(parts.everything, parts.layer, parts.samples)
    return {**values, "test_error": test, "disagreement": 2 * apart, "ensemble_error": averaged(test, apart, settings)}


def _of_classes(fits: Fits, settings: Mapping[str, Any]) -> dict[str, Floats]:
    parts, test = overlaps_of_classes(fits), fits.fit.solution.test
    apart = half_disagreements(parts.own, parts.layer, parts.samples)
    errors = np.full((len(test), len(SHARED), len(settings["members"])), np.nan)
    law = FreshLaw.of_the_fit(fits.moment.problem.target.directions)
    for point in fits.points():
        number = point.number
        shared = [(part.Q1[number], part.Q2[number]) for part in (parts.layer, parts.samples)]
        for row, (Q1, Q2) in enumerate([*shared, (np.zeros_like(shared[0][0]), np.zeros_like(shared[0][1]))]):
            for column, members in enumerate(settings["members"]):
                share = 1 / min(members, MANY_MEMBERS)
                own = point.fitted
                mean = dataclasses.replace(
                    own, Q1=share * own.Q1 + (1 - share) * Q1, Q2=share * own.Q2 + (1 - share) * Q2
                )
                errors[number, row, column] = _misclassified(dataclasses.replace(point, fitted=mean), law)
    return {"test_error": test, "disagreement": 2 * apart, "ensemble_error": errors}


def _misclassified(point: FittedPoint, law: FreshLaw) -> float:
    """Return how often the sign of the output is not the label; NaN where no rule resolves it."""
    try:
        inputs, output = point.signs(law)
    except InputError:
        return np.nan
    return wrong_signs(output.mean, output.variance, point.positive(inputs), inputs.weights)


def half_disagreements(own: Overlap, layer: Overlap, samples: Overlap) -> Floats:
    """Return E(f_a - f_b)^2/2 of networks that share the layer, the samples, nothing (B, 3): (2.6)."""
    return np.stack([own.mean - layer.mean, own.mean - samples.mean, own.mean], axis=1)


def overlaps_of_classes(fits: Fits) -> ClassParts:
    """Return the overlaps of classifiers at the points of a group."""
    asked, solution = fits.group.asked, fits.fit.solution
    assert isinstance(solution, Classifier) and fits.fit.equations is not None
    layer, kind = fits.moment.layer, fits.moment.problem.network.readout.kind
    return class_parts(fits.fit.equations, solution, kind, asked.points["flip"], asked.size, layer.U.shape[2])


def averaged(test: Floats, apart: Floats, settings: Mapping[str, Any]) -> Floats:
    """Return the error of the mean of networks whose pairs are `apart` (B, 3), for all members (B, 3, K): (2.8)."""
    return test[:, None, None] - (1 - 1 / np.asarray(settings["members"])) * apart[:, :, None]

"""Errors and order parameters of a fit to classes (logistic or hinge loss) on the features after the step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from giantstep.families.one_step.answers.gather import IDENTITY_TOLERANCE, NO_BULK, Gatherer, shared_values
from giantstep.families.one_step.features import Group, group_points
from giantstep.families.one_step.model import KERNEL_NODES_PER_PANEL
from giantstep.families.one_step.scenario import OneStep
from giantstep.families.one_step.steps.base import Models
from giantstep.family import Answer
from giantstep.readout import GOOD_ENOUGH, Classifier, Equations, classify
from giantstep.types import Points, Strings

SEPARATED = "the means of the features separate the classes, so that the fit grows without bound; give dim"


def answer_classes(scenario: OneStep, settings: Mapping[str, Any], points: Points, models: Models) -> Answer:
    """Answer the errors of a classifier (logistic or hinge loss)."""
    tolerance = max(settings.get("tolerance", 1e-10), GOOD_ENOUGH)
    gatherer = Gatherer(len(points["ridge"]))
    for group in group_points(scenario, points, models, KERNEL_NODES_PER_PANEL):
        numbers, ones = group.points, np.ones(len(group.index))
        width, ridge = numbers["width_per_dim"], numbers["ridge"]
        equations = Equations(group.features, group.ratio, width, ridge, ones, group.model.bulk)
        classifier = classify(equations, scenario.loss, numbers["flip"], 1 / numbers["dim"])
        values = shared_values(classifier, classifier.V1, classifier.V2, group.row_scale)
        values |= {"null_error": 0.5 * ones, "affine_error": np.nan * ones}
        status = _status(group, classifier, tolerance)
        gatherer.put(group.index, values, status, classifier.residual, classifier.iterations)
    return gatherer.answer()


def _status(group: Group, classifier: Classifier, tolerance: float) -> Strings:
    reasons = np.full(len(classifier.test), "", dtype=object)
    steps, vanishing = classifier.iterations, np.min(np.abs(group.model.s), axis=1) < 1e-9
    separable = (np.abs(group.model.gamma) == 1) & (group.points["flip"] == 0)
    for row in range(len(reasons)):
        unsolved = classifier.residual[row] > tolerance
        if vanishing[row]:
            reasons[row] = NO_BULK
        elif unsolved and separable[row]:
            reasons[row] = SEPARATED
        elif not np.isfinite(classifier.test[row]):
            reasons[row] = "the solution is not finite"
        elif unsolved:
            reasons[row] = f"residual {classifier.residual[row]:.1e} above the tolerance after {steps[row]} sweeps"
        elif classifier.identity[row] > IDENTITY_TOLERANCE:
            reasons[row] = f"digits lost: the stationarity of the fit is violated by {classifier.identity[row]:.1e}"
    return reasons

"""Errors and order parameters of a fit to classes (logistic or hinge loss) on the features after the step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from giantstep.families.one_step.answers.gather import IDENTITY_TOLERANCE, NO_BULK, Gatherer
from giantstep.families.one_step.features import bulk_row_scale, grouped_tables
from giantstep.families.one_step.model import KERNEL_NODES_PER_PANEL, SpikedModel
from giantstep.families.one_step.scenario import OneStep
from giantstep.families.one_step.steps.base import Models
from giantstep.family import Answer
from giantstep.readout import GOOD_ENOUGH, Classifier, Equations, Errors, classify
from giantstep.types import Floats, Points, Strings

SEPARATED = "the means of the features separate the classes, so that the fit grows without bound; give dim"


def answer_classes(scenario: OneStep, settings: Mapping[str, Any], points: Points, models: Models) -> Answer:
    """Answer the errors of a classifier (logistic or hinge loss)."""
    tolerance = max(settings.get("tolerance", 1e-10), GOOD_ENOUGH)
    gatherer = Gatherer(len(points["ridge"]))
    for index, model, features in grouped_tables(scenario, points, models, KERNEL_NODES_PER_PANEL):
        here = {name: values[index] for name, values in points.items()}
        ones = np.ones(len(index))
        ratio = here["samples_per_dim"] / here["width_per_dim"]
        equations = Equations(features, ratio, here["width_per_dim"], here["ridge"], ones)
        classifier = classify(equations, scenario.loss, here["flip"], 1 / here["dim"])
        scale = bulk_row_scale(model, here)
        square = scale[:, :, None] * scale[:, None, :]
        signal = signal_of(classifier)
        values = {
            "test_error": classifier.test,
            "train_error": classifier.train,
            "objective": classifier.objective,
            "test_misclassified": classifier.misclassified,
            "norm": classifier.norm,
            "theta": signal["theta"],
            "t": signal["t"] * scale,
            "psi": signal["psi"] * scale,
            "Q1": signal["Q1"] * square,
            "Q2": classifier.Q2,
            "V1": classifier.V1 * square,
            "V2": classifier.V2,
            "identity": classifier.identity,
            "null_error": 0.5 * ones,
            "affine_error": np.full(len(index), np.nan),
        }
        status = _status(model, here, classifier, tolerance)
        gatherer.put(index, values, status, classifier.residual, classifier.iterations)
    return gatherer.answer()


def signal_of(solution: Errors | Classifier) -> dict[str, Floats]:
    """Return theta, t, psi and Q1 with psi psi^T, as spiked_features has them: the channels are t, psi, ..."""
    k, psi = solution.theta.shape[1], solution.tau[:, 0]
    Q1 = solution.Q1 + psi[:, :, None] * psi[:, None, :]
    return {"theta": solution.theta, "t": solution.x[:, :k], "psi": psi, "Q1": Q1}


def _status(model: SpikedModel, points: Points, classifier: Classifier, tolerance: float) -> Strings:
    reasons = np.full(len(classifier.test), "", dtype=object)
    for row in range(len(classifier.test)):
        if np.min(np.abs(model.s[row])) < 1e-9:
            reasons[row] = NO_BULK
        elif classifier.residual[row] > tolerance and abs(model.gamma[row]) == 1 and points["flip"][row] == 0:
            reasons[row] = SEPARATED
        elif not np.isfinite(classifier.test[row]):
            reasons[row] = "the solution is not finite"
        elif classifier.residual[row] > tolerance:
            reasons[row] = (
                f"residual {classifier.residual[row]:.1e} above the tolerance after {classifier.iterations[row]} sweeps"
            )
        elif classifier.identity[row] > IDENTITY_TOLERANCE:
            reasons[row] = f"digits lost: the stationarity of the fit is violated by {classifier.identity[row]:.1e}"
    return reasons

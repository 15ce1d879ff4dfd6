"""How far the outputs of the fitted network can be trusted, after every step: beyond_the_error section 3."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from giantstep.errors import InputError
from giantstep.families.network.answers.laws import FittedPoint, note_refused, put_point, solved_groups, test_law
from giantstep.families.network.answers.table import Table
from giantstep.families.network.fresh_inputs import FOR_QUANTILES
from giantstep.families.network.problem import Share
from giantstep.families.network.shift import FreshLaw
from giantstep.families.network.trajectory import Moment
from giantstep.readout.calibration import NAIVE, LogitLaw, coverage, honest_width
from giantstep.types import Floats

OF_CLASSES = (
    *("log_loss", "brier", "calibration_error", "temperature", "log_loss_recalibrated"),
    *("calibration_error_recalibrated", "log_loss_floor"),
)
OF_REGRESSION = ("coverage", "honest_width")


def answer_calibration(table: Table, share: Share, moment: Moment, time: int, settings: Mapping[str, Any]) -> None:
    """Fill ``what="calibration"``: (3.5)-(3.7) where the labels are classes, (3.8) where they are not."""
    absent: dict[str, Any] = dict.fromkeys((*OF_CLASSES, *OF_REGRESSION), np.nan)
    absent["reliability"] = np.full(len(settings["logit"]), np.nan)
    for fits in solved_groups(table, share, moment, settings):
        for point in fits.points():
            try:
                classes = table.network.sign_direction is not None
                law, noise = test_law(table, point)
                values = of_classes(point, law, settings["logit"]) if classes else _of_regression(point, law, noise)
                put_point(table, point.place, time, {**absent, **values})
            except InputError as error:
                note_refused(table, point.place, error)


def of_classes(point: FittedPoint, law: FreshLaw, logits: Floats) -> dict[str, Any]:
    """Return what the output is worth as a logit."""
    inputs, output = point.signs(law)
    found = LogitLaw.of(output.mean, output.variance + output.spread, point.positive(inputs), inputs.weights)
    return {**calibrated(found), "reliability": found.reliability(logits)}


def calibrated(found: LogitLaw) -> dict[str, float]:
    """Return the scores of a law of logits, as it is and at the best temperature."""
    sharpness = found.sharpness
    scores = (
        *(found.log_loss(), found.brier(), found.calibration_error(), 1 / sharpness if sharpness else np.inf),
        *(found.log_loss(sharpness), found.calibration_error(sharpness), found.floor),
    )
    return dict(zip(OF_CLASSES, scores))


def _of_regression(point: FittedPoint, law: FreshLaw, noise: float) -> dict[str, Any]:
    inputs, output = point.residuals(law, noise, FOR_QUANTILES)
    gap, variance = inputs.label - output.mean, output.variance + output.spread + noise
    naive = NAIVE * np.sqrt(float(point.fit.solution.train[point.number]))
    found = coverage(naive, gap, variance, inputs.weights), honest_width(gap, variance, inputs.weights)
    return dict(zip(OF_REGRESSION, found))

"""Error and output of the ridge fit resolved along the learnt direction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from giantstep.errors import bad_field
from giantstep.families.one_step.answers.errors import ridge_status
from giantstep.families.one_step.answers.gather import Gatherer
from giantstep.families.one_step.features import group_points
from giantstep.families.one_step.scenario import OneStep
from giantstep.families.one_step.steps.base import Models
from giantstep.family import Answer
from giantstep.readout import ridge_errors, solve_first_order
from giantstep.types import Floats, Points


def answer_along(scenario: OneStep, points: Points, models: Models, settings: Mapping[str, Any]) -> Answer:
    """Answer ``what="along"``: RES(kappa) and c(kappa) of spiked_features (4.3)."""
    if scenario.loss != "square":
        raise bad_field("what", "along", f'"errors" where loss="{scenario.loss}"')
    kappa, tolerance = settings["kappa"], settings.get("tolerance", 1e-10)
    gatherer = Gatherer(len(points["ridge"]))
    for group in group_points(scenario, points, models):
        first = solve_first_order(group.ridge_equations())
        errors = ridge_errors(first, 1 / group.points["dim"], at_nodes=True)
        assert group.features.kappa is not None
        error, mean = np.moveaxis(_interpolate(group.features.kappa[:, 0], errors.along, kappa), 1, 0)
        status = ridge_status(group, first, errors, tolerance)
        values = {"error_along": error, "mean_along": mean}
        gatherer.put(group.index, values, status, first.residual, first.iterations)
    answer = gatherer.answer()
    answer.coords["kappa"] = kappa
    return answer


def _interpolate(nodes: Floats, values: Floats, kappa: Floats) -> Floats:
    """Interpolate (B, 2, N) values from the nodes of each point to `kappa` by cubic splines; NaN stays NaN."""
    from scipy.interpolate import CubicSpline

    out = np.full((*values.shape[:2], len(kappa)), np.nan)
    for point in np.flatnonzero(np.isfinite(values).all(axis=(1, 2))):
        distinct, first = np.unique(nodes[0 if len(nodes) == 1 else point], return_index=True)
        out[point] = CubicSpline(distinct, values[point][:, first], axis=1)(kappa)
    return out

"""Errors and order parameters of the ridge fit on the features after the step, and errors along kappa."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from giantstep.errors import bad_field
from giantstep.families.one_step.answers.gather import IDENTITY_TOLERANCE, NO_BULK, Gatherer, shared_values
from giantstep.families.one_step.features import Group, group_points, panel_nodes
from giantstep.families.one_step.model import NODES_PER_PANEL
from giantstep.families.one_step.scenario import OneStep
from giantstep.families.one_step.steps.base import Models
from giantstep.family import Answer
from giantstep.readout import PACKED_BLOCKS, Errors, FirstOrder, ridge_errors, solve_first_order
from giantstep.types import Booleans, Floats, Points, Strings

RARE_INPUT = 3.5
ROUNDING = 1e-9


def answer_errors(scenario: OneStep, points: Points, models: Models, settings: Mapping[str, Any]) -> Answer:
    """Answer ``what="errors"``; the step may add to what the read-out of its features says."""
    read_out = answer_ridge
    if scenario.loss != "square":
        from giantstep.families.one_step.answers.classes import answer_classes as read_out
    return scenario.step.errors(scenario, points, models, partial(read_out, scenario, settings))


def answer_ridge(scenario: OneStep, settings: Mapping[str, Any], points: Points, models: Models) -> Answer:
    """Answer the errors of the ridge fit at every point."""
    count = len(points["ridge"])
    gatherer = Gatherer(count)
    rare = np.zeros(count, dtype=bool)
    for group in group_points(scenario, points, models, panel_nodes(scenario, NODES_PER_PANEL)):
        if not settings.get("stretch", True):
            group = dataclasses.replace(group, features=dataclasses.replace(group.features, stretch=None))
        # packed coordinates lose digits where blocks are nearly dependent (a linear activation); the nodes do not
        forms = (True, False) if len(group.model.pi) <= PACKED_BLOCKS else (False,)
        for packed in (True,) if group.model.bulk.packed_only else forms:
            first = solve_first_order(group.ridge_equations(), packed=packed)
            errors = ridge_errors(first, 1 / group.points["dim"], packed=packed)
            status = ridge_status(group, first, errors, settings.get("tolerance", 1e-10))
            errors.test = np.maximum(errors.test, group.points["noise"])  # a perfect fit, up to rounding
            gatherer.put(group.index, _values(scenario, group, first, errors), status, first.residual, first.iterations)
            rare[group.index] = _rare_inputs_matter(group, first, errors) & (status == "")
            again = np.flatnonzero((status != "") & (status != NO_BULK))
            if not again.size:
                break
            group = group.take(again)
    if rare.any():
        gatherer.warnings.append(
            f"Rare inputs with |<v,x>| > {RARE_INPUT} decide the limit at {rare.sum()} of {count} points "
            "(tiny ridge, n < p): a finite network sees few of them, expect a gap at any reachable dimension."
        )
    return gatherer.answer()


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


def _values(scenario: OneStep, group: Group, first: FirstOrder, errors: Errors) -> dict[str, Floats]:
    """Return the variables of every point; a Gaussian law has nodes, not classes of neurons, and their sum is shown."""
    scale = first.equations.width * first.equations.b
    with np.errstate(divide="ignore", invalid="ignore"):
        V1, V2 = first.response.S / scale[:, None, None], first.response.R / scale[:, None]
    values = shared_values(errors, V1, V2, group.row_scale)
    if scenario.second_layer == "gaussian":
        for name, array in values.items():
            values[name] = array.sum(axis=tuple(range(1, array.ndim)), keepdims=True)
    g0, g1 = scenario.target.hermite(1)
    return {**values, "null_error": errors.null, "affine_error": errors.null - g0**2 - g1**2}


def ridge_status(group: Group, first: FirstOrder, errors: Errors, tolerance: float) -> Strings:
    """Return why each point is not to be trusted; empty where it is."""
    steps, vanishing = first.iterations, np.min(np.abs(group.model.s), axis=1) < 1e-9
    below_noise = errors.test < group.points["noise"] - ROUNDING * errors.null
    # after a perfect fit there is only rounding in Q2
    negative = np.min(errors.Q2, axis=1) < -ROUNDING * np.max(errors.Q2, axis=1)
    negative &= errors.test > ROUNDING * errors.null
    reasons = np.full(len(errors.test), "", dtype=object)
    for row in range(len(reasons)):
        if vanishing[row]:
            reasons[row] = NO_BULK
        elif not np.isfinite(errors.test[row]):
            reasons[row] = "the solution is not finite"
        elif first.residual[row] > tolerance:
            reasons[row] = f"residual {first.residual[row]:.1e} above the tolerance after {steps[row]} steps"
        elif errors.identity[row] > IDENTITY_TOLERANCE:
            reasons[row] = f"digits lost: the loss identity is violated by {errors.identity[row]:.1e}"
        elif below_noise[row]:
            reasons[row] = "digits lost: the test error is below the label noise"
        elif negative[row]:
            reasons[row] = "digits lost: the norm of a block is negative"
    return reasons


def _rare_inputs_matter(group: Group, first: FirstOrder, errors: Errors) -> Booleans:
    """Tell where dropping the rare |kappa| > 3.5 changes the test error by over 1%: spiked_features section 12."""
    equations = first.equations
    suspects = np.flatnonzero((equations.ratio < 1) & (equations.b < 1e-2) & np.any(group.model.u != 0, axis=1))
    matter = np.zeros(len(errors.test), dtype=bool)
    if suspects.size:
        few, test = equations.take(suspects), errors.test[suspects]
        assert few.features.kappa is not None
        weights = np.where(np.abs(few.features.kappa[:, 0]) < RARE_INPUT, few.features.weights, 0.0)
        few = dataclasses.replace(few, features=dataclasses.replace(few.features, weights=weights))
        without = solve_first_order(few, first.take(suspects), goal=ROUNDING)
        change = np.abs(ridge_errors(without, 1 / group.points["dim"][suspects]).test - test)
        matter[suspects] = change > 0.01 * test + ROUNDING * errors.null[suspects]
    return matter

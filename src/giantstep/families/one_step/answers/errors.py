"""Errors and order parameters of the ridge fit on the features after the step."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from giantstep.families.one_step.answers.classes import answer_classes, signal_of
from giantstep.families.one_step.answers.gather import IDENTITY_TOLERANCE, NO_BULK, Gatherer
from giantstep.families.one_step.features import bulk_row_scale, grouped_tables
from giantstep.families.one_step.model import KERNEL_NODES_PER_PANEL, NODES_PER_PANEL, SpikedModel
from giantstep.families.one_step.scenario import OneStep
from giantstep.families.one_step.second_layer import second_layer_law
from giantstep.families.one_step.steps.base import Models
from giantstep.family import Answer
from giantstep.readout import (
    PACKED_BLOCKS,
    Equations,
    Errors,
    Features,
    FirstOrder,
    ridge_errors,
    solve_first_order,
)
from giantstep.types import Booleans, Floats, Points, Strings

RARE_INPUT = 3.5
ROUNDING = 1e-9


def answer_errors(scenario: OneStep, points: Points, models: Models, settings: Mapping[str, Any]) -> Answer:
    """Answer ``what="errors"``; the step may add to what the read-out of its features says."""
    read_out = answer_ridge if scenario.loss == "square" else answer_classes
    return scenario.step.errors(scenario, points, models, partial(read_out, scenario, settings))


def risk_equations(features: Features, model: SpikedModel, points: Points) -> Equations:
    """Return the first-order equations of the ridge problem."""
    width = np.asarray(points["width_per_dim"], dtype=float)
    return Equations.of_ridge(features, points["samples_per_dim"] / width, width, points["ridge"], model.bulk)


def answer_ridge(scenario: OneStep, settings: Mapping[str, Any], points: Points, models: Models) -> Answer:
    """Answer the errors of the ridge fit at every point."""
    count = len(points["ridge"])
    gatherer = Gatherer(count)
    rare = np.zeros(count, dtype=bool)
    few = len(second_layer_law(scenario)[1]) <= PACKED_BLOCKS
    order = NODES_PER_PANEL if few else KERNEL_NODES_PER_PANEL
    for index, model, features in grouped_tables(scenario, points, models, order):
        here = {name: values[index] for name, values in points.items()}
        if not settings.get("stretch", True):
            features = dataclasses.replace(features, stretch=None)
        equations = risk_equations(features, model, here)
        # packed coordinates lose digits where blocks are nearly dependent (a linear activation); the nodes do not
        forms = (True, False) if len(model.pi) <= PACKED_BLOCKS else (False,)
        for packed in (True,) if model.bulk.packed_only else forms:
            first = solve_first_order(equations, packed=packed)
            errors = ridge_errors(first, 1 / here["dim"], packed=packed)
            status = ridge_status(model, here, first, errors, settings.get("tolerance", 1e-10))
            errors.test = np.maximum(errors.test, here["noise"])  # a perfect fit, up to rounding
            values = _values(scenario, equations, first, errors, bulk_row_scale(model, here))
            gatherer.put(index, values, status, first.residual, first.iterations)
            rare[index] = _rare_inputs_matter(model, equations, errors, 1 / here["dim"]) & (status == "")
            again = np.flatnonzero((status != "") & (status != NO_BULK))
            if not again.size:
                break
            index, model, equations = index[again], model.take(again), equations.take(again)
            here = {name: values[again] for name, values in here.items()}
    if rare.any():
        gatherer.warnings.append(
            f"Rare inputs with |<v,x>| > {RARE_INPUT} decide the limit at {rare.sum()} of {count} points "
            "(tiny ridge, n < p): a finite network sees few of them, expect a gap at any reachable dimension."
        )
    return gatherer.answer()


def _values(
    scenario: OneStep, equations: Equations, first: FirstOrder, errors: Errors, scale: Floats
) -> dict[str, Floats]:
    response, width = first.response, equations.width
    with np.errstate(divide="ignore", invalid="ignore"):
        V1 = response.S / (width * equations.b)[:, None, None]
        V2 = response.R / (width * equations.b)[:, None]
    g0, g1 = scenario.target.hermite(1)
    signal = signal_of(errors)
    blocks = {"theta": signal["theta"], "t": signal["t"] * scale, "psi": signal["psi"] * scale}
    blocks |= {"Q2": errors.Q2, "V2": V2}
    square = scale[:, :, None] * scale[:, None, :]
    pairs = {"Q1": signal["Q1"] * square, "V1": V1 * square}
    if scenario.second_layer == "gaussian":  # the nodes of the law are no classes of neurons: report the sum
        blocks = {name: values.sum(axis=1, keepdims=True) for name, values in blocks.items()}
        pairs = {name: values.sum(axis=(1, 2), keepdims=True) for name, values in pairs.items()}
    return {
        "test_error": errors.test,
        "train_error": errors.train,
        "objective": errors.objective,
        "test_misclassified": errors.misclassified,
        "norm": errors.norm,
        **blocks,
        **pairs,
        "identity": errors.identity,
        "null_error": errors.null,
        "affine_error": errors.null - g0**2 - g1**2,
    }


def ridge_status(model: SpikedModel, points: Points, first: FirstOrder, errors: Errors, tolerance: float) -> Strings:
    """Return why each point is not to be trusted; empty where it is."""
    reasons = []
    vanishing = np.min(np.abs(model.s), axis=1) < 1e-9
    for row in range(len(errors.test)):
        if vanishing[row]:
            reasons.append(NO_BULK)
        elif not np.isfinite(errors.test[row]):
            reasons.append("the solution is not finite")
        elif first.residual[row] > tolerance:
            reasons.append(
                f"residual {first.residual[row]:.1e} above the tolerance after {first.iterations[row]} steps"
            )
        elif errors.identity[row] > IDENTITY_TOLERANCE:
            reasons.append(f"digits lost: the loss identity is violated by {errors.identity[row]:.1e}")
        elif errors.test[row] < points["noise"][row] - ROUNDING * errors.null[row]:
            reasons.append("digits lost: the test error is below the label noise")
        elif (
            np.min(errors.Q2[row]) < -ROUNDING * np.max(errors.Q2[row])
            and errors.test[row] > ROUNDING * errors.null[row]  # after a perfect fit there is only rounding in Q2
        ):
            reasons.append("digits lost: the norm of a block is negative")
        else:
            reasons.append("")
    return np.array(reasons, dtype=object)


def _rare_inputs_matter(model: SpikedModel, equations: Equations, errors: Errors, inverse_dim: Floats) -> Booleans:
    """Tell where dropping the rare |kappa| > 3.5 changes the test error by over 1%: spiked_features section 12."""
    suspects = np.flatnonzero((equations.ratio < 1) & (equations.b < 1e-2) & np.any(model.u != 0, axis=1))
    matter = np.zeros(len(errors.test), dtype=bool)
    if suspects.size:
        few = equations.take(suspects)
        features = few.features
        assert features.kappa is not None
        weights = np.where(np.abs(features.kappa[:, 0]) < RARE_INPUT, features.weights, 0.0)
        few = dataclasses.replace(few, features=dataclasses.replace(features, weights=weights))
        change = np.abs(ridge_errors(solve_first_order(few), inverse_dim[suspects]).test - errors.test[suspects])
        matter[suspects] = change > 0.01 * errors.test[suspects] + ROUNDING * errors.null[suspects]
    return matter

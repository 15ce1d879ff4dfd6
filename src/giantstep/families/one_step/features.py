"""From points to features: the spiked models of a grid and their tables, each distinct one made once."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np

from giantstep.families.one_step.model import NODES_PER_PANEL, SpikedModel, tabulate
from giantstep.families.one_step.scenario import OneStep
from giantstep.families.one_step.steps.base import Models
from giantstep.readout import Features
from giantstep.types import Floats, Integers, Points


def at_finite_size(points: Points) -> dict[str, Floats]:
    """Return the points with the ratios that n = round(alpha d) and p = round(beta d) really have at a finite dim."""
    changed = dict(points)
    dim = points["dim"]
    finite = np.isfinite(dim)
    for name in ("samples_per_dim", "width_per_dim"):
        whole = np.maximum(1.0, np.rint(points[name] * np.where(finite, dim, 1.0)))
        changed[name] = np.where(finite, whole / np.where(finite, dim, 1.0), points[name])
    return changed


def grouped_tables(
    scenario: OneStep, points: Points, models: Models, order: int = NODES_PER_PANEL
) -> Iterator[tuple[Integers, SpikedModel, Features]]:
    """Yield (points, their models, their features), tabulating each distinct parameter set once."""
    for theory, index in models:
        model = spiked_model(scenario, {name: values[index] for name, values in points.items()}, theory)
        distinct, which = model.distinct()
        for rows, features in tabulate(scenario.activation, scenario.target, distinct, order):
            position = np.full(len(distinct), -1)
            position[rows] = np.arange(len(rows))
            member = position[which]
            inside = np.flatnonzero(member >= 0)
            yield index[inside], model.take(inside), features.take(member[inside])


def spiked_model(scenario: OneStep, points: Points, theory: str) -> SpikedModel:
    """Return the spiked model of every point (M = B parameter sets), with the rows of the first layer as they start."""
    model = scenario.step.model(scenario, points, theory)
    return dataclasses.replace(model, gaussian_rows=scenario.rows == "gaussian")


def bulk_row_scale(model: SpikedModel, points: Points) -> Floats:
    """Return s_q where rows w0_i of the model stand for bulk rows s_q w0_i (a finite batch made isotropic), else 1."""
    finite = np.isfinite(points.get("step.batch_per_dim", np.array([np.inf])))[:, None]
    return np.where(finite & model.isotropic, model.s, 1.0)

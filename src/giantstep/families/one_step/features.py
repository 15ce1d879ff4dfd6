"""From points to features: the points of a grid in groups, with their spiked models and the functions of kappa."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from giantstep.families.one_step.model import KERNEL_NODES_PER_PANEL, NODES_PER_PANEL, SpikedModel, tabulate
from giantstep.families.one_step.scenario import OneStep
from giantstep.families.one_step.second_layer import second_layer_law
from giantstep.families.one_step.steps.base import Models, take_points
from giantstep.readout import PACKED_BLOCKS, Equations, Features
from giantstep.types import Floats, Integers, Points


@dataclass(frozen=True)
class Group:
    """Points whose features have the same nodes: their index in the grid, their numbers, models and features."""

    index: Integers
    points: Points
    model: SpikedModel
    features: Features

    def take(self, rows: Integers) -> Group:
        """Return the points listed in `rows`."""
        points = take_points(self.points, rows)
        return Group(self.index[rows], points, self.model.take(rows), self.features.take(rows))

    @property
    def ratio(self) -> Floats:
        """n/p of every point."""
        return self.points["samples_per_dim"] / self.points["width_per_dim"]

    @property
    def row_scale(self) -> Floats:
        """s_q where rows w0_i of the model stand for bulk rows s_q w0_i (a finite batch made isotropic), else 1."""
        finite = np.isfinite(self.points.get("step.batch_per_dim", np.array([np.inf])))[:, None]
        return np.where(finite & self.model.isotropic, self.model.s, 1.0)

    def ridge_equations(self) -> Equations:
        """Return the first-order equations of the ridge fit."""
        width, ridge = self.points["width_per_dim"], self.points["ridge"]
        return Equations.of_ridge(self.features, self.ratio, width, ridge, self.model.bulk)


def group_points(scenario: OneStep, points: Points, models: Models, order: int = NODES_PER_PANEL) -> Iterator[Group]:
    """Yield the points in groups, each distinct model tabulated once, with `order` nodes on a panel of kappa."""
    for theory, index in models:
        numbers = take_points(points, index)
        model = scenario.step.model(scenario, numbers, theory)
        model = dataclasses.replace(model, gaussian_rows=scenario.rows == "gaussian")
        distinct, which = model.distinct()
        for rows, features in tabulate(scenario.activation, scenario.target, distinct, order):
            position = np.full(len(distinct), -1)
            position[rows] = np.arange(len(rows))
            member = position[which]
            inside = np.flatnonzero(member >= 0)
            alike = len(inside) == len(rows) and np.array_equal(member[inside], np.arange(len(rows)))
            known = features if alike else features.take(member[inside])
            yield Group(index[inside], take_points(numbers, inside), model.take(inside), known)


def panel_nodes(scenario: OneStep, few: int) -> int:
    """Return the nodes on a panel of kappa: so many for `few` blocks, less where equations are solved at the nodes."""
    return few if len(second_layer_law(scenario)[1]) <= PACKED_BLOCKS else KERNEL_NODES_PER_PANEL


def at_finite_size(points: Points) -> dict[str, Floats]:
    """Return the points with the ratios that n = round(alpha d) and p = round(beta d) really have at a finite dim."""
    changed = dict(points)
    dim = points["dim"]
    finite = np.isfinite(dim)
    for name in ("samples_per_dim", "width_per_dim"):
        whole = np.maximum(1.0, np.rint(points[name] * np.where(finite, dim, 1.0)))
        changed[name] = np.where(finite, whole / np.where(finite, dim, 1.0), points[name])
    return changed

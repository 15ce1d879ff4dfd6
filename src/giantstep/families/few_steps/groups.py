"""Points of a grid that share their steps, and what the read-out sees of them after every step."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from giantstep.families.few_steps.features import describe_bulk, describe_features
from giantstep.families.few_steps.input_points import input_spectrum
from giantstep.families.few_steps.scenario import FewSteps
from giantstep.families.few_steps.trajectory import Classes, Network, follow, plant, split_classes, split_directions
from giantstep.readout import Equations, Features
from giantstep.types import Floats, Integers, Points


@dataclass
class Group:
    """Points that share the steps: one trajectory answers them all. `path` begins after `first` steps."""

    scenario: FewSteps
    network: Network
    index: Integers
    path: list[Classes]
    reason: str
    first: int = 0

    def by_class(self, values: Floats) -> Floats:
        """Sum values (B, k') of sub-classes over those of each class (B, k)."""
        return values.reshape(len(values), len(self.scenario.second_layer.values), -1).sum(axis=2)

    def unlearnt(self) -> list[str]:
        """Say which directions of the target the last step has not found."""
        if not self.path:  # the steps end before
            return []
        frame = self.path[-1].frame
        basis = split_directions(self.path[-1], self.network.target)
        left = np.linalg.norm(frame @ basis.rest, axis=1)
        names = [f"z{j + 1}" for j in np.flatnonzero(left > 1 - 1e-9)]
        steps = self.first + len(self.path) - 1
        if not names or self.scenario.has_shifts or steps == 0:
            return []
        return [
            f"After {steps} steps {', '.join(names)} {'is' if len(names) == 1 else 'are'} not learnt: no "
            "step sees a linear part along it, given what is learnt before (see giantstep.exponents)."
        ]


def split_points(
    scenario: FewSteps, points: Points, rows: Integers, theory: str = "exact", first: int = 0
) -> Iterator[Group]:
    """Yield those points of `rows` that share their steps; label noise moves the steps of a finite batch only.

    Their paths begin after `first` steps.
    """
    points = {name: values[rows] for name, values in points.items()}
    finite = np.isfinite(points["batch_per_dim"])
    columns = [points["batch_per_dim"], points["steps"], np.where(finite, points["noise"], 0.0)]
    columns += [points["rate"]] if "rate" in points else []
    if scenario.inputs is not None:
        columns += [points["precondition"], *([points["dim"]] if "dim" in points else [])]
        columns += [values for name, values in points.items() if name.startswith("inputs.")]
    _, leaders, which = np.unique(np.stack(columns, axis=1), axis=0, return_index=True, return_inverse=True)
    zeta, pi = np.array(scenario.second_layer.values), np.array(scenario.second_layer.probabilities)
    for number, b in enumerate(leaders):
        network = Network(
            activation=scenario.activation,
            target=scenario.target,
            zeta=zeta,
            pi=pi,
            inputs=input_spectrum(scenario, points, int(b)),
            noise=float(columns[2][b]),
            batch_per_dim=float(points["batch_per_dim"][b]),
            correlation_loss=scenario.loss_of_steps == "correlation",
            gaussian_rows=scenario.rows == "gaussian",
            quadratic_dim=float(points["dim"][b]) if theory == "quadratic" else np.inf,
        )
        start = None
        if scenario.has_shifts:
            bulk = np.array(scenario.planted.bulk or np.ones(len(pi)))
            start = plant(network, np.asarray(scenario.planted.shifts), bulk)
        if theory == "split":
            network, start = split_classes(network, float(points["dim"][b]))
        path, reason = follow(network, scenario.rates(points, int(b)).tolist(), start)
        yield Group(scenario, network, rows[which.reshape(-1) == number], path[first:], reason, first)


def read_outs(
    points: Points, group: Group, leading: bool = False
) -> Iterator[tuple[int, Features, Integers, Equations]]:
    """Yield, after every step, the features and the equations of the points that share them (and their label noise)."""
    for time, classes in enumerate(group.path):
        features = describe_features(group.network, classes, leading)
        bulk = describe_bulk(group.network, classes, leading)
        for noise in np.unique(points["noise"][group.index]):
            index = group.index[points["noise"][group.index] == noise]
            labelled = dataclasses.replace(features, hh=features.hh - group.network.noise + noise)
            ratio = points["samples_per_dim"][index] / points["width_per_dim"][index]
            yield (
                time,
                labelled,
                index,
                Equations.of_ridge(labelled, ratio, points["width_per_dim"][index], points["ridge"][index], bulk),
            )

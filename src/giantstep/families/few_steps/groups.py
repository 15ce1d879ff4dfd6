"""Points of a grid that share their steps, and what the read-out sees of them after every step."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from giantstep.families.few_steps.features import describe_bulk, describe_features
from giantstep.families.few_steps.input_points import input_spectrum
from giantstep.families.few_steps.scenario import FewSteps
from giantstep.families.few_steps.trajectory import Classes, Network, follow, plant, split_classes, split_directions
from giantstep.readout import Equations, Features
from giantstep.types import Floats, Integers, Points

Made = TypeVar("Made")


@dataclass
class Group:
    """Points that share the steps: one trajectory answers them all. `path` begins after `first` steps."""

    scenario: FewSteps
    network: Network
    index: Integers
    path: list[Classes]
    reason: str
    first: int = 0
    kept: dict[Hashable, Any] | None = None
    """What follows from the steps alone, by names that include the time, for who asks again with another read-out."""

    def once(self, name: Hashable, make: Callable[[], Made]) -> Made:
        """Return what was made under this name before, or make it now."""
        if self.kept is None:
            return make()
        if name not in self.kept:
            self.kept[name] = make()
        return self.kept[name]

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


_FOLLOWED: dict[Hashable, tuple[list[Classes], str, dict[Hashable, Any]]] = {}
_MOST_FOLLOWED = 16


def _followed(network: Network, rates: list[float]) -> tuple[list[Classes], str, dict[Hashable, Any]]:
    """Return the steps of a network, why they end early, and what was made of them; the last networks are kept."""
    key = (_content(network), tuple(rates))
    if key not in _FOLLOWED:
        if len(_FOLLOWED) >= _MOST_FOLLOWED:
            _FOLLOWED.clear()
        _FOLLOWED[key] = *follow(network, rates), {}
    return _FOLLOWED[key]


def _content(value: Any) -> Hashable:
    """Return what tells two values apart, whose arrays are compared entry by entry."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if dataclasses.is_dataclass(value):
        return tuple(_content(getattr(value, part.name)) for part in dataclasses.fields(value))
    return value


def split_points(
    scenario: FewSteps, points: Points, rows: Integers, theory: str = "exact", first: int = 0, *, keep: bool = False
) -> Iterator[Group]:
    """Yield those points of `rows` that share their steps; label noise moves the steps of a finite batch only.

    Their paths begin after `first` steps. Who answers a hand that moves one control after the other may `keep` them.
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
        rates, kept = scenario.rates(points, int(b)).tolist(), None
        if keep and start is None:
            path, reason, kept = _followed(network, rates)
        else:
            path, reason = follow(network, rates, start)
        yield Group(scenario, network, rows[which.reshape(-1) == number], path[first:], reason, first, kept)


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

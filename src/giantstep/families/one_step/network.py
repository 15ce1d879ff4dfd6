"""The one-step network at finite size: its first layer as drawn, after the step, with the samples of its fit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from giantstep.errors import bad_field
from giantstep.families.one_step.scenario import OneStep
from giantstep.families.one_step.second_layer import draw_second_layer
from giantstep.families.one_step.steps.base import Start, take_points
from giantstep.lab import Draws
from giantstep.lab.network import Network, draw_rows
from giantstep.types import DeviceArray, Integers, Points


@dataclass(frozen=True)
class Trained:
    """The network after its step, and the samples of its fit.

    Attributes
    ----------
    network : weights (p, d) and labels.
    samples : (B,) sample sizes of the fit.
    blocks : neurons of every value of the second layer.
    second_layer : (p,) values zeta_i at the start.
    bulk : (p, d) rows of the bulk: w0_i, or w_i - u_q v after a step on a finite batch.
    directions : (d, 2) the spike v and v_perp as columns.
    same_sample : whether the fit uses the sample of the step.
    """

    network: Network
    samples: Integers
    blocks: list[slice]
    second_layer: DeviceArray
    bulk: DeviceArray
    directions: DeviceArray
    same_sample: bool

    def training(self, draws: Draws) -> Iterator[tuple[DeviceArray, DeviceArray]]:
        """Yield (features, labels) of the samples of the fit, as many as the largest size."""
        rows, stream = int(self.samples.max()), "train"
        if self.same_sample:  # drawn once more from the start of their streams
            draws, stream = Draws(draws.seed, draws.key, draws.trial, draws.device), "batch"
        return self.network.labelled(stream, rows, draws)


def count_neurons(points: Points, dim: int) -> int:
    """Return the width p, which all points share."""
    return max(1, round(float(points["width_per_dim"][0]) * dim))


def count_samples(points: Points, dim: int) -> Integers:
    """Return the sample size n of every point."""
    if dim < 2:
        raise bad_field("dim", dim, "at least 2")
    return np.maximum(np.rint(points["samples_per_dim"] * dim), 1).astype(np.int64)


def draw_network(scenario: OneStep, points: Points, dim: int, draws: Draws) -> Trained:
    """Draw the first layer and take the step; the points differ in samples_per_dim and ridge only."""
    samples, width = count_samples(points, dim), count_neurons(points, dim)
    rows = draw_rows(width, dim, draws, sphere=scenario.rows == "sphere")
    blocks, second_layer = draw_second_layer(scenario, width, draws)
    noise = float(points["noise"][0])
    before = Network(scenario.activation, rows, lambda inputs: inputs[:, 0], scenario.target, noise)
    point = {**take_points(points, np.zeros(1, dtype=np.int64)), "dim": np.array([float(dim)])}
    moved = scenario.step.move(scenario, point, Start(before, blocks, second_layer, draws))
    directions = draws.xp.eye(dim, 2) if moved.directions is None else moved.directions

    def signal(inputs: DeviceArray) -> DeviceArray:
        return moved.aim[0] * inputs[:, 0] + moved.aim[1] * inputs[:, 1]

    network = Network(scenario.activation, moved.weights, signal, scenario.target, noise)
    same = scenario.fit_sample == "same"
    return Trained(network, samples, blocks, second_layer, moved.bulk, directions, same)

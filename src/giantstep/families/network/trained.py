"""A real network between two steps: its weights, its samples, and the gradient that a step follows."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from giantstep.families.network.scenario import Network
from giantstep.lab import Draws, to_numpy
from giantstep.lab.network import RealNetwork, batch_gradient
from giantstep.lab.population_gradient import hermite_tensor, interpolated_hermite, population_gradient
from giantstep.lab.whitened import Whitened
from giantstep.types import DeviceArray, Floats, Integers

_tensor_of = lru_cache(maxsize=8)(hermite_tensor)  # expansions of targets, which every trial asks for


@dataclass(frozen=True)
class Trained:
    """The network after some steps, and the samples of its fit."""

    network: RealNetwork  # weights (p, d) and labels, in whitened coordinates
    network_of: Network
    inputs: Whitened  # where the target lies
    blocks: list[slice]  # neurons of every value of the second layer
    second_layer: DeviceArray  # (p,): zeta_i during the steps
    samples: Integers  # (B,): sample sizes of the fit
    draws: Draws
    bulk: DeviceArray  # (p, d): rows of the bulk, w0_i, or w_i - u_q v after a step on a finite batch
    flip: float = 0.0
    streams: str = "batch{number}"  # names of the random streams of the batches
    directions: DeviceArray = None  # (d, 2): the spike v and v_perp; None where they are the first two axes
    velocity: DeviceArray = None
    on_batch: bool = False  # whether a step had a finite batch, whose noise has directions of its own

    @property
    def dim(self) -> int:
        """Dimension d of the inputs."""
        return int(self.network.weights.shape[1])

    def with_weights(self, weights: DeviceArray) -> Trained:
        """Return the network with other weights; where these point is not known yet."""
        network = dataclasses.replace(self.network, weights=weights)
        return dataclasses.replace(self, network=network, directions=None)

    def with_spike(self, sizes: DeviceArray, spike: DeviceArray) -> Trained:
        """Return the network whose bulk rows are w_i - sizes_i spike; v and v_perp are known then.

        v lies along the spike, v_perp along what w* = e_1 has across it; where that is nothing, it is the second axis.
        """
        xp, v = self.draws.xp, spike / self.draws.xp.linalg.norm(spike)
        across = -v[0] * v
        across[0] += 1.0
        length = xp.linalg.norm(across)
        axes = xp.eye(len(v), 2) if float(length) < 1e-12 else xp.stack([v, across / length], axis=1)
        return dataclasses.replace(self, bulk=self.network.weights - sizes[:, None] * spike, directions=axes)

    def stream(self, number: int) -> str:
        """Return the name of the random stream of a step's batch."""
        return self.streams.format(number=number)

    def training(self) -> Iterator[tuple[DeviceArray, DeviceArray]]:
        """Yield (features, labels) of the samples of the fit, as many as the largest size; classes are not flipped."""
        rows, stream, draws = int(self.samples.max()), "train", self.draws
        if self.network_of.fit_sample == "same":  # drawn once more from the start of their streams
            draws, stream = self.draws.anew(), self.stream(len(self.network_of.steps) - 1)
        return self.network.labelled(stream, rows, draws)

    @cached_property
    def spike_axes(self) -> Floats:
        """The spike v and v_perp as columns (d, 2)."""
        xp = self.draws.xp
        return to_numpy(xp.eye(self.dim, 2) if self.directions is None else self.directions)

    def gradient(
        self, square: bool, batch: float, stream: str, *, output: DeviceArray = None, offset: float = 0.0
    ) -> tuple[DeviceArray, DeviceArray | None]:
        """Return E (y - f) sigma'(<w_i,x>) x (p, d) on the population or on a batch, and X^T (y - f)/n0 of the batch.

        f = offset + sum_j output_j sigma(<w_j,x>)/p; without `output` it is that of the second layer, or 0 for the
        correlation loss.
        """
        xp, network = self.draws.xp, self.network
        if output is None:
            output = self.second_layer if square else 0.0 * self.second_layer
        if math.isfinite(batch):
            real = self._flipped(stream) if self.flip else network
            return batch_gradient(real, output, max(1, round(batch)), self.draws, offset=offset, stream=stream)
        expansion = (_tensor_of(self.network_of.target), self.inputs)
        kept = 1 - 2 * self.flip
        gradient = population_gradient(network.activation, expansion, network.weights, output, xp, kept)
        if offset:
            tau = to_numpy(xp.linalg.norm(network.weights, axis=1))
            bend = math.sqrt(2) * interpolated_hermite(network.activation, tau, 2)[:, 2] / tau**2
            gradient -= xp.asarray(offset * bend)[:, None] * network.weights
        return gradient, None

    def _flipped(self, stream: str) -> RealNetwork:
        """Return the network whose classes are flipped, for one pass over a batch."""
        target, draws = self.network.target, self.draws

        def flipped(signal: DeviceArray) -> DeviceArray:
            labels = target(signal)
            turned = draws.uniform(stream + "_flips", len(labels)) < self.flip
            return draws.xp.where(turned, -labels, labels)

        return dataclasses.replace(self.network, target=flipped)

    def add_spike(self, weights: DeviceArray, sizes: DeviceArray, alignment: float) -> None:
        """Add sizes_i v to the rows, v the first axis, which has this alignment with the first target direction."""
        xp = self.draws.xp
        if self.inputs.root is None:  # the frame was turned so that the spike is an axis
            weights[:, 0] += sizes
            return
        v = np.zeros((1, self.dim))
        along = np.eye(1, self.network_of.target.directions)
        self.inputs.add_along(v, along * alignment, np)
        across = np.delete(np.arange(self.dim), self.inputs.axes)
        if across.size:
            v[0, across[0]] = math.sqrt(max(1 - alignment**2, 0.0))
        weights += sizes[:, None] * xp.asarray(v)

"""A real network between two steps: its weights, its samples, and the gradient that a step follows."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from giantstep.families.network.scenario import Network
from giantstep.lab import Draws, to_numpy
from giantstep.lab.algebra import multiply
from giantstep.lab.network import Moved, RealNetwork, batch_gradient
from giantstep.lab.population_gradient import population_gradient
from giantstep.lab.whitened import Whitened, spike_axes
from giantstep.types import DeviceArray, Floats, Integers

Copy = tuple[int, int, int]
"""Which layer, which sample and which label noise a fit has."""
ONLY: Copy = (0, 0, 0)
"""The fit of a single network."""


class RealFit(NamedTuple):
    """Fits of a real second layer at B points."""

    weights: DeviceArray  # (p, B): b = a/sqrt(p), f(x) = sum_i b_i sigma(<w_i, x>)
    train: Floats  # (B,): training error
    objective: Floats  # (B,): loss and penalty per sample


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
        """Return the network whose bulk rows are w_i - sizes_i spike; v and v_perp are known then."""
        axes = spike_axes(spike, self.draws.xp)
        return dataclasses.replace(self, bulk=self.network.weights - sizes[:, None] * spike, directions=axes)

    def stream(self, number: int) -> str:
        """Return the name of the random stream of a step's batch."""
        return self.streams.format(number=number)

    def training(self, draws: Draws | None = None, noise: str = "train") -> Iterator[tuple[DeviceArray, DeviceArray]]:
        """Yield (features, labels) of the samples of the fit; other draws, or another stream of the noise, if given."""
        network, rows, stream, draws = self.network, int(self.samples.max()), "train", draws or self.draws
        if self.network_of.fit_sample == "same":  # drawn once more from the start of their streams
            stream = noise = self.stream(len(self.network_of.steps) - 1)
            draws = draws.anew()
        errors = network.label_noise(noise, rows, draws)
        for (features, signal, _), error in zip(network.samples(stream, rows, draws), errors):
            yield features, network.target(signal) + error

    def fitted(self, ridges: Floats) -> RealFit:
        """Return the fits of this network on its own samples."""
        return self.network_of.readout.fit(self, ridges, self.draws, "train")

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
            target, draws = network.target, self.draws

            def flipped(signal: DeviceArray) -> DeviceArray:  # classes that are flipped, for one pass over a batch
                labels = target(signal)
                return xp.where(draws.uniform(stream + "_flips", len(labels)) < self.flip, -labels, labels)

            real = dataclasses.replace(network, target=flipped) if self.flip else network
            return batch_gradient(real, output, max(1, round(batch)), draws, offset=offset, stream=stream)
        expansion = (self.network_of.expansion, self.inputs)
        kept = 1 - 2 * self.flip
        return population_gradient(network.activation, expansion, network.weights, output, xp, kept, offset), None


def outputs_of(
    networks: Sequence[Trained], fits: Mapping[Copy, DeviceArray], rows: int, moved: Moved | None = None
) -> Iterator[tuple[Floats, Floats, DeviceArray]]:
    """Yield the outputs of all fits (copies, m, B) at fresh, `moved` inputs, their coordinates (m, r), the inputs."""
    draws = networks[0].draws
    streams = [trained.network.samples("test", rows, draws.anew(), moved) for trained in networks]
    for chunks in zip(*streams):
        _, signal, inputs = chunks[0]
        outputs = [to_numpy(multiply(chunks[layer][0], fit, draws.xp)) for (layer, _, _), fit in fits.items()]
        yield np.stack(outputs), np.array(to_numpy(signal)), inputs  # the signal is a view of a buffer

"""A real network between two steps: its weights, its samples, the gradient a step
follows, and the outputs of its fits.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from giantstep.core.base.types import DeviceArray, Floats, Integers
from giantstep.core.lab import Draws, to_numpy
from giantstep.core.lab.algebra import multiply
from giantstep.problems.network.population_gradient import population_gradient
from giantstep.problems.network.scenario import Network
from giantstep.problems.network.weights import (
    Moved,
    RealNetwork,
    batch_gradient,
)
from giantstep.problems.network.whitened import Whitened, spike_axes

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
    # (p, d): rows of the bulk, w0_i, or w_i - u_q v after a step on a finite batch
    bulk: DeviceArray
    flip: float = 0.0
    streams: str = "batch{number}"  # names of the random streams of the batches
    # (d, 2): the spike v and v_perp; None where they are the first two axes
    directions: DeviceArray = None
    velocity: DeviceArray = None  # (p, d): the last gradient, for the momentum
    # whether a step had a finite batch, whose noise has directions of its own
    on_batch: bool = False

    @property
    def dim(self) -> int:
        """Dimension d of the inputs."""
        return int(self.network.weights.shape[1])

    @property
    def has_row_sums(self) -> bool:
        """Whether t, psi, Q1 and V1, sums over rows of the bulk, are defined: for one
        target direction on isotropic inputs.
        """
        one_direction = self.network_of.target.directions == 1
        return one_direction and self.network_of.inputs is None

    def with_weights(self, weights: DeviceArray) -> Trained:
        """Return the network with other weights; where these point is not known yet."""
        network = dataclasses.replace(self.network, weights=weights)
        return dataclasses.replace(self, network=network, directions=None)

    def with_spike(self, sizes: DeviceArray, spike: DeviceArray) -> Trained:
        """Return the network whose bulk rows are w_i - sizes_i spike; v and v_perp are
        known then.
        """
        return dataclasses.replace(
            self,
            bulk=self.network.weights - sizes[:, None] * spike,
            directions=spike_axes(spike, self.draws.xp),
        )

    def stream(self, number: int) -> str:
        """Return the name of the random stream of a step's batch."""
        return self.streams.format(number=number)

    def training(
        self, draws: Draws | None = None, noise: str = "train"
    ) -> Iterator[tuple[DeviceArray, DeviceArray]]:
        """Yield (features, labels) of the samples of the fit; other draws, or another
        stream of the noise, if given.
        """
        network = self.network
        rows = int(self.samples.max())
        draws = draws or self.draws
        stream = "train"
        if self.network_of.fit_sample == "same":
            # the batch of the last step, drawn once more from the start of its streams
            stream = self.stream(len(self.network_of.steps) - 1)
            noise = stream
            draws = draws.anew()
        errors = network.label_noise(noise, rows, draws)
        chunks = network.samples(stream, rows, draws)
        for (features, signal, _), error in zip(chunks, errors):
            yield features, network.target(signal) + error

    def fitted(self, ridges: Floats) -> RealFit:
        """Return the fits of this network on its own samples."""
        return self.network_of.readout.fit(self, ridges, self.draws, "train")

    @cached_property
    def spike_axes(self) -> Floats:
        """The spike v and v_perp as columns (d, 2)."""
        if self.directions is None:
            return to_numpy(self.draws.xp.eye(self.dim, 2))
        return to_numpy(self.directions)

    def gradient(
        self,
        square: bool,
        batch: float,
        stream: str,
        *,
        output: DeviceArray = None,
        offset: float = 0.0,
    ) -> tuple[DeviceArray, DeviceArray | None]:
        """Return E (y - f) sigma'(<w_i,x>) x (p, d) on the population or on a batch,
        and X^T (y - f)/n0 of the batch.

        f = offset + sum_j output_j sigma(<w_j,x>)/p, by default of the second layer, or
        0 for the correlation loss.
        """
        if output is None:
            output = self.second_layer if square else 0.0 * self.second_layer
        if math.isfinite(batch):
            return batch_gradient(
                self._with_flipped_labels(stream),
                output,
                max(1, round(batch)),
                self.draws,
                offset=offset,
                stream=stream,
            )
        on_population = population_gradient(
            self.network.activation,
            (self.network_of.expansion, self.inputs),
            self.network.weights,
            output,
            xp=self.draws.xp,
            # labels flipped with this probability have the mean (1 - 2 flip) g
            kept=1 - 2 * self.flip,
            offset=offset,
        )
        return on_population, None

    def _with_flipped_labels(self, stream: str) -> RealNetwork:
        """Return the network whose labels are flipped as those of a batch are; it is
        good for one pass over the batch.
        """
        if not self.flip:
            return self.network

        def flipped(signal: DeviceArray) -> DeviceArray:
            labels = self.network.target(signal)
            # every call takes the next numbers of the stream
            turned = self.draws.uniform(stream + "_flips", len(labels)) < self.flip
            return self.draws.xp.where(turned, -labels, labels)

        return dataclasses.replace(self.network, target=flipped)


def outputs_of(
    networks: Sequence[Trained],
    fits: Mapping[Copy, DeviceArray],
    rows: int,
    moved: Moved | None = None,
) -> Iterator[tuple[Floats, Floats, DeviceArray]]:
    """Yield the outputs of all fits (copies, m, B) at fresh, `moved` inputs, their
    coordinates (m, r), the inputs.
    """
    draws = networks[0].draws
    # drawn anew for each: all networks see the same inputs
    streams = [
        trained.network.samples("test", rows, draws.anew(), moved)
        for trained in networks
    ]
    for chunks in zip(*streams):
        _, signal, inputs = chunks[0]
        outputs = []
        for (layer, _, _), fit in fits.items():
            features = chunks[layer][0]
            outputs.append(to_numpy(multiply(features, fit, draws.xp)))
        # copied: the signal is a view of a buffer, which the next chunk fills
        yield np.stack(outputs), np.array(to_numpy(signal)), inputs

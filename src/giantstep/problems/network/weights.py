"""A two-layer network of given weights at finite size: features of streamed samples,
batch gradient, errors of fits.

The network is f(x) = sum_i b_i sigma(<w_i, x>); nothing here knows how its first layer
came about.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from giantstep.core.base.types import DeviceArray, Floats, Integers
from giantstep.core.lab.algebra import multiply
from giantstep.core.lab.devices import to_numpy
from giantstep.core.lab.seeds import Draws
from giantstep.core.maths.gaussian import Function

ROW_BLOCK = 128
"""Rows to which a function is applied at a time on the CPU, to keep its intermediate
arrays small.
"""
Moved = Callable[[DeviceArray], tuple[DeviceArray, DeviceArray]]
"""Inputs (m, d) -> inputs of another law, and the coordinates (m, r) of their
labels.
"""


@dataclass(frozen=True)
class RealNetwork:
    """The features sigma(<w_i, x>) of Gaussian inputs, and the labels they are to
    fit.
    """

    activation: Function  # sigma
    weights: DeviceArray  # (p, d) rows w_i
    # inputs (m, d) -> <w*, x> (m,); its sign is the class of a sample
    signal: Callable[[DeviceArray], DeviceArray]
    target: Callable[[DeviceArray], DeviceArray]  # (m,) signals -> labels without noise
    noise: float = 0.0  # variance of the label noise

    @property
    def width(self) -> int:
        """Number of neurons p."""
        return len(self.weights)

    def samples(
        self, stream: str, rows: int, draws: Draws, moved: Moved | None = None
    ) -> Iterator[tuple[DeviceArray, DeviceArray, DeviceArray]]:
        """Yield (features (m, p), signals (m,), inputs (m, d)), views of buffers;
        `moved` changes the law of inputs.
        """
        p, d = self.weights.shape
        # one buffer for all chunks: features are the largest array of an experiment
        buffer = draws.xp.empty((min(draws.chunk, rows), p))
        for start, stop, inputs in draws.chunks(stream, rows, d):
            features = buffer[: stop - start]
            if moved is None:
                signal = self.signal(inputs)
            else:
                inputs, signal = moved(inputs)
            multiply(inputs, self.weights.T, draws.xp, out=features)
            # in place of <w_i, x>
            apply_by_rows(self.activation, features, features, draws.xp)
            yield features, signal, inputs

    def label_noise(self, stream: str, rows: int, draws: Draws) -> Iterator[Any]:
        """Yield the label noise chunk by chunk, to be used beside `Draws.chunks` of the
        inputs.
        """
        if self.noise == 0:
            # for ever: nothing is drawn, and nobody asks for a stream without noise
            yield from itertools.repeat(0.0)
        for _, _, chunk in draws.chunks(stream + "_noise", rows, 1):
            yield math.sqrt(self.noise) * chunk[:, 0]


def draw_rows(
    width: int, dim: int, draws: Draws, *, sphere: bool = True
) -> DeviceArray:
    """Return the rows of a first layer at random (p, d): on the unit sphere, or of law
    N(0, I/d).
    """
    rows = draws.normal("weights", (width, dim))
    if sphere:
        rows /= draws.xp.linalg.norm(rows, axis=1)[:, None]
    else:
        rows /= math.sqrt(dim)
    return rows


def split_neurons(probabilities: Sequence[float], width: int) -> list[slice]:
    """Return the neurons of every block: consecutive ones, as many as the cumulated
    probabilities say.
    """
    # cumulated before they are rounded: the sizes add up to the width
    edges = np.rint(np.cumsum((0.0, *probabilities)) * width).astype(int).tolist()
    return [slice(start, stop) for start, stop in zip(edges, edges[1:])]


def batch_gradient(
    network: RealNetwork,
    second_layer: DeviceArray,
    rows: int,
    draws: Draws,
    *,
    offset: float = 0.0,
    stream: str = "batch",
) -> tuple[DeviceArray, DeviceArray]:
    """Return (1/n0) sum_mu (y_mu - f0(x_mu)) sigma'(<w_i,x_mu>) x_mu on n0 fresh
    samples (p, d), and X0^T (y - f0)/n0.

    f0(x) = offset + sum_j zeta_j sigma(<w_j,x>)/p is the output, with zeta the
    `second_layer`.
    """
    xp = draws.xp
    p, d = network.weights.shape
    gradient = xp.zeros((p, d))
    spike = xp.zeros(d)
    # sigma' needs <w_i, x> once more: they are kept beside sigma
    z_buffer = xp.empty((draws.chunk, p))
    values_buffer = xp.empty((draws.chunk, p))
    errors = network.label_noise(stream, rows, draws)
    for start, stop, inputs in draws.chunks(stream, rows, d):
        z = z_buffer[: stop - start]
        values = values_buffer[: stop - start]
        multiply(inputs, network.weights.T, xp, out=z)
        apply_by_rows(network.activation, z, values, xp)
        labels = network.target(network.signal(inputs)) + next(errors)
        residual = labels - values @ second_layer / p - offset
        # sigma is used up: sigma' takes its place in the same buffer
        apply_by_rows(network.activation.derivative, z, values, xp)
        values *= residual[:, None]
        multiply(values.T, inputs, xp, out=gradient, add=True)
        spike += residual @ inputs
    gradient /= rows
    return gradient, spike / rows


def block_sums(
    fitted: DeviceArray, blocks: Sequence[slice], rows: DeviceArray, xp: ModuleType
) -> tuple[Floats, Floats, Floats]:
    """Return the sums over every block of b_i^2 (B, k), b_i (B, k) and b_i times row i
    (B, k, d) of fits b (p, B).
    """
    squares = []
    sums = []
    row_sums = []
    for block in blocks:
        inside = fitted[block]
        squares.append(to_numpy(xp.sum(inside**2, axis=0)))
        sums.append(to_numpy(xp.sum(inside, axis=0)))
        row_sums.append(to_numpy(inside.T @ rows[block]))
    return np.stack(squares, -1), np.stack(sums, -1), np.stack(row_sums, axis=1)


def stream_memory(width: int, dim: int, samples: Integers, chunk: int) -> int:
    """Return how many numbers streamed features of up to so many samples need."""
    return chunk * dim + (min(chunk, int(samples.max())) + 2 * ROW_BLOCK) * width


def gram_memory(width: int, samples: Integers) -> int:
    """Return how many numbers the stages of `giantstep.core.lab.accumulate` need beside
    the stream.
    """
    # up to p samples the n x n kernel of the rows is solved, beyond it the p x p matrix
    few = int(samples[samples <= width].max(initial=0))
    of_kernels = few * (width + 2 * few)
    if samples.max() <= width:
        return of_kernels
    return max(of_kernels, width * (width + max(few, width)))


def ridge_memory(width: int, samples: Integers, ridges: Floats, chunk: int) -> int:
    """Return how many numbers `giantstep.core.lab.ridge_path` and the test of its fits
    need beside the stream.
    """
    few = int(samples[samples <= width].max(initial=0))
    count = len(samples)
    # points of one ridge are solved together
    together = int(np.unique(ridges, return_counts=True)[1].max())
    fitting = gram_memory(width, samples) + 3 * few * together
    return width * count + max(fitting, chunk * width + 3 * chunk * count)


def apply_by_rows(
    function: Callable[..., Any], z: DeviceArray, out: DeviceArray, xp: ModuleType
) -> None:
    """Write function(z) into `out`, on the CPU a few rows at a time to keep
    intermediate arrays small.
    """
    rows = ROW_BLOCK if xp is np else len(z)
    for start in range(0, len(z), rows):
        function(z[start : start + rows], out=out[start : start + rows])

"""Two ridge read-outs of one target: how their outputs overlap, and which parts the
variance of one has.

beyond_the_error section 2. Given z the outputs of two networks have the covariance
Q_ab = mu1^T Q1_ab mu1 + mu2 Q2_ab. Networks with the same first layer share the noise
of all their common samples, (2.3), (2.4): that is the linear system of the errors, with
other sources. Networks with layers of their own share only what is linear in the input,
(2.5).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from giantstep.core.base.types import Floats, Integers
from giantstep.core.maths.solve import solve_each
from giantstep.core.maths.stacked import Stacked
from giantstep.core.readout.errors import (
    Fluctuations,
    fit_means,
    fluctuations,
    mean_residual,
)
from giantstep.core.readout.features import packed_products, packing
from giantstep.core.readout.finite_size import FiniteSize, push_of_means
from giantstep.core.readout.first_order import FirstOrder, packed_coupling
from giantstep.core.readout.fitted_means import (
    FittedMeans,
    count_parameters,
    ridge_drive,
)
from giantstep.core.readout.signal import Signal


@dataclass
class Overlap(Stacked):
    """The covariance of the outputs of two networks given z, at B points."""

    Q1: Floats  # (B, k, k)
    Q2: Floats  # (B, k), 0 where the layers differ
    mean: Floats
    """E Q_ab (B,), with what the finite number of samples adds through the fitted
    means.
    """


@dataclass
class Parts(Stacked):
    """Overlaps of networks that are alike, by what they share, and what is no variance
    of any of them.

    They share layer, samples and label noise; layer and samples; the layer; samples
    with their label noise; samples without it. Networks that share nothing do not
    overlap.
    """

    everything: Overlap  # layer, samples and label noise
    but_noise: Overlap  # layer and samples
    layer: Overlap
    samples: Overlap  # samples with their label noise
    inputs: Overlap  # samples without it
    bias: Floats
    """Squared error (B,) of the mean of infinitely many networks that share nothing,
    without the label noise.
    """

    def variance(self) -> dict[str, Floats]:
        """Return the parts of the error, label noise left out: (2.7)."""
        layer = self.layer.mean
        samples = self.inputs.mean
        but_noise = self.but_noise.mean
        # an average over networks that differ in one thing alone, by (2.7)
        noise = self.samples.mean - samples
        return {
            "bias": self.bias,
            "from_layer": layer,
            "from_samples": samples,
            "from_noise": noise,
            "from_layer_samples": but_noise - layer - samples,
            "from_layer_noise": self.everything.mean - but_noise - noise,
        }


def ridge_parts(first: FirstOrder, noise: Floats, size: FiniteSize) -> Parts:
    """Return the overlaps of networks that are alike, at points whose label noise has
    the variance `noise` (B,).
    """
    parts = []
    for chunk in _chunks(first):
        parts.append(_chunk_parts(first.take(chunk), noise[chunk], size.take(chunk)))
    return Parts.join(parts)


def _chunks(first: FirstOrder) -> Iterator[slice | Integers]:
    """Return the points in pieces that are worked on together."""
    equations = first.equations
    count = np.arange(len(first.V))
    return equations.split_points(count, equations.chunk(equations.packed))


def spread_of_means(
    first: FirstOrder, size: FiniteSize
) -> tuple[Floats, Floats] | None:
    """Return the covariance of the fitted coefficients (B, F, F) and what Q1 has of it,
    too (B, k, k); None: no term.

    beyond_the_error (2.12), (2.14) for one network.
    """
    # in the limit the fitted means do not vary from sample to sample
    if size.directions is None or size.in_limit:
        return None
    covariances = []
    counted = []
    for chunk in _chunks(first):
        part = first.take(chunk)
        part_size = size.take(chunk)
        signal = fit_means(part, part_size)
        fit = fluctuations(part, signal, part_size, part.equations.packed)
        means = FittedMeans.of(
            part.equations,
            part.response,
            weights=part.node_weights,
            penalty=signal.penalty,
            size=part_size,
        )
        covariances.append(means.covariance(ridge_drive(part, fit.res), fit.Q2))
        counted.append(means.counted_twice(fit.Q1 - fit.of_means))
    return np.concatenate(covariances), np.concatenate(counted)


def _chunk_parts(first: FirstOrder, noise: Floats, size: FiniteSize) -> Parts:
    features = first.equations.features
    signal = fit_means(first, size)
    quiet = _without_noise(first, noise)
    # the mean of infinitely many networks has the means of one and no fluctuation
    bias = np.sum(features.weights * mean_residual(quiet, signal, size), axis=1)
    return Parts(
        everything=_same_sample(first, signal, size),
        but_noise=_same_sample(quiet, signal, size),
        layer=_same_layer(first, signal, size),
        samples=_own_layers(first, signal, size),
        inputs=_own_layers(quiet, signal, size),
        bias=bias,
    )


def _without_noise(first: FirstOrder, noise: Floats) -> FirstOrder:
    """Return the solution seen with label noises of their own on common samples: hh -
    delta in (2.2).
    """
    features = first.equations.features
    # points that share their features share the noise of their labels, too
    if len(features.hh) == 1:
        noise = noise[:1]
    features = dataclasses.replace(features, hh=features.hh - noise[:, None])
    equations = dataclasses.replace(first.equations, features=features)
    return dataclasses.replace(first, equations=equations)


def _same_sample(first: FirstOrder, signal: Signal, size: FiniteSize) -> Overlap:
    """Return the overlap of networks with the same layer on the same samples: (2.3),
    (2.4) with rho_12 = rho.
    """
    # what two such networks have in common is all that one has
    fit = fluctuations(first, signal, size, first.equations.packed)
    return _overlap(first, signal, size, fit)


def _same_layer(first: FirstOrder, signal: Signal, size: FiniteSize) -> Overlap:
    """Return the overlap of networks with the same layer on samples of their own:
    (2.3), (2.4) with rho_12 = 0.
    """
    equations = first.equations
    means = push_of_means(equations.bulk, first.response, signal.theta, size)
    tangents = equations.bulk.tangents(first.response)
    Q1, Q2 = tangents.push(
        equations.features.omega, signal.x, signal.dual, means.penalty
    )
    # no sample drives both: the push of the signal and of the means is all
    common = Fluctuations(
        res=np.zeros_like(first.V),
        Q1=Q1 + means.Q1,
        Q2=Q2 + means.Q2,
        of_means=means.Q1,
    )
    return _overlap(first, signal, size, common)


def _own_layers(first: FirstOrder, signal: Signal, size: FiniteSize) -> Overlap:
    """Return the overlap of networks with layers of their own on the same samples:
    (2.5).
    """
    source = mean_residual(first, signal, size)
    res, Q1 = overlap_of_layers(first, source, first.squared_weights)
    # neurons of two layers have nothing in common beyond what is linear in the input
    common = Fluctuations(
        res=res,
        Q1=Q1,
        Q2=np.zeros_like(first.response.R),
        of_means=np.zeros_like(Q1),
    )
    return _overlap(first, signal, size, common)


def overlap_of_layers(
    first: FirstOrder, source: Floats, squared: Floats
) -> tuple[Floats, Floats]:
    """Solve RES = source + mu1^T Q1 mu1, Q1 = S E[mu1 mu1^T squared RES] S/beta: RES
    (B, N) and Q1 (B, k, k).
    """
    equations = first.equations
    features = equations.features
    S = first.response.S
    width = equations.width[:, None, None]
    # few blocks: a system in the entries of Q1; many: one in the nodes
    if equations.packed:
        lift = packed_products(S) / width
        pairs = lift.shape[1]
        driven = features.sums(squared * source, features.packed)[:, :pairs, None]
        coupling = packed_coupling(equations, squared)[:, :pairs, :pairs]
        Q = solve_each(np.eye(pairs) - lift @ coupling, lift @ driven)[:, :, 0]
        no_Q2 = np.zeros((len(Q), S.shape[1]))
        Q1, _ = packing(len(features.pi)).unpack(np.concatenate([Q, no_Q2], axis=1))
        return source + features.quadratic(Q1, no_Q2), Q1
    # RES_n = source_n + sum_m (mu1_n S mu1_m)^2 squared_m RES_m/beta
    kernel = (np.swapaxes(features.mu1, 1, 2) @ (S @ features.mu1)) ** 2 / width
    matrix = np.eye(kernel.shape[1]) - kernel * squared[:, None, :]
    res = solve_each(matrix, source[:, :, None])[:, :, 0]
    return res, S @ features.moments(squared * res)[0] @ S / width


def _overlap(
    first: FirstOrder, signal: Signal, size: FiniteSize, common: Fluctuations
) -> Overlap:
    """Return an overlap with its mean; the fitted means vary, too, with the samples:
    finite_size_steps (3.7).
    """
    features = first.equations.features
    along = features.quadratic(common.Q1, common.Q2)
    if size.directions is not None and not size.in_limit:
        of_fitted_means, _ = count_parameters(
            first,
            signal.penalty,
            res=common.res,
            Q1=common.Q1 - common.of_means,
            Q2=common.Q2,
            size=size,
        )
        along = along + of_fitted_means
    mean = np.sum(features.weights * along, axis=1)
    return Overlap(common.Q1, common.Q2, mean)

"""The fitted means are k + k C parameters, which vary from sample to sample: what that adds at a finite dimension.

finite_size_steps (3.7) for the errors of one network, beyond_the_error (2.12)-(2.14) for two of them. Of the unlearnt
directions the residual given kappa stands for that given z.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from giantstep.readout.bulk import Response
from giantstep.readout.features import Features
from giantstep.readout.finite_size import FiniteSize, gram_at_nodes
from giantstep.readout.first_order import Equations, FirstOrder
from giantstep.solve import solve_each
from giantstep.types import Floats


@dataclass(frozen=True, eq=False)
class FittedMeans:
    """How the coefficients (theta, x) of B points, F of them, answer to what drives them."""

    features: Features
    response: Response
    width: Floats
    size: FiniteSize
    functions: Floats  # mu0 and T0 (1 or B, F, N)
    pairs: Floats
    """Products of what two channels have along the unlearnt directions that are treated on their own (B, X, X)."""
    inverse: Floats  # H^-1 (B, F, F)

    @classmethod
    def of(
        cls, equations: Equations, response: Response, weights: Floats, penalty: Floats, size: FiniteSize
    ) -> FittedMeans:
        """Return those of a fit whose least squares has `weights` at the nodes (B, N) and this `penalty` of theta."""
        features = equations.features
        assert size.directions is not None and features.kappa is not None
        k, X = len(features.pi), features.omega.shape[1]
        treated = np.arange(features.Jp.shape[1]) < size.directions[:, None] - features.kappa.shape[1]
        Jp = features.Jp * treated[:, :, None]
        pairs, functions = np.swapaxes(Jp, 1, 2) @ Jp, np.concatenate([features.mu0, features.T0], axis=1)
        H = _along_and_across(features, functions, pairs, weights)
        H[:, :k, :k] += penalty
        R, own = features.per_channel(response.R), np.arange(k, k + X)
        H[:, own, own] += 1 / (features.omega * R)
        scale = np.sqrt(np.concatenate([response.R, features.omega * R], axis=1))
        unit = scale[:, :, None] * scale[:, None, :]
        inverse = solve_each(H * unit, np.eye(k + X)) * unit
        return cls(features, response, equations.width, size, functions, pairs, inverse)

    @property
    def per_neuron(self) -> Floats:
        """1/p (B, 1, 1)."""
        return (self.size.inverse_dim / self.width)[:, None, None]

    def covariance(self, driven: Floats, Q2: Floats) -> Floats:
        """Return the covariance of the coefficients (B, F, F), for E[(y - f)^2] times weights at the nodes (B, N).

        `Q2` (B, k) is the noise of the layer's own rows, which networks with the same layer share.
        """
        features, R = self.features, self.features.per_channel(self.response.R)
        k, X = len(features.pi), features.omega.shape[1]
        sigma, own = _along_and_across(features, self.functions, self.pairs, driven), np.arange(k, k + X)
        sigma[:, own, own] += features.per_channel(self.width[:, None] * Q2) / (features.omega * R**2)
        return self.per_neuron * (self.inverse @ sigma @ self.inverse)

    def at_nodes(self, matrix: Floats, bulk: Floats) -> Floats:
        """Return the form of a matrix (B, F, F) at the nodes (B, N).

        `bulk` (B, k, k) has counted the directions that are treated on their own already. Where no feature depends on
        kappa its direction is like all others: the mean over kappa stands for the values at the nodes.
        """
        features, k = self.features, len(self.features.pi)
        folded = (self.pairs * matrix[:, k:, k:]).reshape(len(matrix), features.channels, k, features.channels, k)
        rest = folded.sum(axis=(1, 3)) - self.counted_twice(bulk)
        if len(self.functions) < len(matrix):  # one point after the other where they share their functions
            form = np.stack([np.sum(self.functions[0] * (one @ self.functions[0]), axis=0) for one in matrix])
        else:
            form = np.sum(self.functions * (matrix @ self.functions), axis=1)
        added = form + features.quadratic(rest, np.zeros(rest.shape[:2]))
        if features.even:
            added = np.broadcast_to(np.sum(features.weights * added, axis=1, keepdims=True), added.shape)
        return np.asarray(added)

    def counted_twice(self, bulk: Floats) -> Floats:
        """Return what a matrix of the bulk (B, k, k) has of the directions that are treated on their own."""
        assert self.size.directions is not None
        return (self.size.directions * self.size.inverse_dim)[:, None, None] * bulk


def ridge_means(first: FirstOrder, penalty: Floats, size: FiniteSize) -> FittedMeans:
    """Return the fitted means of a ridge fit."""
    return FittedMeans.of(first.equations, first.response, first.node_weights, penalty, size)


def ridge_drive(first: FirstOrder, res: Floats) -> Floats:
    """Return what drives the means of a ridge fit of this residual at the nodes (B, N)."""
    features = first.equations.features
    if features.even:
        res = np.broadcast_to(np.sum(features.weights * res, axis=1, keepdims=True), res.shape)
    return np.asarray(first.squared_weights * res)


def count_parameters(
    first: FirstOrder, penalty: Floats, res: Floats, Q1: Floats, Q2: Floats, size: FiniteSize
) -> tuple[Floats, Floats]:
    """Return what k + k C fitted parameters add to RES and V at the nodes (B, N): (3.7), for isotropic rows.

    `penalty` is that of theta, Q1 without the part of the means; the directions that the features treat on their own
    are not counted twice, and unlearnt ones beyond them are like all others.
    """
    means = ridge_means(first, penalty, size)
    added = means.at_nodes(means.covariance(ridge_drive(first, res), Q2), Q1)
    return added, means.at_nodes(means.per_neuron * means.inverse, first.response.S / means.width[:, None, None])


def _along_and_across(features: Features, functions: Floats, pairs: Floats, weights: Floats) -> Floats:
    """Return sum_n weights B B^T (B, F, F), with what channels have along the unlearnt directions."""
    k = len(features.pi)
    matrix = gram_at_nodes(functions, weights)
    across = features.moments(weights)[0]
    matrix[:, k:, k:] += pairs * np.tile(across, (1, features.channels, features.channels))
    return matrix

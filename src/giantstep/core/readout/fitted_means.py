"""What the samples do to the fitted means, which are k + k C parameters."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from giantstep.core.base.types import Floats
from giantstep.core.maths.solve import solve_each
from giantstep.core.readout.bulk import Response
from giantstep.core.readout.features import Features
from giantstep.core.readout.finite_size import (
    FiniteSize,
    gram_at_nodes,
)
from giantstep.core.readout.first_order import Equations, FirstOrder
from giantstep.core.readout.isotropic import IsotropicBulk
from giantstep.core.readout.signal import (
    direction_error,
    prior_factor,
)


@dataclass(frozen=True, eq=False)
class FittedMeans:
    """How the coefficients (theta, x) of B points, F of them, answer to what drives
    them.
    """

    features: Features
    response: Response
    width: Floats
    size: FiniteSize
    functions: Floats  # mu0 and T0 (1 or B, F, N)
    pairs: Floats
    """Products of what two channels have along the unlearnt directions that are treated
    on their own (B, X, X).
    """
    inverse: Floats  # H^-1 (B, F, F)
    correlated: Floats | None = None
    """P (B, X, X) of `Bulk.covariance` where it is not diag(omega R), which holds for
    independent coefficients.
    """

    @classmethod
    def of(
        cls,
        equations: Equations,
        response: Response,
        weights: Floats,
        penalty: Floats,
        size: FiniteSize,
    ) -> FittedMeans:
        """Return those of a fit whose least squares has `weights` at the nodes (B, N)
        and this `penalty` of theta.
        """
        features = equations.features
        assert size.directions is not None and features.kappa is not None
        functions = np.concatenate([features.mu0, features.T0], axis=1)
        covariance, absorbed = equations.bulk.covariance(response, features.omega)
        if absorbed.any() or not isinstance(equations.bulk, IsotropicBulk):
            return cls._of_correlated(
                equations,
                response,
                weights=weights,
                penalty=penalty,
                size=size,
                functions=functions,
                covariance=covariance,
                absorbed=absorbed,
            )
        k = len(features.pi)
        X = features.omega.shape[1]
        # `size.directions` counts those of kappa, too
        unlearnt = size.directions[:, None] - features.kappa.shape[1]
        treated = np.arange(features.Jp.shape[1]) < unlearnt
        Jp = features.Jp * treated[:, :, None]
        pairs = np.swapaxes(Jp, 1, 2) @ Jp
        # H of (2.12): the least squares at the nodes and the penalties
        H = _along_and_across(features, functions, pairs, weights)
        H[:, :k, :k] += penalty
        # the penalty of a channel is that of its block
        R = features.per_channel(response.R)
        channel = np.arange(k, k + X)
        H[:, channel, channel] += 1 / (features.omega * R)
        # in units in which the penalty of a channel is 1, however small R is
        scale = np.sqrt(np.concatenate([response.R, features.omega * R], axis=1))
        unit = scale[:, :, None] * scale[:, None, :]
        inverse = solve_each(H * unit, np.eye(k + X)) * unit
        return cls(
            features=features,
            response=response,
            width=equations.width,
            size=size,
            functions=functions,
            pairs=pairs,
            inverse=inverse,
        )

    @classmethod
    def _of_correlated(
        cls,
        equations: Equations,
        response: Response,
        weights: Floats,
        penalty: Floats,
        size: FiniteSize,
        functions: Floats,
        covariance: Floats,
        absorbed: Floats,
    ) -> FittedMeans:
        """Return those of channels whose coefficients are correlated, as steps on
        finite batches leave them.

        Every direction that the features have is treated on its own. The prior enters
        through its factor C, in whose coordinates it is 1: it may be singular.
        """
        features = equations.features
        k = len(features.pi)
        X = features.omega.shape[1]
        along_directions = direction_error(equations, response)
        C = prior_factor(covariance, along_directions - absorbed, response.R)
        # (theta, x) = coordinates u, where the penalty of u is |u|^2
        coordinates = np.zeros((len(C), k + X, k + X))
        coordinates[:, :k, :k] = np.sqrt(response.R)[:, :, None] * np.eye(k)
        coordinates[:, k:, k:] = C
        back = np.swapaxes(coordinates, 1, 2)
        H = gram_at_nodes(functions, weights)
        H[:, :k, :k] += penalty
        H = back @ H @ coordinates
        channel = np.arange(k, k + X)
        H[:, channel, channel] += 1.0
        return cls(
            features=features,
            response=response,
            width=equations.width,
            size=size,
            functions=functions,
            pairs=np.swapaxes(features.Jp, 1, 2) @ features.Jp,
            inverse=coordinates @ solve_each(H, np.eye(k + X)) @ back,
            correlated=covariance,
        )

    @property
    def per_neuron(self) -> Floats:
        """1/p (B, 1, 1)."""
        return (self.size.inverse_dim / self.width)[:, None, None]

    def covariance(self, driven: Floats, Q2: Floats) -> Floats:
        """Return the covariance of the coefficients (B, F, F), for E[(y - f)^2] times
        weights at the nodes (B, N).

        `Q2` (B, k) is the noise of the layer's own rows, which networks with the same
        layer share.
        """
        features = self.features
        # each channel has the R of its block
        R = features.per_channel(self.response.R)
        k = len(features.pi)
        X = features.omega.shape[1]
        # what drives H^-1: the residuals of the samples, and the noise of the rows
        sigma = _along_and_across(features, self.functions, self.pairs, driven)
        of_rows = features.per_channel(self.width[:, None] * Q2)
        if self.correlated is None:
            channel = np.arange(k, k + X)
            sigma[:, channel, channel] += of_rows / (features.omega * R**2)
        else:
            # Q2 is positive but for rounding
            share = np.sqrt(np.maximum(of_rows / R, 0.0))
            sigma[:, k:, k:] += _noise_of_rows(self.correlated, share)
        return self.per_neuron * (self.inverse @ sigma @ self.inverse)

    def at_nodes(self, matrix: Floats, bulk: Floats) -> Floats:
        """Return the form of a matrix (B, F, F) at the nodes (B, N).

        `bulk` (B, k, k) has counted the directions that are treated on their own
        already. Where no feature depends on kappa its direction is like all others: the
        mean over kappa stands for the values at the nodes.
        """
        features = self.features
        k = len(features.pi)
        # sum over the channels of Jp_l Jp_l' M: the form along the unlearnt directions,
        # in the coordinates mu1 of the blocks
        along = self.pairs * matrix[:, k:, k:]
        by_channel = (len(matrix), features.channels, k, features.channels, k)
        along = along.reshape(by_channel).sum(axis=(1, 3))
        rest = along - self.counted_twice(bulk)
        # B^T M B at every node, and what the channels have beside it
        form = np.sum(self.functions * (matrix @ self.functions), axis=1)
        added = form + features.quadratic(rest, np.zeros(rest.shape[:2]))
        if features.even:
            added = _mean_over_nodes(features, added)
        return np.asarray(added)

    def counted_twice(self, bulk: Floats) -> Floats:
        """Return what a matrix of the bulk (B, k, k) has of the directions that are
        treated on their own.
        """
        assert self.size.directions is not None
        return (self.size.directions * self.size.inverse_dim)[:, None, None] * bulk


def ridge_drive(first: FirstOrder, res: Floats) -> Floats:
    """Return what drives the means of a ridge fit of this residual at the nodes (B,
    N).
    """
    features = first.equations.features
    if features.even:
        res = _mean_over_nodes(features, res)
    return np.asarray(first.squared_weights * res)


def _mean_over_nodes(features: Features, values: Floats) -> Floats:
    """Return the mean over kappa in place of each value (B, N)."""
    mean = np.sum(features.weights * values, axis=1, keepdims=True)
    return np.broadcast_to(mean, values.shape)


def count_parameters(
    first: FirstOrder,
    penalty: Floats,
    res: Floats,
    Q1: Floats,
    Q2: Floats,
    size: FiniteSize,
) -> tuple[Floats, Floats]:
    """Return what k + k C fitted parameters add to RES and V at the nodes (B, N):
    (3.7), for isotropic rows.

    `penalty` is that of theta, Q1 without the part of the means; the directions that
    the features treat on their own are not counted twice, and unlearnt ones beyond them
    are like all others.
    """
    means = FittedMeans.of(
        first.equations,
        first.response,
        weights=first.node_weights,
        penalty=penalty,
        size=size,
    )
    covariance = means.covariance(ridge_drive(first, res), Q2)
    # V is how far a sample moves its own output; H^-1 is the part of the fitted means
    response_of_bulk = first.response.S / means.width[:, None, None]
    more_V = means.at_nodes(means.per_neuron * means.inverse, response_of_bulk)
    return means.at_nodes(covariance, Q1), more_V


def _noise_of_rows(covariance: Floats, share: Floats) -> Floats:
    """Return P^-1 N P^-1 for the noise N = P share share^T, entry by entry, of
    coefficients of covariance P (B, X, X).

    `share` (B, X) is sqrt(beta Q2/R) of each coefficient: rows that are correlated as
    the prior is carry the noise.
    """
    solved = np.isfinite(covariance).all(axis=(1, 2)) & np.isfinite(share).all(axis=1)
    # LAPACK refuses a whole stack for one matrix that is not finite
    broken = np.logical_not(solved).reshape(-1, 1, 1)
    P = np.where(broken, 0.0, covariance)
    inverse = np.linalg.pinv(P, rcond=1e-12, hermitian=True)
    noise = np.where(broken, np.nan, share[:, :, None] * P * share[:, None, :])
    return np.asarray(inverse @ noise @ inverse)


def _along_and_across(
    features: Features, functions: Floats, pairs: Floats, weights: Floats
) -> Floats:
    """Return sum_n weights B B^T (B, F, F), with what channels have along the unlearnt
    directions.
    """
    k = len(features.pi)
    matrix = gram_at_nodes(functions, weights)
    # a channel is Jp_l mu1 along xi_l: products of two are E[mu1 mu1^T] Jp_l Jp_l'
    slopes = features.moments(weights)[0]
    matrix[:, k:, k:] += pairs * np.tile(
        slopes, (1, features.channels, features.channels)
    )
    return matrix

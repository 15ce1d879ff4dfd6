"""The signal part of the read-out: theta, the channel coefficients x, and the mean
output they make.

With c0 = theta . mu0 + x . T0 and c1_l = mu1 . tau_l, tau_lq = sum_c Jp_lqc x_qc, the
coefficients minimise (few_steps_readout (4.5); spiked_features (6.8) where the prior P0
of x is not diagonal)

    sum_n w_n {(h - c0)^2 + sum_l (h1_l - c1_l)^2} + x^T P0^-1 x + theta^T P theta, w =
    r weights/(b + V).

P, of order 1/d, is that of `finite_size`.

Along the unlearnt directions everything is a function of tau, whose part of the error
is tau_l^T Vh1 tau_l - 2 tau_l . psih_l: it is added to the prior, and the least squares
that is left has rows for h only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from giantstep.core.base.types import Array, Floats
from giantstep.core.maths.solve import solve_each
from giantstep.core.readout.bulk import Response
from giantstep.core.readout.features import Features
from giantstep.core.readout.finite_size import FiniteSize, mean_penalty, root_of
from giantstep.core.readout.first_order import Equations

RANK = 1e-14
"""Singular values of the design matrix below this, relative, are rounding."""


@dataclass
class Signal:
    """The means of the fit: theta (B, k), x (B, X), tau (B, L, k); c0 (B, N) and c1 (B,
    L, N) at the nodes.
    """

    theta: Floats
    x: Floats
    tau: Floats
    c0: Floats
    c1: Floats
    dual: Floats  # P^-1 x for P of `Bulk.covariance` (B, X)
    penalty: Floats  # P of theta (B, k, k)


def solve_signal(
    equations: Equations,
    response: Response,
    weights: Floats,
    wanted: Floats,
    psih: Floats,
    size: FiniteSize,
) -> Signal:
    """Fit the means: `weights` and `wanted` (B, N) at the nodes, psih (B, L, k) along
    the unlearnt directions.
    """
    features = equations.features
    R = response.R
    count, k = R.shape
    P, absorbed = equations.bulk.covariance(response, features.omega)
    # what the directions cost beyond what P has counted of them
    counted = direction_error(equations, response) - absorbed
    C = prior_factor(P, counted, R)
    CT = np.swapaxes(C, 1, 2)
    source = (features.Jp * features.per_channel(psih)).sum(axis=1)
    # theta in units of R^1/2, x = C times unknowns whose penalty is 1
    scale = np.sqrt(R)[:, :, None]
    if size.in_limit:
        # the means are free: of order 1/d
        penalty = np.zeros((count, k, k))
        root = penalty
    else:
        penalty = mean_penalty(equations.bulk, features, response, weights, size)
        root = root_of(scale * penalty * np.swapaxes(scale, 1, 2))
    no_source = np.zeros((count, k))
    sources = np.concatenate([no_source, (CT @ source[:, :, None])[:, :, 0]], axis=1)
    functions = np.concatenate([features.mu0 * scale, CT @ features.T0], axis=1)
    solution, c0 = least_squares(weights, wanted, functions, root, sources)
    x = (C @ solution[:, k:, None])[:, :, 0]
    tau = _along_unlearnt(features, x)
    # at the minimum P0^-1 x is what the residuals pull with: no inverse of P
    pull = features.sums(weights * (wanted - c0), features.T0)
    dual = pull + source - (counted @ x[:, :, None])[:, :, 0]
    return Signal(
        theta=solution[:, :k] * scale[:, :, 0],
        x=x,
        tau=tau,
        c0=c0,
        c1=tau @ features.mu1,
        dual=dual,
        penalty=penalty,
    )


def _along_unlearnt(features: Features, x: Floats) -> Floats:
    """Return tau_lq = sum_c Jp_lqc x_qc (B, L, k)."""
    tau = features.Jp * x[:, None, :]
    # channel after channel: the sum over them is one over the last axis but one
    blocks = len(features.pi)
    return tau.reshape(*tau.shape[:-1], features.channels, blocks).sum(axis=-2)


def direction_error(equations: Equations, response: Response) -> Array:
    """Return the matrix of x -> sum_l tau_l^T Vh1 tau_l (B, X, X)."""
    features = equations.features
    pairs = np.swapaxes(features.Jp, 1, 2) @ features.Jp
    return pairs * np.tile(response.Vh1, (1, features.channels, features.channels))


def prior_factor(P: Array, counted: Array, R: Array) -> Array:
    """Return C with C C^T = sign(R) (P^-1 + counted)^-1, (B, X, X); R has one sign at
    every point.
    """
    # (P^-1 + counted)^-1 = (1 + P counted)^-1 P, where P may be singular
    prior = np.sign(R[:, :1, None]) * solve_each(np.eye(P.shape[1]) + P @ counted, P)
    # a point without a solution must not stop the others
    prior[~np.isfinite(prior).all(axis=(1, 2))] = 0.0
    prior = 0.5 * (prior + np.swapaxes(prior, 1, 2))
    try:
        return np.linalg.cholesky(prior)
    except np.linalg.LinAlgError:
        if len(prior) == 1:
            eigenvalues, vectors = np.linalg.eigh(prior)
            return vectors * np.sqrt(np.maximum(eigenvalues, 0.0))[:, None]
    # some of them are singular, and the others keep their Cholesky factor
    each = [
        prior_factor(P[[number]], counted[[number]], R[[number]])
        for number in range(len(R))
    ]
    return np.concatenate(each)


def least_squares(
    weights: Floats, wanted: Floats, functions: Floats, penalty: Floats, source: Floats
) -> tuple[Floats, Floats]:
    """Minimise sum weights (wanted - x.functions)^2 + |penalty x - source|^2; return x
    and c = x.functions at nodes.

    `penalty` (B, k, k) acts on the first k, the means; the others have 1. By SVD of the
    design matrix: the mean functions mu0_q are often nearly collinear, so that the Gram
    matrix would lose half the digits, and c is read from the left singular vectors
    instead of being summed. Channels that vanish at all nodes stay out of it.
    """
    k = penalty.shape[1]
    means = np.arange(functions.shape[1]) < k
    used = functions.any(axis=(0, 2)) | means
    if not used.all():
        # a channel without a function is where its own penalty leads
        solution = source.copy()
        solution[:, used], c = least_squares(
            weights, wanted, functions[:, used], penalty, source[:, used]
        )
        return solution, c
    nodes = functions.shape[2]
    root = np.sqrt(weights)
    design = _design(functions * root[:, None, :], penalty)
    broken = ~np.isfinite(design).all(axis=(1, 2))
    # the SVD would refuse the whole batch; these points come back as NaN
    design[broken] = 0.0
    aim = np.concatenate([root * wanted, source], axis=1)[:, :, None]
    U, singular, Vt = np.linalg.svd(design, full_matrices=False)
    keep = singular > RANK * singular[:, :1]
    coordinates = np.where(keep, (np.swapaxes(U, 1, 2) @ aim)[:, :, 0], 0.0)
    scaled = coordinates / np.where(keep, singular, 1.0)
    solution = (np.swapaxes(Vt, 1, 2) @ scaled[:, :, None])[:, :, 0]
    fitted = U[:, :nodes] @ coordinates[:, :, None]
    solution[broken] = np.nan
    fitted[broken] = np.nan
    # a node without weight is fitted by nothing: 0
    return solution, fitted[:, :, 0] / np.where(root > 0, root, 1.0)


def _design(functions: Floats, penalty: Floats) -> Floats:
    """Return the design matrix (B, N + F, F): functions (B, F, N) at the nodes, then
    the penalties of the means and of channels.
    """
    count, columns, nodes = functions.shape
    k = penalty.shape[1]
    design = np.zeros((count, nodes + columns, columns))
    design[:, :nodes] = np.swapaxes(functions, 1, 2)
    design[:, nodes : nodes + k, :k] = penalty
    channels = np.arange(k, columns)
    design[:, nodes + channels, channels] = 1.0
    return design

"""Test and training error of the ridge fit, given the first-order solution: least
squares and a linear system.

finite_size_steps (3.7) for the errors of one network, beyond_the_error (2.12)-(2.14)
for two of them. Of the unlearnt directions the residual given kappa stands for that
given z.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
import scipy

from giantstep.core.base.types import Floats
from giantstep.core.maths.gaussian import normal_distribution
from giantstep.core.maths.solve import solve_each
from giantstep.core.maths.stacked import Stacked
from giantstep.core.readout.bulk import Response
from giantstep.core.readout.features import Features
from giantstep.core.readout.finite_size import (
    FiniteSize,
    gram_at_nodes,
    push_of_means,
    stretched_variance,
)
from giantstep.core.readout.first_order import Equations, FirstOrder, spread_through
from giantstep.core.readout.isotropic import IsotropicBulk
from giantstep.core.readout.signal import (
    Signal,
    direction_error,
    prior_factor,
    solve_signal,
)


def field_variance(features: Features) -> Floats:
    """Return the variance (M,) of the field given kappa."""
    assert features.rho is not None
    own = (features.rho**2).sum(axis=1)
    return own if features.blur is None else own + features.blur


def misclassified(
    features: Features,
    c0: Floats,
    c1: Floats,
    variance: Floats,
    turned: Floats | float = 0.0,
) -> Floats:
    """Return P(sign f != the class), spiked_features (4.8); NaN where the features know
    no classes.

    Given kappa, f has mean c0 (B, N), variance (B, N) and parts c1 (B, L, N) along the
    unlearnt directions, and the class is `turned` with a probability (B, N).
    """
    if features.field is None or features.rho is None:
        return np.full(len(c0), np.nan)
    spread = np.broadcast_to(np.sqrt(field_variance(features)), len(c0))
    Q = np.maximum(variance, 1e-300)
    field = np.broadcast_to(features.field, c0.shape)
    x = c0 / np.sqrt(Q)
    error = np.empty_like(x)
    known = np.flatnonzero(~(spread > 0))
    mixed = np.flatnonzero(spread > 0)
    error[known] = normal_distribution(-np.sign(field[known]) * x[known])
    if mixed.size:
        wide = spread[mixed, None]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            along = (features.rho[:, None, :] @ c1)[mixed, 0, :] / wide
            correlation = np.clip(along / np.sqrt(Q[mixed]), -1 + 1e-15, 1 - 1e-15)
            error[mixed] = opposite_signs(x[mixed], field[mixed] / wide, correlation)
    error = np.where(np.isfinite(error), error, 0.5)
    return np.sum(features.weights * (turned + (1 - 2 * turned) * error), axis=1)


def opposite_signs(x: Floats, y: Floats, correlation: Floats) -> Floats:
    """Return P(sign X != sign Y) for unit normals of means x, y: Owen's formula, in
    which a zero counts as +0.
    """
    x, y = x + 0.0, y + 0.0  # -0.0 becomes 0.0
    root = np.sqrt(1 - correlation**2)
    neither = (x == 0) & (y == 0)
    first = scipy.special.owens_t(
        x, (np.where(neither, 1.0, y / x) - correlation) / root
    )
    second = scipy.special.owens_t(
        y, (np.where(neither, 1.0, x / y) - correlation) / root
    )
    return 2 * (first + second) + ((x < 0) != (y < 0))


def sign_disagreement(
    mean: Floats, variance: Floats, shared: Floats, weights: Floats
) -> float:
    """Return how often outputs (N,) of the covariance `shared` differ in sign:
    beyond_the_error (2.6).
    """
    own = np.maximum(variance - shared, 0.0)
    other = np.maximum(variance + shared, 1e-300)
    x = mean / np.sqrt(np.maximum(variance, 1e-300))
    return float(weights @ (4 * scipy.special.owens_t(x, np.sqrt(own / other))))


def negative_positive(x: Floats, y: Floats, correlation: Floats) -> Floats:
    """Return P(X < 0 < Y) for unit normals of means x, y."""
    within = np.clip(correlation, -1 + 1e-15, 1 - 1e-15)
    return 0.5 * (
        opposite_signs(x, y, within) + normal_distribution(-x) - normal_distribution(-y)
    )


@dataclass
class Observables(Stacked):
    """What is known of a fit at B points; the letters are those of few_steps_readout
    section 4.
    """

    test: Floats
    train: Floats
    objective: Floats
    misclassified: Floats
    norm: Floats
    theta: Floats
    x: Floats  # coefficients of the channels (B, X), called t in (4.5)
    tau: Floats  # what they make of the unlearnt directions (B, L, k)
    # without the target's directions: spiked_features adds sum_l tau_l tau_l^T
    Q1: Floats
    Q2: Floats
    identity: Floats  # by how much (4.10), or that the fit is stationary, is violated


@dataclass
class Errors(Observables):
    """The ridge fit at B points."""

    null: Floats
    neglected: Floats
    """Estimated size of what a finite number of samples adds and the theory leaves out,
    relative to the test error.
    """
    along: Floats
    """RES and c0 at the nodes (B, 2, N), if asked for; else without nodes."""


def ridge_errors(
    first: FirstOrder,
    size: FiniteSize | None = None,
    *,
    packed: bool | None = None,
    at_nodes: bool = False,
) -> Errors:
    """Return the errors at each point, in the limit or at their finite size; `along` if
    asked for `at_nodes`.
    """
    size = FiniteSize(np.zeros(len(first.V))) if size is None else size
    equations = first.equations
    response = first.response
    packed = equations.packed if packed is None else packed
    solved = (
        np.isfinite(first.residual)
        & np.all(first.denominator > 0, axis=1)
        & np.all(response.R > 0, axis=1)
    )
    solved &= np.isfinite(response.S).all(axis=(1, 2))
    index = np.flatnonzero(solved)
    parts = [
        _chunk_errors(first.take(chunk), size.take(chunk), packed, at_nodes)
        for chunk in equations.split_points(index, equations.chunk(packed))
    ]
    if index.size == len(solved) > 0:
        return Errors.join(parts)
    features = equations.features
    (k, N), L, X = features.mu1.shape[1:], features.Jp.shape[1], features.omega.shape[1]
    shapes = {
        "theta": (k,),
        "x": (X,),
        "tau": (L, k),
        "Q1": (k, k),
        "Q2": (k,),
        "along": (2, N if at_nodes else 0),
    }
    blank = {
        name: np.full((len(first.V), *shapes.get(name, ())), np.nan)
        for name in Errors.__dataclass_fields__
    }
    whole = Errors(**blank)
    if parts:
        whole.put(index, Errors.join(parts))
    return whole


def _chunk_errors(
    first: FirstOrder, size: FiniteSize, packed: bool, at_nodes: bool
) -> Errors:
    equations = first.equations
    features = first.equations.features
    denominator = first.denominator
    signal = fit_means(first, size)
    res, Q1, Q2, of_means = fluctuations(first, signal, size, packed)

    w = features.weights
    a = equations.a
    b = equations.b
    hh = features.hh
    train_over_b = b * np.sum(w * res / denominator**2, axis=1)
    norm = Q2.sum(axis=1)
    # the identity divided by b, so that it says something at b = 0 too
    loss_over_b = train_over_b + a / equations.ratio * norm
    explained = signal.c0 * features.h + (features.h1 * signal.c1).sum(axis=1)
    expected = np.sum(w * (hh - explained) / denominator, axis=1)
    # a perfect fit is what is left of hh after cancellation: nothing can be said below
    # its rounding
    rounding = 1e-7 * np.sum(w * hh / denominator, axis=1)
    identity = np.abs(loss_over_b - expected) / np.maximum(np.abs(expected), rounding)
    variance = features.quadratic(Q1, Q2) + (signal.c1**2).sum(axis=1)
    neglected = np.zeros(len(res))
    if not size.in_limit:
        neglected = neglected_fluctuations(
            first, signal, size, packed, res, Q1 - of_means, Q2
        )
    if size.directions is not None and not size.in_limit:
        more_res, more_V = count_parameters(
            first, signal.penalty, res, Q1 - of_means, Q2, size
        )
        res = res + more_res
        denominator = denominator + more_V
        train_over_b = b * np.sum(w * res / denominator**2, axis=1)
        loss_over_b = train_over_b + a / equations.ratio * norm
    test = np.sum(w * res, axis=1)
    return Errors(
        test=test,
        train=b * train_over_b,
        objective=b * loss_over_b,
        misclassified=misclassified(features, signal.c0, signal.c1, variance),
        norm=norm,
        null=np.zeros_like(test) + np.sum(w * hh, axis=1),
        neglected=neglected,
        theta=signal.theta,
        x=signal.x,
        tau=signal.tau,
        Q1=Q1,
        Q2=Q2,
        identity=identity,
        along=np.stack([res, signal.c0], axis=1)[:, :, : None if at_nodes else 0],
    )


def fit_means(first: FirstOrder, size: FiniteSize) -> Signal:
    """Return the means of the ridge fit: few_steps_readout (4.5)."""
    features = first.equations.features
    weights = first.node_weights
    psih = np.swapaxes(
        (features.mu1 * weights[:, None, :]) @ np.swapaxes(features.h1, 1, 2), 1, 2
    )
    return solve_signal(
        first.equations, first.response, weights, features.h, psih, size
    )


def mean_residual(first: FirstOrder, signal: Signal, size: FiniteSize) -> Floats:
    """Return RES at the nodes without the fluctuations Q of the fit: few_steps_readout
    (4.6), and the stretch.
    """
    features = first.equations.features
    source = features.hh - 2 * signal.c0 * features.h + signal.c0**2
    source = source + ((signal.c1 - 2 * features.h1) * signal.c1).sum(axis=1)
    source = source + first.equations.bulk.tangents(first.response).unseen(signal.dual)
    if size.in_limit:
        return source
    return source + stretched_variance(features, signal.theta, size)


def fluctuations(
    first: FirstOrder, signal: Signal, size: FiniteSize, packed: bool
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return RES at the nodes, Q1, Q2 of few_steps_readout (4.6)-(4.8), and what the
    means alone leave in Q1.
    """
    equations = first.equations
    features = first.equations.features
    squared = first.squared_weights
    tangents = equations.bulk.tangents(first.response)
    width = equations.width[:, None, None]
    source = mean_residual(first, signal, size)
    means = push_of_means(equations.bulk, first.response, signal.theta, size)
    Q1, Q2 = tangents.push(features.omega, signal.x, signal.dual, means.paid)
    if not size.in_limit:
        of_means = means.through(tangents)
        Q1 = Q1 + of_means[0]
        Q2 = Q2 + of_means[1]
    res = spread_through(
        equations, tangents, squared, source + features.quadratic(Q1, Q2), packed
    )
    dQ1, dQ2 = tangents.apply(*features.moments(squared * res))
    return res, Q1 + dQ1 / width, Q2 + dQ2 / width[:, 0], means.Q1


# -- The fitted means are k + k C parameters -------------------------------------------


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
        k = len(features.pi)
        X = features.omega.shape[1]
        functions = np.concatenate([features.mu0, features.T0], axis=1)
        covariance, absorbed = equations.bulk.covariance(response, features.omega)
        if absorbed.any() or not isinstance(equations.bulk, IsotropicBulk):
            return cls._of_correlated(
                equations,
                response,
                weights,
                penalty,
                size,
                functions,
                covariance,
                absorbed,
            )
        treated = (
            np.arange(features.Jp.shape[1])
            < size.directions[:, None] - features.kappa.shape[1]
        )
        Jp = features.Jp * treated[:, :, None]
        pairs = np.swapaxes(Jp, 1, 2) @ Jp
        H = _along_and_across(features, functions, pairs, weights)
        H[:, :k, :k] += penalty
        R = features.per_channel(response.R)
        own = np.arange(k, k + X)
        H[:, own, own] += 1 / (features.omega * R)
        scale = np.sqrt(np.concatenate([response.R, features.omega * R], axis=1))
        unit = scale[:, :, None] * scale[:, None, :]
        inverse = solve_each(H * unit, np.eye(k + X)) * unit
        return cls(features, response, equations.width, size, functions, pairs, inverse)

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
        coordinates = np.zeros((len(C), k + X, k + X))
        coordinates[:, :k, :k] = np.sqrt(response.R)[:, :, None] * np.eye(k)
        coordinates[:, k:, k:] = C
        H = gram_at_nodes(functions, weights)
        H[:, :k, :k] += penalty
        H = np.swapaxes(coordinates, 1, 2) @ H @ coordinates
        own = np.arange(k, k + X)
        H[:, own, own] += 1.0
        inverse = (
            coordinates @ solve_each(H, np.eye(k + X)) @ np.swapaxes(coordinates, 1, 2)
        )
        pairs = np.swapaxes(features.Jp, 1, 2) @ features.Jp
        return cls(
            features,
            response,
            equations.width,
            size,
            functions,
            pairs,
            inverse,
            covariance,
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
        R = self.features.per_channel(self.response.R)
        k = len(features.pi)
        X = features.omega.shape[1]
        sigma = _along_and_across(features, self.functions, self.pairs, driven)
        own = np.arange(k, k + X)
        of_rows = features.per_channel(self.width[:, None] * Q2)
        if self.correlated is None:
            sigma[:, own, own] += of_rows / (features.omega * R**2)
        else:
            sigma[:, k:, k:] += _noise_of_rows(
                self.correlated, np.sqrt(np.maximum(of_rows / R, 0.0))
            )
        return self.per_neuron * (self.inverse @ sigma @ self.inverse)

    def at_nodes(self, matrix: Floats, bulk: Floats) -> Floats:
        """Return the form of a matrix (B, F, F) at the nodes (B, N).

        `bulk` (B, k, k) has counted the directions that are treated on their own
        already. Where no feature depends on kappa its direction is like all others: the
        mean over kappa stands for the values at the nodes.
        """
        features = self.features
        k = len(self.features.pi)
        folded = (self.pairs * matrix[:, k:, k:]).reshape(
            len(matrix), features.channels, k, features.channels, k
        )
        rest = folded.sum(axis=(1, 3)) - self.counted_twice(bulk)
        form = np.sum(self.functions * (matrix @ self.functions), axis=1)
        added = form + features.quadratic(rest, np.zeros(rest.shape[:2]))
        if features.even:
            added = np.broadcast_to(
                np.sum(features.weights * added, axis=1, keepdims=True), added.shape
            )
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
        res = np.broadcast_to(
            np.sum(features.weights * res, axis=1, keepdims=True), res.shape
        )
    return np.asarray(first.squared_weights * res)


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
        first.equations, first.response, first.node_weights, penalty, size
    )
    added = means.at_nodes(means.covariance(ridge_drive(first, res), Q2), Q1)
    return added, means.at_nodes(
        means.per_neuron * means.inverse, first.response.S / means.width[:, None, None]
    )


def neglected_fluctuations(
    first: FirstOrder,
    signal: Signal,
    size: FiniteSize,
    packed: bool,
    res: Floats,
    Q1: Floats,
    Q2: Floats,
) -> Floats:
    """Return about how much, relative to the test error, the samples add beyond what is
    counted: (3.8), (B,).

    Two things. The fitted means, to second order where `size` counts them, else to
    first order. And the fluctuation of the fit itself: noise that n samples amplify by
    A, as n/(n - p), is amplified more, as (n - 1)/(n - p - 1).
    """
    equations = first.equations
    features = first.equations.features
    w = features.weights
    of_means = np.zeros(len(res))
    if features.kappa is not None:
        counted = size.directions is not None
        directions = features.kappa.shape[1] + features.Jp.shape[1]
        if counted:
            own = size
        else:
            own = dataclasses.replace(
                size, directions=np.full(len(res), float(directions))
            )
        more, _ = count_parameters(first, signal.penalty, res, Q1, Q2, own)
        with np.errstate(divide="ignore", invalid="ignore"):
            of_means = np.nan_to_num(
                np.maximum(np.sum(w * more, axis=1) / np.sum(w * res, axis=1), 0.0)
            )
        if counted:
            of_means = of_means**2
    noise = np.ones_like(res)
    tangents = equations.bulk.tangents(first.response)
    amplified = np.sum(
        w * spread_through(equations, tangents, first.squared_weights, noise, packed),
        axis=1,
    )
    share = 1 - 1 / amplified
    per_sample = size.inverse_dim / (equations.ratio * equations.width)
    of_fit = np.maximum(share * (amplified - 1), 0.0) * per_sample
    return np.where(size.inverse_dim > 0, of_means + of_fit, 0.0)


def _noise_of_rows(covariance: Floats, share: Floats) -> Floats:
    """Return P^-1 N P^-1 for the noise N = P share share^T, entry by entry, of
    coefficients of covariance P (B, X, X).

    `share` (B, X) is sqrt(beta Q2/R) of each coefficient: rows that are correlated as
    the prior is carry the noise.
    """
    solved = np.isfinite(covariance).all(axis=(1, 2)) & np.isfinite(share).all(axis=1)
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
    across = features.moments(weights)[0]
    matrix[:, k:, k:] += pairs * np.tile(
        across, (1, features.channels, features.channels)
    )
    return matrix

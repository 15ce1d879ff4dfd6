"""Test and training error of the ridge fit, given the first-order solution: least
squares and a linear system.

finite_size_steps (3.7) for the errors of one network, beyond_the_error (2.12)-(2.14)
for two of them. Of the unlearnt directions the residual given kappa stands for that
given z.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from giantstep.core.base.types import Booleans, Floats
from giantstep.core.maths.stacked import Stacked
from giantstep.core.readout.finite_size import (
    FiniteSize,
    push_of_means,
    stretched_variance,
)
from giantstep.core.readout.first_order import FirstOrder, spread_through
from giantstep.core.readout.fitted_means import count_parameters
from giantstep.core.readout.signal import (
    Signal,
    solve_signal,
)
from giantstep.core.readout.signs import misclassified


@dataclass
class Observables(Stacked):
    """What is known of a fit at B points; the letters are those of few_steps_readout
    section 4.
    """

    test: Floats  # (B,)
    train: Floats  # (B,)
    objective: Floats  # (B,): training loss and penalty
    misclassified: Floats  # (B,), NaN where there are no classes
    norm: Floats  # (B,): of the second layer
    theta: Floats  # (B, k): means of its blocks
    x: Floats  # coefficients of the channels (B, X), called t in (4.5)
    tau: Floats  # what they make of the unlearnt directions (B, L, k)
    # without the target's directions: spiked_features adds sum_l tau_l tau_l^T
    Q1: Floats  # (B, k, k)
    Q2: Floats  # (B, k)
    identity: Floats  # by how much (4.10), or that the fit is stationary, is violated


@dataclass
class Errors(Observables):
    """The ridge fit at B points."""

    null: Floats  # (B,): the error of no network at all
    neglected: Floats
    """Estimated size of what a finite number of samples adds and the theory leaves out,
    relative to the test error.
    """
    along: Floats
    """RES and c0 at the nodes (B, 2, N), if asked for; else without nodes."""


class Fluctuations(NamedTuple):
    """What fluctuates in a fit, or in what two fits have in common:
    few_steps_readout (4.6)-(4.8).
    """

    res: Floats  # RES at the nodes (B, N)
    Q1: Floats  # (B, k, k)
    Q2: Floats  # (B, k)
    of_means: Floats  # what the means alone leave in Q1


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
    if size is None:
        size = FiniteSize(np.zeros(len(first.V)))
    if packed is None:
        packed = first.equations.packed
    index = np.flatnonzero(_is_solved(first))
    parts = []
    chunk_size = first.equations.chunk(packed)
    for chunk in first.equations.split_points(index, chunk_size):
        part = _chunk_errors(first.take(chunk), size.take(chunk), packed, at_nodes)
        parts.append(part)
    if index.size == len(first.V) > 0:
        return Errors.join(parts)
    whole = _without_errors(first, at_nodes)
    if parts:
        whole.put(index, Errors.join(parts))
    return whole


def _is_solved(first: FirstOrder) -> Booleans:
    """Tell which points have a first-order solution that errors can be made of."""
    response = first.response
    return np.asarray(
        np.isfinite(first.residual)
        & np.all(first.denominator > 0, axis=1)
        & np.all(response.R > 0, axis=1)
        & np.isfinite(response.S).all(axis=(1, 2))
    )


def _without_errors(first: FirstOrder, at_nodes: bool) -> Errors:
    """Return errors that are all NaN."""
    features = first.equations.features
    k, N = features.mu1.shape[1:]
    L = features.Jp.shape[1]
    shapes = {
        "theta": (k,),
        "x": (features.omega.shape[1],),
        "tau": (L, k),
        "Q1": (k, k),
        "Q2": (k,),
        "along": (2, N if at_nodes else 0),
    }
    blank = {}
    for name in Errors.__dataclass_fields__:
        blank[name] = np.full((len(first.V), *shapes.get(name, ())), np.nan)
    return Errors(**blank)


def _chunk_errors(
    first: FirstOrder, size: FiniteSize, packed: bool, at_nodes: bool
) -> Errors:
    features = first.equations.features
    signal = fit_means(first, size)
    fit = fluctuations(first, signal, size, packed)
    identity = _loss_identity(first, signal, fit)
    along_signal = (signal.c1**2).sum(axis=1)
    variance = features.quadratic(fit.Q1, fit.Q2) + along_signal
    # Q1 without the part of the means, which the fitted means do not add to again
    of_fit = fit.Q1 - fit.of_means
    res = fit.res
    denominator = first.denominator
    neglected = np.zeros(len(res))
    if not size.in_limit:
        neglected = neglected_fluctuations(
            first, signal, size, packed, res=res, Q1=of_fit, Q2=fit.Q2
        )
    if size.directions is not None and not size.in_limit:
        more_res, more_V = count_parameters(
            first, signal.penalty, res=res, Q1=of_fit, Q2=fit.Q2, size=size
        )
        res = res + more_res
        denominator = denominator + more_V
    a = first.equations.a
    b = first.equations.b
    # the residual of a training sample is b/(b + V) times that of a fresh one
    train_over_b = b * np.sum(features.weights * res / denominator**2, axis=1)
    # |a|^2 is what all neurons have, block by block
    norm = fit.Q2.sum(axis=1)
    loss_over_b = train_over_b + a / first.equations.ratio * norm
    test = np.sum(features.weights * res, axis=1)
    along = np.stack([res, signal.c0], axis=1)
    if not at_nodes:
        along = along[:, :, :0]
    return Errors(
        test=test,
        train=b * train_over_b,
        objective=b * loss_over_b,
        misclassified=misclassified(features, signal.c0, signal.c1, variance),
        norm=norm,
        null=np.zeros_like(test) + np.sum(features.weights * features.hh, axis=1),
        neglected=neglected,
        theta=signal.theta,
        x=signal.x,
        tau=signal.tau,
        Q1=fit.Q1,
        Q2=fit.Q2,
        identity=identity,
        along=along,
    )


def _loss_identity(first: FirstOrder, signal: Signal, fit: Fluctuations) -> Floats:
    """Return by how much the loss of the fit is not what the labels leave unexplained:
    (4.10), divided by b, so that it says something at b = 0 too.
    """
    equations = first.equations
    features = equations.features
    w = features.weights
    denominator = first.denominator
    train_over_b = equations.b * np.sum(w * fit.res / denominator**2, axis=1)
    norm = fit.Q2.sum(axis=1)
    loss_over_b = train_over_b + equations.a / equations.ratio * norm
    explained = signal.c0 * features.h + (features.h1 * signal.c1).sum(axis=1)
    expected = np.sum(w * (features.hh - explained) / denominator, axis=1)
    # a perfect fit is what is left of hh after cancellation: nothing can be said below
    # its rounding
    rounding = 1e-7 * np.sum(w * features.hh / denominator, axis=1)
    return np.abs(loss_over_b - expected) / np.maximum(np.abs(expected), rounding)


def fit_means(first: FirstOrder, size: FiniteSize) -> Signal:
    """Return the means of the ridge fit: few_steps_readout (4.5)."""
    features = first.equations.features
    weights = first.node_weights
    weighted = features.mu1 * weights[:, None, :]
    psih = np.swapaxes(weighted @ np.swapaxes(features.h1, 1, 2), 1, 2)
    return solve_signal(
        first.equations,
        first.response,
        weights=weights,
        wanted=features.h,
        psih=psih,
        size=size,
    )


def mean_residual(first: FirstOrder, signal: Signal, size: FiniteSize) -> Floats:
    """Return RES at the nodes without the fluctuations Q of the fit: few_steps_readout
    (4.6), and the stretch.
    """
    features = first.equations.features
    # E[(y - c0 - sum_l c1_l xi_l)^2 | kappa]: of the unlearnt part only what the
    # features follow
    source = features.hh - 2 * signal.c0 * features.h + signal.c0**2
    source = source + ((signal.c1 - 2 * features.h1) * signal.c1).sum(axis=1)
    # the noise of quadratic channels, which c0 and c1 do not have
    tangents = first.equations.bulk.tangents(first.response)
    source = source + tangents.squared_noise(signal.dual)
    if size.in_limit:
        return source
    return source + stretched_variance(features, signal.theta, size)


def fluctuations(
    first: FirstOrder, signal: Signal, size: FiniteSize, packed: bool
) -> Fluctuations:
    """Solve for the fluctuations of the fit: a linear system in RES."""
    equations = first.equations
    features = first.equations.features
    squared = first.squared_weights
    tangents = equations.bulk.tangents(first.response)
    width = equations.width[:, None, None]
    source = mean_residual(first, signal, size)
    # Q without samples: what the signal, and the means of the blocks, push
    means = push_of_means(equations.bulk, first.response, signal.theta, size)
    Q1, Q2 = tangents.push(features.omega, signal.x, signal.dual, means.penalty)
    if not size.in_limit:
        means_Q1, means_Q2 = means.through(tangents)
        Q1 = Q1 + means_Q1
        Q2 = Q2 + means_Q2
    # RES drives Q, and Q adds to RES: (4.6), (4.7)
    res = spread_through(
        equations, tangents, squared, source + features.quadratic(Q1, Q2), packed
    )
    driven_Q1, driven_Q2 = tangents.apply(*features.moments(squared * res))
    return Fluctuations(
        res=res,
        Q1=Q1 + driven_Q1 / width,
        Q2=Q2 + driven_Q2 / width[:, 0],
        of_means=means.Q1,
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
    w = equations.features.weights
    of_means = np.zeros(len(res))
    if equations.features.kappa is not None:
        of_means = _share_of_means(first, signal, size, res=res, Q1=Q1, Q2=Q2)
        # what is counted to first order leaves its square
        if size.directions is not None:
            of_means = of_means**2
    # noise of variance one at every node, and what the fit makes of it
    noise = np.ones_like(res)
    tangents = equations.bulk.tangents(first.response)
    spread = spread_through(equations, tangents, first.squared_weights, noise, packed)
    amplified = np.sum(w * spread, axis=1)
    # p/n where A = n/(n - p)
    share = 1 - 1 / amplified
    per_sample = size.inverse_dim / (equations.ratio * equations.width)
    of_fit = np.maximum(share * (amplified - 1), 0.0) * per_sample
    return np.where(size.inverse_dim > 0, of_means + of_fit, 0.0)


def _share_of_means(
    first: FirstOrder,
    signal: Signal,
    size: FiniteSize,
    res: Floats,
    Q1: Floats,
    Q2: Floats,
) -> Floats:
    """Return what the fitted means add to the test error, relative to it (B,)."""
    features = first.equations.features
    w = features.weights
    assert features.kappa is not None
    if size.directions is None:
        directions = features.kappa.shape[1] + features.Jp.shape[1]
        each = np.full(len(res), float(directions))
        size = dataclasses.replace(size, directions=each)
    more, _ = count_parameters(first, signal.penalty, res=res, Q1=Q1, Q2=Q2, size=size)
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.sum(w * more, axis=1) / np.sum(w * res, axis=1)
        return np.nan_to_num(np.maximum(relative, 0.0))

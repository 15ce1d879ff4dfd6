"""Errors and losses of fresh and of training samples, from the order parameters: mixture_glm section 2."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from giantstep.families.mixture_glm.channel import Residuals
from giantstep.families.mixture_glm.problem import MixtureProblem, State
from giantstep.risk import Margins, quadrature
from giantstep.types import Floats


class Observables(NamedTuple):
    """Per point and cluster, (B, K)."""

    test_error: Floats
    test_mse: Floats
    test_loss: Floats
    train_loss: Floats
    train_error: Floats


def observables(problem: MixtureProblem, state: State, test: MixtureProblem) -> Observables:
    """Return the observables of every cluster; `test` is the problem with the labels of the test samples."""
    shared = None
    if problem.binary and test is problem:  # both kinds of samples have the same margins
        shared = _both_labels(problem, state, np.concatenate([_kinks(problem, state, V) for V in (0.0, 1.0)], axis=1))
    return Observables(*fresh_errors(test, state, shared), *training_errors(problem, state, shared))


def fresh_errors(
    problem: MixtureProblem, state: State, margins: Margins | None = None
) -> tuple[Floats, Floats, Floats]:
    """Return error, squared error and loss of fresh samples, which see q, m, h and b of the weights only."""
    mse = problem.moments().squared_error(state)
    if problem.binary:
        margins = margins or _both_labels(problem, state, _kinks(problem, state, 0.0))
        values = problem.margin_loss.at(margins.nodes.row % mse.size).value(margins.s)
        test_loss, error = margins.expect(values, (margins.s < 0).astype(float))
        return _by_cluster(error, mse), mse, _by_cluster(test_loss, mse)
    if problem.loss != "huber":
        return mse, mse, 0.5 * mse
    delta, residuals = problem.huber[:, None], Residuals.of(problem, state)
    moments = residuals.clip(np.broadcast_to(delta, mse.shape))
    return mse, mse, 0.5 * residuals.average(moments.second) + delta * residuals.average(moments.rest_size)


def training_errors(problem: MixtureProblem, state: State, margins: Margins | None = None) -> tuple[Floats, Floats]:
    """Return loss and error of the training samples."""
    if problem.loss in ("interpolate", "maxmargin"):
        return np.zeros(state.V.shape), np.zeros(state.V.shape)
    if problem.binary:
        V, loss = problem.strength(state.V).ravel(), problem.margin_loss
        margins = margins or _both_labels(problem, state, _kinks(problem, state, 1.0))
        row = margins.nodes.row % len(V)
        at_nodes = loss.at(row)
        values = at_nodes.value(at_nodes.pull(margins.s, V[row]).u)
        train_loss, error = margins.expect(values, (margins.s < loss.turning_point(V)[row]).astype(float))
        return _by_cluster(train_loss, state.V), _by_cluster(error, state.V)
    stretch = 1 + problem.strength(state.V)
    if problem.loss == "square":
        left = problem.moments().squared_error(state) / stretch**2
        return 0.5 * left, left
    return _huber_training(problem, state, stretch)


def _kinks(problem: MixtureProblem, state: State, share: float) -> Floats:
    """Return where the loss bends or predictions change sides, after a fit (share 1) and on fresh samples (share 0)."""
    V, loss = share * problem.strength(state.V).ravel(), problem.margin_loss
    sides = loss.turning_point(V) if share else np.zeros(V.shape)
    return np.concatenate([loss.kinks(V), sides[:, None]], axis=1)


def _both_labels(problem: MixtureProblem, state: State, kinks: Floats) -> Margins:
    """Return nodes for the margins of label 1, then of label -1, in all clusters of all points."""
    return quadrature(problem.margin_laws(state).with_mirrored(), problem.label_law, np.tile(kinks, (2, 1)))


def _by_cluster(of_rows: Floats, like: Floats) -> Floats:
    """Return the sum over both labels."""
    return of_rows.reshape(2, *like.shape).sum(axis=0)


def _huber_training(problem: MixtureProblem, state: State, stretch: Floats) -> tuple[Floats, Floats]:
    """Return Huber's loss of real labels, E clip(r)^2/2 + delta E(|r| - delta)_+: training residuals are r/(1 + V)."""
    delta, residuals = problem.huber[:, None], Residuals.of(problem, state)
    moments = residuals.clip(delta * stretch)
    inner = 0.5 * residuals.average(moments.second) / stretch**2
    tail = delta * residuals.average(moments.rest_size)
    return inner + tail, 2 * inner + 2 * tail + residuals.average(moments.rest_squared)

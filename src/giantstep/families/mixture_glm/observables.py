"""Errors and losses of fresh and of training samples, from the order parameters."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from giantstep.families.mixture_glm.hats import residual_moments
from giantstep.families.mixture_glm.problem import Problem, State
from giantstep.risk import quadrature, summed
from giantstep.types import Floats, Indices


class Observables(NamedTuple):
    """Per point and cluster, (B, K)."""

    test_error: Floats
    test_mse: Floats
    test_loss: Floats
    train_loss: Floats
    train_error: Floats


def observables(problem: Problem, state: State, test: Problem) -> Observables:
    """Return the observables of every cluster; `test` is the problem with the labels of the test samples."""
    y = test.moments()
    mean = state.h + state.b[:, None]
    mse = y.y2 - 2 * mean * y.y0 - 2 * state.m * y.y1 + state.q + mean**2
    if problem.binary:
        return _classes(problem, state, test, mse)
    if problem.loss == "huber":
        return _huber(problem, state, test, mse)
    left = np.zeros_like(mse)
    if problem.loss == "square":
        own = problem.moments()
        trained = own.y2 - 2 * mean * own.y0 - 2 * state.m * own.y1 + state.q + mean**2
        left = trained / (1 + problem.strength(state.V)) ** 2
    return Observables(mse, mse, 0.5 * mse, 0.5 * left, left)


def _classes(problem: Problem, state: State, test: Problem, mse: Floats) -> Observables:
    shape = (problem.size, problem.clusters, 2)
    loss = problem.loss_of_rows(2)
    strength = np.repeat(problem.strength(state.V), 2)
    turning = loss.turning_point(strength)[:, None]
    ends = np.broadcast_to(np.array([0.0, 1.0]), (len(strength), 2))
    kinks = [loss.kinks(strength), turning, ends]
    if problem.loss == "huber":
        reach = np.repeat(problem.huber, 2 * problem.clusters)[:, None]
        kinks += [1 - reach, 1 + reach]
    edges = np.concatenate(kinks, axis=1)
    trained = quadrature(problem.rows(state), problem.label_law(), edges)
    row = trained.nodes.row
    at_nodes = loss.at(row)
    if problem.loss in ("interpolate", "maxmargin"):
        train_loss = train_error = np.zeros(shape)
    else:
        values = at_nodes.value(at_nodes.pull(trained.s, strength[row]).u)
        parts = trained.expect(values, (trained.s < turning[row, 0]).astype(float))
        train_loss, train_error = (part.reshape(shape) for part in parts)
    fresh = trained if test is problem else quadrature(test.rows(state), test.label_law(), edges)
    row = fresh.nodes.row
    parts = fresh.expect(loss.at(row).value(fresh.s), (fresh.s < 0).astype(float))
    test_loss, test_error = (part.reshape(shape) for part in parts)
    return Observables(
        test_error.sum(axis=-1), mse, test_loss.sum(axis=-1), train_loss.sum(axis=-1), train_error.sum(axis=-1)
    )


def _huber(problem: Problem, state: State, test: Problem, mse: Floats) -> Observables:
    shape = (problem.size, problem.clusters)
    stretch = 1 + problem.strength(state.V).ravel()
    threshold = np.repeat(problem.huber, problem.clusters)
    moments, _, weights, row = residual_moments(problem, state, stretch)
    reach = threshold[row]
    inner = 0.5 * moments.second / stretch[row] ** 2
    train_loss = _sums(weights, inner + reach * moments.excess, row, shape)
    squared = 2 * inner + 2 * reach * moments.excess + moments.excess_squared
    train_error = _sums(weights, squared, row, shape)
    moments, _, weights, row = residual_moments(test, state, np.ones_like(stretch))
    test_loss = _sums(weights, 0.5 * moments.second + threshold[row] * moments.excess, row, shape)
    return Observables(mse, mse, test_loss, train_loss, train_error)


def _sums(weights: Floats, values: Floats, row: Indices, shape: tuple[int, int]) -> Floats:
    return summed(row, weights * values, shape[0] * shape[1]).reshape(shape)

"""Errors and losses of fresh and of training samples, from the order parameters: mixture_glm section 2."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from giantstep.families.mixture_glm.channel import Residuals
from giantstep.families.mixture_glm.problem import MixtureProblem, State
from giantstep.risk import quadrature
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
    mse = test.moments().squared_error(state)
    if problem.binary:
        return _binary(problem, state, test, mse)
    if problem.loss == "huber":
        return _huber(problem, state, test, mse)
    left = np.zeros_like(mse)
    if problem.loss == "square":
        left = problem.moments().squared_error(state) / (1 + problem.strength(state.V)) ** 2
    return Observables(mse, mse, 0.5 * mse, 0.5 * left, left)


def _binary(problem: MixtureProblem, state: State, test: MixtureProblem, mse: Floats) -> Observables:
    loss, strength = problem.margin_loss, np.repeat(problem.strength(state.V), 2)
    turning = loss.turning_point(strength)[:, None]
    ends = np.broadcast_to(np.array([0.0, 1.0]), (len(strength), 2))
    kinks = [loss.kinks(strength), turning, ends]
    if problem.loss == "huber":
        reach = np.repeat(problem.huber, 2 * problem.clusters)[:, None]
        kinks += [1 - reach, 1 + reach]
    edges = np.concatenate(kinks, axis=1)

    def by_cluster(part: Floats) -> Floats:
        return part.reshape(*mse.shape, 2).sum(axis=-1)

    trained = quadrature(problem.margin_laws(state), problem.label_law, edges)
    train_loss = train_error = np.zeros(mse.shape)
    if problem.loss not in ("interpolate", "maxmargin"):
        row = trained.nodes.row
        at_nodes = loss.at(row)
        values = at_nodes.value(at_nodes.pull(trained.s, strength[row]).u)
        train_loss, train_error = map(by_cluster, trained.expect(values, (trained.s < turning[row, 0]).astype(float)))
    fresh = trained if test is problem else quadrature(test.margin_laws(state), test.label_law, edges)
    values = loss.at(fresh.nodes.row).value(fresh.s)
    test_loss, test_error = map(by_cluster, fresh.expect(values, (fresh.s < 0).astype(float)))
    return Observables(test_error, mse, test_loss, train_loss, train_error)


def _huber(problem: MixtureProblem, state: State, test: MixtureProblem, mse: Floats) -> Observables:
    """Return Huber's loss of real labels: E clip(r)^2/2 + delta E(|r| - delta)_+, training residuals are r/(1 + V)."""
    stretch, delta = 1 + problem.strength(state.V), problem.huber[:, None]
    residuals = Residuals.of(problem, state)
    moments = residuals.clip(delta * stretch)
    inner = 0.5 * residuals.average(moments.second) / stretch**2
    tail = delta * residuals.average(moments.rest_size)
    train_error = 2 * inner + 2 * tail + residuals.average(moments.rest_squared)
    residuals = Residuals.of(test, state)
    moments = residuals.clip(np.broadcast_to(delta, stretch.shape))
    test_loss = 0.5 * residuals.average(moments.second) + delta * residuals.average(moments.rest_size)
    return Observables(mse, mse, test_loss, inner + tail, train_error)

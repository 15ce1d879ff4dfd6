"""The least errors of given features: on all data, and at any width, few_steps_readout (8.1) and (8.2)."""

from __future__ import annotations

import dataclasses

import numpy as np

from giantstep.readout import Equations, Features, FiniteSize, InputBulk, Response, solve_signal
from giantstep.types import Floats, Integers

UNPENALISED = 1e10
"""R of a width at which coefficients of the channels cost nothing."""


def floors(equations: Equations, owner: Integers, noise: Floats) -> tuple[Floats, Floats]:
    """Return the error of each point (B,) on all data, few_steps_readout (8.1), and at infinite width, (8.2).

    (8.1) is (4.3)-(4.5) at V = 0, rho = 1, lambda = 0; (8.2) leaves out its penalty too: the distance of the target to
    the span of the means and the channels. `owner` (B,) says which set of features a point has: the first depends on
    the width and on the features, the second on these only; the label noise (B,) adds to both.
    """
    pairs = np.stack([owner, equations.width], axis=1)
    _, chosen, which = np.unique(pairs, axis=0, return_index=True, return_inverse=True)
    part = _on_all_data(equations.take(chosen))
    features, count = part.features, len(chosen)
    weights = np.broadcast_to(features.weights, (count, features.weights.shape[1]))
    Vh1, Vh2 = features.moments(weights)
    start = part.bulk.start(Vh2.min(axis=1), part.block_width)
    response = part.bulk.solve(Vh1, Vh2, part.block_width, start)
    all_data = _unexplained(part, response, weights)
    _, first, set_of = np.unique(owner[chosen], return_index=True, return_inverse=True)
    free = np.broadcast_to(part.bulk.spread.free if isinstance(part.bulk, InputBulk) else True, (count,))
    floor = np.empty(len(first))
    for number, row in enumerate(first):
        if free[row]:
            floor[number] = _distance(features.take(np.array([row])))
            continue
        unpenalised = response.take(np.array([row]))
        unpenalised.R[:] = UNPENALISED
        floor[number] = _unexplained(part.take(np.array([row])), unpenalised, weights[[row]])[0]
    own, which = noise[chosen], which.reshape(-1)
    floor = (floor - own[first])[set_of.reshape(-1)]
    return (all_data - own)[which] + noise, floor[which] + noise


def _on_all_data(equations: Equations) -> Equations:
    """Return the equations of these points at rho = 1, a = 0, b = 1."""
    ones, bulk = np.ones(len(equations.width)), equations.bulk
    if isinstance(bulk, InputBulk):
        bulk = dataclasses.replace(bulk, noise=None)  # of the limit: it vanishes with 1/d
    return Equations(equations.features, ones, equations.width, 0.0 * ones, ones, bulk, equations.pi)


def _unexplained(equations: Equations, response: Response, weights: Floats) -> Floats:
    """Return what the means and channels with the penalties of this response do not explain of the labels."""
    features = equations.features
    psih = np.swapaxes((features.mu1 * weights[:, None, :]) @ np.swapaxes(features.h1, 1, 2), 1, 2)
    signal = solve_signal(equations, response, weights, features.h, psih, FiniteSize.limit(len(weights)))
    explained = signal.c0 * features.h + np.sum(features.h1 * signal.c1, axis=1)
    return np.sum(features.weights * (features.hh - explained), axis=1)


def _distance(features: Features) -> float:
    """Return E hh minus what the functions (mu0, T) explain of (h, h1) without any penalty."""
    root = np.sqrt(features.weights[0])
    k, channels = len(features.pi), features.channels
    means = np.concatenate([features.mu0[0], features.T0[0]]) * root
    slopes = np.tile(features.mu1[0] * root, (channels, 1))
    rows = [means.T] + [np.pad(slopes * Jp[:, None], ((k, 0), (0, 0))).T for Jp in features.Jp[0]]
    wanted = np.concatenate([features.h[0] * root, *(h1 * root for h1 in features.h1[0])])
    left, values, _ = np.linalg.svd(np.concatenate(rows), full_matrices=False)
    explained = (left.T @ wanted)[values > 1e-12 * values[0]]
    return float(features.hh[0] @ features.weights[0] - explained @ explained)

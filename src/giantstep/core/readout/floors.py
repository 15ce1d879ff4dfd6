"""The least errors of given features: on all data, and at infinite width."""

from __future__ import annotations

import dataclasses

import numpy as np

from giantstep.core.base.types import Floats, Integers
from giantstep.core.readout.bulk import Response
from giantstep.core.readout.features import Features
from giantstep.core.readout.finite_size import FiniteSize
from giantstep.core.readout.first_order import (
    Equations,
)
from giantstep.core.readout.input_bulk import InputBulk
from giantstep.core.readout.signal import solve_signal

UNPENALISED = 1e10
"""R of a width at which coefficients of the channels cost nothing."""


def floors(
    equations: Equations, owner: Integers, noise: Floats
) -> tuple[Floats, Floats]:
    """Return the error of each point (B,) on all data, few_steps_readout (8.1), and at
    infinite width, (8.2).

    (8.1) is (4.3)-(4.5) at V = 0, rho = 1, lambda = 0; (8.2) leaves out its penalty
    too: the distance of the target to the span of the means and the channels. `owner`
    (B,) says which set of features a point has: the first depends on the width and on
    the features, the second on these only; the label noise (B,) adds to both.
    """
    # one solution for all points of one set and one width
    pairs = np.stack([owner, equations.width], axis=1)
    _, point_of_pair, pair_of_point = np.unique(
        pairs, axis=0, return_index=True, return_inverse=True
    )
    pair_of_point = pair_of_point.reshape(-1)
    part = _on_all_data(equations.take(point_of_pair))
    features = part.features
    # V = 0: all nodes weigh as much as their probability
    shape = (len(point_of_pair), features.weights.shape[1])
    weights = np.broadcast_to(features.weights, shape)
    Vh1, Vh2 = features.moments(weights)
    start = part.bulk.start(Vh2.min(axis=1), part.block_width)
    response = part.bulk.solve(Vh1, Vh2, part.block_width, start)
    all_data = _unexplained(part, response, weights)
    _, pair_of_set, set_of_pair = np.unique(
        owner[point_of_pair], return_index=True, return_inverse=True
    )
    floor = np.empty(len(pair_of_set))
    for number, pair in enumerate(pair_of_set):
        one = np.array([pair])
        floor[number] = _floor_of_set(
            part.take(one), response.take(one), weights[[pair]]
        )
    # the labels of the features have the noise of the point that was chosen
    noise_of_pair = noise[point_of_pair]
    all_data = all_data - noise_of_pair
    floor = (floor - noise_of_pair[pair_of_set])[set_of_pair.reshape(-1)]
    return all_data[pair_of_point] + noise, floor[pair_of_point] + noise


def _on_all_data(equations: Equations) -> Equations:
    """Return the equations of a fit to infinitely many samples without a ridge."""
    ones = np.ones(len(equations.ratio))
    equations = dataclasses.replace(equations, ratio=ones, a=0.0 * ones, b=ones)
    if isinstance(equations.bulk, InputBulk):
        # the noise of quadratic channels vanishes with 1/d
        bulk = dataclasses.replace(equations.bulk, noise=None)
        equations = dataclasses.replace(equations, bulk=bulk)
    return equations


def _floor_of_set(equations: Equations, response: Response, weights: Floats) -> float:
    """Return the error of one set of features at infinite width."""
    bulk = equations.bulk
    if isinstance(bulk, InputBulk) and not np.all(bulk.spread.free):
        # not every place of a row is reached at no cost, structured_inputs (4.5): that
        # part of the prior stays at any width
        response.R[:] = UNPENALISED
        return float(_unexplained(equations, response, weights)[0])
    return _distance(equations.features)


def _unexplained(equations: Equations, response: Response, weights: Floats) -> Floats:
    """Return what the means and channels with the penalties of this response do not
    explain of the labels.
    """
    features = equations.features
    weighted = features.mu1 * weights[:, None, :]
    psih = np.swapaxes(weighted @ np.swapaxes(features.h1, 1, 2), 1, 2)
    signal = solve_signal(
        equations,
        response,
        weights=weights,
        wanted=features.h,
        psih=psih,
        size=FiniteSize(np.zeros(len(weights))),
    )
    # at the minimum the loss, its penalty included, is hh less this
    explained = signal.c0 * features.h + np.sum(features.h1 * signal.c1, axis=1)
    return np.sum(features.weights * (features.hh - explained), axis=1)


def _distance(features: Features) -> float:
    """Return E hh minus what the functions (mu0, T) explain of (h, h1) without any
    penalty.
    """
    # rows of a least squares are weighted by the root
    root = np.sqrt(features.weights[0])
    k = len(features.pi)
    # least squares with a row for every node, and for every node and unlearnt direction
    means = np.concatenate([features.mu0[0], features.T0[0]]) * root
    slopes = np.tile(features.mu1[0] * root, (features.channels, 1))
    rows = [means.T]
    labels = [features.h[0] * root]
    for Jp, h1 in zip(features.Jp[0], features.h1[0]):
        # the means of the blocks do not depend on the unlearnt directions
        rows.append(np.pad(slopes * Jp[:, None], ((k, 0), (0, 0))).T)
        labels.append(h1 * root)
    left, values, _ = np.linalg.svd(np.concatenate(rows), full_matrices=False)
    # functions that are linearly dependent, up to rounding, span nothing more
    spanned = values > 1e-12 * values[0]
    explained = (left.T @ np.concatenate(labels))[spanned]
    return float(features.hh[0] @ features.weights[0] - explained @ explained)

"""Minima of a batch of functions of few variables, in lockstep: quadratic models on
shrinking stencils.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import NamedTuple

import numpy as np

from giantstep.core.base.types import Booleans, Floats, Indices
from giantstep.core.maths.solve import OpenPoints

_ROUNDS = 60
"""Stencils of one search, at most; smooth functions need 4 to 10."""
_SMALLEST_RADIUS = 1e-3
"""Half width of the last stencil: its model errs by about its square, and by the noise
over it.
"""
_NOISE = 1e-12
"""Relative differences that are no decrease."""

Function = Callable[[Floats, Indices], Floats]
"""Values (M,) of the members `index` (M,) of the batch at the points (M, k); NaN where
there is none.
"""


class Minima(NamedTuple):
    """Where S searches ended (S, k), the values there (inf: no point had one), and
    which ended by themselves.
    """

    x: Floats
    value: Floats
    settled: Booleans


def minimise_each(
    function: Function, start: Floats, radius: Floats, low: Floats, high: Floats
) -> Minima:
    """Return a local minimum in the box [low, high] near each of S starting points (S,
    k).

    Every round evaluates a stencil of half width `radius` around the minimum of the
    last quadratic model, all searches in one call. The radius follows the length of the
    steps down to 1e-3 and never grows. Where a point of the stencil has no value, or
    nothing became better, the search goes on from its best point with a smaller radius.
    """
    size, k = start.shape
    offsets = _stencil(k)
    radius = np.tile(np.minimum(radius, (high - low) / 2), (size, 1))
    floor = np.minimum(_SMALLEST_RADIUS, (high - low) / 2)
    best = start.copy()
    value = np.full(size, np.inf)
    target = start.copy()
    searches = OpenPoints(size, _ROUNDS)
    for active in searches:
        near = radius[active]
        before = value[active]
        centre = np.clip(target[active], low + near, high - near)
        stencil = np.clip(centre[:, None, :] + offsets * near[:, None, :], low, high)
        # near a bound the target is off-centre: it is evaluated too
        points = np.concatenate([stencil, target[active][:, None, :]], axis=1)
        search_of_point = np.repeat(active, len(offsets) + 1)
        values = function(points.reshape(-1, k), search_of_point)
        values = values.reshape(len(active), -1)
        values = np.where(np.isnan(values), np.inf, values)
        lowest = np.argmin(values, axis=1)
        smallest = values[np.arange(len(active)), lowest]
        better = smallest < before
        best[active[better]] = points[better, lowest[better]]
        value[active] = np.minimum(smallest, before)

        with np.errstate(invalid="ignore"):
            noise = _NOISE * np.abs(value[active])
            no_worse = smallest <= before + 1e3 * noise
        modelled = np.isfinite(values).all(axis=1) & no_worse
        shrink = np.full(len(active), 0.5)
        last = target[active]
        target[active] = best[active]
        flat = np.zeros(len(active), dtype=bool)
        m = np.flatnonzero(modelled)
        if len(m):
            steps, decrease = _model_minimum(
                values=values[m, :-1],
                low=(low - centre[m]) / near[m],
                high=(high - centre[m]) / near[m],
                noise=noise[m],
            )
            target[active[m]] = np.clip(centre[m] + steps * near[m], low, high)
            moved = np.max(np.abs(target[active[m]] - last[m]) / near[m], axis=1)
            shrink[m] = np.clip(moved, 0.1, 1.0)
            # what the model promises below the last target; a small stencil is needed
            # to believe it
            promised = values[m, -1] - values[m, 0] + decrease
            small = (near[m] <= 20 * _SMALLEST_RADIUS).all(axis=1)
            nothing_left = (promised <= noise[m]) & small
            flat[m] = nothing_left | (np.ptp(values[m], axis=1) <= noise[m])
        radius[active] = np.maximum(near * shrink[:, None], floor)
        at_floor = (near <= 1.01 * floor).all(axis=1)
        searches.freeze(flat | at_floor)
    # minima of the last models lie exactly on bounds: taken where as good
    index = np.flatnonzero(np.isfinite(value))
    if len(index):
        there = function(target[index], index)
        good = there <= value[index] * (1 + 10 * _NOISE * np.sign(value[index]))
        best[index[good]] = target[index[good]]
        value[index[good]] = there[good]
    settled = np.ones(size, dtype=bool)
    settled[searches.active] = False
    return Minima(best, value, settled)


def _stencil(k: int) -> Floats:
    """Return the points of a stencil in units of its half width: the centre, both ways
    along each axis, one corner for each pair of axes.
    """
    axes = np.eye(k)
    corners = [axes[i] + axes[j] for i, j in combinations(range(k), 2)]
    return np.array([np.zeros(k), *axes, *-axes, *corners])


def _model_minimum(
    values: Floats, low: Floats, high: Floats, noise: Floats
) -> tuple[Floats, Floats]:
    """Return the steps (S, k) to the minima of the quadratics through stencils, and the
    decreases they promise.

    Steps are in units of the radii, at most 2, and stay between `low` and `high`: the
    coordinate that would leave furthest is put on the bound, and the others are solved
    again. Negative curvatures are turned round: a step leads down.
    """
    k = low.shape[1]
    middle = values[:, :1]
    up = values[:, 1 : k + 1]
    down = values[:, k + 1 : 2 * k + 1]
    gradient = (up - down) / 2
    hessian = np.zeros((len(values), k, k))
    hessian[:, range(k), range(k)] = up + down - 2 * middle
    for corner, (i, j) in enumerate(combinations(range(k), 2), start=2 * k + 1):
        mixed = values[:, corner] - up[:, i] - up[:, j] + middle[:, 0]
        hessian[:, i, j] = mixed
        hessian[:, j, i] = mixed
    curvature, axes = np.linalg.eigh(hessian)
    curvature = np.maximum(np.abs(curvature), 4 * noise[:, None] + 1e-300)
    hessian = (axes * curvature[:, None, :]) @ np.swapaxes(axes, 1, 2)
    gradient = np.where(np.abs(gradient) <= noise[:, None], 0.0, gradient)

    low = np.maximum(low, -2.0)
    high = np.minimum(high, 2.0)
    step = np.zeros_like(gradient)
    held = np.zeros(gradient.shape, dtype=bool)
    for _ in range(k + 1):
        # a row of the identity holds its coordinate
        matrix = np.where(held[:, :, None], np.eye(k), hessian)
        right = np.where(held, step, -gradient)
        aim = np.linalg.solve(matrix, right[..., None])[..., 0]
        step = np.clip(aim, low, high)
        beyond = np.abs(aim - step)
        held |= (beyond > 0) & (beyond == beyond.max(axis=1, keepdims=True))
    slope = gradient + 0.5 * (hessian @ step[..., None])[..., 0]
    return step, -np.sum(step * slope, axis=1)

"""Minima of a batch of functions of few variables, in lockstep: quadratic models on shrinking stencils."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np

from giantstep.deadline import check_time
from giantstep.types import Booleans, Floats, Indices

_ROUNDS = 60
_SMALLEST_RADIUS = 1e-3
"""Half width of the last stencil: its model errs by about its square, and by the noise over it."""
_NOISE = 1e-12
"""Relative differences that are no decrease."""

Function = Callable[[Floats, Indices], Floats]
"""Values (M,) of the members `index` (M,) of the batch at the points (M, k); NaN where there is none."""


@dataclass
class Minima:
    """Local minima of S searches.

    Attributes
    ----------
    x : (S, k) where.
    value : (S,) the function there; inf where no point had a value.
    rounds : stencils evaluated.
    settled : (S,) whether the search ended by itself, and not because it had made as many rounds as are allowed.
    """

    x: Floats
    value: Floats
    rounds: int
    settled: Booleans


def minimise_each(
    function: Function, start: Floats, radius: Floats, low: Floats, high: Floats, known: Floats | None = None
) -> Minima:
    """Return a local minimum in the box [low, high] near each of S starting points.

    Every round evaluates a stencil of 1 + 2k + k(k-1)/2 points of half width `radius` around the minimum of the last
    quadratic model, all searches in one call. The radius follows the length of the steps down to 1e-3; where a point
    of the stencil has no value, the search goes on from the best one with half the radius. A stencil that failed or led
    nowhere bounds the radii after it until something better is found, so that no search goes to and fro for ever.

    Parameters
    ----------
    function : see `Function`.
    start : (S, k) points inside the box.
    radius : (k,) first half widths.
    low, high : (k,) the box.
    known : (S, P) values of the first stencils where the caller has them (`stencil_offsets`, moved into the box).
    """
    search = _Searches(function, start, radius, low, high)
    search.known = known
    active = np.arange(len(start))
    rounds = 0
    while len(active) and rounds < _ROUNDS:
        check_time()
        active = search.step(active)
        rounds += 1
    search.finish()
    settled = np.ones(len(start), dtype=bool)
    settled[active] = False
    return Minima(search.best, search.value, rounds, settled)


class _Searches:
    """The state of all searches: best points, minima of the last models, radii."""

    def __init__(self, function: Function, start: Floats, radius: Floats, low: Floats, high: Floats) -> None:
        self.function, self.low, self.high = function, low, high
        size, k = start.shape
        self.offsets = stencil_offsets(k)
        self.known: Floats | None = None
        self.best, self.target = start.copy(), start.copy()
        self.value = np.full(size, np.inf)
        self.radius = np.tile(np.minimum(radius, (high - low) / 2), (size, 1))
        self.widest = np.tile((high - low) / 2, (size, 1))

    def step(self, active: Indices) -> Indices:
        """Evaluate one stencil for each active search and return those that go on."""
        radius = self.radius[active]
        centre = np.clip(self.target[active], self.low + radius, self.high - radius)
        values = self._evaluate(centre, radius, active)
        reached = self._at_target(centre, values, active)
        before = self.value[active]
        self._keep_best(centre, radius, values, active)
        with np.errstate(invalid="ignore"):
            scale = np.abs(self.value[active])
            modelled = np.isfinite(values).all(axis=1)
            worse = modelled & (np.minimum(reached, values.min(axis=1)) > before + 1e3 * _NOISE * scale)
        follows = np.flatnonzero(modelled & ~worse)
        shrink = np.where(worse, 0.25, 0.5)
        flat = np.zeros(len(active), dtype=bool)
        last = self.target[active]
        self.target[active] = self.best[active]
        if len(follows):
            near, values, noise = radius[follows], values[follows], _NOISE * scale[follows]
            target, decrease = self._model(centre[follows], near, values)
            self.target[active[follows]] = target
            shrink[follows] = np.clip(np.max(np.abs(target - last[follows]) / near, axis=1), 0.1, 2.0)
            promised = reached[follows] - values[:, 0] + decrease
            settled = (promised <= noise) & (near <= 20 * _SMALLEST_RADIUS).all(axis=1)
            flat[follows] = settled | (np.ptp(values, axis=1) <= noise)
        widest = (self.high - self.low) / 2
        floor = np.minimum(_SMALLEST_RADIUS, widest)
        failed = np.ones(len(active), dtype=bool)
        failed[follows] = False
        with np.errstate(invalid="ignore"):
            grows = np.where(self.value[active] < before - _NOISE * scale, 2.0, 1.0)[:, None] * self.widest[active]
        self.widest[active] = np.where(failed[:, None], radius * shrink[:, None], np.minimum(grows, widest))
        self.radius[active] = np.maximum(np.minimum(radius * shrink[:, None], self.widest[active]), floor)
        return active[~flat & (radius > 1.01 * floor).any(axis=1)]

    def finish(self) -> None:
        """Move to the minima of the last models where they are as good: they lie exactly on bounds."""
        index = np.flatnonzero(np.isfinite(self.value))
        if not len(index):
            return
        target = self.target[index]
        values = self.function(target, index)
        with np.errstate(invalid="ignore"):
            better = values <= self.value[index] + 10 * _NOISE * np.abs(self.value[index])
        self.best[index[better]] = target[better]
        self.value[index[better]] = values[better]

    def _evaluate(self, centre: Floats, radius: Floats, active: Indices) -> Floats:
        if self.known is not None:
            values, self.known = self.known, None
            return np.where(np.isnan(values), np.inf, values)
        points = centre[:, None, :] + self.offsets * radius[:, None, :]
        points = np.clip(points, self.low, self.high)
        size, count, k = points.shape
        values = self.function(points.reshape(-1, k), np.repeat(active, count)).reshape(size, count)
        return np.where(np.isnan(values), np.inf, values)

    def _at_target(self, centre: Floats, values: Floats, active: Indices) -> Floats:
        """Return the function where the last model has its minimum: the centre, or apart from it near a bound."""
        reached = values[:, 0].copy()
        apart = np.flatnonzero((centre != self.target[active]).any(axis=1))
        if len(apart):
            index = active[apart]
            there = self.function(self.target[index], index)
            reached[apart] = np.where(np.isnan(there), np.inf, there)
            better = there < self.value[index]
            self.best[index[better]], self.value[index[better]] = self.target[index[better]], there[better]
        return reached

    def _keep_best(self, centre: Floats, radius: Floats, values: Floats, active: Indices) -> None:
        lowest = np.argmin(values, axis=1)
        smallest = values[np.arange(len(active)), lowest]
        better = smallest < self.value[active]
        points = np.clip(centre + self.offsets[lowest] * radius, self.low, self.high)
        self.best[active[better]] = points[better]
        self.value[active[better]] = smallest[better]

    def _model(self, centre: Floats, radius: Floats, values: Floats) -> tuple[Floats, Floats]:
        """Return the minimum of the quadratic through a stencil, and the decrease it promises."""
        gradient, hessian = _without_noise(*_derivatives(values, centre.shape[1]), np.abs(values[:, 0]))
        low = np.maximum((self.low - centre) / radius, -2.0)
        high = np.minimum((self.high - centre) / radius, 2.0)
        step, decrease = _box_minimum(gradient, hessian, low, high)
        return np.clip(centre + step * radius, self.low, self.high), decrease


def stencil_offsets(k: int) -> Floats:
    """Return the offsets of a stencil: the centre, both ways along each axis, one corner for each pair of axes."""
    axes = np.eye(k)
    pairs = [axes[i] + axes[j] for i, j in combinations(range(k), 2)]
    return np.array([np.zeros(k), *axes, *-axes, *pairs])


def _derivatives(values: Floats, k: int) -> tuple[Floats, Floats]:
    """Return gradients and Hessians, in units of the radii, of stencils with the values (S, P)."""
    middle, up, down = values[:, :1], values[:, 1 : k + 1], values[:, k + 1 : 2 * k + 1]
    gradient = (up - down) / 2
    hessian = np.zeros((len(values), k, k))
    hessian[:, range(k), range(k)] = up + down - 2 * middle
    for corner, (i, j) in enumerate(combinations(range(k), 2), start=2 * k + 1):
        mixed = values[:, corner] - up[:, i] - up[:, j] + middle[:, 0]
        hessian[:, i, j] = hessian[:, j, i] = mixed
    return gradient, hessian


def _without_noise(gradient: Floats, hessian: Floats, scale: Floats) -> tuple[Floats, Floats]:
    """Hold the axes along which nothing changes but the rounding: slope 0, curvature 1, no mixed derivatives."""
    curvature = np.diagonal(hessian, axis1=1, axis2=2)
    flat = np.maximum(np.abs(gradient), np.abs(curvature)) <= _NOISE * scale[:, None]
    mixed = np.where(flat[:, :, None] | flat[:, None, :], 0.0, hessian)
    return np.where(flat, 0.0, gradient), mixed + flat[:, :, None] * np.eye(gradient.shape[1])


def _box_minimum(gradient: Floats, hessian: Floats, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Return the minimum of g.s + s.H.s/2 over a box that holds 0, and the decrease there, by trying every face."""
    size, k = gradient.shape
    step, lowest = np.zeros((size, k)), np.zeros(size)
    for face in product((None, low, high), repeat=k):
        trial = np.zeros((size, k))
        for axis, bound in enumerate(face):
            if bound is not None:
                trial[:, axis] = bound[:, axis]
        free = [axis for axis, bound in enumerate(face) if bound is None]
        inside: Booleans = np.ones(size, dtype=bool)
        if free:
            push = gradient[:, free] + np.einsum("sij,sj->si", hessian[:, free, :], trial)
            block = hessian[:, free][:, :, free]
            regular = np.abs(np.linalg.det(block)) > 1e-300
            block = np.where(regular[:, None, None], block, np.eye(len(free)))
            trial[:, free] = -np.linalg.solve(block, push[..., None])[..., 0]
            within = (trial[:, free] >= low[:, free]) & (trial[:, free] <= high[:, free])
            inside = regular & within.all(axis=1)
        change = np.einsum("si,si->s", gradient, trial) + 0.5 * np.einsum("si,sij,sj->s", trial, hessian, trial)
        better = inside & (change < lowest)
        step[better], lowest[better] = trial[better], change[better]
    return step, -lowest

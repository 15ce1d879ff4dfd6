"""Fixed points of smooth maps over a batch: Anderson mixing, then Newton by
differences, then damping.

Every point runs its own course, so its answer does not depend on its neighbours in the
batch.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from giantstep.core.base.types import Array, Booleans, Indices
from giantstep.core.maths.solve.fixed_point import FixedPoint
from giantstep.core.maths.solve.linear import solve_each
from giantstep.core.maths.solve.open_points import OpenPoints

Mapping = Callable[[Array, Array], Array]

GOAL = 1e-12
"""A point is done once max|G(x) - x| is below this."""
BEGIN = 0.5
"""Residual below which points are mixed; further out plain steps are taken."""
SWEEPS = 40
"""Sweeps that mixing is tried for."""
DAMPING = (0.5, 0.8, 0.95)
DAMPED_SWEEPS = 200
"""Fractions of the old point that are kept in turn, and for how many sweeps each."""
MEMORY = 5
"""Earlier steps that Anderson mixing looks back on."""
NEWTON_STEPS = 15
"""Newton steps at most: each squares the distance, so that a point that needs more is
lost.
"""
HALVINGS = 8
"""Lengths that are tried for a Newton step, each half of the one before."""
_DIFFERENCE = 1e-6
"""Half the width of central differences, in coordinates of order 1: rounding and
curvature leave 1e-10.
"""


def solve_accelerated(
    mapping: Mapping, start: Array, *, patient: bool = True
) -> FixedPoint:
    """Solve x = G(x) at every point of a batch, in coordinates where differences of 1
    are large.

    ``mapping(x, active) -> G(x)`` is asked for the points listed in `active`; x is
    (len(active), n), the start (B, n). Anderson mixing is tried first, then Newton.
    Where neither helps, and with patience, fractions of the old point are kept, with
    Newton after each. A point is done once max|G(x) - x| is below `GOAL`.
    """
    state = _AcceleratedBatch(mapping, np.array(start, dtype=float))
    state.mix()
    state.newton()
    if not patient:
        return FixedPoint(state.best_x, state.best, state.iterations)
    for kept in DAMPING:
        if not state.open.size:
            break
        # not even a finite residual was found: back to the start, else to the best
        lost = ~np.isfinite(state.best)
        state.x = np.where(lost[:, None], start, state.best_x)
        state.damp(kept)
        state.newton()
    return FixedPoint(state.best_x, state.best, state.iterations)


class Mixing:
    """Anderson mixing of many points at once, in coordinates that count with `weights`
    (B, n).
    """

    def __init__(self, weights: Array) -> None:
        count, n = weights.shape
        self.weights = weights
        # the last points and the steps G(x) - x from them, the newest first; NaN where
        # there is none yet
        self.points = np.full((count, MEMORY + 1, n), np.nan)
        self.steps = np.full((count, MEMORY + 1, n), np.nan)

    def next(self, active: Array, x: Array, image: Array, lost: Booleans) -> Array:
        """Return where the points in `active` go from x and its image; those that are
        lost forget their past.
        """
        step = image - x
        moved = _remember(self.points, active, x, lost)
        turned = _remember(self.steps, active, step, lost)
        # the combination of earlier differences that cancels the step best
        weights = self.weights[active]
        measured = turned * weights[:, None]
        gram = measured @ np.swapaxes(measured, 1, 2)
        # differences that are nearly parallel, or missing, leave the matrix singular
        size = np.trace(gram, axis1=1, axis2=2)[:, None, None]
        gram += np.where(size > 0, 1e-13 * size, 1.0) * np.eye(MEMORY)
        share = solve_each(gram, measured @ (step * weights)[:, :, None])
        correction = np.swapaxes(share, 1, 2) @ (moved + turned)
        return np.asarray(image - correction[:, 0])


def _remember(history: Array, active: Array, now: Array, lost: Booleans) -> Array:
    """Put the newest in front of a history; return how the earlier ones differ from
    it, 0 where there is none.
    """
    history[active[lost]] = np.nan
    history[active] = np.concatenate([now[:, None], history[active, :-1]], axis=1)
    change = history[active, 1:] - now[:, None]
    return np.nan_to_num(change, posinf=0.0, neginf=0.0)


class _AcceleratedBatch:
    """The best point so far of every problem, and which are still open."""

    def __init__(self, mapping: Mapping, x: Array) -> None:
        self.mapping = mapping
        self.x = x
        self.best_x = x.copy()
        self.best = np.full(len(x), np.inf)
        self.iterations = np.zeros(len(x), dtype=np.int64)

    @property
    def open(self) -> Indices:
        return np.flatnonzero(~(self.best < GOAL))

    def evaluate(self, x: Array, active: Array) -> tuple[Array, Array]:
        """Return G(x) and the residual; the best point of each is remembered."""
        with np.errstate(all="ignore"):
            image = self.mapping(x, active)
        residual = np.abs(image - x).max(axis=1)
        residual = np.where(np.isfinite(residual), residual, np.inf)
        self.iterations[active] += 1
        better = residual < self.best[active]
        self.best[active[better]] = residual[better]
        self.best_x[active[better]] = x[better]
        return image, residual

    def sweep(self, points: OpenPoints) -> tuple[Array, Array]:
        """Evaluate the open points and freeze those that are done or have left the
        numbers; return images and residuals of the others.
        """
        active = points.active
        image, residual = self.evaluate(self.x[active], active)
        stopped = np.asarray(~np.isfinite(residual) | (residual < GOAL))
        points.freeze(stopped)
        return image[~stopped], residual[~stopped]

    def mix(self) -> None:
        """Anderson mixing; the past is forgotten where the residual grows tenfold."""
        mixing = Mixing(np.ones_like(self.x))
        last = np.full(len(self.x), np.inf)
        points = OpenPoints(len(self.x), SWEEPS)
        for _ in points:
            image, residual = self.sweep(points)
            active = points.active
            if not active.size:
                return
            lost = (residual > BEGIN) | (residual > 10 * last[active])
            last[active] = residual
            self.x[active] = mixing.next(active, self.x[active], image, lost)

    def newton(self) -> None:
        """Newton by central differences from the best point, with backtracking; a point
        that gains nothing is left.
        """
        begun = np.isfinite(self.best[self.open])
        points = OpenPoints(self.open[begun], NEWTON_STEPS)
        n = self.x.shape[1]
        for active in points:
            x = self.best_x[active]
            image, now = self.evaluate(x, active)
            jacobian = self.jacobian(x, active)
            usable = np.asarray(np.isfinite(jacobian).all(axis=(1, 2)))
            points.freeze(~usable)
            if not points.active.size:
                return
            step_to_image = (image - x)[usable]
            matrix = np.eye(n) - jacobian[usable]
            step = solve_each(matrix, step_to_image[..., None])[..., 0]
            # the plain step where the matrix is singular
            step = np.where(np.isfinite(step), step, step_to_image)
            gained = self.backtrack(points.active, x[usable], step, now[usable])
            points.freeze(~gained | (self.best[points.active] < GOAL))

    def jacobian(self, x: Array, active: Array) -> Array:
        """Return dG_i / dx_j (len(active), n, n) by central differences."""
        n = x.shape[1]
        jacobian = np.empty((len(active), n, n))
        with np.errstate(all="ignore"):
            for j in range(n):
                shift = np.zeros(n)
                shift[j] = _DIFFERENCE
                up = self.mapping(x + shift, active)
                down = self.mapping(x - shift, active)
                jacobian[:, :, j] = (up - down) / (2 * _DIFFERENCE)
        self.iterations[active] += 2 * n
        return jacobian

    def backtrack(self, active: Array, x: Array, step: Array, now: Array) -> Booleans:
        """Halve the steps until the residual falls below 0.9 of what it is `now`;
        return where it does.
        """
        gained = np.zeros(len(active), dtype=bool)
        length = 1.0
        for _ in range(HALVINGS):
            trying = np.flatnonzero(~gained)
            if not trying.size:
                break
            new = x[trying] + length * step[trying]
            _, residual = self.evaluate(new, active[trying])
            gained[trying] = residual < 0.9 * now[trying]
            length *= 0.5
        return gained

    def damp(self, kept: float) -> None:
        """Plain steps of length 1 - kept."""
        points = OpenPoints(self.open, DAMPED_SWEEPS)
        for _ in points:
            image, _ = self.sweep(points)
            active = points.active
            self.x[active] = kept * self.x[active] + (1 - kept) * image

"""Fixed points of smooth maps over a batch: Anderson mixing, then Newton by
differences, then damping.

Every point runs its own course, so its answer does not depend on its neighbours in the
batch.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from giantstep.core.base.deadline import check_time
from giantstep.core.base.types import Array, Booleans, Indices
from giantstep.core.maths.solve.fixed_point import FixedPoint, solve_each

Mapping = Callable[[Array, Array], Array]

GOAL = 1e-12
"""A point is done once max|G(x) - x| is below this."""
BEGIN = 0.5
SWEEPS = 40
"""Residual below which points are mixed, after plain steps, and how many sweeps that is
tried for.
"""
DAMPING = (0.5, 0.8, 0.95)
DAMPED_SWEEPS = 200
"""Fractions of the old point that are kept in turn, and for how many sweeps each."""
MEMORY = 5
"""Earlier steps that Anderson mixing looks back on."""
NEWTON_STEPS = 15
"""Newton steps at most: each squares the distance, so that a point that needs more is
lost.
"""
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
    for kept in DAMPING if patient else ():
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
        self.weights = weights
        self.points, self.steps = np.full(
            (2, len(weights), MEMORY + 1, weights.shape[1]), np.nan
        )

    def next(self, active: Array, x: Array, image: Array, lost: Booleans) -> Array:
        """Return where the points in `active` go from x and its image; those that are
        lost forget their past.
        """
        changes = []
        for history, now in ((self.points, x), (self.steps, image - x)):
            history[active[lost]] = np.nan
            history[active] = np.concatenate(
                [now[:, None], history[active, :-1]], axis=1
            )
            changes.append(
                np.nan_to_num(
                    history[active, 1:] - now[:, None], posinf=0.0, neginf=0.0
                )
            )
        weights, (moved, turned) = self.weights[active], changes
        measured = turned * weights[:, None]
        gram = measured @ np.swapaxes(measured, 1, 2)
        size = np.trace(gram, axis1=1, axis2=2)[:, None, None]
        gram += np.where(size > 0, 1e-13 * size, 1.0) * np.eye(MEMORY)
        share = solve_each(gram, measured @ ((image - x) * weights)[:, :, None])
        return np.asarray(image - (np.swapaxes(share, 1, 2) @ (moved + turned))[:, 0])


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

    def sweep(self, active: Array) -> tuple[Array, Array, Array]:
        """Return which of the points are still to go on, their images and residuals."""
        check_time()
        image, residual = self.evaluate(self.x[active], active)
        going = np.isfinite(residual) & ~(residual < GOAL)
        return active[going], image[going], residual[going]

    def mix(self) -> None:
        """Anderson mixing; the past is forgotten where the residual grows tenfold."""
        mixing = Mixing(np.ones_like(self.x))
        last = np.full(len(self.x), np.inf)
        active = np.arange(len(self.x))
        for _ in range(SWEEPS):
            active, image, residual = self.sweep(active)
            if not active.size:
                return
            lost = (residual > BEGIN) | (residual > 10 * last[active])
            last[active] = residual
            self.x[active] = mixing.next(active, self.x[active], image, lost)

    def newton(self) -> None:
        """Newton by central differences from the best point, with backtracking; a point
        that gains nothing is left.
        """
        active = self.open
        active = active[np.isfinite(self.best[active])]
        n = self.x.shape[1]
        for _ in range(NEWTON_STEPS):
            check_time()
            if not active.size:
                return
            x = self.best_x[active]
            image, now = self.evaluate(x, active)
            jacobian = np.empty((len(active), n, n))
            with np.errstate(all="ignore"):
                for j in range(n):
                    shift = np.zeros(n)
                    shift[j] = _DIFFERENCE
                    up = self.mapping(x + shift, active)
                    down = self.mapping(x - shift, active)
                    jacobian[:, :, j] = (up - down) / (2 * _DIFFERENCE)
            self.iterations[active] += 2 * n
            usable = np.isfinite(jacobian).all(axis=(1, 2))
            active = active[usable]
            x = x[usable]
            image = image[usable]
            now = now[usable]
            jacobian = jacobian[usable]
            if not active.size:
                return
            step = solve_each(np.eye(n) - jacobian, (image - x)[..., None])[..., 0]
            step = np.where(np.isfinite(step), step, image - x)
            gained = np.zeros(len(active), dtype=bool)
            length = 1.0
            for _ in range(8):
                trying = np.flatnonzero(~gained)
                if not trying.size:
                    break
                _, residual = self.evaluate(
                    x[trying] + length * step[trying], active[trying]
                )
                gained[trying] = residual < 0.9 * now[trying]
                length *= 0.5
            active = active[gained & ~(self.best[active] < GOAL)]

    def damp(self, kept: float) -> None:
        """Plain steps of length 1 - kept."""
        active = self.open
        for _ in range(DAMPED_SWEEPS):
            active, image, _ = self.sweep(active)
            if not active.size:
                return
            self.x[active] = kept * self.x[active] + (1 - kept) * image

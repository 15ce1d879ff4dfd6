"""Fixed points of smooth maps over a batch: Anderson mixing, then Newton by differences, then damping.

Every point runs its own course, so its answer does not depend on its neighbours in the batch.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from giantstep.deadline import check_time
from giantstep.solve.fixed_point import FixedPoint, solve_each
from giantstep.types import Array, Indices

Mapping = Callable[[Array, Array], Array]

GOAL = 1e-12
"""A point is done once max|G(x) - x| is below this, if nothing else is asked for."""
MEMORY = 5
"""Earlier steps that Anderson mixing combines."""
NEWTON_STEPS = 15
"""Newton steps at most: each squares the distance, so that a point that needs more is lost."""
_DIFFERENCE = 1e-6
"""Half the width of central differences, in coordinates of order 1: rounding and curvature leave 1e-10."""


def solve_accelerated(
    mapping: Mapping,
    start: Array,
    *,
    begin: float = 0.5,
    sweeps: int = 40,
    damping: tuple[float, ...] = (0.5, 0.8, 0.95),
    damped_sweeps: int = 200,
    goal: float = GOAL,
) -> FixedPoint:
    """Solve x = G(x) at every point of a batch, in coordinates where differences of 1 are large.

    ``mapping(x, active) -> G(x)`` is asked for the points listed in `active`; x is (len(active), n), the start (B, n).
    Anderson mixing is tried for so many `sweeps`; it starts once the residual is below `begin`, after plain steps. Then
    fractions of the old point are kept, those of `damping` in turn for `damped_sweeps` each, with Newton after each. A
    point is done once max|G(x) - x| is below `goal`.
    """
    state = _AcceleratedBatch(mapping, np.array(start, dtype=float), goal)
    state.mix(begin, sweeps)
    state.newton()
    for kept in damping:
        if not state.open.size:
            break
        lost = ~np.isfinite(state.best)  # not even a finite residual was found: back to the start, else to the best
        state.x = np.where(lost[:, None], start, state.best_x)
        state.damp(kept, damped_sweeps)
        state.newton()
    return FixedPoint(state.best_x, state.best, state.iterations)


class _AcceleratedBatch:
    """The best point so far of every problem, and which are still open."""

    def __init__(self, mapping: Mapping, x: Array, goal: float) -> None:
        self.mapping, self.x, self.goal = mapping, x, goal
        self.best_x = x.copy()
        self.best = np.full(len(x), np.inf)
        self.iterations = np.zeros(len(x), dtype=np.int64)

    @property
    def open(self) -> Indices:
        return np.flatnonzero(~(self.best < self.goal))

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

    def mix(self, begin: float, sweeps: int) -> None:
        """Anderson mixing; the memory is dropped where the residual grows tenfold."""
        B, n = self.x.shape
        points, steps = np.zeros((B, MEMORY + 1, n)), np.zeros((B, MEMORY + 1, n))
        filled = np.zeros(B, dtype=np.int64)
        last = np.full(B, np.inf)
        active = np.arange(B)
        for _ in range(sweeps):
            check_time()
            if not active.size:
                return
            image, residual = self.evaluate(self.x[active], active)
            keep = np.isfinite(residual) & ~(residual < self.goal)
            active, image, residual = active[keep], image[keep], residual[keep]
            if not active.size:
                return
            filled[active[(residual > begin) | (residual > 10 * last[active])]] = 0
            last[active] = residual
            for history, now in ((points, self.x[active]), (steps, image - self.x[active])):
                history[active] = np.roll(history[active], 1, axis=1)
                history[active, 0] = now
            filled[active] = np.where(residual > begin, 0, np.minimum(filled[active] + 1, MEMORY + 1))
            proposal = image
            for count in np.unique(filled[active]):
                if count < 2:
                    continue
                chosen = filled[active] == count
                who = active[chosen]
                f, x = steps[who, :count], points[who, :count]
                df, dx = (f[:, :1] - f[:, 1:]).swapaxes(1, 2), (x[:, :1] - x[:, 1:]).swapaxes(1, 2)
                weights = np.linalg.pinv(df, rcond=1e-10) @ f[:, 0, :, None]
                proposal[chosen] = (x[:, 0] + f[:, 0]) - ((dx + df) @ weights)[..., 0]
            self.x[active] = proposal

    def newton(self) -> None:
        """Newton by central differences from the best point, with backtracking; a point that gains nothing is left."""
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
                    up, down = self.mapping(x + shift, active), self.mapping(x - shift, active)
                    jacobian[:, :, j] = (up - down) / (2 * _DIFFERENCE)
            self.iterations[active] += 2 * n
            usable = np.isfinite(jacobian).all(axis=(1, 2))
            active, x, image, now, jacobian = active[usable], x[usable], image[usable], now[usable], jacobian[usable]
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
                _, residual = self.evaluate(x[trying] + length * step[trying], active[trying])
                gained[trying] = residual < 0.9 * now[trying]
                length *= 0.5
            active = active[gained & ~(self.best[active] < self.goal)]

    def damp(self, kept: float, sweeps: int) -> None:
        """Plain steps of length 1 - kept."""
        active = self.open
        for _ in range(sweeps):
            check_time()
            if not active.size:
                return
            image, residual = self.evaluate(self.x[active], active)
            going = np.isfinite(residual) & ~(residual < self.goal)
            active, image = active[going], image[going]
            self.x[active] = kept * self.x[active] + (1 - kept) * image

"""The limit of small rates: the ODE of the overlaps, its trajectories and recovery times.

Where moments are sampled they jump when a point crosses a kink, on which a solver of high order and accuracy stalls.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy

from giantstep.blocks import filled
from giantstep.deadline import check_time
from giantstep.families.online_sgd.drive import Drive
from giantstep.families.online_sgd.dynamics import flow
from giantstep.families.online_sgd.integrators import Integrator
from giantstep.families.online_sgd.states import State, best_cosine
from giantstep.families.online_sgd.tolerances import DIVERGED
from giantstep.solve.finite import require_finite
from giantstep.types import Floats, Integers

_EXACT, _SAMPLED = ("DOP853", 1e-11), ("RK45", 3e-4)
"""Method and relative error of one step: far below the distance from the map, or below that of sampled moments."""
_ABSOLUTE = 1e-3
"""Absolute error of one step over the relative one: overlaps below this do not count."""


def ode_trajectory(integrator: Integrator, drive: Drive, M: Floats, Q: Floats, times: Integers) -> State:
    """Return the states of the ODE at `times`, each point with its own adaptive steps; NaN from where one diverged."""
    Ms = filled((len(M), len(times), *M.shape[1:]), np.nan)
    Qs = filled((len(M), len(times), *Q.shape[1:]), np.nan)
    wanted = times.astype(float)
    for i in range(len(M)):
        single = _SingleFlow(integrator, drive.take(slice(i, i + 1)), *M.shape[1:])
        end = max(float(wanted[-1]), 1e-9)
        solution = single.solve(M[i], Q[i], end, 0.01 * end, [single.norm_left], wanted)
        for column, state in enumerate(np.transpose(solution.y)):  # a list, empty, where the first step failed
            Ms[i : i + 1, column], Qs[i : i + 1, column] = single.unpack(state)
    return Ms, Qs


def ode_recovery(
    integrator: Integrator, drive: Drive, M: Floats, Q: Floats, frame: Floats, threshold: float, steps: Floats
) -> Floats:
    """Return the time at which the ODE's best cosine reaches the threshold, by an event of the solver."""
    time = np.where(best_cosine(M, Q, frame) >= threshold, 0.0, np.inf)
    for i in np.flatnonzero(time > 0):
        single = _SingleFlow(integrator, drive.take(slice(i, i + 1)), *M.shape[1:])

        def excess(state: Floats, single: _SingleFlow = single) -> float:
            return float(best_cosine(*single.unpack(state), frame)[0]) - threshold

        solution = single.solve(M[i], Q[i], float(steps[i]), 1.0, [excess, single.norm_left])
        reached, lost = solution.t_events
        if len(reached):
            time[i] = reached[0]
        elif len(lost) or solution.status == -1:
            time[i] = np.nan
    return time


class _SingleFlow:
    """The ODE of one point for SciPy's solvers: the state is M and the lower triangle of Q."""

    def __init__(self, integrator: Integrator, drive: Drive, p: int, k: int) -> None:
        self.integrator, self.drive, self.p, self.k = integrator, drive, p, k
        self.low = np.tril_indices(p)

    def unpack(self, state: Floats) -> State:
        """Return M (1, p, k) and Q (1, p, p)."""
        split, Q = self.p * self.k, np.empty((1, self.p, self.p))
        Q[0][self.low] = state[split:]
        Q[0].T[self.low] = state[split:]
        return state[:split].reshape(1, self.p, self.k), Q

    def norm_left(self, state: Floats) -> float:
        """Return by how much the largest squared norm may still grow before the point has diverged."""
        return DIVERGED - float(np.diagonal(self.unpack(state)[1][0]).max())

    def solve(
        self,
        M: Floats,
        Q: Floats,
        end: float,
        first: float,
        stops: list[Callable[[Floats], float]],
        times: Floats | None = None,
    ) -> Any:
        """Integrate from (M, Q) with the first step `first`, until `end` or until one of `stops` is zero."""

        def right(t: float, state: Floats) -> Floats:
            check_time()
            dM, dQ = flow(self.integrator, self.drive, *self.unpack(state))
            return np.concatenate([dM.ravel(), dQ[0][self.low]])

        events = [lambda t, state, stop=stop: stop(state) for stop in stops]
        for event in events:
            event.terminal = True  # type: ignore[attr-defined]
        start = np.concatenate([M.ravel(), Q[self.low]])
        require_finite("the state at the start", start)
        method, error = _SAMPLED if self.integrator.sampled else _EXACT
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            return scipy.integrate.solve_ivp(
                right, (0.0, end), start, method=method, t_eval=times, events=events, rtol=error,
                atol=_ABSOLUTE * error, first_step=min(first, end),
            )  # fmt: skip

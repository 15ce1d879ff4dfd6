"""The limit of the overlaps: the exact mean map and its trajectories and recovery
times, batched over points.

Where moments are sampled they jump when a point crosses a kink, on which a solver of
high order and accuracy stalls.

One erf neuron and one direction are advanced in plain floats, far faster than arrays
with one entry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import atan2, nan, pi, sqrt
from typing import Any

import numpy as np
import scipy

from giantstep.core.base.chunks import filled
from giantstep.core.base.deadline import check_time
from giantstep.core.base.types import Floats, Integers
from giantstep.core.maths.solve.roots import require_finite
from giantstep.problems.online_sgd import states
from giantstep.problems.online_sgd.integrators import ErfIntegrator, Forces, Integrator
from giantstep.problems.online_sgd.states import Drive, State
from giantstep.problems.online_sgd.tolerances import DIVERGED, FLUCTUATION, ROUNDING


def map_step(integrator: Integrator, drive: Drive, M: Floats, Q: Floats) -> State:
    """Return the mean of (M, Q) after one update, exact given (M, Q), gradient_dynamics
    (2.1a)-(2.1c).

    In the coordinates xi an update adds g a_j E[F_j xi] to the rows R; what a finite
    batch scatters around it, (g^2/n_b) a_j a_l (E[F_j F_l |x|^2] - drift_j.drift_l),
    only lengthens Q.
    """
    R = states.rows(M, Q)
    force, drift = _force_and_drift(integrator, drive, R)
    step = drive.pace[:, None] * drive.second_layer
    R = R + step[..., None] * drift
    Q = R @ R.transpose(0, 2, 1) + _scattered(drive, force, drift)
    M = R[..., : M.shape[-1]]
    if drive.blocks is not None:
        M, Q = states.block_averages(M, Q, drive.blocks)
    if drive.constraint == "none":
        return M, Q
    length = np.sqrt(np.diagonal(Q, axis1=1, axis2=2))
    return M / length[..., None], Q / (length[..., None] * length[:, None])


def _scattered(drive: Drive, force: Forces, drift: Floats) -> Floats:
    """Return what a finite batch adds to the mean of Q in one update (B, p, p)."""
    chi = (drive.dim - (drift.shape[-1] if drive.terms == "map" else 0))[
        :, None, None
    ] * force.chi
    if drive.terms == "map":
        chi += force.spread
    if drive.terms != "published":
        chi -= drift @ drift.transpose(0, 2, 1)
    scatter = drive.pace[:, None] * drive.second_layer / np.sqrt(drive.batch)[:, None]
    return np.asarray(scatter[:, :, None] * chi * scatter[:, None, :])


def noise_of_an_update(
    integrator: Integrator, drive: Drive, M: Floats, Q: Floats
) -> Floats:
    """Return how much longer the noise of one batch makes the longest row, in squared
    lengths (B,).
    """
    force, drift = _force_and_drift(integrator, drive, states.rows(M, Q))
    added = np.diagonal(_scattered(drive, force, drift), axis1=1, axis2=2)
    return np.asarray(np.max(added / np.diagonal(Q, axis1=1, axis2=2), axis=1))


def length_error(noise: Floats, batch: Floats) -> Floats:
    """Estimate how far off overlaps are where rows are divided by the mean of their
    length after an update (B,).

    That of one batch has a relative variance of FLUCTUATION/n_b in what its noise adds,
    and 1/sqrt(1 + noise) is not linear: its second order, relative to what the division
    takes from the row.
    """
    bent = 0.375 * FLUCTUATION / batch * noise**2 / (1 + noise) ** 2.5
    shrunk = 1 - 1 / np.sqrt(1 + noise)
    return np.asarray(np.where(noise > 0, bent / np.where(noise > 0, shrunk, 1.0), 0.0))


def flow(integrator: Integrator, drive: Drive, M: Floats, Q: Floats) -> State:
    """Return dM/dt and dQ/dt per update in the limit of small rates.

    dM = g A psi, dQ = g (A phi + phi^T A) + g^2 (d/n_b) A chi A; a constraint keeps
    Q_jj = 1.
    """
    R = states.rows(M, Q)
    force, drift = _force_and_drift(integrator, drive, R)
    step = drive.pace[:, None] * drive.second_layer
    moved = step[..., None] * drift
    phi = moved @ R.transpose(0, 2, 1)
    scatter = step * np.sqrt(drive.dim / drive.batch)[:, None]
    dQ = (
        phi
        + phi.transpose(0, 2, 1)
        + scatter[:, :, None] * force.chi * scatter[:, None, :]
    )
    dM = moved[..., : M.shape[-1]]
    if drive.blocks is not None:
        dM, dQ = states.block_averages(dM, dQ, drive.blocks)
    if drive.constraint == "none":
        return dM, dQ
    growth = 0.5 * np.diagonal(dQ, axis1=1, axis2=2)
    return (
        dM - growth[..., None] * M,
        dQ - (growth[:, :, None] + growth[:, None, :]) * Q,
    )


def _force_and_drift(
    integrator: Integrator, drive: Drive, R: Floats
) -> tuple[Forces, Floats]:
    """Return the moments of F, and the drift of the rows, on the sphere along it,
    without rounding errors.
    """
    force = integrator.forces(R, drive.inner, drive.noise)
    size = np.sqrt(np.diagonal(force.chi, axis1=1, axis2=2))[..., None]
    drift = np.where(np.abs(force.drift) > ROUNDING * size, force.drift, 0.0)
    if drive.constraint == "spherical":
        drift = drift - (drift * R).sum(axis=-1, keepdims=True) * R
    return force, drift


def map_trajectory(
    integrator: Integrator, drive: Drive, M: Floats, Q: Floats, times: Integers
) -> State:
    """Return the states at `times` (increasing), (B, times, ...); NaN from where a
    point diverged.
    """
    Ms = filled((len(M), len(times), *M.shape[1:]), np.nan)
    Qs = filled((len(M), len(times), *Q.shape[1:]), np.nan)
    if len(M) == 1 and isinstance(integrator, ErfIntegrator) and integrator.is_single:
        for column, state in enumerate(
            _single_path(integrator, drive, M.item(), Q.item(), times)
        ):
            Ms[0, column], Qs[0, column] = state
        return Ms, Qs
    alive = np.arange(len(M))
    columns = dict(zip(times.tolist(), range(len(times))))
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        for update in range(int(times[-1]) + 1):
            check_time()
            if update:
                M, Q = map_step(integrator, drive, M, Q)
            lost = states.has_diverged(Q)
            if lost.any():
                alive = alive[~lost]
                M = M[~lost]
                Q = Q[~lost]
                drive = drive.take(~lost)
            if not len(alive):
                break
            if update in columns:
                Ms[alive, columns[update]] = M
                Qs[alive, columns[update]] = Q
    return Ms, Qs


def map_recovery(
    integrator: Integrator,
    drive: Drive,
    M: Floats,
    Q: Floats,
    frame: Floats,
    threshold: float,
    steps: Floats,
) -> Floats:
    """Return the first update at which the best cosine reaches the threshold; inf if it
    does not, NaN if diverged.
    """
    time = np.full(len(M), np.inf)
    going = np.arange(len(M))
    update = 0
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        while len(going):
            check_time()
            reached = states.best_cosine(M, Q, frame) >= threshold
            lost = states.has_diverged(Q)
            time[going[reached]] = update
            time[going[lost]] = np.nan
            left = ~(reached | lost | (steps[going] <= update))
            if not left.all():
                going = going[left]
                M = M[left]
                Q = Q[left]
                drive = drive.take(left)
            if len(going):
                M, Q = map_step(integrator, drive, M, Q)
            update += 1
    return time


# -- The limit of small rates: its ODE -------------------------------------------------

_EXACT = ("DOP853", 1e-11)
_SAMPLED = ("RK45", 3e-4)
"""Method and relative error of one step: far below the distance from the map, or below
that of sampled moments.
"""
_ABSOLUTE = 1e-3
"""Absolute error of one step over the relative one: overlaps below this do not
count.
"""


def ode_trajectory(
    integrator: Integrator, drive: Drive, M: Floats, Q: Floats, times: Integers
) -> State:
    """Return the states of the ODE at `times`, each point with its own adaptive steps;
    NaN from where one diverged.
    """
    Ms = filled((len(M), len(times), *M.shape[1:]), np.nan)
    Qs = filled((len(M), len(times), *Q.shape[1:]), np.nan)
    wanted = times.astype(float)
    end = max(float(wanted[-1]), 1e-9)
    for i in range(len(M)):
        solution, unpack = _solve(
            integrator,
            drive.take(slice(i, i + 1)),
            M[i],
            Q[i],
            end,
            0.01 * end,
            times=wanted,
        )
        for column, state in enumerate(
            np.transpose(solution.y)
        ):  # a list, empty, where the first step failed
            Ms[i : i + 1, column], Qs[i : i + 1, column] = unpack(state)
    return Ms, Qs


def ode_recovery(
    integrator: Integrator,
    drive: Drive,
    M: Floats,
    Q: Floats,
    frame: Floats,
    threshold: float,
    steps: Floats,
) -> Floats:
    """Return the time at which the ODE's best cosine reaches the threshold, by an event
    of the solver.
    """

    def excess(M: Floats, Q: Floats) -> float:
        return float(states.best_cosine(M, Q, frame)[0]) - threshold

    time = np.where(states.best_cosine(M, Q, frame) >= threshold, 0.0, np.inf)
    for i in np.flatnonzero(time > 0):
        solution, _ = _solve(
            integrator,
            drive.take(slice(i, i + 1)),
            M[i],
            Q[i],
            float(steps[i]),
            1.0,
            excess,
        )
        lost, reached = solution.t_events
        if len(reached):
            time[i] = reached[0]
        elif len(lost) or solution.status == -1:
            time[i] = np.nan
    return time


def _solve(
    integrator: Integrator,
    drive: Drive,
    M: Floats,
    Q: Floats,
    end: float,
    first: float,
    *stops: Callable[[Floats, Floats], float],
    times: Floats | None = None,
) -> tuple[Any, Callable[[Floats], State]]:
    """Integrate one point until `end`, divergence or a zero of `stops`; return that,
    and what unpacks its states.
    """
    (p, k), low = M.shape, np.tril_indices(len(Q))

    def unpack(state: Floats) -> State:
        Q = np.empty((1, p, p))
        Q[0][low] = Q[0].T[low] = state[p * k :]
        return state[: p * k].reshape(1, p, k), Q

    def right(t: float, state: Floats) -> Floats:
        check_time()
        dM, dQ = flow(integrator, drive, *unpack(state))
        return np.concatenate([dM.ravel(), dQ[0][low]])

    def norm_left(M: Floats, Q: Floats) -> float:
        return DIVERGED - float(np.diagonal(Q[0]).max())

    events = [
        lambda t, state, stop=stop: stop(*unpack(state)) for stop in (norm_left, *stops)
    ]
    for event in events:
        event.terminal = True  # type: ignore[attr-defined]
    start = np.concatenate([M.ravel(), Q[low]])
    require_finite("the state at the start", start)
    method, error = _SAMPLED if integrator.sampled else _EXACT
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        solution = scipy.integrate.solve_ivp(
            right,
            (0.0, end),
            start,
            method=method,
            t_eval=times,
            events=events,
            rtol=error,
            atol=_ABSOLUTE * error,
            first_step=min(first, end),
        )
    return solution, unpack


# -- Long trajectories of one erf neuron -----------------------------------------------


def _single_path(
    closed: ErfIntegrator, drive: Drive, m: float, q: float, times: Integers
) -> Iterator[tuple[float, float]]:
    """Yield (m, q) at the times; NaN where the squared norm passes the limit."""
    advance = single_step(closed, drive)
    for count in np.diff(times, prepend=0).tolist():
        for _ in range(count):
            check_time()
            if not q <= DIVERGED:
                break
            m, q = advance(m, q)
        yield (m, q) if q <= DIVERGED else (nan, nan)


def single_step(
    closed: ErfIntegrator, drive: Drive
) -> Callable[[float, float], tuple[float, float]]:
    """Return (m, q) -> (m, q) of the mean map for one erf neuron, one erf target and
    one point.
    """
    beta, tau, amplitude = (
        float(closed.student),
        float(closed.teachers[0, 0]),
        float(closed.amplitude),
    )
    e1, e2 = closed.residual.tolist()
    step = float(drive.pace[0] * drive.second_layer[0])
    scatter = step * step / float(drive.batch[0])
    dim, noise = float(drive.dim[0]), float(drive.noise[0])
    free = drive.constraint == "none"
    terms = drive.terms
    c22 = tau * tau
    pull = 2 / pi * amplitude
    square = 2 / pi * amplitude**2

    def advance(m: float, q: float) -> tuple[float, float]:
        across = sqrt(q - m * m) if q > m * m else 0.0
        c11 = beta * beta * q
        c12 = beta * tau * m
        wide = 1 + c11
        weight = 1 + 2 * c11
        own = pull * e1 / sqrt(weight)
        other = pull * e2 / sqrt(wide * (1 + c22) - c12 * c12)
        own -= (own * c11 + other * c12) / wide
        drift_z = own * beta * m + other * tau
        drift_l = own * beta * across
        # covariances tilted by s'(l)^2, and their derivatives under Omega -> (1 + t)
        # Omega
        s11 = c11 / weight
        s12 = c12 / weight
        s22 = c22 - 2 * c12 * c12 / weight
        d11 = s11 - 2 * s11 * s11
        d12 = s12 - 2 * s11 * s12
        d22 = s22 - 2 * s12 * s12
        w1 = 1 + s11
        w2 = 1 + s22
        t11 = sqrt(1 + 2 * s11)
        t22 = sqrt(1 + 2 * s22)
        t12 = sqrt(w1 * w2 - s12 * s12)
        angles = (
            e1 * e1 * atan2(s11, t11)
            + e2 * e2 * atan2(s22, t22)
            + 2 * e1 * e2 * atan2(s12, t12)
        )
        mean = 2 / pi * angles + noise
        base = square / sqrt(weight)
        chi = base * mean
        spread = dim * chi
        if terms == "map":
            mixed = (d12 - s12 * (d11 / w1 + d22 / w2) / 2) / t12
            change = (
                e1 * e1 * d11 / (w1 * t11)
                + e2 * e2 * d22 / (w2 * t22)
                + 2 * e1 * e2 * mixed
            )
            spread += 2 * base * (2 / pi * change - c11 / weight * mean)
        if terms != "published":
            spread -= drift_z * drift_z + drift_l * drift_l
        m += step * drift_z
        across += step * drift_l
        q = m * m + across * across + scatter * spread
        return (m, q) if free else (m / sqrt(q), 1.0)

    return advance

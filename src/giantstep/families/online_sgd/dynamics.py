"""The limit of the overlaps: the exact mean map, its ODE, trajectories and recovery times, batched over points."""

from __future__ import annotations

from typing import Any

import numpy as np

from giantstep.families.online_sgd.closed_path import closed_path
from giantstep.families.online_sgd.drive import Drive
from giantstep.families.online_sgd.moments import Engine, Forces
from giantstep.gaussian import semidefinite_factor
from giantstep.types import Booleans, Floats, Integers

DIVERGED = 1e6
"""A neuron of larger squared norm has diverged."""
DIVERGED_REASON = f"diverged: a squared norm passed {DIVERGED:.0e}"
ROUNDING = 1e-14
"""Components of the drift below this share of sqrt(E F^2) are rounding errors."""
_ODE_RTOL, _ODE_ATOL = 1e-8, 1e-11
SAMPLED_STEPS = 64
"""Equal steps of the ODE where its moments are sampled."""


def rows(M: Floats, Q: Floats) -> Floats:
    """Return R = [M | L] with L L^T = Q - M M^T."""
    return np.concatenate([M, semidefinite_factor(Q - M @ M.transpose(0, 2, 1))], axis=-1)


def map_step(engine: Engine, drive: Drive, M: Floats, Q: Floats) -> tuple[Floats, Floats]:
    """Return the mean of (M, Q) after one update, exact given (M, Q).

    In the coordinates xi an update adds g a_j E[F_j xi] to the rows R; what a finite batch scatters around it,
    (g^2/n_b) a_j a_l (E[F_j F_l |x|^2] - drift_j.drift_l), only lengthens Q.
    """
    R = rows(M, Q)
    k = M.shape[-1]
    force = engine.forces(R, drive.inner, drive.noise)
    drift = _tangent(_clean(force), R) if drive.constraint == "spherical" else _clean(force)
    step = drive.pace[:, None] * drive.second_layer
    R = R + step[..., None] * drift
    chi = drive.dim[:, None, None] * force.chi
    if drive.terms == "map":
        chi = chi + force.spread - R.shape[-1] * force.chi
    if drive.terms != "published":
        chi = chi - drift @ drift.transpose(0, 2, 1)
    scatter = step / np.sqrt(drive.batch)[:, None]
    Q = R @ R.transpose(0, 2, 1) + scatter[:, :, None] * chi * scatter[:, None, :]
    M = R[..., :k]
    if drive.classes is not None:
        M, Q = class_averages(M, Q, drive.classes)
    if drive.constraint == "none":
        return M, Q
    length = np.sqrt(np.diagonal(Q, axis1=1, axis2=2))
    return M / length[..., None], Q / (length[:, :, None] * length[:, None, :])


def class_averages(M: Floats, Q: Floats, classes: Integers) -> tuple[Floats, Floats]:
    """Average (M, Q) over permutations of neurons within their classes."""
    member = np.equal.outer(classes, np.unique(classes)).astype(float)
    count = member.sum(axis=0)
    own = np.diagonal(Q, axis1=1, axis2=2)
    across = Q * (1 - np.eye(len(classes)))
    pairs = np.outer(count, count) - np.diag(count)
    mean = member.T @ across @ member / np.maximum(pairs, 1)
    full = member @ mean @ member.T
    diagonal = (own @ member / count) @ member.T
    places = np.arange(len(classes))
    full[:, places, places] = diagonal
    return member @ (member.T @ M / count[:, None]), full


def equal_neurons(second_layer: Floats, M: Floats, Q: Floats) -> Integers | None:
    """Return the class of each neuron (equal second layer) where all of a class start alike, else None."""
    classes = np.unique(second_layer, return_inverse=True)[1].astype(np.int64)
    if len(np.unique(classes)) == len(classes):
        return None
    same = all(np.allclose(one, other, atol=1e-12) for one, other in zip((M, Q), class_averages(M, Q, classes)))
    return classes if same else None


def _clean(force: Forces) -> Floats:
    """Return the drift without rounding errors, out of which a start at a saddle would otherwise grow."""
    size = np.sqrt(np.diagonal(force.chi, axis1=1, axis2=2))[..., None]
    return np.where(np.abs(force.drift) > ROUNDING * size, force.drift, 0.0)


def _tangent(drift: Floats, R: Floats) -> Floats:
    """Remove from the drift of a row its component along the row."""
    return drift - (drift * R).sum(axis=-1, keepdims=True) * R


def flow(engine: Engine, drive: Drive, M: Floats, Q: Floats) -> tuple[Floats, Floats]:
    """Return dM/dt and dQ/dt per update in the limit of small rates.

    dM = g A psi, dQ = g (A phi + phi^T A) + g^2 (d/n_b) A chi A; a constraint keeps Q_jj = 1.
    """
    R = rows(M, Q)
    k = M.shape[-1]
    force: Forces = engine.forces(R, drive.inner, drive.noise)
    drift = _tangent(_clean(force), R) if drive.constraint == "spherical" else _clean(force)
    step = drive.pace[:, None] * drive.second_layer
    moved = step[..., None] * drift
    phi = moved @ R.transpose(0, 2, 1)
    scatter = step * np.sqrt(drive.dim / drive.batch)[:, None]
    dQ = phi + phi.transpose(0, 2, 1) + scatter[:, :, None] * force.chi * scatter[:, None, :]
    dM = moved[..., :k]
    if drive.classes is not None:
        dM, dQ = class_averages(dM, dQ, drive.classes)
    if drive.constraint == "none":
        return dM, dQ
    growth = 0.5 * np.diagonal(dQ, axis1=1, axis2=2)
    return dM - growth[..., None] * M, dQ - (growth[:, :, None] + growth[:, None, :]) * Q


def best_cosine(M: Floats, Q: Floats, frame: Floats) -> Floats:
    """Return the largest |cosine| of any neuron with any direction, per point.

    `frame` (k, k) has the unit target directions in whitened coordinates as columns.
    """
    norm = np.sqrt(np.maximum(np.diagonal(Q, axis1=1, axis2=2), 1e-300))
    return np.asarray((np.abs(M @ frame) / norm[..., None]).max(axis=(1, 2)))


def has_diverged(Q: Floats) -> Booleans:
    """Tell which states are beyond hope."""
    return np.asarray(~(np.diagonal(Q, axis1=1, axis2=2).max(axis=1) <= DIVERGED))


def map_trajectory(engine: Engine, drive: Drive, M: Floats, Q: Floats, times: Integers) -> tuple[Floats, Floats]:
    """Return the states at `times` (increasing), (B, times, ...); NaN from where a point diverged."""
    Ms = np.full((len(M), len(times), *M.shape[1:]), np.nan)
    Qs = np.full((len(M), len(times), *Q.shape[1:]), np.nan)
    path = closed_path(engine, drive, M, Q, DIVERGED)
    if path is not None:
        for place, updates in enumerate(np.diff(times, prepend=0).tolist()):
            path.run(updates)
            Ms[:, place], Qs[:, place] = path.state()
        return Ms, Qs
    alive = np.arange(len(M))
    place, t = 0, 0
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        while True:
            lost = has_diverged(Q)
            if lost.any():
                alive, M, Q, drive = alive[~lost], M[~lost], Q[~lost], drive.take(~lost)
                if not len(alive):
                    break
            while place < len(times) and times[place] == t:
                Ms[alive, place], Qs[alive, place] = M, Q
                place += 1
            if place == len(times):
                break
            M, Q = map_step(engine, drive, M, Q)
            t += 1
    return Ms, Qs


def map_recovery(
    engine: Engine, drive: Drive, M: Floats, Q: Floats, frame: Floats, threshold: float, steps: Floats
) -> Floats:
    """Return the first update at which the best cosine reaches the threshold; inf if it does not, NaN if diverged."""
    found = np.full(len(M), np.inf)
    places = np.arange(len(M))
    t = 0
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        while len(places):
            there = best_cosine(M, Q, frame) >= threshold
            found[places[there]] = t
            lost = has_diverged(Q)
            found[places[lost]] = np.nan
            going = ~(there | lost | (steps[places] <= t))
            if not going.all():
                places, M, Q, drive = places[going], M[going], Q[going], drive.take(going)
                if not len(places):
                    break
            M, Q = map_step(engine, drive, M, Q)
            t += 1
    return found


def _packed(engine: Engine, drive: Drive, p: int, k: int) -> Any:
    """Return the right-hand side for SciPy's solvers: the state is M and the lower triangle of Q."""
    low = np.tril_indices(p)

    def unpack(state: Floats) -> tuple[Floats, Floats]:
        Q = np.empty((1, p, p))
        Q[0][low] = state[p * k :]
        Q[0].T[low] = state[p * k :]
        return state[: p * k].reshape(1, p, k), Q

    def right(t: float, state: Floats) -> Floats:
        dM, dQ = flow(engine, drive, *unpack(state))
        return np.concatenate([dM.ravel(), dQ[0][low]])

    def pack(M: Floats, Q: Floats) -> Floats:
        return np.concatenate([M.ravel(), Q[low]])

    return pack, unpack, right


def _solved(right: Any, start: Floats, end: float, first: float, events: list[Any], times: Floats | None = None) -> Any:
    from scipy.integrate import solve_ivp

    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        return solve_ivp(
            right,
            (0.0, end),
            start,
            method="DOP853",
            t_eval=times,
            events=events,
            rtol=_ODE_RTOL,
            atol=_ODE_ATOL,
            first_step=min(first, end),
        )


def _runge_kutta(engine: Engine, drive: Drive, M: Floats, Q: Floats, step: float) -> tuple[Floats, Floats]:
    """Return one step of the classical fourth-order method.

    Sampled moments jump when a point crosses a kink, on which adaptive solvers stall.
    """
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        first = flow(engine, drive, M, Q)
        second = flow(engine, drive, M + 0.5 * step * first[0], Q + 0.5 * step * first[1])
        third = flow(engine, drive, M + 0.5 * step * second[0], Q + 0.5 * step * second[1])
        fourth = flow(engine, drive, M + step * third[0], Q + step * third[1])
        parts = (first, second, third, fourth)
        return tuple(  # type: ignore[return-value]
            now + step / 6 * (a + 2 * b + 2 * c + d) for now, a, b, c, d in zip((M, Q), *parts)
        )


def ode_trajectory(engine: Engine, drive: Drive, M: Floats, Q: Floats, times: Integers) -> tuple[Floats, Floats]:
    """Return the states of the ODE at `times`, each point with its own adaptive steps; NaN from where one diverged."""
    p, k = M.shape[1:]
    Ms = np.full((len(M), len(times), p, k), np.nan)
    Qs = np.full((len(M), len(times), p, p), np.nan)
    wanted = times.astype(float)
    if engine.sampled:
        now = 0.0
        for place, time in enumerate(wanted):
            count = int(np.ceil(SAMPLED_STEPS * (time - now) / max(wanted[-1], 1.0)))
            for _ in range(count):
                M, Q = _runge_kutta(engine, drive, M, Q, (time - now) / count)
            now = time
            good = ~has_diverged(Q)
            Ms[good, place], Qs[good, place] = M[good], Q[good]
        return Ms, Qs
    for i in range(len(M)):
        pack, unpack, right = _packed(engine, drive.take(slice(i, i + 1)), p, k)

        def lost(t: float, state: Floats, unpack: Any = unpack) -> float:
            return DIVERGED - float(np.diagonal(unpack(state)[1][0]).max())

        lost.terminal = True  # type: ignore[attr-defined]
        end = max(float(wanted[-1]), 1e-9)
        found = _solved(right, pack(M[i], Q[i]), end, 0.01 * end, [lost], wanted)
        for place in range(found.y.shape[1]):
            Ms[i, place], Qs[i, place] = (part[0] for part in unpack(found.y[:, place]))
    return Ms, Qs


def ode_recovery(
    engine: Engine, drive: Drive, M: Floats, Q: Floats, frame: Floats, threshold: float, steps: Floats
) -> Floats:
    """Return the time at which the ODE's best cosine reaches the threshold, by an event of the solver."""
    p, k = M.shape[1:]
    result = np.full(len(M), np.inf)
    if engine.sampled:
        step = float(steps.max()) / (4 * SAMPLED_STEPS)
        before = best_cosine(M, Q, frame)
        result[before >= threshold] = 0.0
        for count in range(4 * SAMPLED_STEPS):
            M, Q = _runge_kutta(engine, drive, M, Q, step)
            after = best_cosine(M, Q, frame)
            new = (after >= threshold) & np.isinf(result)
            result[new] = (count + (threshold - before[new]) / (after[new] - before[new])) * step
            result[has_diverged(Q) & np.isinf(result)] = np.nan
            if not np.isinf(result).any():
                break
            before = after
        return np.where(result <= steps, result, np.where(np.isnan(result), np.nan, np.inf))
    for i in range(len(M)):
        if best_cosine(M[i : i + 1], Q[i : i + 1], frame)[0] >= threshold:
            result[i] = 0.0
            continue
        pack, unpack, right = _packed(engine, drive.take(slice(i, i + 1)), p, k)

        def reached(t: float, state: Floats, unpack: Any = unpack) -> float:
            M, Q = unpack(state)
            return float(best_cosine(M, Q, frame)[0]) - threshold

        def lost(t: float, state: Floats, unpack: Any = unpack) -> float:
            return DIVERGED - float(np.diagonal(unpack(state)[1][0]).max())

        reached.terminal = lost.terminal = True  # type: ignore[attr-defined]
        found = _solved(right, pack(M[i], Q[i]), float(steps[i]), 1.0, [reached, lost])
        if len(found.t_events[0]):
            result[i] = found.t_events[0][0]
        elif len(found.t_events[1]) or found.status == -1:
            result[i] = np.nan
    return result

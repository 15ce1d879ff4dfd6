"""The limit of the overlaps: the exact mean map and its trajectories and recovery times, batched over points."""

from __future__ import annotations

import numpy as np

from giantstep.blocks import filled
from giantstep.deadline import check_time
from giantstep.families.online_sgd.closed_path import closed_path
from giantstep.families.online_sgd.drive import Drive
from giantstep.families.online_sgd.integrators import Integrator
from giantstep.families.online_sgd.moments import Forces
from giantstep.families.online_sgd.states import State, best_cosine, block_averages, has_diverged, normalise, rows
from giantstep.families.online_sgd.tolerances import ROUNDING
from giantstep.types import Floats, Integers


def map_step(integrator: Integrator, drive: Drive, M: Floats, Q: Floats) -> State:
    """Return the mean of (M, Q) after one update, exact given (M, Q), gradient_dynamics (2.1a)-(2.1c).

    In the coordinates xi an update adds g a_j E[F_j xi] to the rows R; what a finite batch scatters around it,
    (g^2/n_b) a_j a_l (E[F_j F_l |x|^2] - drift_j.drift_l), only lengthens Q.
    """
    R = rows(M, Q)
    force, drift = _force_and_drift(integrator, drive, R)
    step = drive.pace[:, None] * drive.second_layer
    R = R + step[..., None] * drift
    chi = drive.dim[:, None, None] * force.chi
    if drive.terms == "map":
        chi = chi + force.spread - R.shape[-1] * force.chi
    if drive.terms != "published":
        chi = chi - drift @ drift.transpose(0, 2, 1)
    scatter = step / np.sqrt(drive.batch)[:, None]
    Q = R @ R.transpose(0, 2, 1) + scatter[:, :, None] * chi * scatter[:, None, :]
    M = R[..., : M.shape[-1]]
    if drive.blocks is not None:
        M, Q = block_averages(M, Q, drive.blocks)
    return (M, Q) if drive.constraint == "none" else normalise(M, Q)


def flow(integrator: Integrator, drive: Drive, M: Floats, Q: Floats) -> State:
    """Return dM/dt and dQ/dt per update in the limit of small rates.

    dM = g A psi, dQ = g (A phi + phi^T A) + g^2 (d/n_b) A chi A; a constraint keeps Q_jj = 1.
    """
    R = rows(M, Q)
    force, drift = _force_and_drift(integrator, drive, R)
    step = drive.pace[:, None] * drive.second_layer
    moved = step[..., None] * drift
    phi = moved @ R.transpose(0, 2, 1)
    scatter = step * np.sqrt(drive.dim / drive.batch)[:, None]
    dQ = phi + phi.transpose(0, 2, 1) + scatter[:, :, None] * force.chi * scatter[:, None, :]
    dM = moved[..., : M.shape[-1]]
    if drive.blocks is not None:
        dM, dQ = block_averages(dM, dQ, drive.blocks)
    if drive.constraint == "none":
        return dM, dQ
    growth = 0.5 * np.diagonal(dQ, axis1=1, axis2=2)
    return dM - growth[..., None] * M, dQ - (growth[:, :, None] + growth[:, None, :]) * Q


def _force_and_drift(integrator: Integrator, drive: Drive, R: Floats) -> tuple[Forces, Floats]:
    """Return the moments of F, and the drift of the rows, on the sphere without its component along a row.

    Rounding errors are taken out of it: a start at a saddle would otherwise grow out of them.
    """
    force = integrator.forces(R, drive.inner, drive.noise)
    size = np.sqrt(np.diagonal(force.chi, axis1=1, axis2=2))[..., None]
    drift = np.where(np.abs(force.drift) > ROUNDING * size, force.drift, 0.0)
    if drive.constraint == "spherical":
        drift = drift - (drift * R).sum(axis=-1, keepdims=True) * R
    return force, drift


def map_trajectory(integrator: Integrator, drive: Drive, M: Floats, Q: Floats, times: Integers) -> State:
    """Return the states at `times` (increasing), (B, times, ...); NaN from where a point diverged."""
    Ms = filled((len(M), len(times), *M.shape[1:]), np.nan)
    Qs = filled((len(M), len(times), *Q.shape[1:]), np.nan)
    path = closed_path(integrator, drive, M, Q)
    if path is not None:
        for column, updates in enumerate(np.diff(times, prepend=0).tolist()):
            path.run(updates)
            Ms[:, column], Qs[:, column] = path.state()
        return Ms, Qs
    alive = np.arange(len(M))
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        for column, updates in enumerate(np.diff(times, prepend=0).tolist()):
            for _ in range(updates):
                check_time()
                lost = has_diverged(Q)
                if lost.any():
                    alive, M, Q, drive = alive[~lost], M[~lost], Q[~lost], drive.take(~lost)
                if not len(alive):
                    return Ms, Qs
                M, Q = map_step(integrator, drive, M, Q)
            kept = ~has_diverged(Q)
            Ms[alive[kept], column], Qs[alive[kept], column] = M[kept], Q[kept]
    return Ms, Qs


def map_recovery(
    integrator: Integrator, drive: Drive, M: Floats, Q: Floats, frame: Floats, threshold: float, steps: Floats
) -> Floats:
    """Return the first update at which the best cosine reaches the threshold; inf if it does not, NaN if diverged."""
    time, going = np.full(len(M), np.inf), np.arange(len(M))
    update = 0
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        while len(going):
            check_time()
            reached, lost = best_cosine(M, Q, frame) >= threshold, has_diverged(Q)
            time[going[reached]] = update
            time[going[lost]] = np.nan
            left = ~(reached | lost | (steps[going] <= update))
            if not left.all():
                going, M, Q, drive = going[left], M[left], Q[left], drive.take(left)
            if len(going):
                M, Q = map_step(integrator, drive, M, Q)
            update += 1
    return time

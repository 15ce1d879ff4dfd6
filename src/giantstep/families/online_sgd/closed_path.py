"""Long trajectories of erf networks: the mean map of the covariance itself, without factors of Q.

The covariance C of students and teachers is closed under the map: a student moves along students and teachers. One
neuron and one direction are advanced in plain floats, far faster than arrays with one entry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import asin, nan, pi, sqrt

import numpy as np

from giantstep.deadline import check_time
from giantstep.families.online_sgd.integrators import ErfIntegrator, Integrator, tilted_moments
from giantstep.families.online_sgd.states import DIVERGED, Drive, State
from giantstep.types import Floats


def closed_path(
    integrator: Integrator, drive: Drive, M: Floats, Q: Floats, updates: Sequence[int]
) -> Iterator[State] | None:
    """Return the states after so many updates from (M, Q), again and again; NaN where a squared norm passes the limit.

    None unless closed forms describe all target directions.
    """
    if not isinstance(integrator, ErfIntegrator) or np.linalg.matrix_rank(integrator.teachers) < integrator.k:
        return None
    single = len(M) == 1 and integrator.p == integrator.k == integrator.teachers.size == 1
    return (_single_path if single else _path)(integrator, drive, M, Q, updates)


def _path(closed: ErfIntegrator, drive: Drive, M: Floats, Q: Floats, updates: Sequence[int]) -> Iterator[State]:
    """Any width, number of directions and number of points."""
    p, n, unit, terms = closed.p, len(closed.residual), closed.student, drive.terms
    directions = np.linalg.pinv(closed.teachers).T / unit
    C = np.empty((len(M), n, n))
    C[:, :p, :p] = unit**2 * Q
    C[:, :p, p:] = unit * M @ closed.teachers.T
    C[:, p:, :p] = C[:, :p, p:].transpose(0, 2, 1)
    C[:, p:, p:] = closed.teachers @ closed.teachers.T
    norms = C.diagonal(axis1=1, axis2=2)[:, :p]  # a view
    peak = norms.copy()
    step = unit * drive.pace[:, None] * drive.second_layer * (2 / np.pi * closed.amplitude)
    scatter = step[:, :, None] * step[:, None, :] / drive.batch[:, None, None]
    kept = np.ones((len(M), 1, 1)) if terms == "published" else 1 - 1 / drive.batch[:, None, None]
    dim = drive.dim[:, None, None] - (2.0 if terms == "map" else 0.0)
    noise = np.pi / 2 * drive.noise[:, None, None]
    for count in updates:
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            for _ in range(count):
                check_time()
                slopes, mean, change, trace, root = tilted_moments(C, p, closed.residual)
                move = slopes * step[..., None]
                moved = move @ C
                own, across = moved[..., :p], C[:, :p, p:] + moved[..., p:]
                spread = (mean + noise) * (dim + trace if terms == "map" else dim)
                if terms == "map":
                    spread += change
                square = kept * (moved @ move.transpose(0, 2, 1)) + scatter * spread / root
                students = C[:, :p, :p] + own + own.transpose(0, 2, 1) + square
                if drive.constraint != "none":
                    length = np.sqrt(students.diagonal(axis1=1, axis2=2)) / unit
                    students /= length[:, :, None] * length[:, None, :]
                    across /= length[:, :, None]
                C[:, :p, :p], C[:, :p, p:], C[:, p:, :p] = students, across, across.transpose(0, 2, 1)
                if drive.constraint == "none":
                    peak = np.maximum(peak, norms)
        fine = (peak.max(axis=1) <= DIVERGED * unit**2) & np.isfinite(norms).all(axis=1)
        shown = np.where(fine, 1.0, np.nan)[:, None, None] * C[:, :p]
        yield shown[..., p:] @ directions, shown[..., :p] / unit**2


def _single_path(closed: ErfIntegrator, drive: Drive, M: Floats, Q: Floats, updates: Sequence[int]) -> Iterator[State]:
    """One neuron, one direction, one point."""
    advance, m, q = single_step(closed, drive), M.item(), Q.item()
    for count in updates:
        for _ in range(count):
            check_time()
            if not q <= DIVERGED:
                m = q = nan
                break
            m, q = advance(m, q)
        fine = q <= DIVERGED
        yield np.full((1, 1, 1), m if fine else nan), np.full((1, 1, 1), q if fine else nan)


def single_step(closed: ErfIntegrator, drive: Drive) -> Callable[[float, float], tuple[float, float]]:
    """Return (m, q) -> (m, q) of the mean map for one erf neuron, one erf target and one point."""
    beta, tau, amplitude = float(closed.student), float(closed.teachers[0, 0]), float(closed.amplitude)
    e1, e2 = closed.residual.tolist()
    step = float(drive.pace[0] * drive.second_layer[0])
    scatter = step * step / float(drive.batch[0])
    dim, noise = float(drive.dim[0]), float(drive.noise[0])
    free, terms = drive.constraint == "none", drive.terms
    c22 = tau * tau
    pull, square = 2 / pi * amplitude, 2 / pi * amplitude**2

    def advance(m: float, q: float) -> tuple[float, float]:
        across = sqrt(q - m * m) if q > m * m else 0.0
        c11, c12 = beta * beta * q, beta * tau * m
        wide, weight = 1 + c11, 1 + 2 * c11
        own = pull * e1 / sqrt(weight)
        other = pull * e2 / sqrt(wide * (1 + c22) - c12 * c12)
        own -= (own * c11 + other * c12) / wide
        drift_z, drift_l = own * beta * m + other * tau, own * beta * across
        # covariances tilted by s'(l)^2, and their derivatives under Omega -> (1 + t) Omega
        s11, s12, s22 = c11 / weight, c12 / weight, c22 - 2 * c12 * c12 / weight
        d11, d12, d22 = s11 - 2 * s11 * s11, s12 - 2 * s11 * s12, s22 - 2 * s12 * s12
        i1, i2 = 1 / (1 + s11), 1 / (1 + s22)
        r11, r22, r12 = s11 * i1, s22 * i2, s12 * sqrt(i1 * i2)
        mean = 2 / pi * (e1 * e1 * asin(r11) + e2 * e2 * asin(r22) + 2 * e1 * e2 * asin(r12)) + noise
        base = square / sqrt(weight)
        chi = base * mean
        spread = dim * chi
        if terms == "map":
            h1, h2 = 0.5 * d11 * i1, 0.5 * d22 * i2
            g11 = (d11 * i1 - 2 * r11 * h1) / sqrt(1 - r11 * r11)
            g22 = (d22 * i2 - 2 * r22 * h2) / sqrt(1 - r22 * r22)
            g12 = (d12 * sqrt(i1 * i2) - r12 * (h1 + h2)) / sqrt(1 - r12 * r12)
            change = 2 / pi * (e1 * e1 * g11 + e2 * e2 * g22 + 2 * e1 * e2 * g12)
            spread += 2 * base * (change - c11 / weight * mean)
        if terms != "published":
            spread -= drift_z * drift_z + drift_l * drift_l
        m += step * drift_z
        across += step * drift_l
        q = m * m + across * across + scatter * spread
        return (m, q) if free else (m / sqrt(q), 1.0)

    return advance

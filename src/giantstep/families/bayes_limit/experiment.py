"""The experiment: draw samples of the target, run GAMP on them, compare its estimate with the truth."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from giantstep.deadline import check_time
from giantstep.errors import bad_field
from giantstep.families.bayes_limit.gamp import (
    LOST,
    SETTLED,
    GampData,
    GampState,
    change,
    is_recovered,
    mismatch,
    sweep,
)
from giantstep.families.bayes_limit.measured import measured_errors
from giantstep.families.bayes_limit.reading import TargetReading
from giantstep.families.bayes_limit.responses import response_of
from giantstep.families.bayes_limit.scenario import BayesLimit
from giantstep.lab import Draws, to_numpy
from giantstep.lab.algebra import multiply
from giantstep.types import Array, DeviceArray, Floats, Points

_RANDOM = 1e-3
"""Variance of the entries of a random start."""
_SPECTRAL_OVERLAP = 0.2
"""Overlap that a spectral start claims; from 0.01 to 0.35 the fixed point is the same, bayes_multi_index section 6."""
_LANCZOS = 60
"""Steps of Lanczos for the leading eigenvector."""
_ATTEMPTS = 4
"""Random starts, where runs contradict themselves."""
MOST_DIRECTIONS = 3
"""Directions of GAMP at most: posterior means are sums over a grid."""


def trial(
    scenario: BayesLimit, points: Points, what: str, dim: int, draws: Draws, settings: Mapping[str, Any]
) -> dict[str, Array]:
    """Run GAMP once at every point; they share the rows of the data."""
    if what in ("thresholds", "branches"):
        return {}
    reading = scenario.reading
    noise, flip = float(points["noise"][0]), float(points["flip"][0])
    rows = []
    for alpha in points["samples_per_dim"]:
        n = _count(float(alpha), dim)
        instance = _Instance(reading, noise, flip, n, dim, draws, settings["matrix"] == "stored")
        rows.append(_errors(instance, settings) if what == "errors" else _trajectory(instance, settings))
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def memory(scenario: BayesLimit, points: Points, what: str, dim: int, settings: Mapping[str, Any]) -> int:
    """Return the bytes of the data and of what GAMP keeps for each row and column."""
    if what in ("thresholds", "branches"):
        return 0
    reading = scenario.reading
    if reading.rank > MOST_DIRECTIONS:
        raise bad_field("target", scenario.target.name, f"a function of {MOST_DIRECTIONS} directions or fewer for GAMP")
    if dim < 2 * reading.rank:
        raise bad_field("dim", dim, f"at least {2 * reading.rank}, twice the number of directions")
    n = max(_count(float(alpha), dim) for alpha in points["samples_per_dim"])
    stored = n if settings["matrix"] == "stored" else 0
    return 8 * (stored * dim + 8 * reading.rank * (n + dim) + 6 * (1 << 22))


def _count(alpha: float, dim: int) -> int:
    return max(1, round(alpha * dim))


class _Instance:
    """One draw of data; the directions are the first r axes, W = sqrt(d) e_j."""

    def __init__(
        self, reading: TargetReading, noise: float, flip: float, n: int, dim: int, draws: Draws, stored: bool
    ) -> None:
        self.reading, self.noise, self.flip, self.draws = reading, noise, flip, draws
        self.dim, xp = dim, draws.xp
        self.W = xp.zeros((dim, reading.rank))
        self.W[xp.arange(reading.rank), xp.arange(reading.rank)] = dim**0.5
        matrix = xp.empty((n, dim)) if stored else None
        z = xp.empty((n, reading.rank))
        for rows, X in self._drawn(n):
            z[rows] = X[:, : reading.rank] * dim**0.5
            if matrix is not None:
                matrix[rows] = X
        whole = [(slice(0, n), matrix)]
        y = self._observe(z)
        response = response_of(reading, noise, flip, y, xp)
        self.samples = GampData(n, dim, (lambda: iter(whole)) if stored else (lambda: self._drawn(n)), response, xp)

    def _drawn(self, n: int) -> Iterator[tuple[slice, DeviceArray]]:
        again = Draws(self.draws.seed, self.draws.key, self.draws.trial, self.draws.device)
        for start, stop, X in again.chunks("inputs", n, self.dim):
            yield slice(start, stop), X / self.dim**0.5

    def _observe(self, z: DeviceArray) -> DeviceArray:
        """Return y: the target with noise, or with some labels replaced by others."""
        xp, reading = self.draws.xp, self.reading
        again = Draws(self.draws.seed, self.draws.key, self.draws.trial, self.draws.device)
        y = reading.inner(z)
        if self.noise > 0:
            return y + self.noise**0.5 * again.normal("noise", len(z))
        if self.flip > 0:
            labels = xp.asarray(np.asarray(reading.labels))
            kind = xp.argmin(xp.abs(y[:, None] - labels), axis=1)
            turns = 1 + xp.floor(again.uniform("others", len(z)) * (len(labels) - 1)).astype(kind.dtype)
            wrong = again.uniform("flips", len(z)) < self.flip
            return labels[xp.where(wrong, (kind + turns) % len(labels), kind)]
        return y

    def seed(self, M: Floats) -> GampState:
        """Start as a posterior mean of overlap M: W M plus noise of covariance M - M^2."""
        xp, r = self.draws.xp, self.reading.rank
        sizes, vectors = np.linalg.eigh(M)
        root = (vectors * np.sqrt(np.maximum(sizes - sizes**2, 0.0))) @ vectors.T
        noise = self.draws.normal(f"seed {self.samples.count}", (self.dim, r))
        return self._start(self.W @ xp.asarray(M) + noise @ xp.asarray(root), np.eye(r) - M)

    def blind(self, start: str, attempt: int) -> GampState:
        """Start without knowledge: the first time as asked for, then at random."""
        return self.spectral() if start == "spectral" and attempt == 0 else self.random(attempt)

    def random(self, attempt: int) -> GampState:
        """Start with tiny random entries."""
        r = self.reading.rank
        noise = self.draws.normal(f"start {self.samples.count} {attempt}", (self.dim, r))
        return self._start(_RANDOM**0.5 * noise, (1 - _RANDOM) * np.eye(r))

    def spectral(self) -> GampState:
        """Start along the leading eigenvector of X^T T(y) X, T = m2/(1 + m2), m2 = E[z^2 - 1|y]."""
        xp, n = self.draws.xp, self.samples.count
        T = xp.empty(n)
        for row in range(0, n, 1 << 12):
            part = slice(row, min(row + (1 << 12), n))
            T[part] = self._second_moment(part)
        T = T / (1 + T)

        def multiplied(vector: DeviceArray) -> DeviceArray:
            total = xp.zeros(self.dim)
            for rows, X in self.samples.blocks():
                total += X.T @ (T[rows] * (X @ vector))
            return total

        leading = _leading_vector(multiplied, self.draws.normal(f"start {n}", self.dim), xp)
        size = (self.dim * _SPECTRAL_OVERLAP) ** 0.5
        return self._start(size * leading[:, None], (1 - _SPECTRAL_OVERLAP) * np.eye(1))

    def _second_moment(self, part: slice) -> DeviceArray:
        """Return E[z^2 - 1|y] of some rows: the second derivative of log Z at omega = 0, V = 1, plus g^2."""
        xp, step = self.draws.xp, 1e-3
        response, size = self.samples.response, part.stop - part.start
        at = [response.moments(part, xp.full((size, 1), shift), np.eye(1))[0][:, 0] for shift in (-step, 0.0, step)]
        return xp.maximum((at[2] - at[0]) / (2 * step) + at[1] ** 2, -0.999)

    def _start(self, means: DeviceArray, V: Floats) -> GampState:
        xp = self.draws.xp
        return GampState(xp.ascontiguousarray(means), V, xp.zeros((self.samples.count, self.reading.rank)))

    def measure(self, state: GampState, turn: Floats | None = None) -> dict[str, Any]:
        """Return overlaps and errors of an estimate, after the symmetry `turn` of the target (the best if None)."""
        d, reading = self.dim, self.reading
        overlap = to_numpy(multiply(self.W.T, state.means, self.draws.xp)).T / d
        size = to_numpy(multiply(state.means.T, state.means, self.draws.xp)) / d
        if turn is None:
            turn = max(reading.symmetries, key=lambda S: float(np.trace(S @ overlap)))
        overlap, size, V = turn @ overlap, turn @ size @ turn.T, turn @ state.V @ turn.T
        mse, error = measured_errors(reading, self.noise, self.flip, overlap, size, V)
        M = reading.basis.T @ (0.5 * (overlap + overlap.T)) @ reading.basis
        return {"q": float(np.trace(overlap)) / reading.rank, "M": M, "mse": mse, "error": error}


def _leading_vector(multiplied: Any, start: DeviceArray, xp: Any) -> DeviceArray:
    """Return the eigenvector of the largest eigenvalue of a symmetric matrix by Lanczos, orthogonalised twice."""
    basis = [start / xp.linalg.norm(start)]
    images = []
    for _ in range(_LANCZOS):
        images.append(multiplied(basis[-1]))
        step = images[-1]
        for _ in range(2):
            for known in basis:
                step = step - known * (known @ step)
        basis.append(step / xp.linalg.norm(step))
    V, A = xp.stack(basis[:-1]), xp.stack(images)
    small = to_numpy(V @ A.T)
    return xp.asarray(np.linalg.eigh(0.5 * (small + small.T))[1][:, -1]) @ V


def _errors(instance: _Instance, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Run GAMP until it stands still; where it does not in time, its last values stay.

    A run from a random start that ends with more or less certainty than the length of its estimate allows has lost
    itself, which it can see without the truth: it starts again, a few times.
    """
    rank, start = instance.reading.rank, settings["start"]
    for attempt in range(1 if start == "seed" else _ATTEMPTS):
        state = instance.seed(settings["overlap"] * np.eye(rank)) if start == "seed" else instance.blind(start, attempt)
        state, sweeps = _settle(instance, state, settings["max_sweeps"])
        if mismatch(state) < LOST:
            break
    values = instance.measure(state)
    if not mismatch(state) < LOST:
        values = {name: np.full_like(np.asarray(value, dtype=float), np.nan) for name, value in values.items()}
    return {**{name: np.asarray(value)[None] for name, value in values.items()}, "sweeps": float(sweeps)}


def _settle(instance: _Instance, state: GampState, most: int) -> tuple[GampState, int]:
    """Sweep until nothing moves, the directions are known, or the run is lost."""
    sweeps, moved = 0, np.inf
    while sweeps < most:
        check_time()
        new, sweeps = sweep(instance.samples, state), sweeps + 1
        moved, state = change(new, state), new
        if moved < SETTLED or is_recovered(state) or not mismatch(state) < 10 * LOST:
            break
    return state, sweeps


def _trajectory(instance: _Instance, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Measure GAMP from a seed, sweep by sweep; once the directions are known exactly nothing moves any more."""
    identity = np.eye(instance.reading.rank)
    state = instance.seed(np.asarray(settings["overlap"]))
    path = [instance.measure(state, identity)]
    for _ in settings["time"][1:]:
        if not is_recovered(state):
            state = sweep(instance.samples, state)
        path.append(instance.measure(state, identity))
    return {name: np.array([row[name] for row in path]) for name in path[0]}

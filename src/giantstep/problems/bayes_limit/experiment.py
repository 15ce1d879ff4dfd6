"""The experiment: draw samples of the target, run GAMP on them, compare its estimate
with the truth.

Generalised approximate message passing for a known channel and Gaussian weights is that
of bayes_multi_index section 6.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator, eigsh

from giantstep.core.base.deadline import check_time
from giantstep.core.base.errors import bad_field
from giantstep.core.base.types import Array, DeviceArray, Floats, Points
from giantstep.core.lab import Draws, chunk_rows, to_numpy
from giantstep.core.lab.algebra import multiply
from giantstep.problems.bayes_limit.reading import TargetReading
from giantstep.problems.bayes_limit.responses import measured_errors, response_of
from giantstep.problems.bayes_limit.scenario import BayesLimit

_RECOVERED = 1e-10
"""Largest posterior variance at which the directions count as known exactly."""
_LOST = 0.3
"""Difference between |What|^2/d and what V says of it above which an estimate
contradicts itself.
"""
_SETTLED = 1e-5
"""Root mean square change of the estimate in a sweep below which GAMP stands still."""
_RANDOM = 1e-3
"""Variance of the entries of a random start."""
_SPECTRAL_OVERLAP = 0.2
"""Overlap that a spectral start claims; from 0.01 to 0.35 the fixed point is the same,
bayes_multi_index section 6.
"""
_LANCZOS = 60
"""Vectors that Lanczos keeps between restarts: with 20 it takes three times as many
products with the data.
"""
_ALIGNED = 1e-6
"""Relative error of the leading eigenvalue: the overlap of its vector with the truth is
then right to 1e-10.
"""
_ATTEMPTS = 4
"""Random starts, where runs contradict themselves."""
MOST_DIRECTIONS = 3
"""Directions of GAMP at most: posterior means are sums over a grid."""


def trial(
    scenario: BayesLimit,
    points: Points,
    what: str,
    dim: int,
    draws: Draws,
    settings: Mapping[str, Any],
) -> dict[str, Array]:
    """Run GAMP once at every point; they share the rows of the data."""
    if what in ("thresholds", "branches"):
        return {}
    reading = scenario.reading
    noise = float(points["noise"][0])
    flip = float(points["flip"][0])
    rows = []
    for alpha in points["samples_per_dim"]:
        n = max(1, round(float(alpha) * dim))
        instance = _Instance(reading, noise, flip, n, dim, draws)
        rows.append(
            _errors(instance, settings)
            if what == "errors"
            else _trajectory(instance, settings)
        )
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def memory(
    scenario: BayesLimit,
    points: Points,
    what: str,
    dim: int,
    settings: Mapping[str, Any],
) -> int:
    """Return the bytes of the data and of what GAMP keeps for each row and column."""
    if what in ("thresholds", "branches"):
        return 0
    reading = scenario.reading
    if reading.rank > MOST_DIRECTIONS:
        raise bad_field(
            "target",
            scenario.target.name,
            f"a function of {MOST_DIRECTIONS} directions or fewer for GAMP",
        )
    if dim < 2 * reading.rank:
        raise bad_field(
            "dim", dim, f"at least {2 * reading.rank}, twice the number of directions"
        )
    n = max(max(1, round(float(alpha) * dim)) for alpha in points["samples_per_dim"])
    chunk = chunk_rows(str(settings.get("device", "cpu")))
    return 8 * (
        (n + chunk + _LANCZOS) * dim + 8 * reading.rank * (n + dim) + 6 * (1 << 22)
    )


@dataclass
class GampState:
    """Where message passing is."""

    means: DeviceArray  # (d, r) posterior means
    V: Floats  # (r, r) covariance of each row of W
    g: DeviceArray  # (n, r), the last g

    def is_recovered(self) -> bool:
        """Tell whether the directions are known up to rounding."""
        return bool(np.linalg.eigvalsh(self.V)[-1] < _RECOVERED)

    def mismatch(self) -> float:
        """Return the largest entry of |What^T What/d + V - 1|, which vanishes for a
        posterior mean as d grows.
        """
        means = to_numpy(self.means)
        return float(
            np.abs(means.T @ means / len(means) + self.V - np.eye(len(self.V))).max()
        )


class _Instance:
    """One draw of data; the directions are the first r axes, W = sqrt(d) e_j."""

    def __init__(
        self,
        reading: TargetReading,
        noise: float,
        flip: float,
        n: int,
        dim: int,
        draws: Draws,
    ) -> None:
        self.reading = reading
        self.noise = noise
        self.flip = flip
        self.draws = draws
        self.dim = dim
        xp = draws.xp
        self.W = xp.zeros((dim, reading.rank))
        self.W[xp.arange(reading.rank), xp.arange(reading.rank)] = dim**0.5
        X = xp.empty((n, dim))
        for start, stop, rows in draws.anew().chunks(
            "inputs", n, dim
        ):  # fewer samples are the first rows of more
            xp.divide(rows, dim**0.5, out=X[start:stop])
        z = X[:, : reading.rank] * dim**0.5
        again = self.draws.anew()
        y = reading.inner(z)
        if noise > 0:
            y = y + noise**0.5 * again.normal("noise", n)
        elif flip > 0:
            labels = xp.asarray(np.asarray(reading.labels))
            kind = xp.argmin(xp.abs(y[:, None] - labels), axis=1)
            turns = 1 + xp.floor(again.uniform("others", n) * (len(labels) - 1)).astype(
                kind.dtype
            )
            wrong = again.uniform("flips", n) < flip
            y = labels[xp.where(wrong, (kind + turns) % len(labels), kind)]
        self.X = X
        self.response = response_of(reading, noise, flip, y, xp)

    def seed(self, M: Floats) -> GampState:
        """Start as a posterior mean of overlap M: W M plus noise of covariance M -
        M^2.
        """
        xp = self.draws.xp
        r = self.reading.rank
        sizes, vectors = np.linalg.eigh(M)
        root = (vectors * np.sqrt(np.maximum(sizes - sizes**2, 0.0))) @ vectors.T
        noise = self.draws.normal(f"seed {len(self.X)}", (self.dim, r))
        return self._start(
            self.W @ xp.asarray(M) + noise @ xp.asarray(root), np.eye(r) - M
        )

    def random(self, attempt: int) -> GampState:
        """Start with tiny random entries."""
        r = self.reading.rank
        noise = self.draws.normal(f"start {len(self.X)} {attempt}", (self.dim, r))
        return self._start(_RANDOM**0.5 * noise, (1 - _RANDOM) * np.eye(r))

    def spectral(self) -> GampState:
        """Start along the leading eigenvector of X^T T(y) X, T = m2/(1 + m2), m2 =
        E[z^2 - 1|y].
        """
        xp = self.draws.xp
        X = self.X
        step = 1e-3
        low, here, high = (
            self.response.moments(xp.full((len(X), 1), shift), np.eye(1))[0][:, 0]
            for shift in (-step, 0.0, step)
        )
        # the second derivative of log Z, plus g^2
        m2 = xp.maximum((high - low) / (2 * step) + here**2, -0.999)
        T = (m2 / (1 + m2))[:, None]

        def product(vector: Floats) -> Floats:
            check_time()
            fields = multiply(X, xp.asarray(vector)[:, None], xp)
            return np.asarray(to_numpy(multiply(X.T, T * fields, xp))[:, 0])

        first = to_numpy(self.draws.normal(f"start {len(X)}", self.dim))
        shape = self.dim, self.dim
        matrix = LinearOperator(shape, matvec=product, dtype=np.float64)  # type: ignore[call-arg, misc]
        leading = eigsh(
            matrix, 1, which="LA", v0=first, ncv=min(_LANCZOS, self.dim), tol=_ALIGNED
        )[1]
        means = (self.dim * _SPECTRAL_OVERLAP) ** 0.5 * xp.asarray(leading)
        return self._start(means, (1 - _SPECTRAL_OVERLAP) * np.eye(1))

    def _start(self, means: DeviceArray, V: Floats) -> GampState:
        xp = self.draws.xp
        return GampState(
            xp.ascontiguousarray(means), V, xp.zeros((len(self.X), self.reading.rank))
        )

    def sweep(self, state: GampState) -> GampState:
        """Return the estimate after one sweep, negative eigenvalues of A = -sum
        dg/domega/d set to zero.
        """
        xp = self.draws.xp
        X = self.X
        omega = multiply(X, state.means, xp) - state.g @ xp.asarray(state.V)
        g, A = self.response.moments(omega, state.V)
        field = multiply(X.T, xp.ascontiguousarray(g), xp)
        A = A / self.dim
        sizes, vectors = np.linalg.eigh(0.5 * (A + A.T))
        A = (vectors * np.maximum(sizes, 0.0)) @ vectors.T
        V = np.linalg.inv(np.eye(len(A)) + A)
        means = (field + state.means @ xp.asarray(A)) @ xp.asarray(V)
        return GampState(xp.ascontiguousarray(means), V, g)

    def measure(self, state: GampState, turn: Floats | None = None) -> dict[str, Any]:
        """Return overlaps and errors of an estimate, after the symmetry `turn` of the
        target (the best if None).
        """
        d = self.dim
        reading = self.reading
        overlap = to_numpy(multiply(self.W.T, state.means, self.draws.xp)).T / d
        size = to_numpy(multiply(state.means.T, state.means, self.draws.xp)) / d
        if turn is None:
            turn = max(reading.symmetries, key=lambda S: float(np.trace(S @ overlap)))
        overlap = turn @ overlap
        size = turn @ size @ turn.T
        V = turn @ state.V @ turn.T
        mse, error = measured_errors(reading, self.noise, self.flip, overlap, size, V)
        M = reading.basis.T @ (0.5 * (overlap + overlap.T)) @ reading.basis
        return {
            "q": float(np.trace(overlap)) / reading.rank,
            "M": M,
            "mse": mse,
            "error": error,
        }


def _errors(instance: _Instance, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Run GAMP until it stands still; where it does not in time, its last values
    stay.
    """
    # a run from a random start that ends with more or less certainty than the length of
    # its estimate allows has lost itself, which it can see without the truth: it starts
    # again, a few times
    rank = instance.reading.rank
    start = settings["start"]
    for attempt in range(1 if start == "seed" else _ATTEMPTS):
        if start == "seed":
            state = instance.seed(settings["overlap"] * np.eye(rank))
        else:
            if start == "spectral" and attempt == 0:
                state = instance.spectral()
            else:
                state = instance.random(attempt)
        # until nothing moves, the directions are known, or the run is lost
        sweeps, moved = (
            0,
            np.inf,
        )
        while sweeps < settings["max_sweeps"] and not moved < _SETTLED:
            check_time()
            new = instance.sweep(state)
            sweeps = sweeps + 1
            moved = float(np.sqrt(np.mean(to_numpy(new.means - state.means) ** 2)))
            state = new
            if state.is_recovered() or not state.mismatch() < 10 * _LOST:
                break
        if state.mismatch() < _LOST:
            break
    values = instance.measure(state)
    if not state.mismatch() < _LOST:
        values = {
            name: np.full_like(np.asarray(value, dtype=float), np.nan)
            for name, value in values.items()
        }
    return {
        **{name: np.asarray(value)[None] for name, value in values.items()},
        "sweeps": float(sweeps),
    }


def _trajectory(instance: _Instance, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Measure GAMP from a seed, sweep by sweep; once the directions are known exactly
    nothing moves any more.
    """
    identity = np.eye(instance.reading.rank)
    state = instance.seed(np.asarray(settings["overlap"]))
    path = [instance.measure(state, identity)]
    for _ in settings["time"][1:]:
        if not state.is_recovered():
            state = instance.sweep(state)
        path.append(instance.measure(state, identity))
    return {name: np.array([row[name] for row in path]) for name in path[0]}

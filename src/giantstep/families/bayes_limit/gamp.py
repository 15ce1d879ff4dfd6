"""Generalised approximate message passing for a known channel and Gaussian weights, bayes_multi_index section 6."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType

import numpy as np

from giantstep.families.bayes_limit.responses import RowResponse
from giantstep.lab import to_numpy
from giantstep.lab.algebra import multiply
from giantstep.types import DeviceArray, Floats

RECOVERED = 1e-10
"""Largest posterior variance at which the directions count as known exactly."""
LOST = 0.3
"""Difference between |What|^2/d and what V says of it above which an estimate contradicts itself."""
SETTLED = 1e-5
"""Root mean square change of the estimate in a sweep below which GAMP stands still."""


@dataclass
class GampState:
    """Where message passing is: posterior means (d, r), covariance of each row of W (r, r), and its last g (n, r)."""

    means: DeviceArray
    V: Floats
    g: DeviceArray


@dataclass(frozen=True)
class GampData:
    """Data that message passing works on: X (n, d) with entries N(0, 1/d), and what each row says of its z."""

    X: DeviceArray
    response: RowResponse
    xp: ModuleType


def sweep(samples: GampData, state: GampState) -> GampState:
    """Return the estimate after one sweep; A = -sum dg/domega/d, symmetric, its negative eigenvalues set to zero."""
    xp, X, d = samples.xp, samples.X, len(state.means)
    omega = multiply(X, state.means, xp) - state.g @ xp.asarray(state.V)
    g, A = samples.response.moments(omega, state.V)
    field = multiply(X.T, xp.ascontiguousarray(g), xp)
    A = A / d
    sizes, vectors = np.linalg.eigh(0.5 * (A + A.T))
    A = (vectors * np.maximum(sizes, 0.0)) @ vectors.T
    V_new = np.linalg.inv(np.eye(len(A)) + A)
    means = (field + state.means @ xp.asarray(A)) @ xp.asarray(V_new)
    return GampState(xp.ascontiguousarray(means), V_new, g)


def is_recovered(state: GampState) -> bool:
    """Tell whether the directions are known up to rounding."""
    return bool(np.linalg.eigvalsh(state.V)[-1] < RECOVERED)


def change(new: GampState, old: GampState) -> float:
    """Return the root mean square change of the means."""
    difference = to_numpy(new.means - old.means)
    return float(np.sqrt(np.mean(difference**2)))


def mismatch(state: GampState) -> float:
    """Return the largest entry of |What^T What/d + V - 1|, which vanishes for a posterior mean as d grows."""
    means = to_numpy(state.means)
    return float(np.abs(means.T @ means / len(means) + state.V - np.eye(len(state.V))).max())

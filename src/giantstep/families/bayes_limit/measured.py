"""Test errors of an estimate, from its measured overlaps: (omega, z) of a fresh sample are jointly Gaussian."""

from __future__ import annotations

import numpy as np

from giantstep.families.bayes_limit.exact import Exact
from giantstep.families.bayes_limit.reading import TargetReading
from giantstep.families.bayes_limit.responses import lebesgue_nodes
from giantstep.gaussian import semidefinite_factor
from giantstep.gaussian.quadrature import trapezoid_rule
from giantstep.types import Floats

_STEP, _REACH = {1: 0.05, 2: 0.3, 3: 0.6}, {1: 8.0, 2: 5.5, 3: 4.5}
"""Step and reach of the mesh of omega in standard deviations, by the number of directions: at most 3,400 points."""


def measured_errors(
    reading: TargetReading, noise: float, flip: float, overlap: Floats, size: Floats, V: Floats
) -> tuple[float, float]:
    """Return the square error and the fraction of wrong labels of the estimate's predictions.

    Parameters
    ----------
    overlap : (r, r) = What^T W/d; size : (r, r) = What^T What/d; V : the posterior covariance it believes in.
    """
    r = reading.rank
    axis, weight = trapezoid_rule(_STEP[r], _REACH[r])
    mesh = np.stack(np.meshgrid(*[axis] * r, indexing="ij"), axis=-1).reshape(-1, r)
    weights = np.prod(np.stack(np.meshgrid(*[weight] * r, indexing="ij"), axis=-1).reshape(-1, r), axis=1)
    weights = weights / weights.sum()
    factor = semidefinite_factor(size)
    omega = mesh @ factor.T
    slope = overlap.T @ np.linalg.pinv(size, rcond=1e-10)
    truth, rest = omega @ slope.T, np.eye(r) - slope @ overlap
    believed, actual = (_Law(reading, flip, C) for C in (V, rest))
    values = believed.values
    guess, mean = believed.mean(omega), actual.mean(truth)
    squares = float(weights @ actual.second(truth)) - 2 * float(weights @ (guess * mean)) + float(weights @ guess**2)
    if values is None or noise > 0:
        return noise + max(0.0, squares), np.nan
    chosen = believed.probabilities(omega).argmax(axis=0)
    right = np.take_along_axis(actual.probabilities(truth), chosen[None], axis=0)[0]
    return max(0.0, squares), float(1 - weights @ right)


class _Law:
    """The law of y without noise given z ~ N(omega, C)."""

    def __init__(self, reading: TargetReading, flip: float, C: Floats) -> None:
        self.reading, self.flip = reading, flip
        sizes, vectors = np.linalg.eigh(0.5 * (C + C.T))
        self.C = (vectors * np.maximum(sizes, 1e-14)) @ vectors.T
        self.values = None if reading.labels is None else np.asarray(reading.labels)
        if reading.rank > 1:
            self.nodes, self.weights = lebesgue_nodes(reading, max(float(sizes[0]), 0.02))
            self.g = np.asarray(reading.inner(self.nodes), dtype=float)

    def probabilities(self, omega: Floats) -> Floats:
        """Return the probability of every label (K, N)."""
        assert self.values is not None
        if self.reading.rank == 1:
            return Exact(self.reading.line, self.flip).law(omega[:, 0], float(self.C[0, 0]))[0]
        own = (np.abs(self.g[:, None] - self.values) < 1e-9).astype(float)
        P = self._average(omega, own).T
        others = self.flip / (len(self.values) - 1)
        return np.asarray((1 - self.flip - others) * P + others)

    def mean(self, omega: Floats) -> Floats:
        """Return E[y|omega]."""
        if self.values is not None:
            return np.asarray(self.values @ self.probabilities(omega))
        if self.reading.rank == 1:
            return np.asarray(self.reading.line.function.moments(omega[:, 0], float(np.sqrt(self.C[0, 0]))).mean)
        return self._average(omega, self.g[:, None])[:, 0]

    def second(self, omega: Floats) -> Floats:
        """Return E[y^2|omega]."""
        if self.values is not None:
            return np.asarray(self.values**2 @ self.probabilities(omega))
        if self.reading.rank == 1:
            return self.reading.line.function.second_moment(omega[:, 0], float(np.sqrt(self.C[0, 0])))
        return self._average(omega, self.g[:, None] ** 2)[:, 0]

    def _average(self, omega: Floats, values: Floats) -> Floats:
        precision = np.linalg.inv(self.C)
        spread = -0.5 * np.sum((self.nodes @ precision) * self.nodes, axis=1) + np.log(self.weights)
        exponent = spread + (omega @ precision) @ self.nodes.T
        exponent -= exponent.max(axis=1, keepdims=True)
        weight = np.exp(exponent)
        return np.asarray((weight @ values) / weight.sum(axis=1)[:, None])

"""Test errors of an estimate, from its measured overlaps: (omega, z) of a fresh sample are jointly Gaussian."""

from __future__ import annotations

import numpy as np

from giantstep.families.bayes_limit.exact import Exact, noisy_labels
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

    They follow from `overlap` What^T W/d, `size` What^T What/d and the posterior covariance V it believes in, (r, r)
    each.
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
    squares = float(weights @ actual.mean(truth, 2)) - 2 * float(weights @ (guess * mean)) + float(weights @ guess**2)
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
        return np.asarray(noisy_labels(P, P, self.flip)[0])

    def mean(self, omega: Floats, power: int = 1) -> Floats:
        """Return E[y|omega], or E[y^2|omega] with the power 2."""
        if self.values is not None:
            return np.asarray(self.values**power @ self.probabilities(omega))
        if self.reading.rank > 1:
            return self._average(omega, self.g[:, None] ** power)[:, 0]
        function, field, spread = self.reading.line.function, omega[:, 0], float(np.sqrt(self.C[0, 0]))
        return np.asarray(function.moments(field, spread).mean if power == 1 else function.second_moment(field, spread))

    def _average(self, omega: Floats, values: Floats) -> Floats:
        precision = np.linalg.inv(self.C)
        spread = -0.5 * np.sum((self.nodes @ precision) * self.nodes, axis=1) + np.log(self.weights)
        exponent = spread + (omega @ precision) @ self.nodes.T
        exponent -= exponent.max(axis=1, keepdims=True)
        weight = np.exp(exponent)
        return np.asarray((weight @ values) / weight.sum(axis=1)[:, None])

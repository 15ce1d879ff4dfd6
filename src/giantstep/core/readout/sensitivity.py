"""How the output of a fitted network moves with its input: its gradient, and
perturbations of a given length.

beyond_the_error section 5. Given z the gradient along the coordinates is Gaussian and
correlated with the output; its length across them is one number. What an adversary does
is counted to first order in the length of the perturbation.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from giantstep.core.base.types import Floats, Integers
from giantstep.core.maths.gaussian import normal_density, normal_distribution
from giantstep.core.maths.gaussian.grids import hermite_rule
from giantstep.core.readout.output_law import OutputLaw

HERMITE_NODES = {0: 1, 1: 24, 2: 8, 3: 6}
"""Nodes for every direction along which the gradient fluctuates, by their number."""
SATURATED = 1e-10
"""Variance of a gradient, relative to the largest, that is rounding: units that
saturate do not move.
"""
CHUNK = 1 << 18
"""Values that are worked on together, so that they stay in cache."""
RARE = 1e-8
"""Weight of an input, relative to the largest, below which perturbations of it are not
counted: 1e-7 of an error.
"""


@dataclass(frozen=True, eq=False)
class GradientLaw:
    """The law of the gradient at the inputs of an output law."""

    law: OutputLaw

    @cached_property
    def covariance(self) -> Floats:
        """Of the gradient along the coordinates (N, R, R): (5.2)."""
        layer = self.law.layer
        fitted = self.law.fitted
        U = self.law.layer.blocks.U
        own = np.maximum(layer.slope_noise - layer.e1**2, 0.0) * fitted.Q2[:, None]
        shared = np.einsum(
            "qn,qp,pn,qr,ps->nrs", layer.e1, fitted.Q1, layer.e1, U, U, optimize=True
        )
        return shared + np.einsum("qn,qr,qs->nrs", own, U, U, optimize=True)

    @cached_property
    def with_output(self) -> Floats:
        """Covariance of the gradient along the coordinates with the output (N, R):
        (5.3).
        """
        layer = self.law.layer
        fitted = self.law.fitted
        moved = (
            layer.e1 * (fitted.Q1 @ layer.mu1) + layer.value_slope * fitted.Q2[:, None]
        )
        return moved.T @ layer.blocks.U

    @cached_property
    def across(self) -> Floats:
        """Squared length of the gradient across the coordinates (N,): (5.4)."""
        layer = self.law.layer
        fitted = self.law.fitted
        rows = layer.blocks.unit[:, None] * layer.D[1]
        return (
            np.sum(rows * (fitted.Q1 @ rows), axis=0)
            + (layer.blocks.s**2 * fitted.Q2) @ layer.slope_noise
        )

    @cached_property
    def along(self) -> Floats:
        """E of the squared length of the gradient along the coordinates given z (N,):
        (5.5), (5.9).
        """
        law = self.law
        mean = np.sum(law.gradient**2, axis=1) + np.trace(
            self.covariance, axis1=1, axis2=2
        )
        if law.fitted.covariance is None:
            return mean
        moved = law.layer.function_gradients
        return np.asarray(
            mean
            + np.einsum(
                "fnr,fg,gnr->n", moved, law.fitted.covariance, moved, optimize=True
            )
        )

    def at_nodes(self, rows: Integers) -> tuple[Floats, Floats, Floats, Floats]:
        """Return |grad f|, mean and variance of the output, all (n, G), and weights
        (G,): Gauss-Hermite over (5.2).
        """
        law = self.law
        rank = self.rank
        values, vectors = np.linalg.eigh(self.covariance[rows])
        values, vectors = (
            values[:, values.shape[1] - rank :],
            vectors[:, :, values.shape[1] - rank :],
        )
        moves = values > SATURATED * np.max(self.covariance, initial=0.0)
        roots = np.sqrt(np.where(moves, values, 0.0))
        own, with_output = (
            np.einsum("nrm,nr->nm", vectors, part[rows])
            for part in (law.gradient, self.with_output)
        )
        loading = np.where(moves, with_output / np.where(moves, roots, 1.0), 0.0)
        still = (
            np.sum(law.gradient[rows] ** 2, axis=1)
            - np.sum(own**2, axis=1)
            + self.across[rows]
        )
        nodes, weights = hermite_rule(HERMITE_NODES[rank])
        square = np.maximum(still, 0.0)[:, None]
        mean = law.mean[rows][:, None]
        mass = np.ones(1)
        for axis in range(
            rank
        ):  # every node of the axes before, with every one of this axis
            moved = (own[:, axis, None] + roots[:, axis, None] * nodes) ** 2
            square = (square[:, :, None] + moved[:, None]).reshape(len(rows), -1)
            mean = (
                mean[:, :, None] + (loading[:, axis, None] * nodes)[:, None]
            ).reshape(len(rows), -1)
            mass = np.outer(mass, weights).ravel()
        variance = np.maximum(law.variance[rows] - np.sum(loading**2, axis=1), 0.0)
        return (
            np.sqrt(square),
            mean,
            np.broadcast_to(variance[:, None], mean.shape),
            mass,
        )

    @cached_property
    def rank(self) -> int:
        """Number of directions along which the gradient fluctuates."""
        return int(np.linalg.matrix_rank(self.law.layer.blocks.U))

    def chunks(self, weights: Floats) -> list[Integers]:
        """Return the inputs that are not too rare to matter, in pieces that fit into
        memory.
        """
        size = max(1, CHUNK // HERMITE_NODES[self.rank] ** self.rank)
        often = np.flatnonzero(weights > RARE * weights.max())
        return [often[start : start + size] for start in range(0, len(often), size)]


def error_times_gradient(
    gradient: GradientLaw, label: Floats, noise: float, weights: Floats
) -> float:
    """Return E |y - f| |grad f| for labels of means `label` (N,) and variance `noise`:
    the middle term of (5.6).
    """
    total = 0.0
    for rows in gradient.chunks(weights):
        size, mean, variance, mass = gradient.at_nodes(rows)
        far = folded_mean(label[rows][:, None] - mean, np.sqrt(variance + noise))
        total += float(weights[rows] @ ((size * far) @ mass))
    return total


def folded_mean(mean: Floats, deviation: Floats) -> Floats:
    """Return E |N(mean, deviation^2)|."""
    scale = np.maximum(deviation, 1e-300)
    t = mean / scale
    return np.asarray(
        2 * scale * normal_density(t) + mean * (2 * normal_distribution(t) - 1)
    )


def attacked_classes(
    gradient: GradientLaw, positive: Floats, weights: Floats, eps: Floats
) -> Floats:
    """Return how often classes are wrong after a perturbation of each length (E,),
    P(y = 1|z) = positive: (5.7).
    """
    wrong = np.zeros(len(eps))
    for rows in gradient.chunks(weights):
        size, mean, variance, mass = gradient.at_nodes(rows)
        scale = np.sqrt(np.maximum(variance, 1e-300))
        chance = positive[rows][:, None]
        for number, length in enumerate(eps):
            up = (length * size - mean) / scale
            down = (length * size + mean) / scale
            each = chance * normal_distribution(up) + (
                1 - chance
            ) * normal_distribution(down)
            wrong[number] += float(weights[rows] @ (each @ mass))
    return wrong

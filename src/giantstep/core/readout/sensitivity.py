"""How the output of a fitted network moves with its input: its gradient, and
perturbations of a given length.

beyond_the_error section 5. Given z the gradient along the coordinates is Gaussian and
correlated with the output; its length across them is one number. What an adversary does
is counted to first order in the length of the perturbation.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

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


class GradientNodes(NamedTuple):
    """What n inputs have at G nodes of the fluctuations of the gradient."""

    length: Floats  # |grad f| (n, G)
    mean: Floats  # of the output given the gradient (n, G)
    variance: Floats  # of the output given the gradient (n, G)
    weights: Floats  # of the nodes (G,)


@dataclass(frozen=True, eq=False)
class GradientLaw:
    """The law of the gradient at the inputs of an output law."""

    law: OutputLaw

    @cached_property
    def covariance(self) -> Floats:
        """Of the gradient along the coordinates (N, R, R): (5.2)."""
        layer = self.law.layer
        fitted = self.law.fitted
        U = layer.blocks.U
        # what each row has for itself, beside the part e1 that is linear in the bulk
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
        shared = layer.e1 * (fitted.Q1 @ layer.mu1)
        own = layer.value_slope * fitted.Q2[:, None]
        return (shared + own).T @ layer.blocks.U

    @cached_property
    def across(self) -> Floats:
        """Squared length of the gradient across the coordinates (N,): (5.4)."""
        layer = self.law.layer
        fitted = self.law.fitted
        # the mean slope along the bulk, and what is left of each row's slope
        rows = layer.blocks.unit[:, None] * layer.D[1]
        shared = np.sum(rows * (fitted.Q1 @ rows), axis=0)
        return shared + (layer.blocks.s**2 * fitted.Q2) @ layer.slope_noise

    @cached_property
    def along(self) -> Floats:
        """E of the squared length of the gradient along the coordinates given z (N,):
        (5.5), (5.9).
        """
        law = self.law
        fluctuation = np.trace(self.covariance, axis1=1, axis2=2)
        square = np.sum(law.gradient**2, axis=1) + fluctuation
        if law.fitted.covariance is None:
            return square
        # the fitted means vary with the samples, and the mean gradient with them
        # E of the square of grad (theta, x) . B
        moved = law.layer.function_gradients
        of_means = np.einsum(
            "fnr,fg,gnr->n", moved, law.fitted.covariance, moved, optimize=True
        )
        return np.asarray(square + of_means)

    def at_nodes(self, rows: Integers) -> GradientNodes:
        """Return the gradient of the inputs in `rows` at Gauss-Hermite nodes of its
        fluctuations, and the output given it: (5.2).
        """
        law = self.law
        rank = self.rank
        # the gradient fluctuates along the rows of the blocks only: the last axes
        values, vectors = np.linalg.eigh(self.covariance[rows])
        values = values[:, values.shape[1] - rank :]
        vectors = vectors[:, :, vectors.shape[2] - rank :]
        moves = values > SATURATED * np.max(self.covariance, initial=0.0)
        roots = np.sqrt(np.where(moves, values, 0.0))
        mean_gradient = np.einsum("nrm,nr->nm", vectors, law.gradient[rows])
        with_output = np.einsum("nrm,nr->nm", vectors, self.with_output[rows])
        # regression of the output on the fluctuations, in units of their deviation
        loading = np.where(moves, with_output / np.where(moves, roots, 1.0), 0.0)
        # the part of the squared length that does not fluctuate
        still = np.sum(law.gradient[rows] ** 2, axis=1)
        still = still - np.sum(mean_gradient**2, axis=1) + self.across[rows]
        nodes, weights = hermite_rule(HERMITE_NODES[rank])
        square = np.maximum(still, 0.0)[:, None]
        mean = law.mean[rows][:, None]
        mass = np.ones(1)
        # every node of the axes before, with every one of this axis
        for axis in range(rank):
            along_axis = mean_gradient[:, axis, None] + roots[:, axis, None] * nodes
            square = square[:, :, None] + (along_axis**2)[:, None]
            square = square.reshape(len(rows), -1)
            mean = mean[:, :, None] + (loading[:, axis, None] * nodes)[:, None]
            mean = mean.reshape(len(rows), -1)
            mass = np.outer(mass, weights).ravel()
        variance = np.maximum(law.variance[rows] - np.sum(loading**2, axis=1), 0.0)
        return GradientNodes(
            length=np.sqrt(square),
            mean=mean,
            variance=np.broadcast_to(variance[:, None], mean.shape),
            weights=mass,
        )

    @cached_property
    def rank(self) -> int:
        """Number of directions along which the gradient fluctuates."""
        return int(np.linalg.matrix_rank(self.law.layer.blocks.U))

    def chunks(self, weights: Floats) -> list[Integers]:
        """Return the inputs that are not too rare to matter, in pieces that fit into
        memory.
        """
        nodes_of_input = HERMITE_NODES[self.rank] ** self.rank
        size = max(1, CHUNK // nodes_of_input)
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
        at = gradient.at_nodes(rows)
        # given the gradient y - f is normal
        error = label[rows][:, None] - at.mean
        mean_error = folded_mean(error, np.sqrt(at.variance + noise))
        total += float(weights[rows] @ ((at.length * mean_error) @ at.weights))
    return total


def folded_mean(mean: Floats, deviation: Floats) -> Floats:
    """Return E |N(mean, deviation^2)|."""
    scale = np.maximum(deviation, 1e-300)
    t = mean / scale
    sign = 2 * normal_distribution(t) - 1
    return np.asarray(2 * scale * normal_density(t) + mean * sign)


def attacked_classes(
    gradient: GradientLaw, positive: Floats, weights: Floats, eps: Floats
) -> Floats:
    """Return how often classes are wrong after a perturbation of each length (E,),
    P(y = 1|z) = positive: (5.7).
    """
    wrong = np.zeros(len(eps))
    for rows in gradient.chunks(weights):
        at = gradient.at_nodes(rows)
        scale = np.sqrt(np.maximum(at.variance, 1e-300))
        chance = positive[rows][:, None]
        for number, length in enumerate(eps):
            # the adversary moves the output towards the other class by eps |grad f|
            pushed = length * at.length
            up = normal_distribution((pushed - at.mean) / scale)
            down = normal_distribution((pushed + at.mean) / scale)
            each = chance * up + (1 - chance) * down
            wrong[number] += float(weights[rows] @ (each @ at.weights))
    return wrong

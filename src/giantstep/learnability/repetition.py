"""What an update that sees a sample more than once does to a network without overlap: the label transform it applies.

Every update is w_j += g a_j F_j(lambda, y) x (gradient_dynamics section 4.2). At M = 0 and |w_j| = 1 the fields lambda
are independent of the label, so the drift is E[fbar_j(y) z] with fbar_j(y) = E_lambda F_j: an affine function of y for
plain SGD, a nonlinear one where data are used twice. Where that vanishes, E[lambda_j F_j] acts on m through z z^T - I.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from giantstep.blocks import split_rows
from giantstep.gaussian.functions import Function
from giantstep.gaussian.grids import BOUND, NodeGrid, broken_rule, even_rule, hermite_rule, product_grid
from giantstep.gaussian.quadrature import gauss_legendre_panels, normal_density
from giantstep.gaussian.target import Target
from giantstep.learnability.algorithms import NAMED, Student, squared
from giantstep.solve.roots import crossing
from giantstep.types import Floats

_FIELD_NODES = 40
_FIELD_PIECES = tuple(np.linspace(-3.0, 3.0, 25).tolist())
"""Nodes of every piece of the rule of one field, and where it breaks beside the kinks of the activation."""
_PIECES = np.linspace(-BOUND, BOUND, 13)
"""Where the rule of one field breaks beside kinks that move with the label."""
_SEARCHED, _BESIDE = np.linspace(-8.0, 8.0, 161), 1e-12
"""Fields between which the moved field is looked at for kinks, and how near beside the kinks themselves."""
_SOBOL = 1 << 12
"""Points, besides their opposites, of the fields of several neurons."""
_LABELS = 8000
"""Labels of a table at most; between them means are interpolated."""


@dataclass(frozen=True)
class Repetition:
    """First-order quantities at M = 0, |w| = 1, for one neuron j."""

    value: float  # a_j
    drift: Floats  # (r,) E[F_j z]; the cosine grows as rate a_j |drift| t, t in samples/d, rate = gamma_0
    growth: Floats  # (r, r) E[lambda_j F_j (z z^T - I)]
    second: float  # E[F_j^2]

    def rate(self, rate: float) -> tuple[float, Floats]:
        """Return the growth rate r of a small cosine per samples/d and its direction, at a step gamma_0 = rate.

        r = rate a E[lambda F (z z^T - I)]_max - rate^2 a^2 E[F^2]/2, gradient_dynamics (4.2a).
        """
        sizes, vectors = np.linalg.eigh(rate * self.value * self.growth)
        return float(sizes[-1] - 0.5 * (rate * self.value) ** 2 * self.second), vectors[:, -1]


def label_rule(target: Target) -> NodeGrid:
    """Return a rule for z that also resolves functions of the label which are not smooth."""
    r = target.directions
    smooth = even_rule({1: 1 / 400, 2: 1 / 20, 3: 1 / 5}[r]) if r <= 3 else hermite_rule({4: 22, 5: 14, 6: 10}[r])
    return product_grid(r, target.planes, smooth, {1: 200, 2: 60, 3: 24, 4: 14, 5: 8, 6: 5}[r])


def repetition(
    target: Target,
    grid: NodeGrid,
    activation: Function,
    second_layer: Sequence[float],
    algorithm: str,
    inner_rate: float,
    noise: float = 0.0,
) -> list[Repetition]:
    """Return the first-order quantities of every different value of the second layer.

    The rule for z (`label_rule`) is symmetric where the target is, so that zeros by symmetry are exact. `inner_rate` is
    rho_0 of the inner step, gamma_0 for "two-step".
    """
    a = np.asarray(second_layer, dtype=float)
    y = np.asarray(target(grid.points), dtype=float)
    shift = np.sqrt(noise)
    labels = (y - shift, y + shift) if noise else (y,)
    update = _Update(activation, a, algorithm, inner_rate)
    neurons = []
    for value in dict.fromkeys(a.tolist()):
        j = int(np.flatnonzero(a == value)[0])
        means = np.mean([update.label_means(label, j) for label in labels], axis=0)
        plain, tilted, second = grid.weights * means
        growth = (grid.points.T * tilted) @ grid.points - tilted.sum() * np.eye(grid.points.shape[1])
        neurons.append(Repetition(value, plain @ grid.points, growth, float(second.sum())))
    return neurons


class _Update:
    """The update of one sample, as the mean over the fields of what it does to one neuron at a given label."""

    def __init__(self, activation: Function, a: Floats, algorithm: str, inner_rate: float) -> None:
        self.network, self.algorithm, self.inner_rate = Student(activation, a), NAMED[algorithm], inner_rate
        self.fields, self.weights = _fields(activation, len(a))
        self.moving = len(a) == 1 and bool(activation.kinks) and self.algorithm.repeats

    def label_means(self, y: Floats, j: int) -> Floats:
        """E_lambda of F, lambda_j F and F^2 at every label; many labels are interpolated between tabulated ones."""
        labels = np.unique(y)
        if len(labels) > _LABELS:
            labels = np.unique(np.quantile(labels, np.linspace(0, 1, _LABELS)))
        table = np.empty((3, len(labels)))
        for part in split_rows(len(labels), self.fields.size, 1 << 20):
            chunk = labels[part]
            if self.moving:
                nodes, measure = self._broken_fields(chunk)
                fields = nodes[..., None]
            else:
                fields = np.broadcast_to(self.fields, (len(chunk), *self.fields.shape))
                nodes, measure = fields[..., j], np.broadcast_to(self.weights, fields.shape[:2])
            values = self.algorithm.force(self.network, fields, chunk[:, None], self.inner_rate, 1.0)[..., j]
            table[:, part] = [
                np.einsum("ln,ln->l", measure, moment) for moment in (values, values * nodes, values * values)
            ]
        return np.array([np.interp(y, labels, row) for row in table])

    def _moved(self, fields: Floats, labels: Floats) -> Floats:
        """Return the fields of the one neuron after the inner step."""
        pull = squared(self.network, fields[..., None], labels, self.inner_rate, 1.0)[..., 0]
        return np.asarray(fields + self.inner_rate * self.network.second_layer[0] * pull)

    def _broken_fields(self, labels: Floats) -> tuple[Floats, Floats]:
        """Rules (labels, n) for one field that break where it meets a kink, before or after the inner step."""
        kinks = np.array(self.network.activation.kinks)
        grid = np.unique(np.concatenate([_SEARCHED, kinks - _BESIDE, kinks + _BESIDE]))
        beyond = self._moved(np.broadcast_to(grid, (len(labels), len(grid))), labels[:, None])[..., None] > kinks
        crossed = (beyond[:, 1:] != beyond[:, :-1]) & (np.diff(grid) > 3 * _BESIDE)[:, None]
        row, cell, kink = np.nonzero(crossed)
        falling = np.where(beyond[row, cell, kink], 1.0, -1.0)
        at = crossing(
            lambda x, i: falling[i] * (self._moved(x, labels[row[i]]) - kinks[kink[i]]), grid[cell], grid[cell + 1]
        )
        breaks = np.full((len(labels), np.bincount(row, minlength=1).max()), BOUND)
        breaks[row, np.arange(len(row)) - np.searchsorted(row, row)] = at
        fixed = np.concatenate([_PIECES, kinks])
        edges = np.concatenate([np.broadcast_to(fixed, (len(labels), len(fixed))), breaks], axis=1)
        nodes, weights = gauss_legendre_panels(np.sort(edges, axis=1), 10)
        return nodes, weights * normal_density(nodes)


def _fields(activation: Function, p: int) -> tuple[Floats, Floats]:
    """Nodes (n, p) and weights of p independent fields; the kinks of the activation break the rule of one field."""
    if p == 1:
        nodes, weights = broken_rule((*activation.kinks, *_FIELD_PIECES), _FIELD_NODES)
        return nodes[:, None], weights
    from scipy.special import ndtri
    from scipy.stats import qmc

    points = ndtri(qmc.Sobol(p, seed=11).random(_SOBOL))
    points = np.concatenate([points, -points])
    return points, np.full(len(points), 1 / len(points))

"""What an update that sees a sample more than once does to a network without overlap:
the means over the fields of a neuron at given labels, gradient_dynamics section 4.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from giantstep.core.base.chunks import split_rows
from giantstep.core.base.types import Floats
from giantstep.core.maths.gaussian import Function, grids
from giantstep.core.maths.gaussian.joint import sobol_normals
from giantstep.core.maths.gaussian.target import Target
from giantstep.core.maths.solve.roots import crossing
from giantstep.problems.learnability.algorithms import (
    NAMED,
    Algorithm,
    Student,
    squared,
)

_FIELD_NODES = 40
_FIELD_PIECES = tuple(np.linspace(-3.0, 3.0, 25).tolist())
"""Nodes of every piece of the rule of one field, and where it breaks beside the kinks
of the activation.
"""
_EDGES = 13
"""Even edges of the rule of one field, beside kinks that move with the label."""
_SEARCHED = np.linspace(-8.0, 8.0, 161)
_BESIDE = 1e-12
"""Fields between which the moved field is looked at for kinks, and how near beside the
kinks themselves.
"""
_SOBOL = 12
"""Logarithm (base 2) of the number of points, besides their opposites, of the fields of
several neurons.
"""
_LABELS = 8000
"""Labels of a table at most; between them means are interpolated."""
_TOGETHER = 1 << 20
"""Fields that are held at a time."""


@dataclass(frozen=True)
class Repetition:
    """First-order quantities at M = 0, |w| = 1, for one neuron j."""

    value: float  # a_j
    # (r,) E[F_j z]; the cosine grows as rate a_j |drift| t, t in samples/d, rate =
    # gamma_0
    drift: Floats
    growth: Floats  # (r, r) E[lambda_j F_j (z z^T - I)]
    second: float  # E[F_j^2]

    def rate(self, rate: float) -> tuple[float, Floats]:
        """Return r = rate a E[lambda F (z z^T - I)]_max - rate^2 a^2 E[F^2]/2, and its
        direction.
        """
        sizes, vectors = np.linalg.eigh(rate * self.value * self.growth)
        # the noise of the steps makes a row longer, and its cosines smaller
        noise = 0.5 * (rate * self.value) ** 2 * self.second
        return float(sizes[-1] - noise), vectors[:, -1]


def label_rule(target: Target) -> grids.NodeGrid:
    """Return a rule for z that also resolves functions of the label which are not
    smooth.
    """
    r = target.directions
    if r <= 3:
        smooth = grids.even_rule({1: 1 / 400, 2: 1 / 20, 3: 1 / 5}[r])
    else:
        smooth = grids.hermite_rule({4: 22, 5: 14, 6: 10}[r])
    return grids.product_grid(
        r, target.planes, smooth, {1: 200, 2: 60, 3: 24, 4: 14, 5: 8, 6: 5}[r]
    )


def repetition(
    target: Target,
    grid: grids.NodeGrid,
    activation: Function,
    second_layer: Sequence[float],
    algorithm: str,
    inner_rate: float,
    noise: float = 0.0,
) -> list[Repetition]:
    """Return the first-order quantities of every different value of the second layer; a
    `label_rule` keeps symmetry.
    """
    a = np.asarray(second_layer, dtype=float)
    y = np.asarray(target(grid.points), dtype=float)
    means_at = _LabelMeans(Student(activation, a), NAMED[algorithm], inner_rate)
    labels = [y]
    if noise:
        # two points of equal weight have the mean and the variance of the noise
        labels = [y - np.sqrt(noise), y + np.sqrt(noise)]
    neurons = []
    for value in dict.fromkeys(a.tolist()):
        # neurons of one value are alike: the first of them stands for all
        neuron = a.tolist().index(value)
        means = np.mean([means_at(one, neuron) for one in labels], axis=0)
        plain, tilted, second = grid.weights * means
        # E[m z z^T] - E[m]: z z^T - I, with m = E[lambda F|y]
        identity = np.eye(grid.points.shape[1])
        growth = (grid.points.T * tilted) @ grid.points - tilted.sum() * identity
        neurons.append(
            Repetition(
                value=value,
                drift=plain @ grid.points,
                growth=growth,
                second=float(second.sum()),
            )
        )
    return neurons


class _LabelMeans:
    """E_lambda of F, lambda_j F and F^2 at labels; many labels are interpolated between
    tabulated ones.
    """

    def __init__(self, net: Student, algorithm: Algorithm, inner_rate: float) -> None:
        self.net = net
        self.algorithm = algorithm
        self.inner_rate = inner_rate
        p = len(net.second_layer)
        self.fields, self.weights = _fields(net.activation, p)
        # the moved field of one neuron meets the kinks at places that depend on y
        self.breaks = p == 1 and bool(net.activation.kinks) and algorithm.repeats

    def __call__(self, y: Floats, neuron: int) -> Floats:
        """Return the three means (3, N) of one neuron at N labels."""
        labels = np.unique(y)
        if len(labels) > _LABELS:
            labels = np.unique(np.quantile(labels, np.linspace(0, 1, _LABELS)))
        table = np.empty((3, len(labels)))
        for part in split_rows(len(labels), self.fields.size, _TOGETHER):
            table[:, part] = self._means(labels[part], neuron)
        return np.array([np.interp(y, labels, row) for row in table])

    def _means(self, labels: Floats, neuron: int) -> Floats:
        """Return the three means at some labels, without a table."""
        if self.breaks:
            nodes, measure = _broken_fields(self.net, self.inner_rate, labels)
            fields = nodes[..., None]
        else:
            fields = np.broadcast_to(self.fields, (len(labels), *self.fields.shape))
            nodes = fields[..., neuron]
            measure = np.broadcast_to(self.weights, fields.shape[:2])
        force = self.algorithm.force(
            self.net, fields, labels[:, None], self.inner_rate, 1.0
        )
        values = force[..., neuron]
        moments = (values, values * nodes, values * values)
        return np.array([np.einsum("ln,ln->l", measure, m) for m in moments])


def _broken_fields(
    net: Student, inner_rate: float, labels: Floats
) -> tuple[Floats, Floats]:
    """Rules (labels, n) for one field that break where it meets a kink, before or after
    the inner step.
    """
    kinks = np.array(net.activation.kinks)
    fixed = np.broadcast_to(kinks, (len(labels), len(kinks)))
    moving = _moved_kinks(net, inner_rate, labels)
    return grids.moving_panels(np.concatenate([fixed, moving], axis=1), _EDGES, 10)


def _moved_kinks(net: Student, inner_rate: float, labels: Floats) -> Floats:
    """Return the fields (labels, most) that the inner step moves onto a kink; rows with
    fewer of them end with the bound of the rule.
    """

    def moved(fields: Floats, labels: Floats) -> Floats:
        pull = squared(net, fields[..., None], labels, inner_rate, 1.0)[..., 0]
        return np.asarray(fields + inner_rate * net.second_layer[0] * pull)

    kinks = np.array(net.activation.kinks)
    # the moved field jumps at the kinks: they are looked at from both sides
    grid = np.unique(np.concatenate([_SEARCHED, kinks - _BESIDE, kinks + _BESIDE]))
    fields = np.broadcast_to(grid, (len(labels), len(grid)))
    beyond = moved(fields, labels[:, None])[..., None] > kinks
    # a jump between the two sides of a kink is no crossing
    wide = (np.diff(grid) > 3 * _BESIDE)[:, None]
    crossed = (beyond[:, 1:] != beyond[:, :-1]) & wide
    row, cell, kink = np.nonzero(crossed)
    # `crossing` wants a function that falls
    sign = np.where(beyond[row, cell, kink], 1.0, -1.0)
    places = crossing(
        lambda x, i: sign[i] * (moved(x, labels[row[i]]) - kinks[kink[i]]),
        grid[cell],
        grid[cell + 1],
    )
    most = np.bincount(row, minlength=1).max()
    breaks = np.full((len(labels), most), grids.BOUND)
    # rows are sorted: the place of an entry in its row is its distance from the first
    breaks[row, np.arange(len(row)) - np.searchsorted(row, row)] = places
    return breaks


def _fields(activation: Function, p: int) -> tuple[Floats, Floats]:
    """Nodes (n, p) and weights of p independent fields; the kinks of the activation
    break the rule of one field.
    """
    if p == 1:
        nodes, weights = grids.broken_rule(
            (*activation.kinks, *_FIELD_PIECES), _FIELD_NODES
        )
        return nodes[:, None], weights
    points = sobol_normals(p, _SOBOL, 11)
    points = np.concatenate([points, -points])
    return points, np.full(len(points), 1 / len(points))

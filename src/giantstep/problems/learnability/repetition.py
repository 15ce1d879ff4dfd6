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
from giantstep.core.maths.gaussian.target import Target
from giantstep.core.maths.solve.roots import crossing
from giantstep.problems.learnability.algorithms import NAMED, Student, squared

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
        return (
            float(sizes[-1] - 0.5 * (rate * self.value) ** 2 * self.second),
            vectors[:, -1],
        )


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
    net = Student(activation, a)
    known = NAMED[algorithm]
    fields, weights = _fields(activation, len(a))

    def label_means(y: Floats, j: int) -> Floats:
        """E_lambda of F, lambda_j F and F^2 at every label; many labels are
        interpolated between tabulated ones.
        """
        labels = np.unique(y)
        if len(labels) > _LABELS:
            labels = np.unique(np.quantile(labels, np.linspace(0, 1, _LABELS)))
        table = np.empty((3, len(labels)))
        for part in split_rows(len(labels), fields.size, 1 << 20):
            chunk = labels[part]
            if len(a) == 1 and activation.kinks and known.repeats:
                nodes, measure = _broken_fields(net, inner_rate, chunk)
                here = nodes[..., None]
            else:
                here = np.broadcast_to(fields, (len(chunk), *fields.shape))
                nodes = here[..., j]
                measure = np.broadcast_to(weights, here.shape[:2])
            values = known.force(net, here, chunk[:, None], inner_rate, 1.0)[..., j]
            moments = (values, values * nodes, values * values)
            table[:, part] = [
                np.einsum("ln,ln->l", measure, moment) for moment in moments
            ]
        return np.array([np.interp(y, labels, row) for row in table])

    neurons = []
    for value in dict.fromkeys(a.tolist()):
        shifted = (y - np.sqrt(noise), y + np.sqrt(noise)) if noise else (y,)
        means = np.mean(
            [label_means(label, a.tolist().index(value)) for label in shifted], axis=0
        )
        plain, tilted, second = grid.weights * means
        growth = (grid.points.T * tilted) @ grid.points - tilted.sum() * np.eye(
            grid.points.shape[1]
        )
        neurons.append(
            Repetition(value, plain @ grid.points, growth, float(second.sum()))
        )
    return neurons


def _broken_fields(
    net: Student, inner_rate: float, labels: Floats
) -> tuple[Floats, Floats]:
    """Rules (labels, n) for one field that break where it meets a kink, before or after
    the inner step.
    """

    def moved(fields: Floats, labels: Floats) -> Floats:
        pull = squared(net, fields[..., None], labels, inner_rate, 1.0)[..., 0]
        return np.asarray(fields + inner_rate * net.second_layer[0] * pull)

    kinks = np.array(net.activation.kinks)
    grid = np.unique(np.concatenate([_SEARCHED, kinks - _BESIDE, kinks + _BESIDE]))
    beyond = (
        moved(np.broadcast_to(grid, (len(labels), len(grid))), labels[:, None])[
            ..., None
        ]
        > kinks
    )
    crossed = (beyond[:, 1:] != beyond[:, :-1]) & (np.diff(grid) > 3 * _BESIDE)[:, None]
    row, cell, kink = np.nonzero(crossed)
    falling = np.where(beyond[row, cell, kink], 1.0, -1.0)
    at = crossing(
        lambda x, i: falling[i] * (moved(x, labels[row[i]]) - kinks[kink[i]]),
        grid[cell],
        grid[cell + 1],
    )
    breaks = np.full((len(labels), np.bincount(row, minlength=1).max()), grids.BOUND)
    breaks[row, np.arange(len(row)) - np.searchsorted(row, row)] = at
    fixed = np.broadcast_to(kinks, (len(labels), len(kinks)))
    return grids.moving_panels(np.concatenate([fixed, breaks], axis=1), _EDGES, 10)


def _fields(activation: Function, p: int) -> tuple[Floats, Floats]:
    """Nodes (n, p) and weights of p independent fields; the kinks of the activation
    break the rule of one field.
    """
    if p == 1:
        nodes, weights = grids.broken_rule(
            (*activation.kinks, *_FIELD_PIECES), _FIELD_NODES
        )
        return nodes[:, None], weights
    points = grids.sobol_normals(p, _SOBOL, 11)
    points = np.concatenate([points, -points])
    return points, np.full(len(points), 1 / len(points))

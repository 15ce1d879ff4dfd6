"""Training algorithms, each as its per-sample force F: w_j <- w_j + g a_j mean_b
F_j(lambda^b, y^b) x^b.

F sees a sample only through the local fields lambda = W x, the label y, and S =
|x|^2/d, which is 1 in the limit; gradient_dynamics section 0 has the table of them.

Every update is w_j += g a_j F_j(lambda, y) x (gradient_dynamics section 4.2). At M = 0
and |w_j| = 1 the fields lambda are independent of the label, so the drift is
E[fbar_j(y) z] with fbar_j(y) = E_lambda F_j: an affine function of y for plain SGD, a
nonlinear one where data are used twice. Where that vanishes, E[lambda_j F_j] acts on m
through z z^T - I.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from giantstep.core.base.chunks import split_rows
from giantstep.core.base.errors import InputError, bad_field
from giantstep.core.base.types import Floats
from giantstep.core.maths.gaussian import Function, grids
from giantstep.core.maths.gaussian.primitives import namespace_of
from giantstep.core.maths.gaussian.target import Target
from giantstep.core.maths.solve.roots import crossing

Force = Callable[["Student", Any, Any, Any, Any], Any]
CLIP = 2.0
"""The exponential loss is clipped at exp(2), as its authors do."""
KINK_SIDE = 1e-7
"""Distance from a kink at which the slopes of its sides are taken."""


@dataclass(frozen=True, eq=False)
class Student:
    """The student f = (1/p) sum_j a_j s(lambda_j)."""

    activation: Function
    second_layer: Floats

    @cached_property
    def pieces(self) -> list[tuple[float, float, float]]:
        """(kink, height there, slope) of the straight pieces on both sides of every
        kink of the activation.
        """
        sides = [
            (kink, kink + side)
            for kink in self.activation.kinks
            for side in (-KINK_SIDE, KINK_SIDE)
        ]
        return [
            (kink, float(self.activation(kink)), float(self.activation.derivative(at)))
            for kink, at in sides
        ]

    def output(self, fields: Any) -> Any:
        """Return f, shape (...), at local fields (..., p)."""
        return self.activation(fields) @ (self.weights(fields) / len(self.second_layer))

    def slopes(self, fields: Any) -> Any:
        """Return s'(lambda_j)."""
        return self.activation.derivative(fields)

    def weights(self, fields: Any) -> Any:
        """Return the second layer on the device of `fields`."""
        return namespace_of(fields).asarray(self.second_layer)


def squared(net: Student, fields: Any, label: Any, inner: Any, norm: Any) -> Any:
    """Return s'(l)(y - f(l))."""
    return net.slopes(fields) * (label - net.output(fields))[..., None]


def correlation(net: Student, fields: Any, label: Any, inner: Any, norm: Any) -> Any:
    """Return s'(l) y."""
    return net.slopes(fields) * label[..., None]


def extragradient(net: Student, fields: Any, label: Any, inner: Any, norm: Any) -> Any:
    """Return the force of the squared loss after an inner step on the same sample: l +
    inner S a F(l).
    """
    first = squared(net, fields, label, inner, norm)
    return squared(
        net, fields + inner * norm * net.weights(fields) * first, label, inner, norm
    )


def two_step(net: Student, fields: Any, label: Any, inner: Any, norm: Any) -> Any:
    """Return the forces of two steps on one sample; the first moves the fields by inner
    S a F, inner = g d.
    """
    first = squared(net, fields, label, inner, norm)
    return first + squared(
        net, fields + inner * norm * net.weights(fields) * first, label, inner, norm
    )


def exponential(net: Student, fields: Any, label: Any, inner: Any, norm: Any) -> Any:
    """Return exp(min(-y f, 2)) y s'(l)."""
    xp = namespace_of(fields)
    pull = xp.exp(xp.minimum(-label * net.output(fields), CLIP)) * label
    return net.slopes(fields) * pull[..., None]


@dataclass(frozen=True, eq=False)
class Algorithm:
    """One algorithm."""

    name: str
    force: Force  # F
    # in the label, with slope s'(l): label noise adds noise * E[s'_j s'_l] to E[F_j
    # F_l], no more
    affine: bool = False
    repeats: bool = False  # F depends on |x|^2: the sample is used twice
    source: Any = None  # the label transform or the callable of a user's F

    def degree(self, activation: int, target: int) -> int | None:
        """Return the degree of F for a polynomial network and target, or None."""
        plain = activation - 1 + max(target, activation)
        if self.name == "squared":
            return plain
        if self.name == "correlation":
            return activation - 1 + target
        if self.repeats:
            return max(
                plain, (activation - 1) * plain + max(target, activation * plain)
            )
        if isinstance(self.source, Function):
            transform = self.source.polynomial
        else:
            transform = None
        if transform is None:
            return None
        return activation - 1 + target * (len(transform) - 1)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Algorithm) and self.identity() == other.identity()

    def __hash__(self) -> int:
        return hash(self.identity())

    def __repr__(self) -> str:
        return self.name

    def identity(self) -> str:
        """Return its name, its label transform, or a digest of a callable's values."""
        if isinstance(self.source, Function):
            return self.source.fingerprint()
        if self.source is not None:
            random = np.random.default_rng(0)
            values = np.asarray(
                self.source(
                    random.standard_normal((50, 1)), random.standard_normal(50)
                ),
                dtype=float,
            )
            return hashlib.sha256(np.round(values, 11).tobytes()).hexdigest()
        return self.name


NAMED = {
    "squared": Algorithm("squared", squared, affine=True),
    "correlation": Algorithm("correlation", correlation, affine=True),
    "extragradient": Algorithm("extragradient", extragradient, repeats=True),
    "sam": Algorithm("sam", extragradient, repeats=True),
    "two-step": Algorithm("two-step", two_step, repeats=True),
    "exponential": Algorithm("exponential", exponential),
}


def force_breaks(
    algorithm: Algorithm, net: Student, label: Any, inner: Any
) -> list[Any]:
    """Return the fields at which the force of one neuron is not smooth; beside a kink
    it is taken as straight.
    """
    a = net.second_layer[0]
    breaks = list(net.activation.kinks)
    for kink, height, slope in net.pieces:
        if (
            algorithm.repeats
        ):  # on a straight piece the moved field is l + rho a s'(y - a s(l))
            pull = label - a * (height - slope * kink)
            breaks.append(
                (kink - inner * a * slope * pull) / (1 - inner * a * a * slope * slope)
            )
        if algorithm.name == "exponential" and slope != 0:  # where -y f = 2
            with np.errstate(divide="ignore"):
                breaks.append(kink + (-CLIP / (a * label) - height) / slope)
    return breaks


def as_algorithm(source: Any) -> Algorithm:
    """Return an algorithm by name, from a label transform T (F = s'(l) T(y)), or from a
    callable F(l, y).
    """
    if isinstance(source, Algorithm):
        return source
    if isinstance(source, str) and source in NAMED:
        return NAMED[source]
    allowed = (
        f"one of {', '.join(NAMED)}, a label transform such as tanh(z), or a callable"
        " F(l, y)"
    )
    try:
        transform = Function(source) if isinstance(source, str) else source
    except InputError:
        raise bad_field("algorithm", source, allowed) from None
    if isinstance(transform, Function):

        def on_label(net: Any, l: Any, label: Any, *_: Any) -> Any:
            return net.slopes(l) * transform(label)[..., None]

        return Algorithm(transform.name, on_label, source=transform)
    if not callable(source):
        raise bad_field("algorithm", source, allowed)
    needed = "a callable F(l, y) must map arrays (n, p) and (n,) to (n, p), but"
    try:
        values = np.asarray(source(np.full((3, 1), 0.3), np.full(3, 0.2)))
    except Exception as error:
        raise InputError(
            f"{needed} it raised {type(error).__name__}:"
            f" {' '.join(str(error).split())}."
        ) from error
    if values.shape != (3, 1) or values.dtype.kind not in "fiu":
        raise InputError(f"{needed} it returned the shape {values.shape}.")
    name = str(getattr(source, "__name__", type(source).__name__))
    return Algorithm(
        name,
        lambda net, fields, label, inner, norm: source(fields, label),
        source=source,
    )


# -- What an update that sees a sample more than once does to a network without overlap


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

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
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from giantstep.core.base.errors import InputError, bad_field
from giantstep.core.base.types import Floats
from giantstep.core.maths.gaussian import Function
from giantstep.core.maths.gaussian.primitives import namespace_of

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
        pieces = []
        for kink in self.activation.kinks:
            height = float(self.activation(kink))
            for side in (-KINK_SIDE, KINK_SIDE):
                slope = float(self.activation.derivative(kink + side))
                pieces.append((kink, height, slope))
        return pieces

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
    moved = fields + inner * norm * net.weights(fields) * first
    return squared(net, moved, label, inner, norm)


def two_step(net: Student, fields: Any, label: Any, inner: Any, norm: Any) -> Any:
    """Return the forces of two steps on one sample; the first moves the fields by inner
    S a F, inner = g d.
    """
    first = squared(net, fields, label, inner, norm)
    moved = fields + inner * norm * net.weights(fields) * first
    return first + squared(net, moved, label, inner, norm)


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
            # fields of the second step have the degree of the first force
            second = (activation - 1) * plain + max(target, activation * plain)
            return max(plain, second)
        transform = None
        if isinstance(self.source, Function):
            transform = self.source.polynomial
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
            # a callable has no content but its values
            random = np.random.default_rng(0)
            fields = random.standard_normal((50, 1))
            labels = random.standard_normal(50)
            values = np.asarray(self.source(fields, labels), dtype=float)
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
        if algorithm.repeats:
            # on a straight piece the moved field is l + rho a s'(y - a s(l))
            pull = label - a * (height - slope * kink)
            stretch = 1 - inner * a * a * slope * slope
            breaks.append((kink - inner * a * slope * pull) / stretch)
        if algorithm.name == "exponential" and slope != 0:
            # where -y f = 2
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

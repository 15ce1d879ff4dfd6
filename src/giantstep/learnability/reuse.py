"""Which directions gradient descent learns in a finite number of steps, on one reused batch or in a single pass.

A reused batch shows the network every function F(y) of the label: round one learns span_F E[F(y) h*], batch_reuse_dmft
(5.1), each later one adds span_F E[F(y, h*_V) h*_perp], with V what is known already. A single pass sees F(y) = y
only: E[y h*] first, then E[y G(h*_V) h*_perp], batch_reuse_dmft (5.2). The parity of the activation decides which F
and G occur:

- odd (tanh, erf): F is odd in (y, h*_V) jointly; a single pass has even G;
- linear plus even (ReLU, softplus): a single pass has G = 1 and odd G; a reused batch has every F;
- even: nothing is learned from overlap zero; linear: E[y h*] only.

From the other side, a symmetry g o O = g of the target forbids every direction that O moves (for odd activations also
g o O = -g those that -O moves): the certificate. What is learned always lies inside what is allowed.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import scipy
from scipy import special

from giantstep.deadline import check_time
from giantstep.errors import bad_field
from giantstep.gaussian.functions import Function, as_function
from giantstep.gaussian.hermite import hermite_products, multi_indices
from giantstep.gaussian.subspaces import complement
from giantstep.gaussian.target import Target, as_target
from giantstep.types import Array, Floats

Data = Literal["reused", "single-pass"]

NODES = 2**18
"""Sobol points, so many that their error lies below `TOLERANCE`."""
TOLERANCE = 2e-3
"""Singular value per root of the number of features above which a direction is there (at `NODES` points)."""
DEGREE = 10
"""Degree in the rank of the label."""
HERMITE_REUSED, HERMITE_SINGLE = 2, 4
"""Total degree in the directions already learned."""
MOST_ROUNDS = 12
"""Twice the largest number of directions: every round adds one at least."""
_SYMMETRY_POINTS = 48
"""Random points at which a symmetry of the target is tried; one alone would be enough for most."""
_SAME = 1e-8
"""Difference of two values of the target, over the largest one, that is rounding."""


@dataclass(frozen=True)
class Symmetry:
    """The signed permutations O of the coordinates that leave the target as it is (or, for odd activations, -O).

    Attributes
    ----------
    elements : (count, k, k), the group that acts on what can be learned.
    allowed : (r, k), orthonormal basis of the directions every one of them leaves in place.
    odd : whether symmetries up to a sign are among them.
    """

    elements: Floats
    allowed: Floats
    odd: bool = False

    @property
    def rank(self) -> int:
        """Number of directions the symmetries allow."""
        return len(self.allowed)

    def certificate(self) -> list[str]:
        """Return simple symmetries that together forbid all that is forbidden: ``(z1, z2) -> (-z1, -z2)``."""
        k = self.elements.shape[1]
        changes = [int(np.sum(np.diagonal(element) != 1)) for element in self.elements]
        swaps = [not np.array_equal(np.abs(element), np.eye(k)) for element in self.elements]  # sign flips come first
        simple = self.elements[np.lexsort((changes, swaps))]
        chosen: list[Floats] = []
        rank = k
        for element in simple:
            moved = np.concatenate([O - np.eye(k) for O in [*chosen, element]])
            fixed = k - int(np.linalg.matrix_rank(moved))
            if fixed < rank:
                chosen.append(element)
                rank = fixed
        return [_element(element) for element in chosen]


@dataclass(frozen=True)
class LearnedRounds:
    """The learned subspace round by round.

    Attributes
    ----------
    target, activation, data : what was asked.
    rounds : for each round the new directions, (m, k) with orthonormal rows; empty where nothing is learned.
    strengths : for each round the singular values behind the new directions.
    symmetry : the certificate from the other side.
    reason : one sentence.
    """

    target: Target
    activation: Function
    data: Data
    rounds: tuple[Floats, ...]
    strengths: tuple[Floats, ...]
    symmetry: Symmetry

    @cached_property
    def learned(self) -> Floats:
        """Orthonormal basis of all directions learned, (r, k)."""
        return np.concatenate([np.zeros((0, self.target.directions)), *self.rounds])

    @property
    def dimensions(self) -> tuple[int, ...]:
        """New directions per round."""
        return tuple(len(round_) for round_ in self.rounds)

    @property
    def hidden(self) -> Floats:
        """Orthonormal basis of the directions that keep overlap zero, (k - r, k)."""
        return complement(self.learned, self.target.directions)

    @property
    def reason(self) -> str:
        """Why, in one sentence."""
        k, learned = self.target.directions, len(self.learned)
        if self.activation.parity == "even":
            return f"{self.activation.name} is even, so overlaps that start at zero stay there."
        if learned == k:
            return "every direction of the target is learned."
        if learned == self.symmetry.rank:
            certificate = "; ".join(self.symmetry.certificate())
            kind = "up to the sign of (y, z), which an odd activation cannot see, " if self.symmetry.odd else ""
            return f"{kind}the target has symmetries that forbid the rest: {certificate}."
        if self.activation.parity == "odd" and self.data == "reused":
            return f"{self.activation.name} is odd: only odd functions of the label and the known directions count."
        if self.data == "single-pass":
            return "a single pass sees the label itself only, never a function of it."
        return "no function of the label and of the known directions has a mean along the rest."


def learned_rounds(
    target: str | Callable[[Any], Any] | Target,
    activation: str | Callable[[Any], Any] | Function = "relu",
    second_layer: Sequence[float] = (1.0,),
    data: Data = "reused",
    points: LabelledPoints | None = None,
) -> LearnedRounds:
    """Return the directions that a constant number of steps on n ~ d samples learns, from overlap zero.

    "Generic" step sizes and second layers are meant: at isolated values the overlap may vanish.

    Parameters
    ----------
    target : an expression in z1..zk or what `giantstep.Target` takes.
    activation : of the student.
    second_layer : of the student; a network whose second layer is zero learns nothing.
    data : ``"reused"`` or ``"single-pass"``.
    points : of this target, where it is asked several times; drawn if left out.

    Examples
    --------
    >>> learned_rounds("h3(z)", "relu").dimensions, learned_rounds("h3(z)", "relu", data="single-pass").dimensions
    ((1,), ())
    """
    target, activation = as_target(target), as_function(activation)
    if data not in ("reused", "single-pass"):
        raise bad_field("data", data, '"reused" or "single-pass"')
    symmetry = symmetries(target, odd=activation.parity == "odd")
    rounds: list[Floats] = []
    strengths: list[Floats] = []
    if activation.parity != "even" and any(second_layer):
        points = points or LabelledPoints(target)
        known = np.zeros((0, target.directions))
        while len(known) < target.directions and len(rounds) < MOST_ROUNDS:
            check_time()
            new, strength = _round(points, activation, data, known)
            if not len(new):
                break
            rounds.append(new)
            strengths.append(strength)
            known = np.concatenate([known, new])
    return LearnedRounds(target, activation, data, tuple(rounds), tuple(strengths), symmetry)


class LabelledPoints:
    """Points h* with the label of a target and its ranks."""

    def __init__(self, target: Target) -> None:
        k = target.directions
        uniform = scipy.stats.qmc.Sobol(k, scramble=True, rng=np.random.default_rng(2402), bits=32).random(NODES)
        z = special.ndtri(np.clip(uniform, 2.0**-53, 1 - 2.0**-53))
        z -= z.mean(axis=0)
        self.z = z @ np.linalg.inv(np.linalg.cholesky(z.T @ z / NODES)).T
        y = np.asarray(target(self.z), dtype=np.float64)
        spread = float(y.std())
        self.label = (y - y.mean()) / spread if spread > 0 else 0 * y
        # values that differ by rounding only are one value
        rounded = np.round(y / max(float(np.abs(y).max()), 1e-300), 12)
        self.sign = np.sign(rounded)
        self.rank = _legendre((scipy.stats.rankdata(rounded) - 0.5) / NODES)
        self.size_rank = _legendre((scipy.stats.rankdata(np.abs(rounded)) - 0.5) / NODES)


def _legendre(u: Floats) -> Floats:
    """Return the Legendre polynomials orthonormal on (0, 1), (DEGREE + 1, N)."""
    values: Array = np.polynomial.legendre.legvander(2 * u - 1, DEGREE)
    return (values * np.sqrt(2 * np.arange(DEGREE + 1) + 1)).T


def _round(points: LabelledPoints, activation: Function, data: Data, known: Floats) -> tuple[Floats, Floats]:
    """Return the directions one more round learns, and their singular values."""
    rest = complement(known, known.shape[1])
    outside = points.z @ rest.T
    rows = [(features * factor) @ outside / NODES for features, factor in _features(points, activation, data, known)]
    if not rows:
        return known[:0], np.zeros(0)
    matrix = np.concatenate(rows)
    _, values, vectors = np.linalg.svd(matrix, full_matrices=False)
    kept = values > TOLERANCE * np.sqrt(len(matrix))
    return _tidy(vectors[kept] @ rest), values[kept]


def _features(
    points: LabelledPoints, activation: Function, data: Data, known: Floats
) -> Iterator[tuple[Floats, Floats]]:
    """Yield (functions of the label (m, N), function of the known directions (N,)) that training can form."""
    parity = activation.parity
    inside = points.z @ known.T
    linear = activation.polynomial is not None and len(activation.polynomial) <= 2
    highest = HERMITE_SINGLE if data == "single-pass" else HERMITE_REUSED
    for order in range(1 if linear else highest + 1):
        for factor in hermite_products(inside, multi_indices(len(known), order)):
            if data == "single-pass" or linear:
                even_only, odd_only = parity == "odd", parity == "linear+even"
                if (even_only and order % 2) or (odd_only and order and order % 2 == 0):
                    continue
                yield points.label[None], factor
            elif parity == "odd":
                yield (points.size_rank if order % 2 else points.sign * points.size_rank), factor
            else:
                yield points.rank, factor


# -- symmetries ----------------------------------------------------------------------------------------------


def symmetries(target: Target, odd: bool = False) -> Symmetry:
    """Return the signed permutations of the coordinates under which the target is invariant.

    With `odd`, those O with g o O = -g are in it as -O: an odd activation cannot tell (y, h) from (-y, -h).
    """
    k = target.directions
    z = np.random.default_rng(5).standard_normal((_SYMMETRY_POINTS, k))
    y = np.asarray(target(z), dtype=np.float64)
    size = _SAME * max(float(np.abs(y).max()), 1e-300)
    matrices = []
    for permutation in itertools.permutations(range(k)):
        for signs in itertools.product((1.0, -1.0), repeat=k):
            moved = np.asarray(target(z[:, permutation] * signs), dtype=np.float64)
            matrix = np.zeros((k, k))
            matrix[np.arange(k), permutation] = signs
            if np.abs(moved - y).max() <= size:
                matrices.append(matrix)
            if odd and np.abs(moved + y).max() <= size:
                matrices.append(-matrix)
    elements = np.unique(np.array(matrices), axis=0)
    values, vectors = np.linalg.eigh(elements.mean(axis=0))  # the mean over a group is a symmetric projector
    return Symmetry(elements, _tidy(vectors[:, values > 0.5].T), odd)


def _element(matrix: Floats) -> str:
    """Write a signed permutation: ``(z1, z2) -> (-z1, -z2)``."""
    changed = [i for i in range(len(matrix)) if matrix[i, i] != 1]
    images = []
    for i in changed:
        j = int(np.abs(matrix[i]).argmax())
        images.append(f"{'-' if matrix[i, j] < 0 else ''}z{j + 1}")
    before, after = ", ".join(f"z{i + 1}" for i in changed), ", ".join(images)
    return f"({before}) -> ({after})" if len(changed) > 1 else f"{before} -> {after}"


# -- subspaces -----------------------------------------------------------------------------------------------


def _tidy(basis: Floats) -> Floats:
    """Return the same subspace in a basis of coordinate axes where it has one, signs fixed, rounding removed."""
    if not len(basis):
        return basis
    diagonal = np.einsum("ij,ij->j", basis, basis)
    if np.all(np.minimum(np.abs(diagonal), np.abs(diagonal - 1)) < 0.02):  # well inside the error of the points
        return np.eye(basis.shape[1])[diagonal > 0.5]
    signs = np.sign(basis[np.arange(len(basis)), np.abs(basis).argmax(axis=1)])
    return np.asarray(basis * signs[:, None])


def describe_span(basis: Floats) -> str:
    """Write a subspace in words: ``z1, z2`` or ``0.77 z1 - 0.64 z2``."""
    return ", ".join(_direction(row) for row in basis)


def _direction(row: Floats) -> str:
    entries = [(i, value) for i, value in enumerate(row) if abs(value) > 5e-3]
    if len(entries) == 1:
        return f"z{entries[0][0] + 1}"
    text = ""
    for i, value in entries:
        sign = ("-" if value < 0 else "") if not text else (" - " if value < 0 else " + ")
        text += f"{sign}{abs(value):.2f} z{i + 1}"
    return text

"""Which directions gradient descent learns in a finite number of steps, on one reused
batch or in a single pass.

A reused batch shows the network every function F(y) of the label: round one learns
span_F E[F(y) h*], batch_reuse_dmft (5.1), each later one adds span_F E[F(y, h*_V)
h*_perp], with V what is known already. A single pass sees F(y) = y only: E[y h*] first,
then E[y G(h*_V) h*_perp], batch_reuse_dmft (5.2). Both are staircases whose stages have
order 1. The parity of the activation decides which F and G occur:

- odd (tanh, erf): F is odd in (y, h*_V) jointly; a single pass has even G;
- linear plus even (ReLU, softplus): a single pass has G = 1 and odd G; a reused batch
  has every F;
- even: nothing is learned from overlap zero; linear: E[y h*] only.

From the other side, a symmetry g o O = g of the target forbids every direction that O
moves (for odd activations also g o O = -g those that -O moves): the certificate. What
is learned always lies inside what is allowed.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from giantstep.core.base.errors import bad_field
from giantstep.core.base.types import Floats
from giantstep.core.maths.gaussian.functions import Function, as_function
from giantstep.core.maths.gaussian.subspaces import complement, tidy, tidy_signs
from giantstep.core.maths.gaussian.target import Target, as_target
from giantstep.problems.learnability.exponents import HIGHEST_DEGREE
from giantstep.problems.learnability.prepared import PreparedTarget
from giantstep.problems.learnability.staircase import Stage, staircase

Data = Literal["reused", "single-pass"]

_SYMMETRY_POINTS = 48
"""Random points at which a symmetry of the target is tried; one alone would be enough
for most.
"""
_SAME = 1e-8
"""Difference of two values of the target, over the largest one, that is rounding."""


@dataclass(frozen=True)
class Symmetry:
    """The signed permutations O of the coordinates that leave the target as it is (or,
    for odd activations, -O).
    """

    elements: Floats  # (count, k, k), the group that acts on what can be learned
    # (r, k), orthonormal basis of the directions every one of them leaves in place
    allowed: Floats
    odd: bool = False  # whether symmetries up to a sign are among them

    @property
    def rank(self) -> int:
        """Number of directions the symmetries allow."""
        return len(self.allowed)

    def certificate(self) -> list[str]:
        """Return simple symmetries that together forbid all that is forbidden: ``(z1,
        z2) -> (-z1, -z2)``.
        """
        k = self.elements.shape[1]
        changes = [int(np.sum(np.diagonal(element) != 1)) for element in self.elements]
        # sign flips come first
        swaps = [
            not np.array_equal(np.abs(element), np.eye(k)) for element in self.elements
        ]
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
    """The learned subspace round by round."""

    target: Target
    activation: Function
    data: Data
    # of order 1, one for each round; empty where nothing is learned
    stages: tuple[Stage, ...]
    symmetry: Symmetry  # the certificate from the other side

    @property
    def rounds(self) -> tuple[Floats, ...]:
        """For each round the new directions, (m, k) with orthonormal rows."""
        return tuple(stage.directions for stage in self.stages)

    @cached_property
    def learned(self) -> Floats:
        """Orthonormal basis of all directions learned, (r, k)."""
        return np.concatenate([np.zeros((0, self.target.directions)), *self.rounds])

    @property
    def dimensions(self) -> tuple[int, ...]:
        """New directions per round."""
        return tuple(stage.count for stage in self.stages)

    @property
    def hidden(self) -> Floats:
        """Orthonormal basis of the directions that keep overlap zero, (k - r, k)."""
        return complement(self.learned, self.target.directions)

    @property
    def reason(self) -> str:
        """Why, in one sentence."""
        k = self.target.directions
        learned = len(self.learned)
        if self.activation.parity == "even":
            return (
                f"{self.activation.name} is even, so overlaps that start at zero stay"
                " there."
            )
        if learned == k:
            return "every direction of the target is learned."
        if learned == self.symmetry.rank:
            certificate = "; ".join(self.symmetry.certificate())
            if self.symmetry.odd:
                kind = "up to the sign of (y, z), which an odd activation cannot see, "
            else:
                kind = ""
            return (
                f"{kind}the target has symmetries that forbid the rest: {certificate}."
            )
        if self.activation.parity == "odd" and self.data == "reused":
            return (
                f"{self.activation.name} is odd: only odd functions of the label and"
                " the known directions count."
            )
        if self.data == "single-pass":
            return "a single pass sees the label itself only, never a function of it."
        return (
            "no function of the label and of the known directions has a mean along the"
            " rest."
        )


def learned_rounds(
    target: str | Callable[[Any], Any] | Target,
    activation: str | Callable[[Any], Any] | Function = "relu",
    second_layer: Sequence[float] = (1.0,),
    data: Data = "reused",
) -> LearnedRounds:
    """Return what a constant number of steps on n ~ d samples learns from overlap zero,
    at generic parameters.
    """
    target = as_target(target)
    activation = as_function(activation)
    if data not in ("reused", "single-pass"):
        raise bad_field("data", data, '"reused" or "single-pass"')
    odd = activation.parity == "odd"
    stages: tuple[Stage, ...] = ()
    if activation.parity != "even" and any(second_layer):
        view = PreparedTarget.of(target)
        orders = _orders(activation)
        if data == "single-pass" or orders == {
            1
        }:  # a linear network has no other F either
            found = staircase(*view.samples(repeated=False), cap=1, degrees=orders)
        else:
            found = staircase(*view.samples(repeated=True, odd=odd), cap=1)
        stages = tuple(
            replace(stage, directions=tidy_signs(stage.directions @ view.basis))
            for stage in found.stages
        )
    return LearnedRounds(target, activation, data, stages, symmetries(target, odd))


def _orders(activation: Function) -> set[int]:
    """Return the orders of G(h*_V) h*_perp that a single pass sees, whatever the
    lengths of the rows are.
    """
    if activation.polynomial is not None and len(activation.polynomial) <= 2:
        return {1}
    start, step = {"odd": (1, 2), "linear+even": (2, 2)}.get(
        activation.parity or "", (1, 1)
    )
    return {1, *range(start, HIGHEST_DEGREE + 1, step)}


# -- symmetries ------------------------------------------------------------------------


def symmetries(target: Target, odd: bool = False) -> Symmetry:
    """Return the signed permutations that leave the target as it is; with `odd` also
    those O with g o O = -g, as -O.
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
    # the mean over a group is a symmetric projector
    values, vectors = np.linalg.eigh(elements.mean(axis=0))
    return Symmetry(elements, tidy(vectors[:, values > 0.5].T), odd)


def _element(matrix: Floats) -> str:
    """Write a signed permutation: ``(z1, z2) -> (-z1, -z2)``."""
    changed = np.flatnonzero(np.diagonal(matrix) != 1)
    image = np.abs(matrix).argmax(axis=1)
    before = ", ".join(f"z{i + 1}" for i in changed)
    after = ", ".join(
        f"{'-' if matrix[i, image[i]] < 0 else ''}z{image[i] + 1}" for i in changed
    )
    if len(changed) > 1:
        return f"({before}) -> ({after})"
    return f"{before} -> {after}"

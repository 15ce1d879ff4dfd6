"""What every law of rows can be asked: the table of `rows` says by whom, and when.

`Rows` is the base of all laws. It answers what a law need not know with "nothing is
known", so that a new law starts with what it has.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from giantstep.core.base.types import Booleans, Floats, Integers, Strings
from giantstep.core.maths.gaussian.subspaces import Directions
from giantstep.core.maths.stacked import Stacked
from giantstep.core.readout import FiniteSize
from giantstep.problems.network.rows.words import INDEPENDENT

if TYPE_CHECKING:
    from giantstep.core.maths.gaussian.conditional import ConditionalTarget
    from giantstep.core.readout import Bulk, Equations, FiniteSize
    from giantstep.core.readout.fits import Asked, Fit
    from giantstep.problems.network.describe import Description
    from giantstep.problems.network.layer import Layer
    from giantstep.problems.network.problem import Problem

SCATTER = "how steep features scatter"
RULE_ERROR = "the error of a rule along one direction"
POPULATION = "rows without the noise of a batch"


class Descent(NamedTuple):
    """One step of gradient descent in numbers, for M parameter sets."""

    rate: Floats  # (M,)
    strength: Floats  # (M, k): rate zeta_q
    keep: Floats  # (M,): 1 - weight decay
    momentum: Floats  # (M,)
    # (M, k): pi_q zeta_q, by which the gradient sees the output; 0 for a loss whose
    # gradient does not
    fed_back: Floats
    whitening: Floats  # (M,): c of Sigma^-c x in place of x
    samples: Floats  # (M,): n0/d, infinite for the population

    @property
    def on_batch(self) -> Booleans:
        """Which sets (M,) move on a finite batch."""
        return np.isfinite(self.samples) & (self.rate != 0)


class Axes(NamedTuple):
    """How a feature of a row of block q differs from the mean one, variable by
    variable.
    """

    along: Floats  # (M, k, m, C): along the learnt directions
    across: Floats  # (M, k, L, C): along the directions that are averaged out
    scales: Floats  # (M, k, C): in the length of the bulk row
    unit: Floats  # (M, k): length of the bulk rows, the unit of the features' slope
    target: Floats  # (L, N): what the target has along the directions averaged out
    lengths: int  # how many variables, which are the first ones, are lengths


class Spread(NamedTuple):
    """The law of single rows: None stands for what is not followed."""

    lengths: Floats  # (M, k): of the rows across the target's directions
    overlaps: Floats | None  # (M, k, r, r): d Cov of the overlaps with the target
    of_lengths: Floats | None  # (M, k): d Var of the lengths


class Sums(NamedTuple):
    """Sums over single rows that a fit has, as spiked_features section 4 has them."""

    t: Floats  # (B, k)
    psi: Floats  # (B, k)
    Q1: Floats  # (B, k, k)
    V1: Floats  # (B, k, k)
    only_V1: bool = False  # where the axes of the others have turned


@dataclass(frozen=True, eq=False)
class Rows(Stacked, ABC):
    """How the rows of k blocks spread around their means, for M parameter sets."""

    B: Floats  # (M, k, K): the factor of the initial rows in every atom of the inputs
    # what was approximated, in words, and how far off that may be; by keyword, so that
    # it is no stack of sets
    accuracy: tuple[tuple[str, str], ...] = field(default=(), kw_only=True)

    has_own_axis: ClassVar[bool] = False
    """Whether the law has an axis in kappa even where nothing is learnt."""

    def __len__(self) -> int:
        return len(self.B)

    @property
    def known(self) -> frozenset[str]:
        """What this law knows beyond the error in the limit: the names above."""
        return frozenset()

    @property
    def flagged(self) -> Strings:
        """Why a set (M,) cannot be trusted at a finite dimension, or nothing."""
        return np.full(len(self), "", dtype=object)

    def scale(self, problem: Problem) -> Floats:
        """Return s_q = (int lambda B_q^2 dmu)^(1/2), (M, k)."""
        inputs = problem.inputs
        return np.sqrt(inputs.average(inputs.eigenvalues * self.B**2))

    # -- a step asks -------------------------------------------------------------------

    def shifted(
        self, problem: Problem, layer: Layer, shifts: Floats, bulk: Floats
    ) -> Layer:
        """Return the layer after w_i <- s_q w_i + U_q: U (M, k, R), s (M, k)."""
        raise NotImplementedError

    def on_batches(self, problem: Problem, earlier: Sequence[Descent]) -> Rows:
        """Return this law as one that follows finite batches exactly, after `earlier`
        steps.
        """
        raise NotImplementedError

    def descend(self, problem: Problem, layer: Layer, descent: Descent) -> Layer:
        """Return the layer after a step of gradient descent."""
        raise NotImplementedError

    # -- a view asks -------------------------------------------------------------------

    def kin(self, number: int) -> Hashable:
        """Return what sets must have in common, beside their directions, to share a
        rule.
        """
        return None

    def signed_coordinates(self, directions: int) -> int | None:
        """Return how many coordinates, which are the first ones, have a sign that a
        network can know; None: all.
        """
        return None

    # -- a description asks ------------------------------------------------------------

    @abstractmethod
    def axes(
        self, problem: Problem, basis: Directions, given: ConditionalTarget, sets: Any
    ) -> Axes:
        """Return the channels of the features of these sets; `sets` says which sets of
        the problem they are.
        """

    @abstractmethod
    def bulks(self, problem: Problem, basis: Directions) -> tuple[Bulk, ...]:
        """Return the law of the bulk rows of every set, which belongs to `axes`."""

    def uneven(self, problem: Problem) -> Floats:
        """Return d times the variance of the lengths inside a block (M, k); 0 where it
        is not followed.
        """
        return np.zeros(self.B.shape[:2])

    # -- a finite dimension asks -------------------------------------------------------

    def finite_size(
        self, problem: Problem, set_of_point: Integers, dim: Floats
    ) -> FiniteSize:
        """Return the finite size of points of these dimensions (B,)."""
        return FiniteSize(1 / dim)

    def terms(self, problem: Problem) -> str:
        """Say which terms of a finite size are in."""
        return INDEPENDENT

    def added_to_means(self, problem: Problem) -> Floats | None:
        """Return what the steps add to the squared length of the mean of a block (M,
        k), in units of its rows; None where no term of order 1/d uses it.
        """
        return None

    # -- answers ask -------------------------------------------------------------------

    @abstractmethod
    def spread(self, problem: Problem, layer: Layer) -> Spread:
        """Return the law of single rows."""

    def independent(self, problem: Problem) -> tuple[Floats, Floats, int]:
        """Return JU (M, k, R, C), Js (M, k, C) over independent standard normals; how
        many of these, first, are lengths.
        """
        raise NotImplementedError

    def sums(
        self,
        problem: Problem,
        layer: Layer,
        seen: Sequence[Description],
        asked: Asked,
        set_of_point: Integers,
        fit: Fit,
    ) -> Sums | None:
        """Return the sums over single rows; None where this law does not tell them."""
        return None

    @property
    def sums_known(self) -> Booleans:
        """For which sets (M,) sums over single rows can be told."""
        return np.ones(len(self), dtype=bool)

    def scale_of_model(self, sets: Any) -> Floats:
        """Return what makes initial rows of the rows w0_i of the model (M, k): their
        lengths, where they stand for the bulk rows.
        """
        return np.ones(self.B[sets].shape[:-1])

    def for_spectrum(
        self, problem: Problem, equations: Equations, size: FiniteSize, bulk: Bulk
    ) -> tuple[Equations, FiniteSize]:
        """Return the equations of one point as a spectrum asks them, hundreds of
        times.
        """
        return equations, size


def unit_axes(basis: Directions, target: Floats, scales: Floats) -> Axes:
    """Return one variable for each direction, and a last one for the length, of size
    `scales` (M, k).

    Their covariance is the business of the bulk.
    """
    m = basis.learnt.shape[1]
    L = len(target)
    units = np.eye(m + L + 1)
    units = np.broadcast_to(units, (*scales.shape, m + L + 1, m + L + 1))
    return Axes(
        along=units[..., :m, :],
        across=units[..., m : m + L, :],
        scales=units[..., -1, :] * scales[..., None],
        unit=np.ones_like(scales),
        target=target,
        lengths=0,
    )


def sums_on_axes(fit: Fit, learnt: int, scale: Floats) -> Sums:
    """Return the sums of a law with `unit_axes`: its first channel is the learnt one.

    `scale` (B, k) makes initial rows of those of the model.
    """
    solution = fit.solution
    k = scale.shape[1]
    t = np.zeros_like(scale)
    psi = np.zeros_like(scale)
    if learnt:
        t = solution.x[:, :k]
    if solution.tau.shape[1]:
        psi = solution.tau[:, 0]
    return in_initial_units(fit, t, psi, scale)


def in_initial_units(fit: Fit, t: Floats, psi: Floats, scale: Floats) -> Sums:
    """Return the sums over initial rows, of which the model has those divided by
    `scale` (B, k).
    """
    square = scale[:, :, None] * scale[:, None, :]
    # what lies along psi is no part of Q1 of the bulk
    Q1 = fit.solution.Q1 + psi[:, :, None] * psi[:, None, :]
    return Sums(t=t * scale, psi=psi * scale, Q1=Q1 * square, V1=fit.V1 * square)

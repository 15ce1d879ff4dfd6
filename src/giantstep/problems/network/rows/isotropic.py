"""Rows of isotropic inputs: one atom, whose spread is a few channels on an isotropic
bulk.

few_steps_readout; finite_size_steps for a finite dimension, whose equations are cited
by number.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from giantstep.core.base.chunks import with_zeros
from giantstep.core.base.types import Floats, Integers
from giantstep.core.maths.gaussian.conditional import ConditionalTarget
from giantstep.core.maths.gaussian.subspaces import Directions
from giantstep.core.readout import Bulk, FiniteSize, IsotropicBulk
from giantstep.core.readout.block_means import (
    in_initial_rows,
    self_overlaps,
    whole_length,
)
from giantstep.core.readout.finite_size import stretch_of_atoms
from giantstep.problems.network.rows.batch_noise import (
    feedback_with_noise,
    noise_of,
    shared_directions,
)
from giantstep.problems.network.rows.followed import FollowedRows
from giantstep.problems.network.rows.protocol import (
    Axes,
    Descent,
    Rows,
    Sums,
    in_initial_units,
)
from giantstep.problems.network.rows.words import (
    ALL_TERMS,
    FOLLOWED,
    ISOTROPIC,
    ISOTROPIC_ERROR,
    MEANS_ALONE,
    SPLIT,
)
from giantstep.problems.network.tolerances import BESIDE_MEANS

if TYPE_CHECKING:
    from giantstep.core.readout.fits import Asked, Fit
    from giantstep.problems.network.describe import Description
    from giantstep.problems.network.gradient import Gradient
    from giantstep.problems.network.layer import Layer
    from giantstep.problems.network.problem import Problem


@dataclass(frozen=True, eq=False)
class IsotropicRows(FollowedRows):
    """Rows of which the means of the blocks are known at a finite dimension, and no
    other term of order 1/d.
    """

    # -- steps -------------------------------------------------------------------------

    @classmethod
    def of(cls, rows: Rows, **changes: Any) -> Self:
        """Return this law with the arrays of another one of isotropic rows."""
        names = [one.name for one in dataclasses.fields(IsotropicRows)]
        arrays = {name: getattr(rows, name) for name in names}
        return cls(**arrays | changes)

    def with_noise(
        self, problem: Problem, layer: Layer, gradient: Gradient, descent: Descent
    ) -> Layer:
        """Return the layer with the noise of a batch: few_steps_readout (6.2)-(6.3)."""
        M, _, R, C = self.shape
        noise = noise_of(problem, self, gradient, descent)
        moved = shared_directions(noise, descent.strength)
        n = moved.shape[2]
        # n variables for the new coordinates, R for a neuron's own noise along the old
        # ones, one for its length
        rows = self.extended(variables=(False,) * (n + R + 1), coordinates=n)
        rows.JU[:, :, R + np.arange(n), C + np.arange(n)] = noise.B
        rows.JU[:, :, np.arange(R), C + n + np.arange(R)] = noise.tau[..., None]
        rows.Js[:] *= noise.shrinks[..., None]
        rows.Js[..., -1] = noise.own_length
        # a step may have turned the rows round: B keeps its sign
        sign = np.sign(self.B)
        rows = dataclasses.replace(
            rows,
            B=sign * noise.B,
            # B = +-s on isotropic inputs, and moves with it
            JB=rows.Js[:, :, None, :] * sign[..., None],
            feedback=feedback_with_noise(problem, self, noise),
            single=np.zeros(M, dtype=bool),
            accuracy=(*self.accuracy, (ISOTROPIC, ISOTROPIC_ERROR)),
        )
        return dataclasses.replace(
            layer,
            means=np.concatenate([layer.means, moved], axis=2),
            frame=np.pad(layer.frame, ((0, 0), (0, 0), (0, n))),
            rows=IsotropicRows.of(rows),
        )

    # -- what the read-out sees --------------------------------------------------------

    def axes(
        self, problem: Problem, basis: Directions, given: ConditionalTarget, sets: Any
    ) -> Axes:
        """Return every variable of the spread as a channel of its own."""
        JU, Js, lengths = self.independent(problem)
        # what neither the rows share nor the target sees varies from row to row, too
        rest = np.concatenate([basis.rest, basis.silent()], axis=1)
        target = given.h1.T
        return Axes(
            along=basis.learnt.T @ JU,
            across=rest.T @ JU,
            scales=Js,
            unit=self.bulk_length(problem, problem.neurons[sets]),
            target=with_zeros(target, (rest.shape[1], target.shape[1])),
            lengths=lengths,
        )

    def bulks(self, problem: Problem, basis: Directions) -> tuple[Bulk, ...]:
        """Return the isotropic bulk, which is the same for all sets."""
        return (IsotropicBulk(),) * len(self)

    def bulk_length(self, problem: Problem, neurons: Floats) -> Floats:
        """Return the length of the bulk rows (M, k): (2.6), but for means beyond the
        range of it.
        """
        if np.isinf(neurons).all():
            return self.B[..., 0]
        # There the mean of a block is not short beside its rows. Counted among the
        # independent rows, too, it made the test error of a ReLU network (rate 8, d =
        # 150) 13% and its norm six times too large; without it they are right to 1% and
        # 3%. Inside the range the two differ by less than other terms of order 1/d that
        # are left out.
        added = self.added(problem, neurons)
        far = added.max(axis=1, keepdims=True) > BESIDE_MEANS
        return np.where(far, self.length, self.B[..., 0])

    # -- a finite dimension ------------------------------------------------------------

    def finite_size(
        self, problem: Problem, set_of_point: Integers, dim: Floats
    ) -> FiniteSize:
        """Return the means of the blocks, in units of the bulk rows: (2.4)."""
        gram = self.gram_in_rows(problem)[set_of_point]
        return FiniteSize(1 / dim, gram)

    def gram_in_rows(self, problem: Problem) -> Floats:
        """Return the products of the means in units of the bulk rows (M, k, k):
        (2.4).
        """
        s = self.bulk_length(problem, problem.neurons)
        gram: Floats = self.gram_of_means(problem)[:, 0]
        return gram / (s[:, :, None] * s[:, None, :])

    def stretch(self, problem: Problem, set_of_point: Integers, dim: Floats) -> Floats:
        """Return how the lengths of the inputs differ, for every point."""
        inputs = problem.inputs
        scale = (inputs.eigenvalues * self.B**2).swapaxes(1, 2)[set_of_point]
        return stretch_of_atoms(1 / dim, scale, inputs.masses)

    def terms(self, problem: Problem) -> str:
        """Say which terms of a finite size are in."""
        return FOLLOWED + MEANS_ALONE + self.words_of_split(problem)

    def words_of_split(self, problem: Problem) -> str:
        """Say whether blocks are cut by the overlaps of their rows."""
        return SPLIT if problem.is_split else ""

    # -- answers -----------------------------------------------------------------------

    def sums(
        self,
        problem: Problem,
        layer: Layer,
        seen: Sequence[Description],
        asked: Asked,
        set_of_point: Integers,
        fit: Fit,
    ) -> Sums | None:
        """Return the sums over single rows, along kappa and across it."""
        k = len(problem.zeta)
        # one pair of axes for each view, which all of its sets have
        pairs = [self._two_axes(problem, layer, one) for one in seen]
        sets_of_view = [len(one.sets) for one in seen]
        axes = np.repeat(pairs, sets_of_view, axis=0)[asked.owner]
        first = seen[0].lengths
        x = fit.solution.x.reshape(len(set_of_point), -1, k)
        # the channels of the coordinates follow those of the lengths
        channels = x[:, first : first + axes.shape[2]]
        t, psi = np.einsum("bac,bcq->abq", axes, channels)
        scale = self.scale_of_model(set_of_point)
        sums = in_initial_units(fit, t, psi, scale)
        sums = sums._replace(
            Q1=sums.Q1 + self.means_in_initial_rows(problem, set_of_point, fit)
        )
        # the planted spike has turned: t and psi belong to axes that nobody asked for
        means = layer.means[set_of_point]
        if means.shape[2] > 1 and np.any(means[:, :, 1:]):
            return sums._replace(only_V1=True)
        return sums

    def _two_axes(self, problem: Problem, layer: Layer, seen: Description) -> Floats:
        """Return kappa's first axis and the rest of the target (2, R), in coordinates
        of the initial rows, or 0.
        """
        basis = seen.view.basis
        R = layer.means.shape[2]
        columns = np.concatenate([basis.learnt, basis.rest], axis=1)[:, :2]
        moved = self.past.shape[1] > 1
        planted = problem.target.directions < R
        # a planted spike of strength 0
        if moved and planted and not basis.learnt.shape[1]:
            columns = np.eye(R, 2)
        return with_zeros(columns, (R, 2)).T

    def means_in_initial_rows(
        self, problem: Problem, set_of_point: Integers, fit: Fit
    ) -> Floats | float:
        """Return what the means of the blocks add to Q1: the rows before the steps are
        asked for, not those of the bulk.
        """
        # batch noise has columns of its own in the feedback, which is not square then
        if self.feedback.shape[3] != len(problem.zeta):
            return 0.0
        if not np.isfinite(problem.neurons).any():
            return 0.0
        means = self.feedback[set_of_point, 0] / self.B[set_of_point]
        return in_initial_rows(
            means, fit.solution.theta, fit.kept, 1 / problem.neurons[set_of_point]
        )


@dataclass(frozen=True, eq=False)
class ExactRows(IsotropicRows):
    """Rows of which all terms of order 1/d are known: exact steps on the population,
    and a ridge fit.
    """

    def acted_on_itself(
        self,
        problem: Problem,
        before: Layer,
        after: Layer,
        gradient: Gradient,
        descent: Descent,
    ) -> Layer:
        """Return the layer with what a finite width does to the rows themselves: (2.5),
        (2.6).
        """
        if not np.isfinite(problem.neurons).any():
            return after
        shrink = _action(problem, before, gradient, descent)
        length = self.length - shrink * before.rows.B[..., 0]
        B = whole_length(length, self.length, self.feedback, problem.neurons)[..., None]
        # s = |B| on isotropic inputs
        Js = np.sign(B) * self.JB[:, :, 0]
        Js[..., -1] = 0.5 / np.abs(B[..., 0])
        # the length of this time is the one with the action, not the one before it
        past = np.concatenate([self.past[:, :-1], B[:, None]], axis=1)
        return dataclasses.replace(
            after,
            means=after.means - shrink[..., None] * before.means,
            rows=dataclasses.replace(self, B=B, Js=Js, past=past, length=length),
        )

    def finite_size(
        self, problem: Problem, set_of_point: Integers, dim: Floats
    ) -> FiniteSize:
        """Return all terms of order 1/d: means, stretched inputs, and the number of
        fitted parameters.
        """
        coordinates = self.shape[2]
        return FiniteSize(
            1 / dim,
            self.gram_in_rows(problem)[set_of_point],
            self.stretch(problem, set_of_point, dim),
            np.full(len(dim), float(coordinates)),
        )

    def terms(self, problem: Problem) -> str:
        """Say which terms of a finite size are in."""
        return FOLLOWED + ALL_TERMS + self.words_of_split(problem)


@dataclass(frozen=True, eq=False)
class BulkRows(IsotropicRows):
    """Rows planted on an isotropic bulk of another length: the rows w0_i of the model
    stand for s_q w0_i.
    """

    def scale_of_model(self, sets: Any) -> Floats:
        """Return the lengths of the bulk rows, which make initial rows of them."""
        lengths: Floats = self.B[sets][..., 0]
        return lengths


def _action(
    problem: Problem, before: Layer, gradient: Gradient, descent: Descent
) -> Floats:
    """Return f_q of (2.5) (M, k): by which part a neuron shrinks because it sees its
    own output.
    """
    if not np.any(descent.fed_back):  # the loss of the step does not see the output
        return np.zeros(descent.strength.shape)
    squares = np.sum(before.means**2, axis=2) + before.rows.B[..., 0] ** 2
    beside = self_overlaps(problem.activation, np.sqrt(squares)) - gradient.bends
    # the diagonal is what the mean of the block has done already
    beside -= np.diagonal(gradient.slopes, axis1=1, axis2=2)
    width = problem.neurons.sum(axis=1, keepdims=True)
    return descent.strength * problem.zeta / width * beside

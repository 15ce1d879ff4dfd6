"""Rows that are followed to first order of their spread, for any number of atoms of the
inputs.

few_steps_readout (3.1)-(3.5), structured_inputs (3.1)-(3.7). Neuron i of block q has
(U_i, B_i, s_i) = (U_q, B_q, s_q) + (JU_q, JB_q, Js_q) eps_i/sqrt(d), and s^2 = int
lambda B^2 dmu.
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from giantstep.core.base.chunks import with_zeros
from giantstep.core.base.types import Booleans, Floats
from giantstep.core.readout.block_means import products_of_means
from giantstep.problems.network.gradient import Gradient, follow_gradient
from giantstep.problems.network.rows.batches import BatchRows
from giantstep.problems.network.rows.motion import Motion
from giantstep.problems.network.rows.protocol import (
    POPULATION,
    SCATTER,
    Descent,
    Rows,
    Spread,
)
from giantstep.problems.network.tolerances import RANK

if TYPE_CHECKING:
    from giantstep.problems.network.layer import Layer
    from giantstep.problems.network.problem import Problem


@dataclass(frozen=True, eq=False)
class FollowedRows(Rows):
    """Rows whose means, lengths and spread every step moves.

    A variable of the spread is a length, the fluctuation of w0^T Sigma B^2 w0 at one
    time, or an independent standard normal: a coordinate of w0, of the noise of a
    batch, or a neuron's own part of that noise.
    """

    JU: Floats  # (M, k, R, C): how U differs inside a block
    JB: Floats  # (M, k, K, C): how B does
    Js: Floats  # (M, k, C): how s does
    feedback: Floats  # (M, K, k, C'): F of finite_size_steps (2.2)
    # (C,): which variables have the covariance structured_inputs (3.7)
    is_length: tuple[bool, ...]
    past: Floats  # (M, T, k, K): B at the times of the lengths
    # (M, k): length of the rows without the mean of their block, with its sign
    # (isotropic inputs)
    length: Floats
    # (M,): whether the law of a single row is followed, and with it the sums over them
    single: Booleans

    shared: ClassVar[tuple[str, ...]] = ("is_length",)

    @property
    def known(self) -> frozenset[str]:
        """How single rows differ is followed; a batch is described without its
        sample.
        """
        return frozenset({SCATTER, POPULATION})

    @property
    def sums_known(self) -> Booleans:
        """For which sets (M,) sums over single rows can be told."""
        return self.single

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """M, k, R and C: sets, blocks, coordinates and variables."""
        M, k, R, C = self.JU.shape
        return M, k, R, C

    # -- steps -------------------------------------------------------------------------

    def motion(self, layer: Layer) -> Motion:
        """Return all that a motion moves."""
        return Motion(layer.means, self.B, self.JU, self.JB, self.feedback)

    def shifted(
        self, problem: Problem, layer: Layer, shifts: Floats, bulk: Floats
    ) -> Layer:
        """Return the layer after w_i <- s_q w_i + U_q: shifts (M, k, R), bulk (M, k);
        few_steps_readout (3.5).
        """
        # a motion is added to the rows: s_q w - w of them
        gain = (bulk - 1)[..., None]
        wide = gain[..., None]
        motion = Motion(
            U=gain * layer.means + shifts,
            B=gain * self.B,
            JU=wide * self.JU,
            JB=wide * self.JB,
            feedback=(bulk - 1)[:, None, :, None] * self.feedback,
        )
        ones = np.ones(len(layer))
        means, rows = self.after(problem, layer, motion, rate=ones, keep=ones)
        return dataclasses.replace(layer, means=means, rows=rows)

    def after(
        self,
        problem: Problem,
        layer: Layer,
        motion: Motion,
        rate: Floats,
        keep: Floats,
    ) -> tuple[Floats, Self]:
        """Return the means and the rows keep rows + rate motion, `keep` and `rate`
        (M,).
        """
        inputs = problem.inputs
        after = self.motion(layer).plus(rate, motion, keep)
        weights = inputs.masses * inputs.eigenvalues
        s = after.length(weights)
        # s^2 = int lambda B^2 dmu, so that s Js is the same of B JB
        Js = np.einsum("j,mqj,mqjc->mqc", weights, after.B, after.JB) / s[..., None]
        rows = dataclasses.replace(
            self,
            B=after.B,
            JU=after.JU,
            JB=after.JB,
            Js=Js,
            feedback=after.feedback,
            past=np.concatenate([self.past, after.B[:, None]], axis=1),
            length=self.length * (after.B / self.B)[..., 0],
        )
        rows = rows.extended(variables=(True,), coordinates=0)
        # the new length is that of the rows as they are now
        rows.Js[..., -1] = 0.5 / s
        return after.U, rows

    def extended(self, variables: tuple[bool, ...], coordinates: int) -> Self:
        """Return the rows with new variables, which say whether they are lengths, and
        new coordinates, on none of which anything depends yet.
        """
        M, k, R, C = self.shape
        K = self.JB.shape[2]
        C += len(variables)
        return dataclasses.replace(
            self,
            JU=with_zeros(self.JU, (M, k, R + coordinates, C)),
            JB=with_zeros(self.JB, (M, k, K, C)),
            Js=with_zeros(self.Js, (M, k, C)),
            is_length=(*self.is_length, *variables),
        )

    def on_batches(self, problem: Problem, earlier: Sequence[Descent]) -> Rows:
        """Return chains, on which the earlier steps on the population are repeated."""
        chains = BatchRows.start(problem)
        for descent in earlier:
            chains = chains.advanced(problem, descent)
        return chains

    def descend(self, problem: Problem, layer: Layer, descent: Descent) -> Layer:
        """Return the layer after a step of gradient descent: structured_inputs
        (3.1)-(3.5).

        The noise of a finite batch is described as isotropic.
        """
        on_batch = bool(descent.on_batch.any())
        gradient = follow_gradient(
            problem, layer, self, descent.fed_back, descent.whitening, on_batch
        )
        motion = gradient.motion
        # v <- momentum v + gradient
        if layer.velocity is not None and descent.momentum.any():
            ones = np.ones(len(layer))
            motion = motion.plus(descent.momentum, layer.velocity, ones)
        means, rows = self.after(problem, layer, motion, descent.rate, descent.keep)
        after = dataclasses.replace(layer, means=means, rows=rows, velocity=motion)
        if on_batch:
            return rows.with_noise(problem, after, gradient, descent)
        return rows.acted_on_itself(problem, layer, after, gradient, descent)

    @abstractmethod
    def with_noise(
        self, problem: Problem, layer: Layer, gradient: Gradient, descent: Descent
    ) -> Layer:
        """Return the layer with the noise of a finite batch, described as isotropic."""

    def acted_on_itself(
        self,
        problem: Problem,
        before: Layer,
        after: Layer,
        gradient: Gradient,
        descent: Descent,
    ) -> Layer:
        """Return the layer with what a finite width does to the rows themselves; here
        nothing of it is known.
        """
        return after

    # -- the spread --------------------------------------------------------------------

    def independent(self, problem: Problem) -> tuple[Floats, Floats, int]:
        """Return JU (M, k, R, C), Js (M, k, C) over independent standard normals; how
        many of these, first, are lengths.
        """
        lengths = np.array(self.is_length)
        root = self._root_of_lengths(problem)
        JU = np.concatenate(
            [self.JU[..., lengths] @ root, self.JU[..., ~lengths]], axis=3
        )
        of_lengths = (self.Js[:, :, None, lengths] @ root)[:, :, 0]
        Js = np.concatenate([of_lengths, self.Js[..., ~lengths]], axis=2)
        return JU, Js, root.shape[3]

    def _root_of_lengths(self, problem: Problem) -> Floats:
        """Return a square root (M, k, T, rank) of d Cov of the lengths,
        structured_inputs (3.7).
        """
        inputs = problem.inputs
        # (M, k, T, K)
        weighted = np.swapaxes(inputs.eigenvalues * self.past**2, 1, 2)
        if np.isfinite(problem.quadratic_dim):
            return without_mean(problem, weighted * np.sqrt(2 * inputs.masses))
        cov = 2 * np.einsum("mqtj,mquj,j->mqtu", weighted, weighted, inputs.masses)
        # on the sphere the sum of the squares of a row is fixed
        if problem.network.rows == "sphere":
            mean = inputs.average(weighted)
            cov = cov - 2 * mean[..., :, None] * mean[..., None, :]
        values, vectors = np.linalg.eigh(cov)
        rounding = RANK * np.max(np.abs(weighted)) ** 2
        # one rank for all sets and blocks, so that they stay one array
        kept = np.max(values, axis=(0, 1)) > rounding
        root: Floats = vectors[..., kept] * np.sqrt(
            np.maximum(values[..., None, kept], 0.0)
        )
        return root

    def spread(self, problem: Problem, layer: Layer) -> Spread:
        """Return the law of single rows."""
        JU, Js, _ = self.independent(problem)
        along = layer.frame[:, None] @ JU
        return Spread(
            lengths=self.scale(problem),
            overlaps=along @ np.swapaxes(along, 2, 3),
            of_lengths=np.sum(Js**2, axis=2),
        )

    def uneven(self, problem: Problem) -> Floats:
        """Return d times the variance of the lengths inside a block (M, k)."""
        Js = self.independent(problem)[1]
        return np.sum(Js**2, axis=2)

    # -- a finite dimension ------------------------------------------------------------

    def gram_of_means(self, problem: Problem) -> Floats:
        """Return the products of the means of the blocks in every atom (M, K, k, k):
        finite_size_steps (6.2).
        """
        products = products_of_means(self.feedback, problem.neurons)
        gram: Floats = problem.inputs.eigenvalues[:, None, None] * products
        return gram

    def added_to_means(self, problem: Problem) -> Floats | None:
        """Return what the steps add to the squared length of the mean of a block (M,
        k), in units of its whole rows.
        """
        return self.added(problem, problem.neurons)

    def added(self, problem: Problem, neurons: Floats) -> Floats:
        """Return the same for blocks of so many neurons (M, k)."""
        inputs = problem.inputs
        products = products_of_means(self.feedback, neurons)
        squares = np.einsum("mjqq->mqj", products) * inputs.eigenvalues
        added = inputs.average(squares) / self.scale(problem) ** 2 - 1 / neurons
        # nodes of a continuous law have no mean of their own
        return np.where(neurons >= 1, added, 0.0)


def without_mean(problem: Problem, rows: Floats) -> Floats:
    """Return rows (..., K) of what the quadratic fluctuations of the atoms do; on the
    sphere their sum is fixed.
    """
    if problem.network.rows == "gaussian":
        return rows
    length = np.sqrt(problem.inputs.masses)
    return rows - (rows @ length)[..., None] * length

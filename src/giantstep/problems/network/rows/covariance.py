"""Rows of inputs with a covariance: several atoms, and a bulk that knows the spectrum.

structured_inputs section 4, finite_size_steps section 6.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from giantstep.core.base.types import Floats, Integers
from giantstep.core.maths.gaussian.conditional import ConditionalTarget
from giantstep.core.maths.gaussian.subspaces import Directions
from giantstep.core.readout import Bulk, Equations, FiniteSize, InputBulk
from giantstep.core.readout.condensed import condense
from giantstep.core.readout.finite_size import stretch_of_atoms
from giantstep.core.readout.input_spread import InputSpread
from giantstep.problems.network.rows.batch_noise import feedback_with_noise, noise_of
from giantstep.problems.network.rows.followed import FollowedRows, without_mean
from giantstep.problems.network.rows.protocol import Axes, Descent, unit_axes
from giantstep.problems.network.rows.words import (
    FOLLOWED,
    ISOTROPIC,
    ISOTROPIC_ERROR,
    MEANS_ALONE,
    STRETCHED,
)

if TYPE_CHECKING:
    from giantstep.problems.network.gradient import Gradient
    from giantstep.problems.network.layer import Layer
    from giantstep.problems.network.problem import Problem


@dataclass(frozen=True, eq=False)
class CovarianceRows(FollowedRows):
    """Rows in the eigenspaces of the inputs."""

    # (M, k, R): own noise of a batch, a variable for each entry; None without one
    entries: Floats | None = None

    # -- steps -------------------------------------------------------------------------

    def with_noise(
        self, problem: Problem, layer: Layer, gradient: Gradient, descent: Descent
    ) -> Layer:
        """Return the layer with the noise of a batch: structured_inputs (7.1)-(7.2).

        No step follows.
        """
        inputs = problem.inputs
        lam = inputs.eigenvalues
        M, k, R, C = self.shape
        noise = noise_of(problem, self, gradient, descent)
        # what the neurons share, as one direction in every atom: the bulk reads it so
        shared = (descent.strength * np.sqrt(noise.common))[..., None, None]
        # U of structured_inputs (7.1): Sigma multiplies the noise of a gradient
        moved = (shared * lam * np.sqrt(inputs.masses)).reshape(M, k, -1)
        n = moved.shape[2]
        # n variables for the new coordinates, one for the length
        rows = self.extended(variables=(False,) * (n + 1), coordinates=n)
        # structured_inputs (7.2): with the new B on the new coordinates
        rows.JU[:, :, R + np.arange(n), C + np.arange(n)] = np.sqrt(lam) * noise.B
        # the earlier spread of the lengths is one of shorter rows: s_q/S_q of (7.2)
        rows.Js[:] *= noise.shrinks[..., None]
        rows.Js[..., -1] = noise.own_length
        entries = noise.tau[..., None] * inputs.coordinate_eigenvalues
        rows = dataclasses.replace(
            rows,
            B=noise.B,
            JB=0 * rows.JB,
            feedback=feedback_with_noise(problem, self, noise),
            single=np.zeros(M, dtype=bool),
            entries=np.pad(entries, ((0, 0), (0, 0), (0, n))),
            accuracy=(*self.accuracy, (ISOTROPIC, ISOTROPIC_ERROR)),
        )
        return dataclasses.replace(
            layer,
            means=np.concatenate([layer.means, moved], axis=2),
            frame=np.pad(layer.frame, ((0, 0), (0, 0), (0, n))),
            rows=rows,
        )

    # -- what the read-out sees --------------------------------------------------------

    def axes(
        self, problem: Problem, basis: Directions, given: ConditionalTarget, sets: Any
    ) -> Axes:
        """Return one channel for each direction and one for the length; their
        covariance is that of the bulk.
        """
        return unit_axes(basis, given.h1.T, np.ones(self.B.shape[:2]))

    def bulks(self, problem: Problem, basis: Directions) -> tuple[Bulk, ...]:
        """Return the law of the rows in every eigenspace."""
        inputs = problem.inputs
        B = self.B.swapaxes(1, 2)
        # PB of structured_inputs section 4
        product = inputs.eigenvalues[:, None, None] * (B[..., :, None] * B[:, :, None])
        spreads = self._spreads(problem, np.concatenate(basis, axis=1))
        bulks = []
        for number, spread in enumerate(spreads):
            bulks.append(InputBulk(product[number], inputs.masses, spread))
        return tuple(bulks)

    def _spreads(self, problem: Problem, directions: Floats) -> list[InputSpread]:
        """Return the spread of every set along these directions (R, n)."""
        inputs = problem.inputs
        JU, Js, lengths = self.independent(problem)
        last = self.past[:, -1][..., inputs.atoms]
        diagonal = np.sqrt(inputs.coordinate_eigenvalues) * last
        entries = np.zeros_like(diagonal)
        # every atom has a coordinate of the noise of the batch
        if self.entries is not None:
            of_noise = np.sqrt(inputs.eigenvalues) * self.B
            diagonal = np.concatenate([diagonal, of_noise], axis=2)
            entries = self.entries
        columns = lengths + np.arange(diagonal.shape[2])
        spreads = []
        for number in range(len(self)):
            spread = InputSpread(
                JU[number],
                Js[number],
                diagonal[number],
                columns,
                directions,
                entries[number],
            )
            if np.isfinite(problem.quadratic_dim):
                spread = self._with_quadratic_noise(problem, spread, number)
            spreads.append(spread)
        return spreads

    def _with_quadratic_noise(
        self, problem: Problem, spread: InputSpread, number: int
    ) -> InputSpread:
        """Return the spread of one set with a fluctuation of its own in every atom:
        (8.1).
        """
        inputs = problem.inputs
        s = self.scale(problem)[number, :, None]
        size = inputs.eigenvalues * self.B[number] ** 2 / s
        moved = without_mean(problem, np.eye(len(inputs.masses)))
        return spread.with_quadratic_noise(size / np.sqrt(problem.quadratic_dim), moved)

    # -- a finite dimension ------------------------------------------------------------

    def finite_size(
        self, problem: Problem, set_of_point: Integers, dim: Floats
    ) -> FiniteSize:
        """Return the means of the blocks in every atom, and the stretch of the inputs:
        (6.2), (6.5).
        """
        gram = self.gram_of_means(problem)[set_of_point]
        # the identity of a fit of classes has no stretch
        if problem.network.readout.classes:
            return FiniteSize(1 / dim, gram)
        inputs = problem.inputs
        scale = (inputs.eigenvalues * self.B**2).swapaxes(1, 2)[set_of_point]
        stretch = stretch_of_atoms(1 / dim, scale, inputs.masses)
        return FiniteSize(1 / dim, gram, stretch)

    def terms(self, problem: Problem) -> str:
        """Say which terms of a finite size are in."""
        if problem.network.readout.classes:
            return FOLLOWED + MEANS_ALONE
        return FOLLOWED + STRETCHED

    # -- answers -----------------------------------------------------------------------

    def for_spectrum(
        self, problem: Problem, equations: Equations, size: FiniteSize, bulk: Bulk
    ) -> tuple[Equations, FiniteSize]:
        """Return equations of fewer atoms: a spectrum needs integrals over the atoms at
        hundreds of z.
        """
        # `bulks` above makes no others
        atoms = cast(InputBulk, bulk)
        fewer, gram = condense(atoms, problem.inputs.eigenvalues, size.gram)
        equations = dataclasses.replace(equations, bulk=fewer)
        return equations, dataclasses.replace(size, gram=gram)

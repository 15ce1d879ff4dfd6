"""Rows after steps on finite batches: a chain of steps for every parameter set.

finite_batches_several_steps, whose equations are cited by number. The directions of the
noise of a batch are further coordinates of the means.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from giantstep.core.base.types import Booleans, Floats, Integers
from giantstep.core.maths.gaussian.conditional import ConditionalTarget
from giantstep.core.maths.gaussian.subspaces import Directions
from giantstep.core.readout import Bulk, FiniteSize
from giantstep.core.readout.block_means import products_of_means
from giantstep.problems.network.finite_batches import Chain, StepFields
from giantstep.problems.network.rows.protocol import (
    RULE_ERROR,
    SCATTER,
    Axes,
    Descent,
    Rows,
    Spread,
    Sums,
    sums_on_axes,
    unit_axes,
)
from giantstep.problems.network.rows.words import INDEPENDENT, ON_BATCHES

if TYPE_CHECKING:
    from giantstep.core.readout.fits import Asked, Fit
    from giantstep.problems.network.describe import Description
    from giantstep.problems.network.layer import Layer
    from giantstep.problems.network.problem import Problem


@dataclass(frozen=True, eq=False)
class BatchRows(Rows):
    """The chains of M parameter sets; `B` is c_q^(1/2) (M, k, 1)."""

    chains: tuple[Chain, ...]

    @property
    def known(self) -> frozenset[str]:
        """A second rule would have other laws of the labels than the chain went
        through.
        """
        return frozenset({SCATTER, RULE_ERROR})

    @classmethod
    def of(cls, chains: Sequence[Chain]) -> BatchRows:
        """Return the rows of these chains, one for each parameter set."""
        norms = np.stack([chain.norm for chain in chains])
        return cls(np.sqrt(norms)[..., None], tuple(chains))

    @classmethod
    def start(cls, problem: Problem) -> BatchRows:
        """Return the rows before the first step."""
        sets, k = problem.pi.shape
        gaussian_rows = problem.network.rows == "gaussian"
        chain = Chain.start(k, problem.target.directions, gaussian_rows)
        return cls.of((chain,) * len(problem.frame))

    def take(self, index: Any) -> Self:
        """Return the sets in `index`."""
        numbers = np.arange(len(self.chains))[index].tolist()
        chains = tuple(self.chains[number] for number in numbers)
        return dataclasses.replace(self, B=self.B[index], chains=chains)

    @property
    def means(self) -> Floats:
        """The means of the blocks (M, k, D); sets with fewer directions have zeros."""
        # batches may add more directions in one set than in another
        D = max(chain.U.shape[1] for chain in self.chains)
        means = np.zeros((*self.B.shape[:2], D))
        for number, chain in enumerate(self.chains):
            means[number, :, : chain.U.shape[1]] = chain.U
        return means

    @property
    def sums_known(self) -> Booleans:
        """Sums over single rows are known after one step."""
        single = [len(chain.steps) == 1 for chain in self.chains]
        return np.array(single)

    @property
    def feedback(self) -> Floats:
        """What became of the means of the blocks (M, 1, k, C'): finite_size_steps
        (2.2), (2.7).
        """
        return np.stack([chain.feedback for chain in self.chains])[:, None]

    # -- steps -------------------------------------------------------------------------

    def on_batches(self, problem: Problem, earlier: Sequence[Descent]) -> Rows:
        """Return these chains, which have gone through the earlier steps."""
        return self

    def descend(self, problem: Problem, layer: Layer, descent: Descent) -> Layer:
        """Return the layer after one more step."""
        rows = self.advanced(problem, descent)
        means = rows.means
        sets, _, D = means.shape
        r = problem.target.directions
        # the target's directions come first, those of batch noise after them
        frame = np.broadcast_to(np.eye(r, D), (sets, r, D))
        return dataclasses.replace(
            layer, means=means, frame=frame, rows=rows, velocity=None
        )

    def advanced(self, problem: Problem, descent: Descent) -> BatchRows:
        """Return the chains after one more step."""
        numbers = problem.numbers
        # sets that see the labels alike share their law, which the target keeps
        known = problem.target.label_laws
        chains = []
        for number, chain in enumerate(self.chains):
            fields = StepFields(
                e=descent.strength[number],
                share=descent.fed_back[number],
                inverse=float(1 / descent.samples[number]),
                keep=float(descent.keep[number]),
                noise=float(numbers["noise"][number]),
                flip=float(numbers["flip"][number]),
            )
            chains.append(
                chain.advance(problem.activation, problem.target, fields, known)
            )
        return self.of(chains)

    # -- what the read-out sees --------------------------------------------------------

    def kin(self, number: int) -> Hashable:
        """Sets that share a rule are solved together: their bulks need one shape."""
        return self.chains[number].shape

    def signed_coordinates(self, directions: int) -> int | None:
        """Of batch noise no network knows the sign."""
        return directions

    def axes(
        self, problem: Problem, basis: Directions, given: ConditionalTarget, sets: Any
    ) -> Axes:
        """Return one channel for each direction, and one for |b|^2, whose square root
        is the length: (6.1).
        """
        return unit_axes(basis, given.h1.T, 1 / (2 * self.scale(problem)))

    def bulks(self, problem: Problem, basis: Directions) -> tuple[Bulk, ...]:
        """Return the law of the rows of every chain."""
        directions = np.concatenate(basis, axis=1)
        # a chain of fewer directions than others knows its own coordinates only
        return tuple(
            chain.bulk(directions[: chain.U.shape[1]]) for chain in self.chains
        )

    # -- a finite dimension ------------------------------------------------------------

    def finite_size(
        self, problem: Problem, set_of_point: Integers, dim: Floats
    ) -> FiniteSize:
        """Return what the outputs of the network add to the means, as if the batches
        had no preferred directions.
        """
        products = products_of_means(self.feedback, problem.neurons)[:, 0]
        k = len(problem.zeta)
        of_rows = self.B[..., 0] ** 2 / problem.neurons
        # a fit pays 1/(d R) for independent rows in any case: spiked_features section
        # 4.4
        independent = np.eye(k) * of_rows[:, None]
        excess = (products - independent)[set_of_point]
        # every direction of the target and of the noise of a batch is treated on its
        # own
        coordinates = max(chain.U.shape[1] for chain in self.chains)
        directions = np.full(len(dim), float(coordinates))
        return FiniteSize(1 / dim, excess=excess, directions=directions)

    def terms(self, problem: Problem) -> str:
        """Say which terms of a finite size are in."""
        return INDEPENDENT + ON_BATCHES

    # -- answers -----------------------------------------------------------------------

    def spread(self, problem: Problem, layer: Layer) -> Spread:
        """Return d Cov of the overlaps with the target (M, k, r, r), d Var of the
        length across it (M, k): (5.5).
        """
        overlaps = []
        lengths = []
        for chain in self.chains:
            r = chain.targets
            cov = chain.covariance()
            across = chain.U[:, r:]
            overlaps.append(cov[:, :r, :r])
            # the length across is |U_across|^2 + |b|^2, whose last column is |b|^2
            weights = np.concatenate([2 * across, np.ones((len(across), 1))], axis=1)
            square = np.einsum("ka,kab,kb->k", weights, cov[:, r:, r:], weights)
            # Var of a root is Var/(4 mean)
            lengths.append(square / (4 * (np.sum(across**2, axis=1) + chain.norm)))
        return Spread(
            lengths=length_across(problem, layer),
            overlaps=np.stack(overlaps),
            of_lengths=np.stack(lengths),
        )

    def sums(
        self,
        problem: Problem,
        layer: Layer,
        seen: Sequence[Description],
        asked: Asked,
        set_of_point: Integers,
        fit: Fit,
    ) -> Sums | None:
        """Return the sums over single rows along the one learnt direction."""
        return sums_on_axes(fit, seen[0].learnt, self.scale_of_model(set_of_point))


def length_across(problem: Problem, layer: Layer) -> Floats:
    """Return the length of the rows across the target's directions (M, k): what they
    share lies across them, too.
    """
    along = layer.means @ layer.frame.swapaxes(1, 2)
    return np.sqrt(layer.squared_length(problem) - np.sum(along**2, axis=2))

"""Rows on inputs with a covariance: structured_inputs (4.2)-(4.4) and (4.8), integrals over atoms of the spectrum."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from giantstep.gaussian.grids import gauss_rule
from giantstep.readout.bulk import Response
from giantstep.readout.common_rows import CommonRows, CommonTangents
from giantstep.readout.features import Features
from giantstep.readout.input_spread import InputSpread, SpreadOfSets
from giantstep.readout.stacked import Stacked
from giantstep.types import Array, Floats, Integers

MOST_MATRICES = 2560
"""Points times atoms that are solved together."""


@dataclass(frozen=True)
class QuadraticNoise(Stacked):
    """What the quadratic channels of a finite dimension add to the outputs: structured_inputs (8.1)."""

    features: Features
    curvature: Floats  # nu of the blocks at the nodes (1, k, N)
    ratio: Floats
    b: Floats  # sizes of the points (B,), as in `Equations`

    shared: ClassVar[tuple[str, ...]] = ("features", "curvature")

    def moments(self, response: Response) -> Array:
        """Return r E[nu nu^T/(b + V)] (B, k, k), what stands for Vh1."""
        width = response.block_width.sum(axis=1)[:, None]
        V = self.features.quadratic(response.S, response.R) / width
        weights = self.ratio[:, None] * self.features.weights / (self.b[:, None] + V)
        return (self.curvature * weights[:, None, :]) @ np.swapaxes(self.curvature, 1, 2)


@dataclass(frozen=True)
class InputBulk(CommonRows):
    """Rows B_q(Sigma) b_i, b_i uniform on the sphere; `mu1` of the features is their D_1."""

    product: Floats
    masses: Floats
    spread: InputSpread | SpreadOfSets
    """How the channels act: their coefficients in the features are those of (Q^T tau_q, y_q)."""
    noise: QuadraticNoise | None = None

    packed_only: ClassVar[bool] = True

    @classmethod
    def stack(cls, bulks: Sequence[InputBulk], owner: Integers) -> InputBulk:
        """Return the bulk of points that have bulks[owner[b]], all on the same atoms and without quadratic noise."""
        if len(bulks) == 1:
            return bulks[0]
        spreads = tuple(bulk.spread for bulk in bulks if isinstance(bulk.spread, InputSpread))
        product = np.stack([bulk.product for bulk in bulks])[owner]
        return cls(product, bulks[0].masses, SpreadOfSets(spreads, owner))

    @property
    def kin(self) -> object:
        """The atoms; None with quadratic channels, whose noise is that of one set."""
        return None if self.spread.quadratic else super().kin

    @property
    def chunk(self) -> int:
        """Few points where there are many atoms."""
        return int(np.clip(MOST_MATRICES // len(self.masses), 16, 64))

    def take(self, index: Any) -> InputBulk:
        """Return the points in `index`, which differ where they have sets of their own or noise of their sizes."""
        if isinstance(self.spread, SpreadOfSets):
            return replace(self, product=self.product[index], spread=self.spread.take(index))
        return self if self.noise is None else replace(self, noise=self.noise.take(index))

    def quadratic(self, response: Response) -> Array:
        """Return what stands for Vh1 in the quadratic channels, 0 where they have no noise (B, k, k)."""
        return np.zeros_like(response.S) if self.noise is None else self.noise.moments(response)

    def tangents(self, response: Response) -> InputTangents:
        """Return (4.8) at a response."""
        return InputTangents(self, response)

    def covariance(self, response: Response, omega: Floats) -> tuple[Array, Array]:
        """Return P, in which the silent directions are counted; nothing of the error is absorbed."""
        P = self.spread.covariance(response, self.quadratic(response))
        return P, np.zeros_like(P)


@dataclass
class InputTangents(CommonTangents):
    """The derivative of the response, with what channels leave in silent directions."""

    bulk: InputBulk

    def _paid(self, dual: Array) -> tuple[Array, Array, Array]:
        return self.bulk.spread.paid(self.response, self.bulk.quadratic(self.response), dual)

    def push(self, omega: Floats, x: Floats, dual: Floats, paid: Floats) -> tuple[Array, Array]:
        """Return what the signal leaves in (Q1, Q2): the last terms of e in (4.7), and of (4.6) the silent tau."""
        squares, silent, _ = self._paid(dual)
        Q1, Q2 = self.apply(np.zeros_like(silent), (paid + squares) / self.response.R**2)
        return Q1 + silent, Q2

    def unseen(self, dual: Floats) -> Array | float:
        """Return the squares of the noise of the quadratic channels at the nodes (B, N): (8.1), added to (4.6)."""
        noise = self.bulk.noise
        if noise is None:
            return 0.0
        products = self._paid(dual)[2]
        added: Array = np.sum(noise.curvature * (products @ noise.curvature), axis=1)
        return added


# -- Many atoms of a spectrum as few: Gauss rules of groups of neighbours ---------------------------------


FEW = 64
"""Spectra with at most this many atoms are returned unchanged."""
_RATIO, _NODES, _DEGREE = 1.35, 6, 9
"""Factor of lambda that a group spans, nodes of its rule, degree of the interpolation on it: 1e-11 of a resolvent."""


def condense(bulk: InputBulk, eigenvalues: Floats, gram: Floats | None = None) -> tuple[InputBulk, Floats | None]:
    """Return the bulk with the atoms of similar eigenvalues (J,) replaced by the nodes of a Gauss rule of their masses.

    A group spans a factor 1.35 of lambda and keeps 12 moments; groups of up to six atoms stay as they are. The same is
    done to `gram` (B, J, k, k), the means of the blocks at the atoms.
    """
    if len(eigenvalues) <= FEW or eigenvalues.min() <= 0:
        return bulk, gram
    order = np.argsort(eigenvalues)
    group = np.floor(np.log(eigenvalues[order] / eigenvalues[order[0]]) / np.log(_RATIO) + 1e-9)
    at_atoms = bulk.product[None] if gram is None else np.concatenate([bulk.product[None], gram])  # (1 + B, J, k, k)
    at_atoms = np.moveaxis(at_atoms, 1, 0)
    product, masses = [], []
    for members in np.split(order, np.flatnonzero(np.diff(group)) + 1):
        if len(members) <= _NODES:
            product.append(at_atoms[members])
            masses.append(bulk.masses[members])
            continue
        nodes, weights = gauss_rule(eigenvalues[members], bulk.masses[members], _NODES)
        values = at_atoms[members].reshape(len(members), -1)
        domain = [float(eigenvalues[members].min()), float(eigenvalues[members].max())]
        degree = min(_DEGREE, len(members) - 1)
        fits = [np.polynomial.Chebyshev.fit(eigenvalues[members], column, degree, domain=domain) for column in values.T]
        product.append(np.stack([fit(nodes) for fit in fits], axis=1).reshape(-1, *at_atoms.shape[1:]))
        masses.append(weights)
    condensed = np.moveaxis(np.concatenate(product), 0, 1)
    smaller = dataclasses.replace(bulk, product=condensed[0], masses=np.concatenate(masses))
    return smaller, None if gram is None else condensed[1:]

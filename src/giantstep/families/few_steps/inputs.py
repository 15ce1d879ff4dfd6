"""Second moments of the inputs as the equations see them: atoms of the spectrum, the target in whitened coordinates.

structured_inputs, section 1: x ~ N(0, Sigma) with tr Sigma = d. Isotropic inputs are one atom.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from giantstep.types import Floats, Indices


@dataclass(frozen=True)
class InputSpectrum:
    """Atoms lambda_j with masses m_j (sum m = 1, sum m lambda = 1), and coordinates of the target's invariant space.

    Coordinate c is a unit vector in the eigenspace of one atom; `frame` (r, R) is V, the targets in whitened
    coordinates, with orthonormal rows. `factor` is F at every atom, what preconditions the steps.
    """

    eigenvalues: Floats  # (K,)
    masses: Floats  # (K,)
    frame: Floats  # (r, R)
    atoms: Indices  # (R,), the atom of each coordinate
    factor: Floats  # (K,)

    @classmethod
    def isotropic(cls, directions: int) -> InputSpectrum:
        """Return the one atom of isotropic inputs."""
        return cls(np.ones(1), np.ones(1), np.eye(directions), np.zeros(directions, dtype=np.intp), np.ones(1))

    @classmethod
    def blocks(cls, eigenvalues: Floats, masses: Floats, shares: Floats, factor: Floats | None = None) -> InputSpectrum:
        """Return blocks in which the one target direction has the given shares of the variance of z."""
        eigenvalues = np.asarray(eigenvalues, float) / (np.asarray(eigenvalues) @ np.asarray(masses))
        shares = np.asarray(shares, float) / np.sum(shares)
        atoms = np.flatnonzero(shares > 0)
        given = np.ones(len(eigenvalues)) if factor is None else np.asarray(factor, float)
        return cls(eigenvalues, np.asarray(masses, float), np.sqrt(shares[atoms])[None, :], atoms, given)

    @property
    def coordinate_eigenvalues(self) -> Floats:
        """l_c of every coordinate (R,)."""
        return self.eigenvalues[self.atoms]

    def average(self, values: Floats) -> Floats:
        """Return int values dmu over the last axis."""
        return values @ self.masses

"""Second moments of the inputs as the equations see them: atoms of the spectrum, the target in whitened coordinates.

structured_inputs, section 1: x ~ N(0, Sigma) with tr Sigma = d. Isotropic inputs are one atom.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from giantstep.errors import InputError, bad_field
from giantstep.types import Floats, Indices, Integers

MOST_ATOMS = 400
"""Atoms above which a spectrum is binned."""
LEADING, BINS = 40, 50
"""Atoms that stay alone in a binned spectrum, and bins of the others."""


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

    @property
    def coordinate_eigenvalues(self) -> Floats:
        """l_c of every coordinate (R,)."""
        return self.eigenvalues[self.atoms]

    def average(self, values: Floats) -> Floats:
        """Return int values dmu over the last axis."""
        return values @ self.masses


@dataclass(frozen=True)
class InputLaw:
    """The two measures that enter, structured_inputs (1.1): atoms with their masses, and nu_ab with its factor lambda.

    `moments` are lambda_j <w*_a, P_j w*_b>, the parts of the covariance of (z_1..z_r) = I in every eigenspace.
    """

    eigenvalues: Floats  # (K,), sum m lambda = 1
    masses: Floats  # (K,), sum 1
    moments: Floats  # (K, r, r), sum I

    @classmethod
    def normalised(cls, eigenvalues: Floats, masses: Floats, moments: Floats) -> InputLaw:
        """Return the law with tr Sigma = d."""
        return cls(eigenvalues / (eigenvalues @ masses), masses, moments)

    @classmethod
    def of_shares(cls, eigenvalues: Floats, masses: Floats, shares: Floats) -> InputLaw:
        """Return blocks in which every direction has its own axis, with `shares` (r, K) of the variance of z_a."""
        shares = shares / shares.sum(axis=1, keepdims=True)
        moments = np.einsum("aj,ab->jab", shares, np.eye(len(shares)))
        return cls.normalised(eigenvalues, masses, moments)

    @property
    def isotropic(self) -> bool:
        """Whether all eigenvalues are equal."""
        return bool(np.ptp(self.eigenvalues) < 1e-12)

    def effective_ranks(self) -> tuple[float, float]:
        """Return (tr Sigma)^2/tr Sigma^2 and (tr Sigma^2)^2/tr Sigma^4, both over d: structured_inputs, section 8."""
        second, fourth = (float(self.masses @ self.eigenvalues**power) for power in (2, 4))
        return 1 / second, second**2 / fourth

    def second_moment(self) -> float:
        """Return int lambda^2 dmu."""
        return float(self.masses @ self.eigenvalues**2)

    def leading_variance(self) -> float:
        """Return the largest tau_2 = w*^T Sigma^2 w* of a direction."""
        return float(np.einsum("j,jaa->a", self.eigenvalues, self.moments).max())

    def counts(self, dim: int) -> Integers:
        """Return how many of `dim` coordinates each atom has."""
        edges = np.rint(np.append(0.0, np.cumsum(self.masses)) * dim).astype(np.int64)
        return np.diff(edges)

    def at_dimension(self, dim: int) -> InputLaw:
        """Return the law of a covariance of `dim` coordinates, whose multiplicities are whole numbers."""
        counts = self.counts(dim)
        wanted = np.array([np.linalg.matrix_rank(matrix, hermitian=True) for matrix in self.moments])
        if np.any(counts < wanted):
            block = int(np.flatnonzero(counts < wanted)[0])
            needed = int(np.ceil((wanted / self.masses).max()))
            raise bad_field(
                "dim", dim, f"about {needed} or more, so that atom {block + 1} of the inputs has room for the target"
            )
        kept = counts > 0
        return InputLaw.normalised(self.eigenvalues[kept], counts[kept] / dim, self.moments[kept])

    def binned(self) -> InputLaw:
        """Return the law with at most 400 atoms: beyond that 40 leading ones and 50 bins of equal count of the others.

        A bin has the mean eigenvalue, the sum of the masses and of the moments.
        """
        if len(self.masses) <= MOST_ATOMS:
            return self
        order = np.argsort(-self.eigenvalues, kind="stable")
        rest = np.array_split(order[LEADING:], BINS)
        groups = [*(order[j : j + 1] for j in range(LEADING)), *rest]
        masses = np.array([self.masses[group].sum() for group in groups])
        means = np.array([self.eigenvalues[group] @ self.masses[group] for group in groups]) / masses
        return InputLaw(means, masses, np.stack([self.moments[group].sum(axis=0) for group in groups]))

    def spectrum(self, whitening: float = 0.0) -> InputSpectrum:
        """Return the atoms with the coordinates of the target; the steps are multiplied by F = lambda^-whitening."""
        atoms, columns = [], []
        for j, matrix in enumerate(self.moments):
            for column in _root(matrix):
                atoms.append(j)
                columns.append(column)
        if not columns:
            raise InputError("Field `inputs` leaves no eigenspace a share of the target; take smaller exponents.")
        positive = np.where(self.eigenvalues > 0, self.eigenvalues, 1.0)
        factor = np.where(self.eigenvalues > 0, positive**-whitening, 0.0 if whitening else 1.0)
        return InputSpectrum(self.eigenvalues, self.masses, np.stack(columns, axis=1), np.array(atoms), factor)


def _root(matrix: Floats) -> Floats:
    """Return rows v_c with sum_c v_c v_c^T = matrix, as few as its rank; the axes where it is diagonal."""
    diagonal = np.diagonal(matrix)
    if np.array_equal(matrix, np.diag(diagonal)):
        return (np.sqrt(np.maximum(diagonal, 0.0))[:, None] * np.eye(len(matrix)))[diagonal > 0]
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.sqrt(np.maximum(values, 0.0))).T[values > 1e-14 * values.max()]

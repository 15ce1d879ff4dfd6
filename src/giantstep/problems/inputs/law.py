"""Second moments of the inputs as the equations see them: atoms of the spectrum, the
target in whitened coordinates.

structured_inputs, section 1: x ~ N(0, Sigma) with tr Sigma = d. Isotropic inputs are
one atom.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from giantstep.core.base.errors import InputError, bad_field
from giantstep.core.base.types import Floats, Indices, Integers

MOST_ATOMS = 400
"""Atoms above which a spectrum is binned."""
LEADING = 40
BINS = 50
"""Atoms that stay alone in a binned spectrum, and bins of the others."""
_RANK = 1e-14
"""Eigenvalues of the moments in one eigenspace, relative to the largest, that are
rounding.
"""


@dataclass(frozen=True)
class InputSpectrum:
    """Atoms lambda_j with masses m_j (sum m = 1, sum m lambda = 1), and coordinates of
    the target's invariant space.

    Coordinate c is a unit vector in the eigenspace of one atom; `frame` (r, R) is V,
    the targets in whitened coordinates, with orthonormal rows. `factor` is F at every
    atom, what preconditions the steps.
    """

    eigenvalues: Floats  # (K,)
    masses: Floats  # (K,)
    frame: Floats  # (r, R)
    atoms: Indices  # (R,), the atom of each coordinate
    factor: Floats  # (K,)

    @classmethod
    def isotropic(cls, directions: int) -> InputSpectrum:
        """Return the one atom of isotropic inputs."""
        return cls(
            eigenvalues=np.ones(1),
            masses=np.ones(1),
            frame=np.eye(directions),
            atoms=np.zeros(directions, dtype=np.intp),
            factor=np.ones(1),
        )

    @property
    def coordinate_eigenvalues(self) -> Floats:
        """l_c of every coordinate (R,)."""
        return self.eigenvalues[self.atoms]

    def average(self, values: Floats) -> Floats:
        """Return int values dmu over the last axis."""
        return values @ self.masses


@dataclass(frozen=True)
class InputLaw:
    """The two measures that enter, structured_inputs (1.1): atoms with their masses,
    and nu_ab with its factor lambda.

    `moments` are lambda_j <w*_a, P_j w*_b>, the parts of the covariance of (z_1..z_r) =
    I in every eigenspace.
    """

    eigenvalues: Floats  # (K,), sum m lambda = 1
    masses: Floats  # (K,), sum 1
    moments: Floats  # (K, r, r), sum I

    @classmethod
    def normalised(
        cls, eigenvalues: Floats, masses: Floats, moments: Floats
    ) -> InputLaw:
        """Return the law with tr Sigma = d."""
        return cls(eigenvalues / (eigenvalues @ masses), masses, moments)

    @classmethod
    def of_shares(cls, eigenvalues: Floats, masses: Floats, shares: Floats) -> InputLaw:
        """Return blocks in which every direction has its own axis, with `shares` (r, K)
        of the variance of z_a.
        """
        shares = shares / shares.sum(axis=1, keepdims=True)
        # axes of their own: directions are independent inside every block
        moments = np.einsum("aj,ab->jab", shares, np.eye(len(shares)))
        return cls.normalised(eigenvalues, masses, moments)

    @property
    def isotropic(self) -> bool:
        """Whether all eigenvalues are equal."""
        return bool(np.ptp(self.eigenvalues) < 1e-12)

    def effective_ranks(self) -> tuple[float, float]:
        """Return (tr Sigma)^2/tr Sigma^2 and (tr Sigma^2)^2/tr Sigma^4, both over d:
        structured_inputs, section 8.
        """
        # tr Sigma = d
        second = self.second_moment()
        fourth = float(self.masses @ self.eigenvalues**4)
        return 1 / second, second**2 / fourth

    def second_moment(self) -> float:
        """Return int lambda^2 dmu."""
        return float(self.masses @ self.eigenvalues**2)

    def leading_variance(self) -> float:
        """Return the largest tau_2 = w*^T Sigma^2 w* of a direction."""
        return float(np.einsum("j,jaa->a", self.eigenvalues, self.moments).max())

    def counts(self, dim: int) -> Integers:
        """Return how many of `dim` coordinates each atom has."""
        # cumulated before they are rounded: the counts add up to `dim`
        edges = np.append(0.0, np.cumsum(self.masses)) * dim
        return np.diff(np.rint(edges).astype(np.int64))

    def at_dimension(self, dim: int) -> InputLaw:
        """Return the law of a covariance of `dim` coordinates, whose multiplicities are
        whole numbers.
        """
        counts = self.counts(dim)
        ranks = [
            np.linalg.matrix_rank(matrix, hermitian=True) for matrix in self.moments
        ]
        # every coordinate of the target in an eigenspace needs an axis of its own there
        axes = np.array(ranks)
        if np.any(counts < axes):
            block = int(np.flatnonzero(counts < axes)[0])
            least = int(np.ceil((axes / self.masses).max()))
            allowed = (
                f"about {least} or more, so that atom {block + 1} of the inputs has"
                " room for the target"
            )
            raise bad_field("dim", dim, allowed)
        present = counts > 0
        return InputLaw.normalised(
            self.eigenvalues[present], counts[present] / dim, self.moments[present]
        )

    def binned(self) -> InputLaw:
        """Return the law with few atoms: beyond 400 the 40 leading ones, and 50 bins of
        equal count of the others.
        """
        if len(self.masses) <= MOST_ATOMS:
            return self
        order = np.argsort(-self.eigenvalues, kind="stable")
        bins = [order[j : j + 1] for j in range(LEADING)]
        bins += np.array_split(order[LEADING:], BINS)
        masses = np.array([self.masses[part].sum() for part in bins])
        # the mean of a bin keeps tr Sigma
        traces = [self.eigenvalues[part] @ self.masses[part] for part in bins]
        moments = [self.moments[part].sum(axis=0) for part in bins]
        return InputLaw(np.array(traces) / masses, masses, np.stack(moments))

    def spectrum(self, whitening: float = 0.0) -> InputSpectrum:
        """Return the atoms with the coordinates of the target; the steps are multiplied
        by F = lambda^-whitening.
        """
        atoms = []
        columns = []
        for j, matrix in enumerate(self.moments):
            for column in _root(matrix):
                atoms.append(j)
                columns.append(column)
        if not columns:
            raise InputError(
                "Field `inputs` leaves no eigenspace a share of the target; take"
                " smaller exponents."
            )
        # where there are no inputs a preconditioner is never asked: 0, or 0^0 = 1
        at_zero = 0.0 if whitening else 1.0
        positive = np.where(self.eigenvalues > 0, self.eigenvalues, 1.0)
        factor = np.where(self.eigenvalues > 0, positive**-whitening, at_zero)
        return InputSpectrum(
            eigenvalues=self.eigenvalues,
            masses=self.masses,
            frame=np.stack(columns, axis=1),
            atoms=np.array(atoms),
            factor=factor,
        )


def _root(matrix: Floats) -> Floats:
    """Return rows v_c with sum_c v_c v_c^T = matrix, as few as its rank; the axes where
    it is diagonal.
    """
    diagonal = np.diagonal(matrix)
    if np.array_equal(matrix, np.diag(diagonal)):
        lengths = np.sqrt(np.maximum(diagonal, 0.0))
        rows = lengths[:, None] * np.eye(len(matrix))
        return rows[diagonal > 0]
    values, vectors = np.linalg.eigh(matrix)
    rows = (vectors * np.sqrt(np.maximum(values, 0.0))).T
    return rows[values > _RANK * values.max()]

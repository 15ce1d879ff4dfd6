"""Second moments of the inputs as the equations see them: atoms of the spectrum, the
target in whitened coordinates.

structured_inputs, section 1: x ~ N(0, Sigma) with tr Sigma = d. Isotropic inputs are
one atom.

What the limit assumes of inputs, and how far these are from it: effective ranks, and
two tests of the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from giantstep.core.base.columns import constant_columns, warn_of_constant
from giantstep.core.base.display import aligned
from giantstep.core.base.errors import InputError, bad_field
from giantstep.core.base.types import Floats, Indices, Integers

MOST_ATOMS = 400
"""Atoms above which a spectrum is binned."""
LEADING = 40
BINS = 50
"""Atoms that stay alone in a binned spectrum, and bins of the others."""


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
            np.ones(1),
            np.ones(1),
            np.eye(directions),
            np.zeros(directions, dtype=np.intp),
            np.ones(1),
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
        return cls.normalised(
            eigenvalues, masses, np.einsum("aj,ab->jab", shares, np.eye(len(shares)))
        )

    @property
    def isotropic(self) -> bool:
        """Whether all eigenvalues are equal."""
        return bool(np.ptp(self.eigenvalues) < 1e-12)

    def effective_ranks(self) -> tuple[float, float]:
        """Return (tr Sigma)^2/tr Sigma^2 and (tr Sigma^2)^2/tr Sigma^4, both over d:
        structured_inputs, section 8.
        """
        second, fourth = (
            float(self.masses @ self.eigenvalues**power) for power in (2, 4)
        )
        return 1 / second, second**2 / fourth

    def second_moment(self) -> float:
        """Return int lambda^2 dmu."""
        return float(self.masses @ self.eigenvalues**2)

    def leading_variance(self) -> float:
        """Return the largest tau_2 = w*^T Sigma^2 w* of a direction."""
        return float(np.einsum("j,jaa->a", self.eigenvalues, self.moments).max())

    def counts(self, dim: int) -> Integers:
        """Return how many of `dim` coordinates each atom has."""
        return np.diff(
            np.rint(np.append(0.0, np.cumsum(self.masses)) * dim).astype(np.int64)
        )

    def at_dimension(self, dim: int) -> InputLaw:
        """Return the law of a covariance of `dim` coordinates, whose multiplicities are
        whole numbers.
        """
        counts = self.counts(dim)
        wanted = np.array(
            [np.linalg.matrix_rank(matrix, hermitian=True) for matrix in self.moments]
        )
        if np.any(counts < wanted):
            block = int(np.flatnonzero(counts < wanted)[0])
            needed = int(np.ceil((wanted / self.masses).max()))
            raise bad_field(
                "dim",
                dim,
                f"about {needed} or more, so that atom {block + 1} of the inputs has"
                " room for the target",
            )
        kept = counts > 0
        return InputLaw.normalised(
            self.eigenvalues[kept], counts[kept] / dim, self.moments[kept]
        )

    def binned(self) -> InputLaw:
        """Return the law with few atoms: beyond 400 the 40 leading ones, and 50 bins of
        equal count of the others.
        """
        if len(self.masses) <= MOST_ATOMS:
            return self
        order = np.argsort(-self.eigenvalues, kind="stable")
        rest = np.array_split(order[LEADING:], BINS)
        groups = [*(order[j : j + 1] for j in range(LEADING)), *rest]
        masses = np.array([self.masses[group].sum() for group in groups])
        means = (
            np.array([self.eigenvalues[group] @ self.masses[group] for group in groups])
            / masses
        )
        return InputLaw(
            means,
            masses,
            np.stack([self.moments[group].sum(axis=0) for group in groups]),
        )

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
        positive = np.where(self.eigenvalues > 0, self.eigenvalues, 1.0)
        factor = np.where(
            self.eigenvalues > 0, positive**-whitening, 0.0 if whitening else 1.0
        )
        return InputSpectrum(
            self.eigenvalues,
            self.masses,
            np.stack(columns, axis=1),
            np.array(atoms),
            factor,
        )


def _root(matrix: Floats) -> Floats:
    """Return rows v_c with sum_c v_c v_c^T = matrix, as few as its rank; the axes where
    it is diagonal.
    """
    diagonal = np.diagonal(matrix)
    if np.array_equal(matrix, np.diag(diagonal)):
        return (np.sqrt(np.maximum(diagonal, 0.0))[:, None] * np.eye(len(matrix)))[
            diagonal > 0
        ]
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.sqrt(np.maximum(values, 0.0))).T[values > 1e-14 * values.max()]


# -- A table of real inputs: its centred rows in the eigenbasis of their covariance ----


NO_VARIANCE = 1e-10
"""Eigenvalues below this, relative to the largest, are directions in which the rows do
not vary.
"""

MOST_CORRELATION = 1e-6
"""Of the outputs z_a of two directions of a target, which is a function of independent
ones.
"""


class InputTable(NamedTuple):
    """Centred rows scaled to tr Sigma = d: eigenvalues (d,), falling; `basis`
    (columns, d) are the eigenvectors.
    """

    rows: Floats
    eigenvalues: Floats
    basis: Floats

    def whitened(self) -> Floats:
        """Return the rows in whitened eigen-coordinates (N, d), of covariance I."""
        return self.rows @ self.basis / np.sqrt(self.eigenvalues)


def diagonalise(X: Any, name: str = "X") -> InputTable:
    """Return a table in its eigenbasis, without directions without variance; `name` is
    that of its field.
    """
    names = getattr(X, "columns", None)
    try:
        table = np.asarray(X, dtype=float)
    except (TypeError, ValueError):
        raise bad_field(name, X, "a table of numbers, one row for each input") from None
    shown = f"<array {'x'.join(map(str, table.shape))}>"
    if table.ndim != 2 or table.shape[1] < 2:
        raise bad_field(
            name,
            shown,
            f"a table of rows with at least 2 columns, not of shape {table.shape}",
        )
    if not np.isfinite(table).all():
        column = int(np.flatnonzero(~np.isfinite(table).all(axis=0))[0])
        raise bad_field(name, shown, f"finite in every place (column {column} is not)")
    constant = constant_columns(table)
    varying = int(np.sum(~constant))
    if varying < 2:
        raise bad_field(
            name,
            shown,
            f"a table with at least 2 columns that vary ({varying} of them does)",
        )
    needed = 2 * varying
    if len(table) < needed:
        form = "a covariance is given by gs.InputCovariance(eigenvalues, target)"
        raise bad_field(
            name,
            shown,
            f"a table of at least {needed} rows, twice its columns ({form})",
        )
    warn_of_constant(constant, names)
    centred = table - table.mean(axis=0)
    centred[:, constant] = 0.0
    if constant.any():
        varied = np.ascontiguousarray(centred[:, ~constant])
    else:
        varied = centred
    values, vectors = np.linalg.eigh(varied.T @ varied / len(varied))
    kept = values > NO_VARIANCE * values[-1]
    values = values[kept][::-1]
    vectors = vectors[:, kept][:, ::-1]
    if (
        constant.any()
    ):  # the eigenvectors of the table without these columns, signs and all
        inside = vectors
        vectors = np.zeros((table.shape[1], inside.shape[1]))
        vectors[~constant] = inside
    scale = values.mean()
    return InputTable(centred / np.sqrt(scale), values / scale, vectors)


def whitened_target(
    table: InputTable, direction: ArrayLike | None, name: str = "target_direction"
) -> Floats:
    """Return directions in whitened eigen-coordinates (r, d), rows of length 1; `name`
    is that of their field.
    """
    d = len(table.eigenvalues)
    columns = len(table.basis)
    if direction is None:
        half = (d + 1) // 2
        signs = np.where(np.random.default_rng(0).random(half) < 0.5, -1.0, 1.0)
        return np.pad(signs / np.sqrt(half), (0, d - half))[None]
    try:
        given = np.atleast_2d(np.asarray(direction, dtype=float))
    except (TypeError, ValueError):
        given = np.empty((1, 0))
    if given.ndim != 2 or given.shape[1] != columns or not np.isfinite(given).all():
        raise bad_field(
            name, direction, f"{columns} finite numbers, one for each column"
        )
    rows = given @ table.basis * np.sqrt(table.eigenvalues)
    lengths = np.linalg.norm(rows, axis=1)
    largest = np.linalg.norm(given, axis=1) * np.sqrt(table.eigenvalues[0])
    if np.any(lengths <= 1e-6 * largest):
        raise bad_field(
            name,
            direction,
            "a direction in which the rows vary, not one of their null space",
        )
    rows = rows / lengths[:, None]
    correlation = np.abs(rows @ rows.T - np.eye(len(rows))).max()
    if correlation > MOST_CORRELATION:
        allowed = (
            "directions without correlation on the rows, W* Sigma W*^T = I (one is"
            f" {correlation:.2g})"
        )
        raise bad_field(name, f"<array {len(given)}x{columns}>", allowed)
    return rows


# -- How far inputs are from what the limit assumes: effective ranks -------------------


LEAST_RANKS = (100.0, 20.0)
"""Effective ranks r_eff and r_4 of the inputs below which the limit is off:
structured_inputs, section 8.
"""
MOST_EXCESS = 3.0
"""Variance of |x|^2/d over its Gaussian value up to which rows of a table are taken for
Gaussian ones.
"""


@dataclass(frozen=True)
class RowTests:
    """What tells the rows of a table from Gaussian inputs of the same covariance:
    structured_inputs, section 13.
    """

    rows: int  # how many there are
    norm_excess: (
        float  # Var(|x|^2/d) over its value for Gaussian inputs, 2 int lambda^2 dmu/d
    )
    # E z^4/(E z^2)^2 along every direction of the target; 3 for Gaussian inputs
    kurtosis: tuple[float, ...]

    @classmethod
    def of_table(cls, table: InputTable, target: Floats) -> Self:
        """Return the tests of a table with a target in whitened eigen-coordinates (r,
        d).
        """
        d = len(table.eigenvalues)
        lengths = np.sum(table.rows**2, axis=1) / d
        excess = float(lengths.var() / (2 * np.mean(table.eigenvalues**2) / d))
        z = table.whitened() @ target.T
        kurtosis = np.mean(z**4, axis=0) / np.mean(z**2, axis=0) ** 2
        return cls(len(table.rows), excess, tuple(float(value) for value in kurtosis))


def describe_inputs(law: InputLaw, tests: RowTests | None) -> str:
    """Return a table of the effective ranks of d eigenvalues and of the tests of their
    rows, where there are some.
    """
    d = len(law.masses)
    binned = len(law.binned().masses)
    first, second = (d * rank for rank in law.effective_ranks())
    if d == binned:
        spectrum = "one atom for each eigenvalue"
    else:
        spectrum = "the leading eigenvalues, and bins of the others"
    lines = [
        ("d", str(d), "directions in which inputs vary"),
        ("atoms", str(binned), spectrum),
        (
            "r_eff",
            f"{first:.1f}",
            f"(tr Sigma)^2/tr Sigma^2; the limit wants {LEAST_RANKS[0]:g} or more",
        ),
        (
            "r_4",
            f"{second:.1f}",
            f"(tr Sigma^2)^2/tr Sigma^4; the limit wants {LEAST_RANKS[1]:g} or more",
        ),
    ]
    if tests is not None:
        kurtosis = ", ".join(f"{value:.2g}" for value in tests.kurtosis)
        lines += [
            ("rows", str(tests.rows), "inputs of the table"),
            (
                "Var |x|^2",
                f"{tests.norm_excess:.2g}",
                f"times that of Gaussian inputs; up to {MOST_EXCESS:g} is near",
            ),
            ("kurtosis of z", kurtosis, "3 for Gaussian inputs"),
        ]
    return "\n".join(aligned(lines))


def warnings_of(ranks: Floats, excess: float) -> list[str]:
    """Warn where rows are far from Gaussian, or where effective ranks (G, 2) of inputs
    are low at some point.
    """
    said = []
    if excess > MOST_EXCESS:
        said.append(
            f"The squared lengths of the rows have {excess:.3g} times the variance of"
            " Gaussian inputs: the limit is that of Gaussian inputs, and may be far"
            " off."
        )
    low = ranks[np.argmin(np.min(ranks / LEAST_RANKS, axis=1))]
    if np.any(low < LEAST_RANKS):
        said.append(
            f"The inputs have the effective ranks r_eff = {low[0]:.3g} and r_4 ="
            f" {low[1]:.3g}: below 100 and 20 the limit may be several percent off"
            ' (theory="auto" at a finite dim mends part; see the page on structured'
            " inputs)."
        )
    return said

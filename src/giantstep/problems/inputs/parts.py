"""The value objects that say which covariance the inputs have: blocks, a power law,
that of a table.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from pydantic import BeforeValidator, Discriminator

from giantstep.core.base.errors import bad_field, field_error
from giantstep.core.base.types import Floats
from giantstep.core.maths.gaussian import PLANTED_LABELS
from giantstep.core.scenario.arrays import ArrayField, FrozenArray
from giantstep.core.scenario.fields import Integer, Number, Numbers, field
from giantstep.core.scenario.model import Part
from giantstep.problems.inputs.assumptions import RowTests, describe_inputs
from giantstep.problems.inputs.law import InputLaw
from giantstep.problems.inputs.table import (
    MOST_CORRELATION,
    InputTable,
    diagonalise,
    whitened_target,
)

EMPTY = FrozenArray([])
LIMIT_ATOMS = 400
"""Atoms of a power law in the limit."""


class InputForm(Part):
    """One way to give the covariance of the inputs and where the target lies in its
    eigenspaces.
    """

    def law(self, dim: float, directions: int) -> InputLaw:
        """Return the law at this dimension (inf: the limit) for a target of so many
        directions.
        """
        raise NotImplementedError

    def check_directions(self, directions: int) -> None:
        """Refuse a target with another number of directions than described here."""

    @property
    def own_dim(self) -> int | None:
        """The dimension where the form has one, else None."""
        return None

    def rank_dim(self, dim: float) -> float:
        """Return the dimension that effective ranks are counted in: its own, where the
        form has one.
        """
        return self.own_dim or dim


class InputBlocks(InputForm):
    """Inputs x ~ N(0, Sigma) whose covariance has few eigenvalues: eigenvalues[j] on a
    fraction fractions[j] of them.

    shares[j] is the part of the variance of z = <w*, x> that lies in block j, not of
    the squared length of w*. With several directions it is one row for each, or one row
    for all; each direction has its own axis in a block. Eigenvalues are divided by
    their mean, so that tr Sigma = d, and shares by their sum.

    >>> import giantstep as gs
    >>> mixed = InputBlocks([2.5, 0.5], [0.25, 0.75], [0.5, 0.5])
    >>> s = gs.FewSteps(
    ...     target="sin(z)",
    ...     activation="tanh",
    ...     second_layer=gs.Vocabulary([1]),
    ...     rate=3.0,
    ...     steps=1,
    ...     width_per_dim=1.0,
    ...     samples_per_dim=1.5,
    ...     ridge=0.1,
    ...     noise=0.02,
    ...     inputs=mixed,
    ... )
    >>> gs.predict(s).test_error.values.round(4)
    array([0.2681, 0.1598])
    """

    if TYPE_CHECKING:

        def __init__(
            self,
            eigenvalues: Sequence[float],
            fractions: Sequence[float],
            shares: ArrayLike,
        ) -> None: ...

    kind: Literal["blocks"] = "blocks"
    eigenvalues: Numbers = field(
        "lambda_j", "eigenvalue of each block (they are divided by their mean)"
    )
    fractions: Numbers = field(
        "m_j", "fraction of the coordinates in each block; they sum to one"
    )
    shares: ArrayField = field(
        "share_j",
        "part of the variance of z in each block, a row for each direction or one",
    )

    def check(self) -> None:
        """Check lengths, signs and sums."""
        count = len(self.eigenvalues)
        if min(self.eigenvalues, default=-1) < 0 or max(self.eigenvalues) <= 0:
            raise bad_field(
                "eigenvalues",
                list(self.eigenvalues),
                "numbers of at least 0, one of them above 0",
            )
        if len(self.fractions) != count or min(self.fractions) <= 0:
            raise bad_field(
                "fractions",
                list(self.fractions),
                f"{count} numbers above 0, one for each eigenvalue",
            )
        total = sum(self.fractions)
        if not math.isclose(total, 1.0, rel_tol=0, abs_tol=1e-9):
            raise bad_field(
                "fractions",
                list(self.fractions),
                f"numbers that sum to one (they sum to {total:g})",
            )
        shares = np.atleast_2d(self.shares)
        if shares.ndim != 2 or shares.shape[1] != count or shares.min(initial=0.0) < 0:
            allowed = (
                f"{count} numbers of at least 0, one for each block (a row of them for"
                " each direction)"
            )
            raise bad_field("shares", self.shares, allowed)
        if np.any(shares[:, np.array(self.eigenvalues) == 0] > 0):
            raise bad_field(
                "shares",
                self.shares,
                "0 on a block of eigenvalue 0, where z cannot vary",
            )
        if np.any(shares.sum(axis=1) <= 0):
            raise bad_field(
                "shares",
                self.shares,
                "above 0 on one block at least, for each direction",
            )

    def check_directions(self, directions: int) -> None:
        """Refuse shares of another number of directions."""
        if len(np.atleast_2d(self.shares)) not in (1, directions):
            raise bad_field(
                "shares",
                self.shares,
                f"one row, or {directions} rows, one for each direction",
            )

    def law(self, dim: float, directions: int) -> InputLaw:
        """Return the blocks; at a finite dimension with whole multiplicities."""
        # one row of shares is that of all directions
        shape = (directions, len(self.fractions))
        law = InputLaw.of_shares(
            eigenvalues=np.array(self.eigenvalues),
            masses=np.array(self.fractions),
            shares=np.broadcast_to(np.atleast_2d(self.shares), shape),
        )
        return _at_dimension(law, dim)


class PowerLaw(InputForm):
    """Inputs with the eigenvalues j^-exponent, j = 1..K, and the shares (j -
    1/2)^-target_exponent of Var z.

    There are as many atoms as dimensions (400 in the limit) unless `atoms` says how
    many equal blocks there are. A target of r directions has its own axis for each of
    them in every block, so that there are d/r atoms of r equal eigenvalues. Below
    exponent 1/2 the limit is good at any dimension; above, its corrections do not
    vanish (structured_inputs section 8).

    >>> import giantstep as gs
    >>> s = gs.FewSteps(
    ...     target="z",
    ...     steps=1,
    ...     width_per_dim=1.0,
    ...     samples_per_dim=2.0,
    ...     ridge=0.05,
    ...     inputs=PowerLaw(0.4, 0.4, atoms=20),
    ... )
    >>> float(gs.predict(s, what="steps").gamma[1, 0].round(4))
    0.9221
    """

    if TYPE_CHECKING:

        def __init__(
            self, exponent: float, target_exponent: float = ..., atoms: int = ...
        ) -> None: ...

    kind: Literal["power-law"] = "power-law"
    exponent: Number = field("a", "eigenvalues decay like j^-a", ge=0)
    target_exponent: Number = field(
        "b", "shares of the variance of z decay like (j - 1/2)^-b", default=0.0
    )
    atoms: Integer = field(
        "K",
        "number of equal blocks (0: one for each r coordinates, r directions; 400 in"
        " the limit)",
        default=0,
        ge=0,
    )

    def law(self, dim: float, directions: int) -> InputLaw:
        """Return the atoms j^-a with shares (j - 1/2)^-b."""
        if self.atoms:
            count = self.atoms
        elif math.isfinite(dim):
            # r eigenvalues in an atom, so that every direction has an axis there
            count = max(int(dim) // directions, 1)
        else:
            count = LIMIT_ATOMS
        j = np.arange(1.0, count + 1)
        # at the middle of an atom: j^-b would give the first one too little
        shares = (j - 0.5) ** -self.target_exponent
        law = InputLaw.of_shares(
            eigenvalues=j**-self.exponent,
            masses=np.full(count, 1 / count),
            shares=np.broadcast_to(shares, (directions, count)),
        )
        return _at_dimension(law, dim)

    def rank_dim(self, dim: float) -> float:
        """Return the dimension that effective ranks are counted in: the atoms stand for
        it in the limit.
        """
        if math.isinf(dim) and not self.atoms:
            return LIMIT_ATOMS
        return dim


class InputCovariance(InputForm):
    """Gaussian inputs with a given covariance: all d eigenvalues, and the target in
    whitened eigen-coordinates.

    target[a, j] = sqrt(lambda_j) <w*_a, e_j>, rows that are orthonormal: z_a has
    variance 1. `from_data` takes both from a table: the Gaussian twin of its rows.
    Eigenvalues are divided by their mean. `report` says what the limit makes of it.

    >>> import numpy as np
    >>> X = np.random.default_rng(0).standard_normal((500, 20)) * np.linspace(
    ...     2, 0.5, 20
    ... )
    >>> twin = InputCovariance.from_data(X)
      d              20    directions in which inputs vary
      atoms          20    one atom for each eigenvalue
      r_eff          13.8  (tr Sigma)^2/tr Sigma^2; the limit wants 100 or more
      r_4            8.5   (tr Sigma^2)^2/tr Sigma^4; the limit wants 20 or more
      rows           500   inputs of the table
      Var |x|^2      0.88  times that of Gaussian inputs; up to 3 is near
      kurtosis of z  3     3 for Gaussian inputs
    >>> twin.own_dim, round(twin.effective_ranks[0], 1)
    (20, 13.8)
    """

    if TYPE_CHECKING:

        def __init__(self, eigenvalues: ArrayLike, target: ArrayLike) -> None: ...

    kind: Literal["covariance"] = "covariance"
    eigenvalues: ArrayField = field(
        "lambda_j", "all eigenvalues (d), above 0 (they are divided by their mean)"
    )
    target: ArrayField = field(
        "V",
        "the target directions in whitened eigen-coordinates (r, d), orthonormal rows",
    )

    def check(self) -> None:
        """Check shapes and that the whitened directions are orthonormal."""
        eigenvalues = np.asarray(self.eigenvalues)
        target = np.atleast_2d(self.target)
        if eigenvalues.ndim != 1 or len(eigenvalues) < 2 or eigenvalues.min() <= 0:
            raise bad_field(
                "eigenvalues",
                self.eigenvalues,
                "a list of at least two numbers above 0",
            )
        if target.ndim != 2 or target.shape[1] != len(eigenvalues):
            raise bad_field(
                "target",
                self.target,
                f"rows of {len(eigenvalues)} numbers, one for each eigenvalue",
            )
        if np.max(np.abs(target @ target.T - np.eye(len(target)))) > MOST_CORRELATION:
            raise bad_field(
                "target",
                self.target,
                "orthonormal rows: W* Sigma W*^T must be the identity",
            )

    @classmethod
    def from_data(
        cls,
        X: ArrayLike,
        target_direction: ArrayLike | None = None,
        *,
        show: bool = True,
    ) -> Self:
        """Return the Gaussian twin of the rows of a table (N, d), and print how near
        the rows are to it.

        What is printed is `InputRows.report`: effective ranks, and the tests of
        structured_inputs, section 13.

        Parameters
        ----------
        X : the table; columns are centred, everything is divided by one number,
            directions without variance are left out.
        target_direction : w* in the columns of the table, (d,) or (r, d), normalised to
            Var z = 1; left out: the same share of the variance of z on every
            eigenvector of the leading half, with fixed random signs.
        show : print the report.
        """
        table = diagonalise(X)
        target = whitened_target(table, target_direction)
        twin = cls(table.eigenvalues, target)
        if show:
            print(twin.report(RowTests.of_table(table, target)))
        return twin

    def report(self, tests: RowTests | None = None) -> str:
        """Return a table of effective ranks, and of the tests of rows where some are
        given.
        """
        return describe_inputs(self._law_of_limit(), tests)

    @property
    def effective_ranks(self) -> tuple[float, float]:
        """(tr Sigma)^2/tr Sigma^2 and (tr Sigma^2)^2/tr Sigma^4; the limit wants more
        than 100 and 20.
        """
        second, fourth = self._law_of_limit().effective_ranks()
        return second * self.own_dim, fourth * self.own_dim

    def _law_of_limit(self) -> InputLaw:
        """Return the law for a target of as many directions as are described here."""
        return self.law(math.inf, len(np.atleast_2d(self.target)))

    def check_directions(self, directions: int) -> None:
        """Refuse another number of directions."""
        if len(np.atleast_2d(self.target)) != directions:
            raise bad_field(
                "target",
                self.target,
                f"{directions} rows, one for each direction of the target",
            )

    def law(self, dim: float, directions: int) -> InputLaw:
        """Return one atom for each eigenvalue."""
        target = np.atleast_2d(self.target)
        count = self.own_dim
        if math.isfinite(dim) and dim != count:
            raise bad_field(
                "dim", int(dim), f"{count}, the dimension of the given covariance"
            )
        moments = np.einsum("aj,bj->jab", target, target)
        return InputLaw.normalised(
            np.asarray(self.eigenvalues), np.full(count, 1 / count), moments
        )

    @property
    def own_dim(self) -> int:
        """Number of eigenvalues."""
        return len(self.eigenvalues)


class InputRows(InputForm):
    """Real inputs: the rows of a table (N, columns). The limit is that of Gaussian
    inputs of the same covariance.

    `inputs=X` in a scenario means ``InputRows(X)``. Columns are centred and all divided
    by one number; the experiment takes its batches, its samples of the fit and its test
    from different random rows, with labels planted on them. `target` is w* in the
    columns of the table (r, columns), scaled to Var z = 1; left out: the same share of
    Var z on every eigenvector of the leading half. `covariance()` is the Gaussian twin.

    >>> import numpy as np
    >>> X = np.random.default_rng(0).exponential(size=(600, 20)) * np.linspace(
    ...     2, 0.5, 20
    ... )
    >>> print(InputRows(X).report())
      d              20    directions in which inputs vary
      atoms          20    one atom for each eigenvalue
      r_eff          13.7  (tr Sigma)^2/tr Sigma^2; the limit wants 100 or more
      r_4            8.7   (tr Sigma^2)^2/tr Sigma^4; the limit wants 20 or more
      rows           600   inputs of the table
      Var |x|^2      4.1   times that of Gaussian inputs; up to 3 is near
      kurtosis of z  4     3 for Gaussian inputs
    """

    if TYPE_CHECKING:

        def __init__(self, rows: ArrayLike, target: ArrayLike = ...) -> None: ...

    kind: Literal["rows"] = "rows"
    rows: ArrayField = field("x_i", "one row for each input (N, columns)")
    target: ArrayField = field(
        "w*",
        "target directions in the columns (r, columns), up to scale",
        default=EMPTY,
    )

    def check(self) -> None:
        """Check the table and that its target has a direction in which rows vary."""
        count, columns = self.table().rows.shape
        if self.target.shape in ((count,), (count, 1), (1, count)) and count != columns:
            raise field_error(
                "target",
                "Field `{field}` must be directions w* in the columns of the table"
                f" ({columns} numbers each), but is {count} numbers, one for each row:"
                f" {PLANTED_LABELS}.",
            )
        self.whitened_target()

    @functools.cached_property
    def _table(self) -> InputTable:
        return diagonalise(np.asarray(self.rows), "rows")

    def table(self) -> InputTable:
        """Return the rows in the eigenbasis of their covariance."""
        return self._table

    def whitened_target(self) -> Floats:
        """Return the target directions in whitened eigen-coordinates (r, d)."""
        # an empty array is a target that is left out
        direction = np.asarray(self.target) if self.target.size else None
        return whitened_target(self.table(), direction, "target")

    def covariance(self) -> InputCovariance:
        """Return Gaussian inputs of the same covariance with the same target: the
        Gaussian twin.
        """
        return InputCovariance(self.table().eigenvalues, self.whitened_target())

    def row_tests(self) -> RowTests:
        """Return what tells the rows from Gaussian inputs of the same covariance:
        structured_inputs, section 13.
        """
        return RowTests.of_table(self.table(), self.whitened_target())

    def norm_excess(self) -> float:
        """Return Var(|x|^2/d) over its value for Gaussian inputs, 2 int lambda^2
        dmu/d.
        """
        return self.row_tests().norm_excess

    def report(self) -> str:
        """Return how far the rows are from what the limit assumes, structured_inputs
        sections 8 and 13.
        """
        return self.covariance().report(self.row_tests())

    def check_directions(self, directions: int) -> None:
        """Refuse another number of directions."""
        self.covariance().check_directions(directions)

    def law(self, dim: float, directions: int) -> InputLaw:
        """Return one atom for each eigenvalue."""
        return self.covariance().law(dim, directions)

    @property
    def own_dim(self) -> int:
        """Number of directions in which the rows vary."""
        return len(self.table().eigenvalues)


def _at_dimension(law: InputLaw, dim: float) -> InputLaw:
    """Return a law at a finite dimension with whole multiplicities; as it is at inf."""
    if math.isinf(dim):
        return law
    return law.at_dimension(int(dim))


def _as_inputs(value: Any) -> Any:
    """Return a table of numbers as its rows."""
    if getattr(value, "ndim", 0) == 2:
        return InputRows(value)
    return value


Inputs = Annotated[
    Annotated[
        InputBlocks | PowerLaw | InputCovariance | InputRows, Discriminator("kind")
    ],
    BeforeValidator(_as_inputs),
]
"""How the covariance of the inputs is given; a table of numbers is `InputRows`."""


def _as_whitening(value: Any) -> Any:
    """Return a named preconditioner as its power."""
    if not isinstance(value, str):
        return value
    if value not in _WHITENINGS:
        raise ValueError(
            '"none", "whitened" or a number c (the steps are multiplied by Sigma^-c)'
        )
    return _WHITENINGS[value]


_WHITENINGS = {"none": 0.0, "whitened": 1.0}
Whitening = Annotated[Number, BeforeValidator(_as_whitening)]
"""A number c, or its name: the steps are multiplied by F = Sigma^-c."""

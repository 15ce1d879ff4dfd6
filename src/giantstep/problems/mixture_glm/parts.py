"""The value objects of `MixtureGLM`: how the covariances of the clusters are given, and
a dataset.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BeforeValidator, Discriminator

from giantstep.core.base.errors import bad_field
from giantstep.core.base.types import Floats
from giantstep.core.scenario.arrays import ArrayField, FrozenArray
from giantstep.core.scenario.fields import Numbers, field
from giantstep.core.scenario.model import Checked, Part
from giantstep.problems.mixture_glm.ridge_curve import singular_rows
from giantstep.problems.mixture_glm.tolerances import PSD_TOLERANCE

EMPTY = FrozenArray([])
MARGIN_LOSSES = ("logistic", "hinge", "maxmargin")
"""Losses of y z, which need labels 1 and -1."""


class CovarianceForm(Part):
    """One way to give the covariances of the clusters; some bring their own teacher and
    means.
    """

    @property
    def clusters(self) -> int:
        """Number of clusters described."""
        return len(self.mean_eigenvalues)

    @property
    def mean_eigenvalues(self) -> Floats:
        """Mean eigenvalue tr Sigma_c/d of each cluster."""
        raise NotImplementedError

    @property
    def has_teacher(self) -> bool:
        """Whether it brings the teacher, as a vector, a mean square in each block, or
        covariances with the inputs.
        """
        return any(
            len(getattr(self, name, ())) for name in ("teacher", "moments", "cross")
        )


class Isotropic(CovarianceForm):
    """Covariances Sigma_c = s_c I, one number s_c for each cluster.

    >>> Isotropic([0.2, 1.8])
    Isotropic(values=(0.2, 1.8))
    """

    def __init__(self, *values: Any, **fields: Any) -> None:
        super().__init__(*values, **fields)

    kind: Literal["isotropic"] = "isotropic"
    values: Numbers = field(
        "s_c",
        "variance in every direction, one number for each cluster",
        default=(1.0,),
    )

    def check(self) -> None:
        """Check that there are variances."""
        allowed = "a list of numbers, at least 0 each, one for each cluster"
        refuse(self, (min(self.values, default=-1) < 0, "values", allowed))

    @property
    def mean_eigenvalues(self) -> Floats:
        """Mean eigenvalue tr Sigma_c/d of each cluster."""
        return np.array(self.values)

    def as_blocks(self) -> Blocks:
        """Return the same covariances as one block."""
        return Blocks([1.0], np.array(self.values)[:, None])


class Blocks(CovarianceForm):
    """Covariances that are diagonal in one basis: a fraction weights[k] of the
    coordinates has variance values[c][k].

    The teacher has mean square teacher[k] in block k (teacher_norm everywhere if left
    out), the means have the Gram matrix sum_k weights[k] means[k] and the products with
    the teacher sum_k weights[k] teacher_means[k] (mean_gram and teacher_means of the
    scenario spread evenly if left out). `moments` gives instead, for each block, the
    whole second moment of a coordinate of (s_1..s_K, sqrt(d) mu_1..mu_K), s_c = sqrt(d)
    Cov_c(nu, x), with `teacher_variance` = Var_c(nu). With an l1 penalty `law` says
    whether these coordinates are Gaussian or one fixed vector in each block.

    >>> import giantstep as gs
    >>> s = gs.MixtureGLM(
    ...     covariances=Blocks([0.25, 0.75], [[2.0, 0.5]], teacher=[4.0, 0.0]),
    ...     noise=0.2,
    ...     l1=0.3,
    ...     samples_per_dim=0.8,
    ... )
    >>> round(gs.predict(s).nonzero.item(), 4)  # fraction of weights the lasso keeps
    0.3865
    """

    def __init__(self, *values: Any, **fields: Any) -> None:
        super().__init__(*values, **fields)

    kind: Literal["blocks"] = "blocks"
    weights: Numbers = field(
        "pi_k", "fraction of the coordinates in each block; they sum to one"
    )
    values: ArrayField = field(
        "sigma_ck", "variance of cluster c in block k, one row for each cluster"
    )
    teacher: Numbers = field(
        "theta_k^2", "mean square of the teacher in each block", default=()
    )
    means: ArrayField = field(
        "M_k", "Gram matrix of the means in each block (blocks, K, K)", default=EMPTY
    )
    teacher_means: ArrayField = field(
        "tau_kc",
        "products of teacher and means in each block (blocks, K)",
        default=EMPTY,
    )
    moments: ArrayField = field(
        "G_k",
        "second moments of (s_c, sqrt(d) mu_c) in each block (blocks, 2K, 2K)",
        default=EMPTY,
    )
    teacher_variance: Numbers = field(
        "rho_c",
        "variance of the teacher field in each cluster, with moments",
        default=(),
    )
    law: Literal["gaussian", "fixed"] = field(
        "law",
        "with an l1 penalty: coordinates are Gaussian, or one fixed vector in each"
        " block",
        default="gaussian",
    )

    def check(self) -> None:
        """Check shapes, weights and that every second moment is one."""
        check_fractions(self.weights)
        blocks = len(self.weights)
        values = np.asarray(self.values)
        rows = f"rows of {blocks} numbers (one for each block), a row per cluster"
        refuse(self, (values.ndim != 2 or values.shape[1] != blocks, "values", rows))
        if values.min() < 0:
            raise bad_field("values", float(values.min()), "at least 0 in every place")
        count = self.clusters
        teacher = self.teacher
        bad = teacher and (len(teacher) != blocks or min(teacher) < 0)
        refuse(
            self,
            (bad, "teacher", f"{blocks} numbers of at least 0, one for each block"),
        )
        moments = (blocks, 2 * count, 2 * count)
        check_shapes(
            self,
            means=(blocks, count, count),
            teacher_means=(blocks, count),
            moments=moments,
        )
        for name in ("means", "moments"):
            if getattr(self, name).size:
                check_symmetric_psd(name, np.asarray(getattr(self, name)))
        if has_covariate_model(self, "moments", ("teacher", "means", "teacher_means")):
            squares = np.diagonal(np.asarray(self.moments), axis1=1, axis2=2)[
                :, :count
            ].T * np.array(self.weights)
            check_teacher_variance(self.teacher_variance, squares, values)

    @property
    def mean_eigenvalues(self) -> Floats:
        """Mean eigenvalue tr Sigma_c/d of each cluster."""
        return np.asarray(self.values) @ np.array(self.weights)

    def overlaps(
        self, teacher_norm: float, tau: Floats, gram: Floats
    ) -> Iterator[tuple[float, Floats, Floats]]:
        """Yield, of each block, mean square of the teacher, products with the means,
        and their Gram matrix.
        """
        for k in range(len(self.weights)):
            own = self.teacher[k] if self.teacher else teacher_norm
            if self.teacher_means.size:
                products = np.asarray(self.teacher_means)[k]
            else:
                products = tau
            yield own, products, np.asarray(self.means)[k] if self.means.size else gram


class Dense(CovarianceForm):
    """Arbitrary covariance matrices, one d-by-d matrix for each cluster; the limit is
    that of large d.

    `means` are the vectors mu_c (K, d), `teacher` is theta0 (d), of norm about sqrt(d);
    the scenario's mean_gram, teacher_norm and teacher_means follow from them and are
    left out. Without vectors, teacher and means lie in directions drawn at random.
    `cross` (K, d) replaces s_c = Sigma_c theta0 by sqrt(d) Cov_c(nu, x), with
    `teacher_variance` = Var_c(nu): the Gaussian covariate model.

    >>> import numpy as np
    >>> import giantstep as gs
    >>> s = gs.MixtureGLM(
    ...     covariances=Dense([np.eye(20)]),
    ...     labels="linear",
    ...     noise=0.3,
    ...     ridge=0.5,
    ...     samples_per_dim=1.5,
    ... )
    >>> plain = s.replace(covariances=gs.Isotropic([1.0]))
    >>> bool(abs(gs.predict(s).test_mse - gs.predict(plain).test_mse) < 1e-10)
    True
    """

    def __init__(self, *values: Any, **fields: Any) -> None:
        super().__init__(*values, **fields)

    kind: Literal["dense"] = "dense"
    matrices: ArrayField = field(
        "Sigma_c", "covariance matrix of each cluster (K, d, d)"
    )
    means: ArrayField = field("mu_c", "mean of each cluster (K, d)", default=EMPTY)
    teacher: ArrayField = field(
        "theta0", "teacher vector (d), norm about sqrt(d)", default=EMPTY
    )
    cross: ArrayField = field(
        "s_c",
        "sqrt(d) times the covariance of teacher field and inputs (K, d)",
        default=EMPTY,
    )
    teacher_variance: Numbers = field(
        "rho_c", "variance of the teacher field in each cluster, with cross", default=()
    )

    def check(self) -> None:
        """Check shapes and that the matrices are covariances."""
        matrices = np.asarray(self.matrices)
        if (
            matrices.ndim != 3
            or matrices.shape[1] != matrices.shape[2]
            or not matrices.size
        ):
            raise bad_field(
                "matrices",
                self.matrices,
                f"of shape K x d x d, not {self.matrices.shape}",
            )
        count, dim = matrices.shape[:2]
        check_symmetric_psd("matrices", matrices)
        check_shapes(self, means=(count, dim), teacher=(dim,), cross=(count, dim))
        if has_covariate_model(self, "cross", ("teacher",)):
            values, axes = np.linalg.eigh(matrices)
            along = np.einsum("cij,ci->cj", axes, np.asarray(self.cross))
            check_teacher_variance(
                self.teacher_variance, along**2 / dim, np.maximum(values, 0.0)
            )

    @property
    def dim(self) -> int:
        """Dimension of the matrices."""
        return int(self.matrices.shape[1])

    @property
    def mean_eigenvalues(self) -> Floats:
        """Mean eigenvalue tr Sigma_c/d of each cluster."""
        return np.trace(np.asarray(self.matrices), axis1=1, axis2=2) / self.dim


class Spiked(CovarianceForm):
    """One cluster with covariance diag(values) + sum_j strengths[j] u_j u_j^T, u_j
    orthonormal; blocks as in `Blocks`.

    The spikes point in directions of their own: teacher_alignment[j] = <u_j,
    theta0>/sqrt(d) and mean_alignment[j] = <u_j, mu> say how far they share those of
    the teacher and of the mean.

    >>> import giantstep as gs
    >>> s = gs.MixtureGLM(
    ...     covariances=Spiked([4.0], teacher_alignment=[0.8]),
    ...     noise=0.3,
    ...     ridge=0.5,
    ...     samples_per_dim=1.5,
    ... )
    >>> round(gs.predict(s).test_mse.item(), 4)
    0.5826
    """

    def __init__(self, *values: Any, **fields: Any) -> None:
        super().__init__(*values, **fields)

    kind: Literal["spiked"] = "spiked"
    strengths: Numbers = field("l_j", "size of each spike of the covariance, above 0")
    teacher_alignment: Numbers = field(
        "<u_j,theta0>/sqrt(d)", "overlap of each spike with the teacher", default=()
    )
    mean_alignment: Numbers = field(
        "<u_j,mu>", "overlap of each spike with the mean", default=()
    )
    weights: Numbers = field(
        "pi_k",
        "fraction of the coordinates in each block; they sum to one",
        default=(1.0,),
    )
    values: Numbers = field(
        "sigma_k", "variance in each block, without the spikes", default=(1.0,)
    )

    def check(self) -> None:
        """Check lengths and signs."""
        spikes = len(self.strengths)
        blocks = len(self.weights)
        refuse(
            self,
            (
                min(self.strengths, default=0) <= 0,
                "strengths",
                "a list of numbers above 0",
            ),
        )
        for name in ("teacher_alignment", "mean_alignment"):
            refuse(
                self,
                (
                    len(getattr(self, name)) not in (0, spikes),
                    name,
                    f"{spikes} numbers, one for each spike",
                ),
            )
        check_fractions(self.weights)
        bad = len(self.values) != blocks or min(self.values) < 0
        refuse(self, (bad, "values", f"{blocks} numbers of at least 0, one per block"))

    @property
    def mean_eigenvalues(self) -> Floats:
        """Mean eigenvalue tr Sigma/d, to which finitely many spikes add nothing."""
        return np.array([np.dot(self.weights, self.values)])

    @property
    def along(self) -> Floats:
        """Overlaps of the spikes with the teacher and with the mean (2, J), 0 where
        they are left out.
        """
        none = (0.0,) * len(self.strengths)
        return np.array([self.teacher_alignment or none, self.mean_alignment or none])


def _as_covariances(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.ndim == 1:
        value = value.tolist()
    if (
        isinstance(value, list | tuple)
        and value
        and all(isinstance(item, int | float | np.number) for item in value)
    ):
        return Isotropic(value)
    return value


Covariances = Annotated[
    Annotated[Isotropic | Blocks | Dense | Spiked, Discriminator("kind")],
    BeforeValidator(_as_covariances),
]
"""How the covariances are given; a plain list of numbers is `Isotropic`."""


class Dataset(Part):
    """Rows of a real dataset: `inputs` (N, d) and `labels` (N); experiments train on
    random rows, test on the rest.

    `samples_per_dim` then counts rows per column: n = round(samples_per_dim * d) of the
    N rows are fitted.

    >>> import numpy as np
    >>> import giantstep as gs
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 10))
    >>> s = gs.MixtureGLM.from_data(X, X[:, 0] + rng.standard_normal(200), ridge=1.0)
    >>> s.data.inputs.shape
    (200, 10)
    """

    def __init__(self, *values: Any, **fields: Any) -> None:
        super().__init__(*values, **fields)

    inputs: ArrayField = field("x_i", "one row for each sample (N, d)")
    labels: ArrayField = field("y_i", "label of each row (N)")

    def check(self) -> None:
        """Check that every row has a label."""
        inputs = np.asarray(self.inputs)
        labels = np.asarray(self.labels)
        table = f"a table with rows and columns, not of shape {inputs.shape}"
        refuse(self, (inputs.ndim != 2 or not inputs.size, "inputs", table))
        refuse(
            self,
            (
                labels.shape != inputs.shape[:1],
                "labels",
                f"{len(inputs)} numbers, one for each row of inputs",
            ),
            (len(inputs) < 2, "inputs", "a table of at least 2 rows"),
        )

    @cached_property
    def singular_rows(self) -> tuple[Floats, Floats, int]:
        """The inputs by their singular vectors, on which every ridge fit rests."""
        return singular_rows(np.asarray(self.inputs))

    @property
    def dim(self) -> int:
        """Number of columns."""
        return int(self.inputs.shape[1])

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.inputs.shape[0])


# -- checks ----------------------------------------------------------------------------


def refuse(whole: Checked, *rules: tuple[Any, str, str]) -> None:
    """Raise for the first rule that is broken: (whether it is, the field, what is
    allowed).
    """
    for broken, name, allowed in rules:
        if broken:
            value = getattr(whole, name)
            raise bad_field(
                name, list(value) if isinstance(value, tuple) else value, allowed
            )


def check_psd(name: str, value: Any, matrices: Floats, what: str = "") -> None:
    """Refuse symmetric matrices (..., n, n) that are not positive semidefinite, to a
    relative 1e-9.
    """
    smallest = float(np.linalg.eigvalsh(matrices).min(initial=math.inf))
    if smallest < -PSD_TOLERANCE * max(1.0, float(np.abs(matrices).max(initial=0.0))):
        raise bad_field(
            name,
            value,
            f"{what}positive semidefinite (its smallest eigenvalue is {smallest:.3g})",
        )


def joint_gram(teacher_norm: float, tau: Floats, gram: Floats) -> Floats:
    """Return the Gram matrix [[teacher_norm, tau], [tau, gram]] of the teacher and the
    means.
    """
    return np.block([[np.array([[teacher_norm]]), tau[None]], [tau[:, None], gram]])


def check_fractions(weights: Sequence[float]) -> None:
    """Refuse fractions of the coordinates that are none."""
    if min(weights, default=0) <= 0 or not math.isclose(
        sum(weights), 1.0, abs_tol=1e-9
    ):
        raise bad_field("weights", list(weights), "above 0 and sum to one")


def check_shapes(part: Part, **shapes: tuple[int, ...]) -> None:
    """Refuse arrays of another shape, unless they were left out."""
    for name, shape in shapes.items():
        array = getattr(part, name)
        if array.size and array.shape != shape:
            raise bad_field(
                name, array, f"of shape {'x'.join(map(str, shape))}, not {array.shape}"
            )


def has_covariate_model(
    part: Blocks | Dense, name: str, instead_of: Sequence[str]
) -> bool:
    """Tell whether `name` gives the covariances of teacher field and inputs; check that
    the rest fits to it.
    """
    variance = list(part.teacher_variance)
    if not getattr(part, name).size:
        if variance:
            raise bad_field(
                "teacher_variance", variance, f"left out unless `{name}` is given"
            )
        return False
    for other in instead_of:
        if len(getattr(part, other)):
            raise bad_field(
                other, getattr(part, other), f"left out where `{name}` is given"
            )
    if len(variance) != part.clusters:
        raise bad_field(
            "teacher_variance",
            variance,
            f"{part.clusters} numbers, one per cluster, with {name}",
        )
    return True


def check_symmetric_psd(name: str, matrices: Floats) -> None:
    """Refuse matrices that are not symmetric or not positive semidefinite, to a
    relative 1e-9.
    """
    scale = max(1.0, float(np.abs(matrices).max(initial=0.0)))
    if (
        np.abs(matrices - np.swapaxes(matrices, -1, -2)).max(initial=0.0)
        > PSD_TOLERANCE * scale
    ):
        raise bad_field(name, FrozenArray(matrices), "symmetric")
    check_psd(name, FrozenArray(matrices), matrices)


def check_teacher_variance(
    variance: Sequence[float], squares: Floats, values: Floats
) -> None:
    """Refuse variances rho_c of the teacher field below s_c Sigma_c^-1 s_c/d, what the
    inputs alone explain of it.

    `squares` (K, k) are the squares of s_c/sqrt(d) along the axes of Sigma_c, `values`
    (K, k) the variances there.
    """
    tiny = 1e-10 * np.maximum(values.max(axis=1, keepdims=True), 1e-300)
    explained = (squares / (values + tiny)).sum(axis=1)
    if np.any(explained > np.array(variance) * (1 + 1e-6)):
        raise bad_field(
            "teacher_variance",
            list(variance),
            "at least what the covariances with the inputs explain,"
            f" {[float(f'{value:.6g}') for value in explained]}",
        )

"""The scenario of convex learning on Gaussian mixtures: data, labels, loss and penalty,
said once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from inspect import cleandoc
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
import pydantic
from pydantic import BeforeValidator, WithJsonSchema

from giantstep.core.base.errors import InputError, bad_field
from giantstep.core.base.types import Array, Floats, Points
from giantstep.core.maths.gaussian import Function, as_function
from giantstep.core.scenario.arrays import ArrayField
from giantstep.core.scenario.dimensions import Dimension
from giantstep.core.scenario.family import (
    Baseline,
    Engine,
    PhaseDiagram,
    Question,
    Setting,
    Variable,
)
from giantstep.core.scenario.fields import Expression, Number, Numbers, field
from giantstep.core.scenario.model import Scenario
from giantstep.core.scenario.paper_symbols import Paper, notation_of
from giantstep.problems.mixture_glm.mixture import GaussianMixture, describe
from giantstep.problems.mixture_glm.parts import (
    EMPTY,
    MARGIN_LOSSES,
    Blocks,
    CovarianceForm,
    Covariances,
    Dataset,
    Dense,
    Isotropic,
    Spiked,
    check_symmetric_psd,
    refuse,
)
from giantstep.problems.mixture_glm.problem import MixtureProblem
from giantstep.problems.mixture_glm.separability import check_existence

_SamplesPerDim = Annotated[float, "n/d"]
_Ridge = Annotated[float, "penalty lambda/2 |w|^2 beside the sum of losses"]
_Clusters = Annotated[Sequence[float], "probabilities of the clusters"]
_Noise = Annotated[float, "variance of the label noise"]
_Teacher = Annotated[
    float, "squared length of the teacher (gamma = k/d is absorbed in it)"
]


def _pesce2023gaussian(
    *, alpha: _SamplesPerDim, lambda_: _Ridge, p: _Clusters, Delta: _Noise
) -> dict[str, Any]:
    """Pesce et al. 2023 have our normalisation."""
    return {"samples_per_dim": alpha, "ridge": lambda_, "weights": p, "noise": Delta}


def _loureiro2021learning(
    *, alpha: _SamplesPerDim, lambda_: _Ridge, rho: _Teacher, Delta: _Noise
) -> dict[str, Any]:
    """Loureiro et al. 2021, of feature maps: one cluster, a teacher of its own
    length.
    """
    return {
        "samples_per_dim": alpha,
        "ridge": lambda_,
        "teacher_norm": rho,
        "noise": Delta,
    }


def _clusters_rho(
    *, alpha: _SamplesPerDim, lambda_: _Ridge, rho: _Clusters
) -> dict[str, Any]:
    """Loureiro et al. 2021, of mixtures, and Gerace et al. 2024 have our
    normalisation.
    """
    return {"samples_per_dim": alpha, "ridge": lambda_, "weights": rho}


PAPERS = {
    "pesce2023gaussian": Paper(_pesce2023gaussian, shown={"weights": "p_c"}),
    "loureiro2021learning": Paper(
        _loureiro2021learning,
        shown={
            "teacher_norm": "rho (gamma = k/d is absorbed in the teacher)",
            "h": "-",
        },
    ),
    "loureiro2021mixtures": Paper(
        _clusters_rho,
        shown={
            "weights": "rho_k",
            "h": "m_k",
            "V": "V_k",
            "q": "q_k",
            "b": "b*",
            "noise": "-",
        },
    ),
    "gerace2024gaussian": Paper(_clusters_rho, shown={"weights": "rho_c"}),
}
"""BibTeX key -> the parameters of that paper in its symbols (mixture_glm section
11).
"""
REAL_LABELS = {"linear": "z", "phase": "abs(z)", "square": "z**2"}
"""Names of labels that are real numbers, as functions of the teacher field."""
BINARY_LABELS = ("sign", "logit", "cluster", "random")
"""Names of labels that are 1 or -1."""
OF_DATA = ("gcv", "plug-in")
"""Theories that read a dataset rather than Gaussians fitted to its classes."""
ASK_INSTEAD = (
    "on a table ask gs.compare for its errors, which runs the Gaussian twin and splits"
    " the gap; what one Gaussian in place of a mixture changes is asked of a scenario"
    " without `data` whose labels come from a teacher"
)
"""What to ask of a table in place of universality, which compares Gaussian mixtures."""
REFERENCES = ("matched", "within")
"""The Gaussian with the mixture's mean and covariance; the centred one with the mean
covariance of its clusters.
"""


def _as_labels(value: Any) -> Any:
    names = (*REAL_LABELS, *BINARY_LABELS)
    if not isinstance(value, str):
        return as_function(value)
    try:
        return value if value in names else as_function(value)
    except ValueError as error:
        raise ValueError(
            f"one of {', '.join(names)}, or an expression in z ({error})"
        ) from None


Labels = Annotated[
    Literal["linear", "phase", "square", "sign", "logit", "cluster", "random"]
    | Expression,
    BeforeValidator(_as_labels),
    WithJsonSchema(
        {
            "type": "string",
            "description": "a name, or an expression in the teacher field z",
        }
    ),
]
"""A name of `REAL_LABELS` or `BINARY_LABELS`, or f0 of the teacher field: y = f0(nu) +
sqrt(noise) N(0,1).
"""

_TEST_LABELS = Setting(
    "noisy",
    "test on labels as they are, or on labels without noise and flips",
    choices=("noisy", "clean"),
)
_LIMIT: tuple[Engine, ...] = ("limit",)
_NO_GCV = "it is defined for the square loss without l1"
_NO_SAMPLES = "there are no samples of this cluster"
_BY_CLUSTER = (
    Variable(
        "test_error_by_cluster",
        ("cluster",),
        "P_c(y w<0)",
        "test_error in each cluster",
    ),
    Variable(
        "test_mse_by_cluster", ("cluster",), "E_c(y - w)^2", "test_mse in each cluster"
    ),
    Variable(
        "test_loss_by_cluster", ("cluster",), "E_c l(y, w)", "test_loss in each cluster"
    ),
    Variable(
        "train_loss_by_cluster",
        ("cluster",),
        "E_c l(y, P)",
        "train_loss in each cluster (NaN: no samples of it)",
        partial=True,
        absent=_NO_SAMPLES,
    ),
    Variable(
        "train_error_by_cluster",
        ("cluster",),
        "P_c(y P<0)",
        "train_error in each cluster (NaN: no samples)",
        partial=True,
        counted=True,
        absent=_NO_SAMPLES,
    ),
)
_OBSERVABLES = (
    Variable(
        "test_error",
        (),
        "E(y - w)^2 or P(y w<0)",
        "mean squared error on fresh samples, label noise included; "
        "with classes the misclassified fraction of fresh samples",
    ),
    Variable(
        "test_mse",
        (),
        "E(y - w)^2",
        "mean squared error on fresh samples, label noise included",
    ),
    Variable(
        "test_loss",
        (),
        "E l(y, w)",
        "loss on fresh samples (interpolate: square, maxmargin: hinge)",
    ),
    Variable(
        "train_loss",
        (),
        "E l(y, P)",
        "loss on the training samples, without the penalty",
    ),
    Variable(
        "train_error",
        (),
        "E(y - P)^2 or P(y P<0)",
        "mean squared error on the training samples; "
        "with classes the misclassified fraction of the training samples",
        counted=True,
    ),
)
_ERRORS = (
    *_OBSERVABLES,
    Variable(
        "objective",
        (),
        "e/alpha",
        "loss plus penalty per sample; interpolate and maxmargin: |w|^2/(2n)",
    ),
    Variable(
        "V",
        ("cluster",),
        "V_c",
        "response tr(Sigma_c A^-1)/d of the prediction to its own label (interpolate, "
        "maxmargin: lambda V)",
        engines=_LIMIT,
    ),
    Variable(
        "q",
        ("cluster",),
        "q_c",
        "variance w.Sigma_c w/d of the prediction in each cluster",
    ),
    Variable(
        "m",
        ("cluster",),
        "m_c",
        "covariance <s_c,w>/d of prediction and teacher field in each cluster",
    ),
    Variable(
        "h",
        ("cluster",),
        "h_c",
        "mean <mu_c,w>/sqrt(d) of the prediction in each cluster, without intercept",
    ),
    Variable("b", (), "b", "intercept (0 where none is fitted)"),
    Variable("norm", (), "r = |w|^2/d", "squared length of the weights per dimension"),
    Variable(
        "nonzero",
        (),
        "|{j: w_j != 0}|/d",
        "fraction of the weights that are not zero (1 without l1)",
    ),
    Variable(
        "gcv",
        (),
        "2 train/(1 - tr H/n)^2",
        "generalised cross-validation of the square loss: the test_mse it "
        "estimates (NaN for other losses)",
        compared=False,
        absent=_NO_GCV,
    ),
    Variable(
        "suboptimality",
        (),
        "1 - e_min/e",
        "how far the objective of the fit can be above the smallest one, "
        "relative to it",
        engines=("experiment",),
        compared=False,
    ),
    *_BY_CLUSTER,
)
_UNIVERSALITY = tuple(
    Variable(
        v.name,
        ("reference",),
        " or ".join(f"gap of {symbol}" for symbol in v.symbol.split(" or ")),
        "; with classes ".join(
            f"mixture minus reference: {text}"
            for text in v.meaning.split("; with classes ")
        ),
    )
    for v in _OBSERVABLES
)
_THRESHOLDS = (
    Variable(
        "alpha_c",
        (),
        "alpha_c",
        "samples per dimension up to which the two classes can be separated",
        engines=_LIMIT,
    ),
    Variable(
        "kappa",
        (),
        "kappa = 1/sqrt(r)",
        "largest margin of this many samples (0 where not separable)",
    ),
    Variable(
        "separable",
        (),
        "P(kappa > 0)",
        "fraction of the draws whose classes can be separated",
        engines=("experiment",),
        compared=False,
    ),
)
_MARGINS = (
    Variable(
        "test_cdf",
        ("x",),
        "P(y w <= x)",
        "law of the margin y w of fresh samples (real labels: of y - w)",
    ),
    Variable(
        "train_cdf",
        ("x",),
        "P(y P <= x)",
        "law of the margin of the training samples (real labels: of y - P)",
    ),
    Variable(
        "test_density",
        ("x",),
        "p(x)",
        "density of the margin of fresh samples",
        engines=_LIMIT,
    ),
    Variable(
        "train_density",
        ("x",),
        "p(x)",
        "density of the training margin; without its atom at 1, whose mass is "
        "`on_margin`",
        engines=_LIMIT,
    ),
    Variable(
        "on_margin",
        (),
        "P(y P = 1)",
        "fraction of the training samples exactly on the margin (hinge, maxmargin)",
    ),
    Variable(
        "support_vectors",
        (),
        "P(l' != 0)",
        "fraction of the training samples that push on the weights (hinge "
        "and maxmargin: y w < 1 before the fit)",
    ),
)


_ACROSS = {"sign": ("noise", (0.0, 3.0)), "logit": ("teacher_norm", (0.05, 25.0))}
_FLIP = ("flip", (0.0, 0.4))
"""Labels -> the field that alone makes separable classes inseparable, and its range; a
flipped label does for all.
"""


def _separable(lines: Mapping[str, Floats], samples_per_dim: Floats) -> Array:
    """Name the side of the separability threshold; where that is infinite the classes
    are always separable.
    """
    return np.where(
        samples_per_dim[:, None] < lines["alpha_c"], "separable", "not separable"
    )


def _own_gram(parts: CovarianceForm) -> Floats | None:
    """Return the Gram matrix of the means where the covariances bring them."""
    if isinstance(parts, Dense) and parts.means.size:
        return np.asarray(parts.means) @ np.asarray(parts.means).T
    if isinstance(parts, Blocks) and parts.means.size:
        return np.einsum("k,kab->ab", parts.weights, np.asarray(parts.means))
    if isinstance(parts, Blocks) and parts.moments.size:
        return np.einsum("k,kab->ab", parts.weights, np.asarray(parts.moments))[
            parts.clusters :, parts.clusters :
        ]
    return None


def _own_tau(parts: CovarianceForm) -> Floats | None:
    """Return the products of teacher and means where the covariances bring them."""
    if isinstance(parts, Dense) and parts.means.size and parts.teacher.size:
        return (
            np.asarray(parts.means) @ np.asarray(parts.teacher) / math.sqrt(parts.dim)
        )
    if isinstance(parts, Blocks) and parts.teacher_means.size:
        return np.array(parts.weights) @ np.asarray(parts.teacher_means)
    return None


class MixtureGLM(Scenario):
    """A generalised linear estimator on Gaussian-mixture inputs, with labels from a
    teacher, the cluster or a coin.

    Cluster c has probability weights[c]; x ~ N(mu_c, Sigma_c) in R^d, |mu_c| = O(1).
    The teacher field is nu = <theta0, x>/sqrt(d). The estimator minimises sum_i
    loss(y_i, <w, x_i>/sqrt(d) + b) + (ridge/2)|w|^2 + l1 |w|_1 over n =
    samples_per_dim * d samples. The limit is d -> inf; only the overlaps of teacher and
    means enter: ``mean_gram`` = <mu_c, mu_c'>, ``teacher_means`` = <mu_c,
    theta0>/sqrt(d), ``teacher_norm`` = |theta0|^2/d.

    A cluster of weight 0 is never drawn for training; with `test_weights` it is a
    covariate shift.

    >>> import giantstep as gs
    >>> s = gs.MixtureGLM(
    ...     weights=[0.5, 0.5],
    ...     mean_gram=[[1, -1], [-1, 1]],
    ...     labels="cluster",
    ...     loss="logistic",
    ...     ridge=0.1,
    ...     samples_per_dim=2.0,
    ... )
    >>> s.clusters, s.signs.tolist()
    (2, [1.0, -1.0])
    """

    family: ClassVar[str] = "mixture-glm"
    elsewhere: ClassVar[Mapping[str, str]] = {
        "target": (
            '`labels` says how labels are made, as in labels="sign" or labels="tanh(z)"'
        ),
        "C": (
            "the penalty is `ridge`; in d dimensions scikit-learn's C is 1/(d * ridge)"
        ),
        "means": (
            "the covariances have them, covariances=gs.Dense(matrices, means=...);"
            " means in general position are said by `mean_gram` and `teacher_means`"
        ),
        "loss=svm": 'that is loss="hinge", without errors loss="maxmargin"',
        "loss=lasso": 'that is loss="square" with `l1` above 0',
        "loss=mse": 'that is loss="square"',
        "loss=cross-entropy": 'that is loss="logistic"',
        **dict.fromkeys(
            ("shift", "what=shift"),
            "fresh inputs have the law of the samples; others are"
            " Network(shift=gs.Shift(scale=1.4))",
        ),
        "what=calibration": (
            "test_loss is the log loss of a logistic fit; the rest is asked of Network"
        ),
    }
    title: ClassVar[str] = "Convex learning on Gaussian mixtures"
    update_rule: ClassVar[str] = cleandoc("""
        data     cluster c with probability weights[c];  x ~ N(mu_c, Sigma_c) in R^d,  |mu_c| = O(1)
        teacher  nu = <theta0,x>/sqrt(d),  |theta0|^2/d = teacher_norm,  <mu_c,theta0>/sqrt(d) = teacher_means[c]
        labels   linear nu, phase |nu|, square nu^2, any f(nu), each + sqrt(noise) N(0,1)
                 sign(nu + sqrt(noise) N(0,1));  logit P(y=1) = 1/(1 + e^-nu);  cluster y = cluster_labels[c]
                 random: a fair coin;  labels 1, -1 are then flipped with probability flip
        fit      (w,b) = argmin sum_i loss_weights[c_i] loss(y_i, <w,x_i>/sqrt(d) + b) + ridge/2 |w|^2 + l1 |w|_1
                 square (y-z)^2/2;  logistic log(1+e^-yz);  hinge (1-yz)_+
                 huber: (y-z)^2/2 up to |y-z| = huber_threshold, then its tangent
                 interpolate: least |w| with z = y;  maxmargin: least |w| with yz >= 1 (both: the limit ridge -> 0)
        limit    d -> inf with n/d = samples_per_dim fixed
    """)  # noqa: E501
    questions: ClassVar[Mapping[str, Question]] = {
        "errors": Question(
            "training and test errors, losses and order parameters",
            _ERRORS,
            settings={"test_labels": _TEST_LABELS},
            plot=("test_error", "train_loss"),
        ),
        "universality": Question(
            "what one Gaussian in place of the mixture would change: gaps of the"
            " observables to two references",
            _UNIVERSALITY,
            plot=("test_error", "train_loss"),
            labels={"reference": REFERENCES},
        ),
        "thresholds": Question(
            "up to how many samples the classes are separable, and the largest margin",
            _THRESHOLDS,
            plot=("kappa",),
        ),
        "margins": Question(
            "law of the margins (real labels: of the residuals) of fresh and of"
            " training samples",
            _MARGINS,
            settings={
                "x": Setting(
                    None, "margins at which the law is wanted (chosen if left out)"
                )
            },
            plot=("train_density", "test_density"),
            dimensions=(Dimension("x", "spectrum", "margin", "x"),),
        ),
    }
    theories: ClassVar[Mapping[str, str]] = {
        "exact": "the exact limit of the mixture",
        "plug-in": (
            "with data, square loss: the Gaussian covariate model of the dataset,"
            " debiased"
        ),
        "gcv": (
            "with data, square loss: generalised cross-validation carried over to other"
            " sample sizes"
        ),
    }
    papers: ClassVar[tuple[str, ...]] = tuple(PAPERS)
    paper_symbols: ClassVar[Mapping[str, Paper]] = PAPERS
    notation: ClassVar[Mapping[str, Mapping[str, str]]] = notation_of(PAPERS)
    shared_fields: ClassVar[tuple[str, ...]] = ("samples_per_dim", "ridge")

    weights: Numbers = field(
        "p_c", "probability of each cluster; they sum to one", default=(1.0,)
    )
    covariances: Covariances = field(
        "Sigma_c", "covariance of each cluster (identity if left out)"
    )
    mean_gram: ArrayField = field(
        "M = <mu_c,mu_c'>", "Gram matrix of the means (0 if left out)", default=EMPTY
    )
    teacher_norm: Number = field(
        "rho_theta = |theta0|^2/d", "squared length of the teacher", default=1.0, ge=0
    )
    teacher_means: Numbers = field(
        "tau_c = <mu_c,theta0>/sqrt(d)",
        "mean of the teacher field in each cluster (0 if left out)",
        default=(),
    )
    labels: Labels = field(
        "y",
        "how labels are made: a name, or an expression in the teacher field z",
        default="sign",
    )
    cluster_labels: Numbers = field(
        "y_c",
        'label of each cluster for labels="cluster" (1, -1 for two)',
        default=(),
        only={"labels": ("cluster",)},
    )
    noise: Number = field(
        "Delta",
        "variance of the label noise (inside the sign for labels=sign)",
        default=0.0,
        ge=0,
    )
    flip: Number = field(
        "eps",
        "probability that a label 1 or -1 is flipped",
        default=0.0,
        ge=0,
        le=0.5,
        only={"labels": BINARY_LABELS},
    )
    loss: Literal[
        "square", "logistic", "hinge", "huber", "interpolate", "maxmargin"
    ] = field("l(y,z)", "loss of the fit", default="square")
    huber_threshold: Number = field(
        "delta",
        "where the Huber loss turns from quadratic to linear",
        default=1.0,
        gt=0,
        only={"loss": ("huber",)},
    )
    ridge: Number = field(
        "lambda",
        "penalty lambda/2 |w|^2; interpolate and maxmargin are its limit 0",
        default=0.0,
        ge=0,
    )
    l1: Number = field("lambda1", "penalty lambda1 |w|_1", default=0.0, ge=0)
    intercept: bool = field(
        "b", "whether an intercept is fitted, without a penalty", default=False
    )
    samples_per_dim: Number = field("alpha = n/d", "samples per dimension", gt=0)
    loss_weights: Numbers = field(
        "omega_c",
        "weight of each cluster in the sum of losses (1 if left out)",
        default=(),
    )
    test_weights: Numbers = field(
        "p'_c",
        "probability of each cluster in the test (weights if left out)",
        default=(),
    )
    data: Dataset | None = field(
        "(x_i, y_i)",
        "a dataset for the experiment (`from_data` makes it)",
        default=None,
    )

    @pydantic.model_validator(mode="before")
    @classmethod
    def _identity_by_default(cls, fields: Any) -> Any:
        if isinstance(fields, dict) and fields.get("covariances") is None:
            weights = fields.get("weights", (1.0,))
            if isinstance(weights, list | tuple | np.ndarray):
                count = len(weights)
            else:
                count = 1
            return {**fields, "covariances": Isotropic([1.0] * max(count, 1))}
        return fields

    # -- what follows from the fields --------------------------------------------------

    @property
    def clusters(self) -> int:
        """Number of clusters K."""
        return len(self.weights)

    @cached_property
    def mixture(self) -> GaussianMixture:
        """The clusters as the limit sees them."""
        return describe(self)

    @property
    def p(self) -> Floats:
        """Probabilities of the clusters in training, (K,)."""
        return np.array(self.weights)

    @property
    def p_test(self) -> Floats:
        """Probabilities of the clusters in the test, (K,)."""
        return np.array(self.test_weights or self.weights)

    @property
    def omega(self) -> Floats:
        """Weights of the clusters in the sum of losses, (K,)."""
        if self.loss_weights:
            return np.array(self.loss_weights)
        return np.ones(self.clusters)

    @property
    def gram(self) -> Floats:
        """Gram matrix M of the means, (K, K)."""
        own = _own_gram(self.covariances)
        if own is not None:
            return own
        if self.mean_gram.size:
            return np.asarray(self.mean_gram)
        return np.zeros((self.clusters, self.clusters))

    @property
    def tau(self) -> Floats:
        """Means tau_c of the teacher field, (K,)."""
        own = _own_tau(self.covariances)
        if own is None:
            return np.array(self.teacher_means or [0.0] * self.clusters)
        return own

    @property
    def signs(self) -> Floats:
        """Labels y_c of the clusters where labels="cluster", (K,)."""
        return np.array(
            self.cluster_labels or ((1.0, -1.0) if self.clusters == 2 else ())
        )

    @property
    def binary(self) -> bool:
        """Whether labels are 1 and -1."""
        return isinstance(self.labels, str) and self.labels not in REAL_LABELS

    @cached_property
    def label_function(self) -> Function | None:
        """The function f0 of the teacher field where labels are real numbers."""
        if isinstance(self.labels, str):
            if self.labels in REAL_LABELS:
                return as_function(REAL_LABELS[self.labels])
            return None
        return self.labels

    @property
    def uses_teacher(self) -> bool:
        """Whether the label depends on the teacher field."""
        return self.labels not in ("cluster", "random")

    @classmethod
    def from_data(
        cls,
        X: Any,
        y: Any,
        *,
        samples_per_dim: float | None = None,
        ridge: float = 1.0,
        loss: str = "square",
        scale: str = "columns",
        **fields: Any,
    ) -> MixtureGLM:
        """Return the scenario of a dataset: predicted from all of its rows, measured on
        random rows of it.

        Two classes become one Gaussian each (labels="cluster"); real labels a Gaussian
        covariate model (labels="linear"). With the square loss the limit is by default
        ``theory="gcv"``: squared errors by generalised cross-validation carried over to
        n rows, the rest from these Gaussians. The experiment fits n random rows and
        tests on the others.

        Parameters
        ----------
        X : (N, d) array or pandas frame of numbers; constant columns are left out, with
            a warning.
        y : (N) labels: real numbers (they are centred), or two classes, numbers or
            texts, which become -1 and 1.
        samples_per_dim : n/d of the fit; half of the rows if left out.
        ridge, loss, **fields : fields of the scenario.
        scale : ``"columns"``: every column to unit variance, ``"global"``: all divided
            by one number, ``"none"``; columns are centred.
        """
        from giantstep.problems.mixture_glm.data import (
            table_fields,
        )  # pandas is slow to load

        of_table = table_fields(X, y, samples_per_dim, ridge, loss, scale)
        for name in (
            *of_table,
            "weights",
            "cluster_labels",
            "mean_gram",
            "teacher_means",
            "noise",
        ):
            if name in fields:
                raise InputError(
                    f"Field `{name}` comes from the data and cannot be given."
                )
        return cls(**of_table, **fields)

    def learning_curve(self) -> dict[str, Any]:
        """Return sample sizes from a tenth of the columns (at least 4 rows) to nine
        tenths of the rows.
        """
        if self.data is None:
            return {}
        top = max(2, int(0.9 * self.data.rows))
        sizes = np.unique(
            np.geomspace(min(max(4, self.data.dim / 10), top), top, 16).round()
        )
        return {"samples_per_dim": (sizes / self.data.dim).tolist()}

    def penalty_elsewhere(self) -> str:
        """Say what scikit-learn calls `ridge`: its weights are w/sqrt(d), so its
        penalty is d times ours.
        """
        if self.data is None:
            return ""
        d = self.data.dim
        return (
            f"In scikit-learn, on these {d} columns centred and scaled, without"
            f" intercept: Ridge(alpha={d} * ridge), LogisticRegression(C=1/({d} *"
            f" ridge)), LinearSVC(C=1/({d} * ridge), loss='hinge')."
        )

    def own_dim(self) -> int | None:
        """Return the number of columns of the dataset, or the size of dense
        covariances.
        """
        if self.data is not None:
            return self.data.dim
        if isinstance(self.covariances, Dense):
            return self.covariances.dim
        return None

    def gaussian_twin(self, theory: str) -> Self | None:
        """Return the Gaussians of the dataset without its rows; some theories of
        squared errors read these.
        """
        if self.data is None or theory in OF_DATA:
            return None
        return self.replace(data=None)

    def baselines(
        self, points: Points, what: str, values: Mapping[str, Array]
    ) -> Mapping[str, Baseline]:
        """Return the error of predicting zero; where labels are classes, of saying the
        commoner one always.
        """
        if what != "errors":
            return {}

        moments = MixtureProblem.of(self, points).moments()
        if not self.binary:
            return {"test_error": Baseline("predicting zero", moments.y2 @ self.p_test)}
        commoner = 0.5 - 0.5 * np.abs(moments.y0 @ self.p_test)
        return {"test_error": Baseline("always saying the same class", commoner)}

    def has_classes(self) -> bool:
        """Tell whether labels are 1 and -1."""
        return self.binary

    def diagram(self) -> PhaseDiagram:
        """Return the plane of label noise and samples with the line up to which two
        classes are separable.
        """
        across, span = _ACROSS.get(str(self.labels), _FLIP)
        if across == "teacher_norm" and any(
            self.teacher_means
        ):  # these bound it from below
            across, span = _FLIP
        beside = {"noise": self.noise, "flip": self.flip}
        return PhaseDiagram(
            "thresholds",
            across,
            span,
            "samples_per_dim",
            {"alpha_c": "the classes can be separated up to here"},
            _separable,
            tuple(name for name, value in beside.items() if value and name != across),
        )

    def block_count(self) -> Mapping[str, int]:
        """Return the length of the ``cluster`` dims."""
        return {"cluster": self.clusters}

    # -- checks ------------------------------------------------------------------------

    def check(self) -> None:
        """Check that the parts fit together."""
        for name, values in (
            ("weights", self.weights),
            ("test_weights", self.test_weights or self.weights),
        ):
            if min(values, default=-1) < 0 or not math.isclose(
                sum(values), 1.0, rel_tol=0, abs_tol=1e-9
            ):
                raise bad_field(
                    name,
                    list(values),
                    f"at least 0 each and sum to one (they sum to {sum(values):g})",
                )
        count = self.clusters
        parts = self.covariances
        gram = self.mean_gram
        tau = _own_tau(self.covariances)
        for name in ("teacher_means", "test_weights", "loss_weights"):
            refuse(
                self,
                (
                    len(getattr(self, name)) not in (0, count),
                    name,
                    f"{count} numbers, one for each cluster",
                ),
            )
        refuse(
            self,
            (min(self.loss_weights, default=1) <= 0, "loss_weights", "above 0"),
            (
                parts.clusters != count,
                "covariances",
                f"given for {count} clusters, one for each weight",
            ),
            (
                np.any(parts.mean_eigenvalues <= 0),
                "covariances",
                "such that every cluster varies in some direction",
            ),
            (
                gram.size and gram.shape != (count, count),
                "mean_gram",
                f"a matrix of {count} by {count} numbers",
            ),
            (
                gram.size and _own_gram(parts) is not None,
                "mean_gram",
                "left out where the covariances bring the means",
            ),
            (
                self.teacher_means and tau is not None,
                "teacher_means",
                "left out where the covariances bring them",
            ),
        )
        if gram.size:
            check_symmetric_psd("mean_gram", np.asarray(gram))
        self.mixture  # noqa: B018 (it refuses what is not positive semidefinite together)
        self._check_labels()
        limit = self.loss in ("interpolate", "maxmargin")
        is_limit = f'0 where loss="{self.loss}", which is the limit ridge -> 0'
        refuse(
            self,
            (
                self.l1 and isinstance(parts, Dense | Spiked),
                "l1",
                "0 unless the covariances are Isotropic or Blocks (diagonal)",
            ),
            *(
                (limit and getattr(self, name), name, is_limit)
                for name in ("ridge", "l1")
            ),
        )
        self.check_points(self.point())

    def _check_labels(self) -> None:
        count = self.clusters
        signs = self.signs
        real = not self.binary
        if self.labels == "cluster":
            refuse(
                self,
                (
                    len(signs) != count,
                    "cluster_labels",
                    f"{count} numbers 1 or -1, one for each cluster",
                ),
            )
            refuse(
                self, (not set(signs) <= {1.0, -1.0}, "cluster_labels", "1 or -1 each")
            )
            if self.intercept and not self.flip and len(set(signs[self.p > 0])) == 1:
                raise bad_field(
                    "cluster_labels",
                    signs.tolist(),
                    "1 and -1 (not one class only) with an intercept",
                )
        named = f'0 where labels="{self.labels}" (`flip` flips labels at random)'
        losses = (
            'square, huber or interpolate where labels are real numbers (labels="sign"'
            " makes classes)"
        )
        refuse(
            self,
            (
                self.cluster_labels and self.labels != "cluster",
                "cluster_labels",
                'left out unless labels="cluster"',
            ),
            (self.loss in MARGIN_LOSSES and real, "loss", losses),
            (self.flip and real, "flip", "0 where labels are real numbers"),
            (
                self.flip and self.data is not None,
                "flip",
                "0 with a dataset, whose labels are taken as they are",
            ),
            (
                self.noise and self.labels in ("logit", "cluster", "random"),
                "noise",
                named,
            ),
        )

    def check_points(self, points: Mapping[str, Floats]) -> None:
        """Refuse, over a whole grid, penalties and sample sizes for which the estimator
        does not exist.
        """
        check_existence(self, points)
        if self.data is None:
            return
        alpha = points["samples_per_dim"]
        rows = self.data.rows
        dim = self.data.dim
        if np.round(alpha.max() * dim) > rows:
            allowed = (
                f"at most {rows / dim:.6g}: the dataset has {rows} rows and {dim}"
                " columns"
            )
            raise bad_field("samples_per_dim", float(alpha.max()), allowed)
        if np.round(alpha.min() * dim) < 1:
            raise bad_field(
                "samples_per_dim",
                float(alpha.min()),
                f"at least {1 / dim:.4g}, which is one row",
            )

    # -- examples ----------------------------------------------------------------------

    @classmethod
    def example(cls) -> MixtureGLM:
        """Return a small valid scenario."""
        return cls(
            weights=[0.4, 0.6],
            covariances=Isotropic([0.5, 1.0]),
            mean_gram=[[1.0, -0.5], [-0.5, 1.0]],
            teacher_means=[0.5, -0.3],
            labels="sign",
            noise=0.1,
            loss="logistic",
            ridge=0.1,
            samples_per_dim=2.0,
        )

    @classmethod
    def reference(cls) -> tuple[MixtureGLM, str, float]:
        """Return row C2 of mixture_glm section 9: two clusters, sign labels, logistic
        loss.
        """
        scenario = cls(
            weights=[0.5, 0.5],
            mean_gram=[[4, -4], [-4, 4]],
            teacher_means=[math.sqrt(3), -math.sqrt(3)],
            labels="sign",
            loss="logistic",
            ridge=0.1,
            samples_per_dim=2.0,
        )
        return scenario, "train_loss", 0.06909266


__all__ = [
    "REFERENCES",
    "Blocks",
    "Dataset",
    "Dense",
    "Isotropic",
    "MixtureGLM",
    "Spiked",
]

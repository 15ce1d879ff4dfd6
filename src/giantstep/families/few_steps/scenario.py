"""The scenario of a few giant steps: a wide two-layer network, several steps, several directions, then a read-out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from giantstep.arrays import ArrayField, FrozenArray
from giantstep.dimensions import Dimension
from giantstep.errors import InputError, bad_field
from giantstep.family import Baseline, Engine, Question, Setting, Variable
from giantstep.inputs.law import InputLaw
from giantstep.inputs.parts import InputBlocks as InputBlocks
from giantstep.inputs.parts import InputCovariance as InputCovariance
from giantstep.inputs.parts import InputRows as InputRows
from giantstep.inputs.parts import Inputs, Whitening, content_of_inputs
from giantstep.inputs.parts import PowerLaw as PowerLaw
from giantstep.scenario import Expression, Integer, MultiIndex, Number, Numbers, Part, Scenario, field
from giantstep.types import Array, Floats, Points
from giantstep.vocabulary import Vocabulary

_LIMIT: tuple[Engine, ...] = ("limit",)
_EXPERIMENT: tuple[Engine, ...] = ("experiment",)


class PlantedShifts(Part):
    """Rows w_i = s_q w0_i + U_q planted by hand instead of steps: U_q (k, r) along the target directions, s_q (k,).

    >>> import giantstep as gs
    >>> s = gs.FewSteps(target="z1 + z1*z2", width_per_dim=1.5, samples_per_dim=2.0, ridge=0.1, noise=0.1,
    ...                 steps=0, planted=PlantedShifts([[1.5, 0.5], [-1.5, 0.5]]))
    >>> gs.predict(s).test_error.sizes["time"]
    1
    """

    if TYPE_CHECKING:

        def __init__(self, shifts: Sequence[Sequence[float]] = ..., bulk: Sequence[float] = ...) -> None: ...

    shifts: ArrayField = field(
        "U_q", "shift of each class along the target directions (classes, directions)", default=FrozenArray([])
    )
    bulk: Numbers = field("s_q", "scale of the initial weights in each class; 1 if left out", default=())


_NO_OUTLIER = "no further outlier exists"
_NO_GAP = "no further gap exists"
_NOTHING = "nothing is learnt yet"
_NO_DIRECTION = "no further direction is learnt"
_ERRORS = (
    Variable("test_error", ("time",), "E(y - f)^2", "mean squared error on fresh samples, label noise included"),
    Variable("train_error", ("time",), "sum (y - f)^2/n", "mean squared error on the n samples of the fit"),
    Variable("objective", ("time",), "loss/n", "loss plus penalty on the samples of the fit, per sample"),
    Variable("norm", ("time",), "|a|^2/p", "squared norm of the fitted second layer, per neuron"),
    Variable("Q2", ("time", "block"), "Q2_q", "the same, class by class"),
    Variable("theta", ("time", "block"), "theta_q", "sum of a_i over class q, divided by sqrt(p)", compared=False),
    Variable("V2", ("time", "block"), "V2_q", "tr[(Phi^T Phi/p + lambda)^-1]_qq/p", engines=_LIMIT),
    Variable("learned", ("time",), "m", "number of directions learned", engines=_LIMIT),
    Variable("all_data_error", ("time",), "E(y - f)^2, n/d = inf", "error of this width on all data", engines=_LIMIT),
    Variable("floor", ("time",), "E(y - f)^2, n/d = p/d = inf", "least error of these features at any width", _LIMIT),
    Variable("identity", ("time",), "-", "relative violation of the loss identity, a self-test", engines=_LIMIT),
    Variable("null_error", (), "E y^2", "error of predicting zero", engines=_LIMIT),
    Variable("effective_rank", (), "r_eff/d", "(tr Sigma)^2/tr Sigma^2 per dimension", engines=_LIMIT),
    Variable("effective_rank_4", (), "r_4/d", "(tr Sigma^2)^2/tr Sigma^4 per dimension", engines=_LIMIT),
)
_STEPS = (
    Variable("U", ("time", "block", "direction"), "U_q", "mean overlap of the rows of a class with a target direction"),
    Variable("s", ("time", "block"), "s_q", "length of a row across the target directions"),
    Variable("cosine", ("time", "block", "direction"), "U_q/|w|", "cosine of a class with a target direction"),
    Variable("row_norm", ("time", "block"), "|w|^2", "squared norm of a row"),
    Variable(
        "spread",
        ("time", "block", "direction", "direction_2"),
        "(J_q J_q^T)_U",
        "d times the covariance of the overlaps inside a class",
    ),
    Variable(
        "spread_s", ("time", "block"), "(J_q J_q^T)_s", "d times the variance of s inside a class", compared=False
    ),
    Variable("learned", ("time",), "m", "number of directions learned", engines=_LIMIT),
    Variable(
        "gamma",
        ("time", "direction"),
        "gamma_a",
        "length of a target direction inside the learnt space",
        engines=_LIMIT,
        absent=_NO_DIRECTION,
    ),
    Variable(
        "B",
        ("time", "block", "atom"),
        "B_q(lambda)",
        "what became of the initial weights in an eigenspace",
        engines=_LIMIT,
    ),
    Variable("eigenvalue", ("atom",), "lambda_j", "eigenvalue of the inputs", engines=_LIMIT),
)
_ALONG = (
    Variable(
        "error_along",
        ("time", "kappa"),
        "E[(y - f)^2 | kappa]",
        "squared error given the learnt direction",
        absent=_NOTHING,
    ),
    Variable(
        "mean_along", ("time", "kappa"), "E[f | kappa]", "mean output given the learnt direction", absent=_NOTHING
    ),
)
_SPECTRUM = (
    Variable(
        "density", ("time", "x"), "rho(x)", "density of the bulk of Phi^T Phi/p, of mass 1 - atom", compared=False
    ),
    Variable("cdf", ("time", "x"), "F(x)", "fraction of eigenvalues up to x, the atom included, outliers left out"),
    Variable("lower_edge", ("time",), "x_-", "lower edge of the bulk (nonzero eigenvalues)", compared=False),
    Variable("upper_edge", ("time",), "x_+", "upper edge of the bulk", compared=False),
    Variable("atom", ("time",), "mass at 0", "fraction of eigenvalues that are zero"),
    Variable(
        "outliers",
        ("time", "outlier"),
        "z_j",
        "eigenvalues above the bulk, largest first; in the limit then those in gaps",
        compared=False,
        absent=_NO_OUTLIER,
    ),
    Variable(
        "gap_lower",
        ("time", "gap"),
        "g_-",
        "where a gap inside the bulk begins",
        engines=("limit",),
        compared=False,
        absent=_NO_GAP,
    ),
    Variable("gap_upper", ("time", "gap"), "g_+", "where it ends", engines=("limit",), compared=False, absent=_NO_GAP),
)
_RESOLVENT = (
    Variable("m_real", ("time", "z"), "Re m(z)", "Stieltjes transform tr(Phi^T Phi/p - z)^-1/p, real part"),
    Variable("m_imag", ("time", "z"), "Im m(z)", "Stieltjes transform, imaginary part"),
)
_TEST = Setting(10_000, "fresh samples of the test error", engines=_EXPERIMENT)


class FewSteps(Scenario):
    """A wide two-layer network takes T giant steps on large fresh batches; then its second layer is fitted by ridge.

    Data x ~ N(0, I_d), or N(0, Sigma) where `inputs` says so, y = g(z1..zr) + sqrt(noise) N(0, 1) with z_j = <w*_j, x>.
    Network f = sum_i a_i sigma(<w_i, x>)/sqrt(p), rows on the unit sphere, a_i = zeta_q/sqrt(p) during the steps, class
    q. Step t: all rows move by rate_t zeta_q E[(y - f) sigma'(<w_i, x>) x]. The limit is d -> inf with p/d and n/d
    fixed; `time` counts the steps made.

    >>> import giantstep as gs
    >>> s = gs.FewSteps(target="z1 + z1*z2", noise=0.1, rate=2.0, steps=3, width_per_dim=1.5, samples_per_dim=2.0,
    ...                 ridge=0.1)
    >>> gs.predict(s).test_error.values.round(4)
    array([2.0907, 1.0191, 0.6908, 0.6229])
    """

    family: ClassVar[str] = "few-steps"
    title: ClassVar[str] = "Several giant steps on several directions, then a read-out"
    update_rule: ClassVar[str] = (
        "data      x ~ N(0, I_d),  y = g(W* x) + sqrt(noise) N(0,1),  W* has r orthonormal rows\n"
        "          (inputs: x ~ N(0, Sigma), tr Sigma = d, W* Sigma W*^T = I)\n"
        "network   f(x) = sum_i a_i sigma(<w_i,x>)/sqrt(p),  |w_i| = 1 and a_i = zeta_q/sqrt(p) at the start\n"
        "step t    w_i <- w_i + rate_t zeta_q (1/n0) sum (y - f(x)) sigma'(<w_i,x>) x,  n0 = batch_per_dim d samples\n"
        '          (loss_of_steps="correlation": y in place of y - f; precondition = c: Sigma^-c x in place of x)\n'
        "planted   w_i <- s_q w_i + W*^T U_q instead of the steps\n"
        "fit       a = argmin sum_mu (y_mu - f(x_mu))^2 + ridge |a|^2  on n fresh samples, after every step\n"
        "limit     d -> inf with n/d = samples_per_dim, p/d = width_per_dim, n0/d = batch_per_dim fixed"
    )
    questions: ClassVar[Mapping[str, Question]] = {
        "errors": Question(
            "test and training error of the read-out after every step, and their floors",
            _ERRORS,
            settings={"test_samples": _TEST},
            plot=("test_error", "train_error"),
            coarse_tolerance=1e-3,
        ),
        "steps": Question(
            "where the classes of neurons are after every step, and how they spread",
            _STEPS,
            plot=("U",),
            dimensions=(Dimension("atom", "entries"),),
        ),
        "along": Question(
            "error and output after every step, resolved along the leading learnt direction kappa",
            _ALONG,
            settings={
                "kappa": Setting(None, "positions along the learnt direction (-3, -2.75, ..., 3 if left out)"),
                "test_samples": Setting(40_000, "fresh samples, sorted by kappa", engines=_EXPERIMENT),
            },
            plot=("error_along",),
        ),
        "spectrum": Question(
            "bulk spectrum of the feature covariance after every step, its edges, atom and outliers",
            _SPECTRUM,
            settings={"x": Setting(None, "where the density is wanted (chosen if left out)")},
            plot=("density",),
        ),
        "resolvent": Question(
            "Stieltjes transform of Phi^T Phi/p after every step, at complex z",
            _RESOLVENT,
            settings={"z": Setting(None, "complex points off the positive real axis", example=[-1.0, 1 + 1j])},
            plot=("m_imag",),
        ),
    }
    theories: ClassVar[Mapping[str, str]] = {
        "exact": "the exact limit of steps on large batches",
        "isotropic": "the noise of a finite batch as isotropic noise of every row: an approximation",
        "auto": "at a finite dim, inputs of low effective ranks: split or quadratic, whichever matters; else exact",
        "split": "at a finite dim, inputs of low effective rank: the leading fluctuation is not linearised",
        "quadratic": "at a finite dim, inputs of low r_4: a quadratic fluctuation of its own in every eigenspace",
    }
    papers: ClassVar[tuple[str, ...]] = (
        "giantstep2026steps",
        "giantstep2026inputs",
        "dandi2023giant",
        "dandi2025random",
        "cui2024asymptotics",
    )
    shared_fields: ClassVar[tuple[str, ...]] = ("samples_per_dim", "ridge")
    elsewhere: ClassVar[Mapping[str, str]] = {
        "loss": "its second layer is fitted by ridge regression only; a logistic or hinge fit, after one step along "
        'one direction, is OneStep(loss="logistic")',
        "flip": "its labels are not classes; OneStep has them",
        "step": "it takes `steps` maximal steps of size `rate`, on batches of `batch_per_dim`",
    }

    target: MultiIndex = field("g(z1..zr)", "target, a function of up to six directions")
    activation: Expression = field("sigma", "activation of the hidden layer", default="relu")
    noise: Number = field("delta", "variance of the label noise", default=0.0, ge=0)
    second_layer: Vocabulary = field(
        "zeta, pi", "law of the second layer during the steps, times sqrt(p)", default=Vocabulary([1.0, -1.0])
    )
    rate: Number | Numbers = field(
        "eta_t", "step size divided by the width: a number, or one for each step", default=1.0
    )
    steps: Integer = field("T", "number of steps", default=2, ge=0, le=20)
    loss_of_steps: Literal["square", "correlation"] = field(
        "l", "loss of the steps: (y - f)^2/2, or -y f, which leaves out what the network says already", default="square"
    )
    batch_per_dim: Number = field(
        "alpha0 = n0/d", "fresh samples of every step per dimension", default=math.inf, gt=0, infinite=True
    )
    planted: PlantedShifts = field("U, s", "shifts planted by hand instead of the steps", default=PlantedShifts())
    rows: Literal["sphere", "gaussian"] = field(
        "w0", "first layer at the start: |w_i| = 1, or w_i ~ N(0, I/d)", default="sphere"
    )
    inputs: Inputs | None = field(
        "Sigma, w*",
        "covariance of the inputs and the target's place in it, or rows of a table (isotropic if left out)",
        default=None,
    )
    precondition: Whitening = field(
        "c", 'steps are multiplied by Sigma^-c: a number, "none" (0) or "whitened" (1)', default=0.0
    )
    width_per_dim: Number = field("beta = p/d", "hidden neurons per dimension", gt=0)
    samples_per_dim: Number = field("alpha = n/d", "samples of the ridge fit per dimension", gt=0)
    ridge: Number = field("lambda", "penalty in sum (y - f)^2 + lambda |a|^2", gt=0)

    def check(self) -> None:
        """Check that the parts fit together."""
        if self.activation.jumps and self.steps:
            raise InputError(
                f"Field `activation` must have a derivative for a gradient step, but {self.activation.name} jumps at "
                f"{self.activation.jumps[0]:g}; take a smooth one such as tanh(5*z), or steps=0."
            )
        if not self.target.square_integrable:
            raise bad_field("target", self.target.name, "finite and square integrable under the Gaussian measure")
        if not isinstance(self.rate, float) and len(self.rate) != self.steps:
            raise bad_field("rate", list(self.rate), f"a number or a list of {self.steps}, one for each step")
        if self.has_shifts:
            self._check_planted(self.planted)
        if self.inputs is not None:
            try:
                self.inputs.check_directions(self.target.directions)
            except InputError as error:
                raise error.inside("inputs") from None
            if self.has_shifts:
                raise bad_field("planted", "shifts", "left out where inputs have a covariance")
        self.check_points({name: np.array([value]) for name, (value, _) in self.numeric_fields().items()})

    def _check_planted(self, planted: PlantedShifts) -> None:
        k, r = len(self.second_layer.values), self.target.directions
        if np.shape(planted.shifts) != (k, r):
            raise bad_field(
                "planted.shifts", np.asarray(planted.shifts).tolist(), f"{k} rows (classes) of {r} numbers (directions)"
            )
        if planted.bulk and len(planted.bulk) != k:
            raise bad_field("planted.bulk", list(planted.bulk), f"a list of {k} numbers, one for each class")
        if np.linalg.matrix_rank(np.asarray(planted.shifts)) > 3:
            raise bad_field("planted.shifts", np.asarray(planted.shifts).tolist(), "of rank 3 at most")
        if any(abs(scale) < 1e-6 for scale in planted.bulk):
            raise bad_field("planted.bulk", list(planted.bulk), "different from 0")

    def check_points(self, points: Points) -> None:
        """Refuse what no theory covers."""
        finite = np.isfinite(points["batch_per_dim"])
        if self.rows == "gaussian" and np.any(finite):
            raise bad_field("rows", "gaussian", '"sphere" where batch_per_dim is finite (no theory is known there)')
        if self.has_shifts and np.any(points["steps"] != 0):
            raise bad_field("steps", int(points["steps"].max()), "0 where shifts are planted")
        if self.inputs is not None and np.any(points["precondition"] > 0) and self.input_law().eigenvalues.min() == 0:
            raise bad_field("precondition", float(points["precondition"].max()), "0 where an eigenvalue of inputs is 0")
        steps = points["steps"]
        if not isinstance(self.rate, float) and np.any(steps != len(self.rate)):
            raise bad_field("steps", int(steps.max()), f"{len(self.rate)}, as many as there are rates")

    def input_law(self, dim: float = math.inf) -> InputLaw:
        """Return the law of the inputs at a dimension (inf: the limit)."""
        r = self.target.directions
        if self.inputs is None:
            return InputLaw.of_shares(np.ones(1), np.ones(1), np.ones((r, 1)))
        return self.inputs.law(dim, r)

    def own_dim(self) -> int | None:
        """Return the dimension of a given covariance."""
        return None if self.inputs is None else self.inputs.own_dim

    def content(self) -> dict[str, Any]:
        """Return the plain content; what is as it was before inputs had a covariance is left out."""
        return content_of_inputs(super().content())

    def baselines(self, points: Points, what: str, values: Mapping[str, Array]) -> Mapping[str, Baseline]:
        """Return the error of predicting zero."""
        return {"test_error": Baseline("predicting zero", values["null_error"])} if "null_error" in values else {}

    @property
    def has_shifts(self) -> bool:
        """Whether shifts are planted instead of steps made."""
        return np.size(self.planted.shifts) > 0

    def rates(self, points: Points, index: int) -> Floats:
        """Return the rates of one point, one for each of its steps."""
        steps = int(points["steps"][index])
        return np.full(steps, points["rate"][index]) if "rate" in points else np.array(self.rate[:steps])  # type: ignore[index]

    @classmethod
    def example(cls) -> FewSteps:
        """Return a small valid scenario."""
        return cls(target="z1 + z1*z2", noise=0.1, rate=2.0, steps=2, width_per_dim=1.5, samples_per_dim=2.0, ridge=0.1)

    @classmethod
    def reference(cls) -> tuple[FewSteps, str, float]:
        """Return few_steps_readout, section 14, setting A0: the network before its first step."""
        return cls.example().replace(steps=0), "test_error", 2.09072848

    def block_count(self) -> Mapping[str, int]:
        """Return the lengths of the own dimensions."""
        blocks, directions = len(self.second_layer.values), self.target.directions
        return {"block": blocks, "direction": directions, "direction_2": directions}

"""The scenario of the one-step family: a two-layer network, one gradient step, then ridge on the second layer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import pydantic
from pydantic import BeforeValidator, Discriminator, Tag

from giantstep.dimensions import Dimension
from giantstep.errors import bad_field
from giantstep.families.one_step.covariance import as_few_steps, check_covariance_points
from giantstep.families.one_step.notation import PAPERS
from giantstep.families.one_step.steps import GrowingStep as GrowingStep
from giantstep.families.one_step.steps import MaximalStep as MaximalStep
from giantstep.families.one_step.steps import NoStep as NoStep
from giantstep.families.one_step.steps import PlantedSpike as PlantedSpike
from giantstep.families.one_step.steps import SmallStep as SmallStep
from giantstep.family import Baseline, Question, Setting, Variable
from giantstep.inputs.parts import Inputs, Whitening, content_of_inputs
from giantstep.paper_symbols import Paper, notation_of
from giantstep.scenario import Expression, Number, Scenario, field
from giantstep.types import Array, Floats, Points
from giantstep.vocabulary import Vocabulary as Vocabulary


def _second_layer_tag(value: Any) -> str:
    return "gaussian" if isinstance(value, str) else "vocabulary"


def _second_layer(value: Any) -> Any:
    if isinstance(value, str) and value != "gaussian" or not isinstance(value, str | Vocabulary | Mapping):
        raise ValueError(
            'gs.Vocabulary([1, -1]) or "gaussian", in a file { values = [1, -1] } (a plain list would be a finite '
            "network, not a law)"
        )
    return value


def _one_direction(value: Any) -> Any:
    several = re.search(r"\bz[2-9]", value) if isinstance(value, str) else getattr(value, "directions", 1) > 1
    if several:
        raise ValueError("a function of one direction z (FewSteps takes several)")
    return value


SecondLayer = Annotated[
    Annotated[Vocabulary, Tag("vocabulary")] | Annotated[Literal["gaussian"], Tag("gaussian")],
    Discriminator(_second_layer_tag),
    BeforeValidator(_second_layer),
]
AnyStep = Annotated[NoStep | PlantedSpike | SmallStep | GrowingStep | MaximalStep, pydantic.Field(discriminator="kind")]

_NOT_CLOSED = "the closed form that answers here does not have it"
_NO_ROWS = "the closed form does not have it, or the spike depends on the rows (initial_output = 1)"
_NOT_LEARNT = "nothing is learnt"
_CLASSES = "it is defined for the square loss"
_REAL = "it is defined for labels"
_NO_OUTLIER = "no further outlier exists"
_NO_GAP = "no further gap exists"
_NO_SPIKE = "no such outlier exists"
_ERRORS = (
    Variable(
        "test_error",
        (),
        "E(y - f)^2 or P(y f<0)",
        "mean squared error on fresh samples, label noise included; "
        "with classes the misclassified fraction of fresh samples",
    ),
    Variable(
        "train_error",
        (),
        "sum (y - f)^2/n or P(y_i f_i<0)",
        "mean squared error on the n samples of the fit; with classes the misclassified fraction of these samples",
        counted=True,
    ),
    Variable("objective", (), "loss/n", "loss plus penalty on the samples of the fit, per sample"),
    Variable(
        "test_misclassified",
        (),
        "P(sign f != sign<w*,x>)",
        "fraction of fresh samples with the wrong sign",
        absent=_REAL,
    ),
    Variable("norm", (), "|a|^2/p", "squared norm of the fitted second layer, per neuron", absent=_NOT_CLOSED),
    Variable(
        "theta",
        ("block",),
        "theta_q",
        "sum of a_i over block q, divided by sqrt(p)",
        compared=False,
        absent=_NOT_CLOSED,
    ),
    Variable("t", ("block",), "t_q", "sum of a_i <w0_i, v> over block q, divided by sqrt(p)", absent=_NO_ROWS),
    Variable("psi", ("block",), "psi_q", "sum of a_i <w0_i, v_perp> over block q, divided by sqrt(p)", absent=_NO_ROWS),
    Variable("Q1", ("block", "block_2"), "Q1_qq'", "a_q W0_q (1 - v v^T) W0_q'^T a_q'/p", absent=_NO_ROWS),
    Variable("Q2", ("block",), "Q2_q", "|a_q|^2/p", absent=_NOT_CLOSED),
    Variable(
        "V1",
        ("block", "block_2"),
        "V1_qq'",
        "tr[W0_q^T (Phi^T Phi/p + lambda)^-1_qq' W0_q']/p",
        engines=("limit",),
        absent=_NOT_CLOSED,
    ),
    Variable("V2", ("block",), "V2_q", "tr[(Phi^T Phi/p + lambda)^-1]_qq/p", engines=("limit",), absent=_NOT_CLOSED),
    Variable(
        "identity",
        (),
        "-",
        "relative violation of the loss identity, a self-test of the solution",
        engines=("limit",),
        absent=_NOT_CLOSED,
    ),
    Variable("null_error", (), "E y^2", "error of predicting zero", engines=("limit",)),
    Variable(
        "affine_error",
        (),
        "E y^2 - g0^2 - g1^2",
        "error of the best affine predictor, the floor of random features",
        engines=("limit",),
        absent=_CLASSES,
    ),
    Variable("effective_rank", (), "r_eff/d", "(tr Sigma)^2/tr Sigma^2 of the inputs per dimension", ("limit",)),
    Variable("effective_rank_4", (), "r_4/d", "(tr Sigma^2)^2/tr Sigma^4 of the inputs per dimension", ("limit",)),
)
_STEPS = (
    Variable("U", ("block",), "U_q", "mean overlap of the rows of a block with w*, in units of the deviation of z"),
    Variable("s", ("block",), "s_q", "length of a row across the target"),
    Variable("cosine", ("block",), "U_q/|w|", "cosine of a row with the target"),
    Variable("row_norm", ("block",), "|w|^2", "squared norm of a row, w^T Sigma w"),
    Variable("spread", ("block",), "(J_q J_q^T)_U", "d times the variance of the overlaps inside a block"),
    Variable("spread_s", ("block",), "(J_q J_q^T)_s", "d times the variance of s inside a block", compared=False),
    Variable(
        "gamma", (), "gamma", "length of the target inside the learnt space", engines=("limit",), absent=_NOT_LEARNT
    ),
    Variable("B", ("block", "atom"), "B_q(lambda)", "what became of the initial weights in an eigenspace", ("limit",)),
    Variable("eigenvalue", ("atom",), "lambda_j", "eigenvalue of the inputs", engines=("limit",)),
)
_ALONG = (
    Variable(
        "error_along", ("kappa",), "E[(y - f)^2 | kappa]", "squared error at a given place along the learnt direction"
    ),
    Variable("mean_along", ("kappa",), "E[f | kappa]", "mean output at a place along the learnt direction"),
)
_NORMALISATION = Setting("p", "eigenvalues of Phi^T Phi/p or of Phi^T Phi/n", choices=("p", "n"))
_SPECTRUM = (
    Variable("density", ("x",), "rho(x)", "density of the bulk, of mass 1 - atom", compared=False),
    Variable("cdf", ("x",), "F(x)", "fraction of eigenvalues up to x, the atom included, the outliers left out"),
    Variable("lower_edge", (), "x_-", "lower edge of the bulk (nonzero eigenvalues)", compared=False),
    Variable("upper_edge", (), "x_+", "upper edge of the bulk", compared=False),
    Variable("atom", (), "mass at 0", "fraction of eigenvalues that are zero"),
    Variable("mean_eigenvalue", (), "int x rho dx", "first moment of the bulk", compared=False),
    Variable(
        "outliers",
        ("outlier",),
        "z_j",
        "eigenvalues above the bulk, largest first (inf: grows with the dimension), in the limit then those in gaps",
        compared=False,
        absent=_NO_OUTLIER,
    ),
    Variable(
        "gap_lower",
        ("gap",),
        "g_-",
        "where a gap inside the bulk begins",
        engines=("limit",),
        compared=False,
        absent=_NO_GAP,
    ),
    Variable("gap_upper", ("gap",), "g_+", "where it ends", engines=("limit",), compared=False, absent=_NO_GAP),
)
_RESOLVENT = (
    Variable("m_real", ("z",), "Re m(z)", "Stieltjes transform tr(Phi^T Phi/p - z)^-1/p, real part"),
    Variable("m_imag", ("z",), "Im m(z)", "Stieltjes transform, imaginary part"),
    Variable("V2_real", ("z", "block"), "Re V2_q", "trace of the resolvent over block q, divided by p"),
    Variable("V2_imag", ("z", "block"), "Im V2_q", "trace of the resolvent over block q, imaginary part"),
    Variable(
        "V1_real",
        ("z", "block", "block_2"),
        "Re V1_qq'",
        "trace with W0_q ... W0_q'^T inserted, divided by p",
    ),
    Variable("V1_imag", ("z", "block", "block_2"), "Im V1_qq'", "the same, imaginary part"),
)
_WEIGHTS = (
    Variable(
        "top_singular_value", (), "s_1(W)", "largest singular value of the updated weights; the edge without an outlier"
    ),
    Variable(
        "left_alignment",
        (),
        "(u.a)^2/|a|^2",
        "squared cosine of its left vector and the second layer (limit: NaN without an outlier)",
        absent=_NO_SPIKE,
    ),
    Variable(
        "right_alignment",
        (),
        "(v.w*)^2",
        "squared cosine of its right vector and the target direction (limit: NaN without an outlier)",
        absent=_NO_SPIKE,
    ),
    Variable(
        "bottom_singular_value",
        (),
        "s_min(W)",
        "smallest of the min(p, d) singular values; the edge without an outlier at the bottom",
    ),
    Variable(
        "bottom_left_alignment",
        (),
        "(u_min.a)^2/|a|^2",
        "squared cosine of its left vector and the second layer",
        absent=_NO_SPIKE,
    ),
    Variable(
        "bottom_right_alignment",
        (),
        "(v_min.w*)^2",
        "squared cosine of its right vector and the target direction",
        absent=_NO_SPIKE,
    ),
    Variable("bulk_lower", (), "|1 - sqrt(p/d)|", "lower edge of the singular values", engines=("limit",)),
    Variable("bulk_upper", (), "1 + sqrt(p/d)", "upper edge of the singular values", engines=("limit",)),
    Variable("spike_strength", (), "ell", "squared length of W^T a/|a|, 1 without a step", engines=("limit",)),
    Variable(
        "threshold",
        (),
        "1 + sqrt(p/d)",
        "spike_strength above which there is an outlier at the top",
        engines=("limit",),
    ),
)
_SPIKES = (
    Variable(
        "singular_values",
        ("spike",),
        "s_k",
        "largest singular values of F/sqrt(n), F the features of the fit; in the limit the outliers only, then NaN "
        "(inf: grows with the dimension)",
        absent=_NO_SPIKE,
    ),
    Variable(
        "alignment",
        ("spike", "degree"),
        "(u_k.h_j)^2/|h_j|^2",
        "squared cosine of the left vector and h_j = He_j/sqrt(j!) of the learnt feature <x, beta>/|beta|",
        absent=_NO_SPIKE,
    ),
    Variable(
        "norm_alignment",
        ("spike",),
        "(u_k.chi)^2/|chi|^2",
        "squared cosine of the left vector and chi = (|x|^2 - d)/sqrt(2d), which is uninformative",
        absent=_NO_SPIKE,
    ),
    Variable(
        "spike_degree",
        ("spike",),
        "argmax_j",
        "name of the spike: the degree of its largest alignment (NaN: no spike, or that of |x|^2)",
        compared=False,
        absent=_NO_SPIKE,
    ),
    Variable("bulk_edge", (), "s_+", "upper edge of the bulk of singular values of F/sqrt(n)", engines=("limit",)),
)


class OneStep(Scenario):
    """A two-layer network after one gradient step on its first layer, its second layer then fitted by ridge regression.

    Data x ~ N(0, I_d), or N(0, Sigma) where `inputs` says so, y = g(<w*, x>) + sqrt(noise) N(0, 1). Network f(x) =
    sum_j a_j sigma(<w_j, x>)/sqrt(p), rows of the first layer on the unit sphere, a_j = zeta_j/sqrt(p) at the start.
    After the step, n samples (fresh ones, or those of the step) fit a by minimising sum (y - f)^2 + ridge |a|^2. The
    limit is d -> inf with n/d and p/d fixed.

    >>> import giantstep as gs
    >>> s = gs.OneStep(activation="relu", target="tanh(z)", width_per_dim=1.5, samples_per_dim=2.0, ridge=0.01,
    ...                second_layer=gs.Vocabulary([1, -1], [0.9, 0.1]), step=gs.PlantedSpike(alignment=0.5))
    >>> s.replace(ridge=0.1).ridge
    0.1
    >>> wide = s.replace(step=MaximalStep(2.0), inputs=gs.InputBlocks([2.5, 0.5], [0.25, 0.75], [0.5, 0.5]))
    >>> gs.predict(wide, precondition=[0, 1]).test_error.values.round(4)
    array([0.1689, 0.0653])
    """

    family: ClassVar[str] = "one-step"
    title: ClassVar[str] = "Two-layer network after one gradient step"
    update_rule: ClassVar[str] = (
        "data      x ~ N(0, I_d),  y = g(<w*,x>) + sqrt(noise) N(0,1),  |w*| = 1\n"
        "          (inputs: x ~ N(0, Sigma), tr Sigma = d, <w*, Sigma w*> = 1)\n"
        "network   f(x) = sum_j a_j sigma(<w_j,x>)/sqrt(p),  |w_j| = 1 and a_j = zeta_j/sqrt(p) at the start\n"
        "step      w_j <- w_j - eta_raw grad_{w_j} sum_mu (y_mu - f(x_mu))^2/(2 n0),  eta_raw = rate * p (maximal)\n"
        "          eta_raw = rate * sqrt(p) (small), rate * n0^exponent * sqrt(p) (growing)\n"
        "          (precondition = c: Sigma^-c grad in place of grad)\n"
        "planted   w_j <- s_q w_j + u_q v,  |v| = 1,  <v,w*> = alignment\n"
        "fit       a = argmin sum_mu (y_mu - f(x_mu))^2 + ridge |a|^2  on n samples, fresh or the step's own\n"
        "classes   a = argmin sum_mu l(y_mu f(x_mu)) + ridge |a|^2/2  with y = g, flipped with probability flip\n"
        "limit     d -> inf with n/d = samples_per_dim, p/d = width_per_dim, n0/d = batch_per_dim fixed"
    )
    questions: ClassVar[Mapping[str, Question]] = {
        "errors": Question(
            "test and training error and the order parameters",
            _ERRORS,
            settings={
                "test_samples": Setting(10_000, "fresh samples of the test error", engines=("experiment",)),
                "stretch": Setting(
                    True,
                    "small and growing steps at a finite dim: count the fluctuation of |x|^2 (step_size_regimes (6c))",
                    engines=("limit",),
                ),
            },
            plot=("test_error", "train_error"),
        ),
        "steps": Question(
            "where the neurons of every block are after the step, and how they spread (no step or a maximal one)",
            _STEPS,
            plot=("U",),
            dimensions=(Dimension("atom", "entries"),),
        ),
        "along": Question(
            "error and output resolved along the learnt direction kappa = <v,x>",
            _ALONG,
            settings={
                "kappa": Setting(None, "positions along the learnt direction (-3, -2.75, ..., 3 if left out)"),
                "test_samples": Setting(40_000, "fresh samples, sorted by kappa", engines=("experiment",)),
            },
            plot=("error_along",),
        ),
        "spectrum": Question(
            "bulk spectrum of the feature covariance, its edges, atom and outliers",
            _SPECTRUM,
            settings={
                "x": Setting(None, "where the density is wanted (chosen if left out)"),
                "normalisation": _NORMALISATION,
            },
            plot=("density",),
        ),
        "resolvent": Question(
            "Stieltjes transform and block traces of the resolvent of Phi^T Phi/p at complex z",
            _RESOLVENT,
            settings={"z": Setting(None, "complex points off the positive real axis", example=[-1.0, 1 + 1j])},
            plot=("m_imag",),
        ),
        "weights": Question(
            "spike of the updated first layer: top singular value and its vectors (small and growing steps)",
            _WEIGHTS,
            plot=("top_singular_value",),
        ),
        "spikes": Question(
            "spikes of the feature matrix, named by their degree in the learnt feature (small and growing steps)",
            _SPIKES,
            settings={"degree": Setting(None, "degrees of the alignments (0 to 4 if left out)")},
            plot=("singular_values",),
        ),
    }
    theories: ClassVar[Mapping[str, str]] = {
        "exact": "the exact limit of the network",
        "isotropic": "the published map of the step onto spiked random features with an isotropic bulk",
        "auto": "at a finite dim, inputs of low effective ranks: split or quadratic, whichever matters; else exact",
        "split": "at a finite dim, inputs of low effective rank: the leading fluctuation is not linearised",
        "quadratic": "at a finite dim, inputs of low r_4: a quadratic fluctuation of its own in every eigenspace",
    }
    papers: ClassVar[tuple[str, ...]] = (
        "dandi2025random",
        "cui2024asymptotics",
        "moniri2024theory",
        "ba2022high",
        "mei2022generalization",
        "giantstep2026batch",
    )
    paper_symbols: ClassVar[Mapping[str, Paper]] = PAPERS
    notation: ClassVar[Mapping[str, Mapping[str, str]]] = notation_of(PAPERS)
    shared_fields: ClassVar[tuple[str, ...]] = ("samples_per_dim", "ridge")
    elsewhere: ClassVar[Mapping[str, str]] = {
        "steps": "it takes one step; FewSteps takes several",
        "rate": "the step has it, step=gs.MaximalStep(rate=2.0)",
        "batch_per_dim": "the step has it, step=gs.MaximalStep(rate=2.0, batch_per_dim=4.0)",
        "loss=cross-entropy": 'that is loss="logistic"',
        "loss=mse": 'that is loss="square"',
    }

    activation: Expression = field("sigma", "activation of the hidden layer", default="relu")
    target: Annotated[Expression, BeforeValidator(_one_direction)] = field(
        "g", "target: the label is g(<w*,x>) plus noise", default="tanh(z)"
    )
    noise: Number = field("delta", "variance of the label noise", default=0.0, ge=0, only={"loss": ("square",)})
    loss: Literal["square", "logistic", "hinge"] = field(
        "l",
        "loss of the second layer's fit; log(1 + e^-yf) and max(1 - yf, 0) need the target sign(z)",
        default="square",
    )
    flip: Number = field(
        "eps",
        "probability that a class is flipped (logistic and hinge)",
        default=0.0,
        ge=0,
        lt=0.5,
        only={"loss": ("logistic", "hinge")},
    )
    width_per_dim: Number = field("beta = p/d", "hidden neurons per dimension", gt=0)
    samples_per_dim: Number = field("alpha = n/d", "samples of the ridge fit per dimension", gt=0)
    ridge: Number = field("lambda", "penalty in sum (y - f)^2 + lambda |a|^2; 0 is the ridgeless limit", ge=0)
    second_layer: SecondLayer = field(
        "zeta, pi", "law of the second layer at the start, times sqrt(p)", default=Vocabulary([1, -1])
    )
    step: AnyStep = field(
        "step", "what happens to the first layer; nothing (random features) if left out", default=NoStep()
    )
    rows: Literal["sphere", "gaussian"] = field(
        "w0", "first layer at the start: |w_j| = 1, or w_j ~ N(0, I/d)", default="sphere"
    )
    fit_sample: Literal["fresh", "same"] = field(
        "(X, y)", "samples of the ridge fit: fresh ones, or the same as the gradient's (n0 = n)", default="fresh"
    )
    inputs: Inputs | None = field(
        "Sigma, w*",
        "covariance of the inputs and the target's place in it, or rows of a table (isotropic if left out)",
        default=None,
    )
    precondition: Whitening = field(
        "c", 'the step is multiplied by Sigma^-c: a number, "none" (0) or "whitened" (1)', default=0.0
    )

    def check(self) -> None:
        """Check that the parts fit together."""
        self.step.check_scenario(self)
        if self.loss != "square":
            self._check_classes()
        if self.inputs is not None:
            as_few_steps(self, self.inputs, self.precondition)
        self.check_points({name: np.array([value]) for name, (value, _) in self.numeric_fields().items()})

    def _check_classes(self) -> None:
        if self.target.name not in ("sign", "sign(z)"):
            raise bad_field("target", self.target.name, f'"sign(z)" where loss="{self.loss}": the labels are classes')
        if self.second_layer == "gaussian":
            raise bad_field("second_layer", "gaussian", f'a Vocabulary where loss="{self.loss}"')

    def check_points(self, points: Mapping[str, Floats]) -> None:
        """Refuse the ridgeless fit exactly at the interpolation threshold, where the error diverges."""
        if self.inputs is not None:
            check_covariance_points(self, points)
        ridge, samples, width = (points[name] for name in ("ridge", "samples_per_dim", "width_per_dim"))
        if np.any((ridge == 0) & (samples == width)):
            raise bad_field(
                "ridge",
                0.0,
                "above 0 where samples_per_dim = width_per_dim (the ridgeless error diverges there)",
            )
        if "step.bulk" in points and np.any(points["step.bulk"] == 0):
            raise bad_field("step.bulk", 0.0, "different from 0")
        flipped = points["flip"] > 0
        if self.loss == "square" and flipped.any():
            allowed = '0 where loss="square" (scale the target and add the noise 4 flip (1 - flip) instead)'
            raise bad_field("flip", float(points["flip"][flipped][0]), allowed)
        if self.loss != "square":
            for name, allowed in (("ridge", "above 0"), ("noise", "0, the classes are flipped with `flip`")):
                wrong = points[name] <= 0 if name == "ridge" else points[name] != 0
                if wrong.any():
                    raise bad_field(name, float(points[name][wrong][0]), f'{allowed} where loss="{self.loss}"')
            if np.any(flipped & np.isfinite(points.get("step.batch_per_dim", np.array(np.inf)))):
                raise bad_field("flip", float(points["flip"][flipped][0]), "0 where step.batch_per_dim is finite")
        if self.fit_sample == "same":
            batch, initial = points["step.batch_per_dim"], points["step.initial_output"]
            if np.any(initial != 0):
                raise bad_field("step.initial_output", int(initial[initial != 0][0]), '0 where fit_sample="same"')
            other = np.flatnonzero(batch != samples)
            if other.size:
                allowed = (
                    f'equal to samples_per_dim={samples[other[0]]:g} where fit_sample="same" (one sample for both)'
                )
                raise bad_field("step.batch_per_dim", float(batch[other[0]]), allowed)

    def with_inputs(self, inputs: Any, precondition: float | str = 0.0) -> Scenario:
        """Return this network on inputs with a covariance as a `FewSteps` of one step (none without a step).

        ``OneStep(inputs=...)`` gives the same numbers after the step. The answers of a `FewSteps` have a `time` as
        well: 0 before the step, 1 after it. Isotropic inputs (None) give the numbers of `OneStep` without `inputs`.

        Parameters
        ----------
        inputs : `InputBlocks`, `PowerLaw`, `InputCovariance`, `InputRows` or None, as in `FewSteps`.
        precondition : the step is multiplied by Sigma^-c: c, "none" (0) or "whitened" (1).

        >>> import giantstep as gs
        >>> s = gs.OneStep(activation="tanh", target="sin(z)", noise=0.02, width_per_dim=1.0, samples_per_dim=1.5,
        ...                ridge=0.1, step=MaximalStep(3.0))
        >>> mixed = gs.InputBlocks([2.5, 0.5], [0.25, 0.75], [0.5, 0.5])
        >>> gs.predict(s.with_inputs(mixed, "whitened")).test_error.values.round(4)
        array([0.2681, 0.0473])
        """
        return as_few_steps(self, inputs, precondition)

    def own_dim(self) -> int | None:
        """Return the dimension of a given covariance."""
        return None if self.inputs is None else self.inputs.own_dim

    def content(self) -> dict[str, Any]:
        """Return the plain content; what is as it was before inputs had a covariance is left out."""
        return content_of_inputs(super().content())

    def baselines(self, points: Points, what: str, values: Mapping[str, Array]) -> Mapping[str, Baseline]:
        """Return the error of predicting zero, of guessing where labels are classes."""
        words = "guessing" if self.has_classes() else "predicting zero"
        return {"test_error": Baseline(words, values["null_error"])} if "null_error" in values else {}

    def has_classes(self) -> bool:
        """Tell whether a logistic or hinge fit takes the labels as classes."""
        return self.loss != "square"

    @classmethod
    def example(cls) -> OneStep:
        """Return a small valid scenario."""
        return cls(
            width_per_dim=1.5,
            samples_per_dim=2.0,
            ridge=0.1,
            second_layer=Vocabulary([1, -1], [0.9, 0.1]),
            step=MaximalStep(rate=2.0),
        )

    @classmethod
    def example_for(cls, what: str) -> OneStep:
        """Return a small valid scenario for a question: spikes have one of a small step."""
        if what not in ("weights", "spikes"):
            return cls.example()
        step = SmallStep(4, batch_per_dim=4, update="rank-one")
        return cls.example().replace(activation="relu(z) - 1/sqrt(2*pi)", step=step)

    @classmethod
    def reference(cls) -> tuple[OneStep, str, float]:
        """Return row R2 of spiked_features section 16: spiked random features, relu and tanh."""
        scenario = cls(
            activation="relu",
            target="tanh(z)",
            width_per_dim=1.5,
            samples_per_dim=1.5,
            ridge=0.01,
            second_layer=Vocabulary([1]),
            step=PlantedSpike(strength=1.0, alignment=0.5),
        )
        return scenario, "test_error", 0.57343370

    @property
    def blocks(self) -> int:
        """Number of values in the vocabulary (1 for a Gaussian second layer, whose blocks are nodes, not classes)."""
        return len(self.second_layer.values) if isinstance(self.second_layer, Vocabulary) else 1

    def block_count(self) -> Mapping[str, int]:
        """Return the length of the ``block`` dims."""
        return {"block": self.blocks, "block_2": self.blocks}

"""The questions a network answers and their variables, declared once; presets choose among them and may drop `time`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from giantstep.dimensions import Dimension
from giantstep.family import Engine, Question, Setting, Variable

_LIMIT: tuple[Engine, ...] = ("limit",)
_EXPERIMENT: tuple[Engine, ...] = ("experiment",)


def _both(name: str, dims: str, symbol: str, meaning: str, **options: Any) -> Variable:
    """Declare a variable of both engines, its dimensions in one word each."""
    return Variable(name, tuple(dims.split()), symbol, meaning, **options)


_limit = partial(_both, engines=_LIMIT)
"""Declare a variable that only the limit has."""
_SHOWN = {"compared": False}
_CLOSED = {"absent": "the closed form that answers here does not have it"}
_NO_ROWS = "it is known for one target direction on isotropic inputs, where the spike does not depend on the rows"
_ROWS = {"absent": _NO_ROWS, "partial": True}
_SIGN = {"absent": "the label is not the sign of a direction", "partial": True}
_SQUARE = {"absent": "it is defined for the square loss"}
_OUTLIER = {"absent": "no further outlier exists", "compared": False}
_GAP = {"absent": "no further gap exists", "compared": False}
_SPIKE = {"absent": "no such outlier exists"}
_LEARNT = {"absent": "nothing is learnt yet"}
_FURTHER = {"absent": "no further direction is learnt"}
_TEST = (
    "mean squared error on fresh samples, label noise included; "
    "with classes the misclassified fraction of fresh samples"
)
_TRAIN = "mean squared error on the n samples of the fit; with classes the misclassified fraction of these samples"
_ATTACKED = (
    "test error where every input moves by eps against the fit, to first order in eps: no bound where features bend"
)
_OUTLIERS = "eigenvalues above the bulk, largest first (inf: grows with the dimension), in the limit then those in gaps"
_VALUES = "largest singular values of F/sqrt(n), F the features of the fit; in the limit the outliers (inf: it grows)"
_DEGREES = "squared cosine of the left vector and h_j = He_j/sqrt(j!) of the learnt feature <x, beta>/|beta|"
_NAMES = "name of the spike: the degree of its largest alignment (NaN: no spike, or that of |x|^2)"

_ERRORS = (
    _both("test_error", "time", "E(y - f)^2 or P(y f<0)", _TEST),
    _both("train_error", "time", "sum (y - f)^2/n or P(y_i f_i<0)", _TRAIN, counted=True),
    _both("objective", "time", "loss/n", "loss plus penalty on the samples of the fit, per sample"),
    _both("test_misclassified", "time", "P(sign f != sign<w*,x>)", "fraction of samples with the wrong sign", **_SIGN),
    _both("norm", "time", "|a|^2/p", "squared norm of the fitted second layer, per neuron", **_CLOSED),
    _both("Q2", "time block", "Q2_q", "|a_q|^2/p, the same block by block", **_CLOSED),
    _both("theta", "time block", "theta_q", "sum of a_i over block q, divided by sqrt(p)", **_SHOWN, **_CLOSED),
    _limit("V2", "time block", "V2_q", "tr[(Phi^T Phi/p + lambda)^-1]_qq/p", **_CLOSED),
    _both("t", "time block", "t_q", "sum of a_i <w0_i, v> over block q, divided by sqrt(p)", **_ROWS),
    _both("psi", "time block", "psi_q", "sum of a_i <w0_i, v_perp> over block q, divided by sqrt(p)", **_ROWS),
    _both("Q1", "time block block_2", "Q1_qq'", "a_q W0_q (1 - v v^T) W0_q'^T a_q'/p", **_ROWS),
    _limit("V1", "time block block_2", "V1_qq'", "tr[W0_q^T (Phi^T Phi/p + lambda)^-1_qq' W0_q']/p", **_ROWS),
    _limit("learned", "time", "m", "number of directions learned", **_CLOSED),
    _limit("all_data_error", "time", "E(y - f)^2, n/d = inf", "error of this width on all data", **_SQUARE),
    _limit("floor", "time", "E(y - f)^2, n/d = p/d = inf", "least error of these features at any width", **_SQUARE),
    _limit("identity", "time", "-", "relative violation of the loss identity, a self-test of the solution", **_CLOSED),
    _limit("null_error", "", "E y^2", "error of predicting zero"),
    _limit("affine_error", "", "E y^2 - g0^2 - |g1|^2", "error of the best affine predictor", **_SQUARE),
    _limit("effective_rank", "", "r_eff/d", "(tr Sigma)^2/tr Sigma^2 of the inputs per dimension"),
    _limit("effective_rank_4", "", "r_4/d", "(tr Sigma^2)^2/tr Sigma^4 of the inputs per dimension"),
)
_STEPS = (
    _both("U", "time block direction", "U_q", "mean overlap of the rows of a block with a target direction"),
    _both("s", "time block", "s_q", "length of a row across the target directions"),
    _both("cosine", "time block direction", "U_q/|w|", "cosine of a row with a target direction"),
    _both("row_norm", "time block", "|w|^2", "squared norm of a row, w^T Sigma w"),
    _both("spread", "time block direction direction_2", "(J_q J_q^T)_U", "d Cov of the overlaps inside a block"),
    _both("spread_s", "time block", "(J_q J_q^T)_s", "d times the variance of s inside a block", **_SHOWN),
    _limit("learned", "time", "m", "number of directions learned"),
    _limit("gamma", "time direction", "gamma_a", "length of a target direction inside the learnt space", **_FURTHER),
    _limit("B", "time block atom", "B_q(lambda)", "what became of the initial weights in an eigenspace"),
    _limit("eigenvalue", "atom", "lambda_j", "eigenvalue of the inputs"),
)
_ALONG = (
    _both("error_along", "time kappa", "E[(y - f)^2 | kappa]", "squared error at a place along kappa", **_LEARNT),
    _both("mean_along", "time kappa", "E[f | kappa]", "mean output at a place along kappa", **_LEARNT),
)
_SPECTRUM = (
    _both("density", "time x", "rho(x)", "density of the bulk, of mass 1 - atom", **_SHOWN),
    _both("cdf", "time x", "F(x)", "fraction of eigenvalues up to x, the atom included, the outliers left out"),
    _both("lower_edge", "time", "x_-", "lower edge of the bulk (nonzero eigenvalues)", **_SHOWN),
    _both("upper_edge", "time", "x_+", "upper edge of the bulk", **_SHOWN),
    _both("atom", "time", "mass at 0", "fraction of eigenvalues that are zero"),
    _both("mean_eigenvalue", "time", "int x rho dx", "first moment of the bulk", **_SHOWN),
    _both("outliers", "time outlier", "z_j", _OUTLIERS, **_OUTLIER),
    _limit("gap_lower", "time gap", "g_-", "where a gap inside the bulk begins", **_GAP),
    _limit("gap_upper", "time gap", "g_+", "where it ends", **_GAP),
)
_RESOLVENT = (
    _both("m_real", "time z", "Re m(z)", "Stieltjes transform tr(Phi^T Phi/p - z)^-1/p, real part"),
    _both("m_imag", "time z", "Im m(z)", "Stieltjes transform, imaginary part"),
    _both("V2_real", "time z block", "Re V2_q", "trace of the resolvent over block q, divided by p"),
    _both("V2_imag", "time z block", "Im V2_q", "trace of the resolvent over block q, imaginary part"),
    _both("V1_real", "time z block block_2", "Re V1_qq'", "trace with W0_q ... W0_q'^T inserted, over p", **_ROWS),
    _both("V1_imag", "time z block block_2", "Im V1_qq'", "the same, imaginary part", **_ROWS),
)
_WEIGHTS = (
    _both("top_singular_value", "time", "s_1(W)", "largest singular value of the weights; the edge without an outlier"),
    _both(
        "left_alignment", "time", "(u.a)^2/|a|^2", "squared cosine of its left vector and the second layer", **_SPIKE
    ),
    _both("right_alignment", "time", "(v.w*)^2", "squared cosine of its right vector and the target", **_SPIKE),
    _both("bottom_singular_value", "time", "s_min(W)", "smallest of the min(p, d) singular values; or the edge"),
    _both("bottom_left_alignment", "time", "(u_min.a)^2/|a|^2", "squared cosine of its left vector and a", **_SPIKE),
    _both("bottom_right_alignment", "time", "(v_min.w*)^2", "squared cosine of its right vector and w*", **_SPIKE),
    _limit("bulk_lower", "time", "|1 - sqrt(p/d)|", "lower edge of the singular values"),
    _limit("bulk_upper", "time", "1 + sqrt(p/d)", "upper edge of the singular values"),
    _limit("spike_strength", "time", "ell", "squared length of W^T a/|a|, 1 without a step"),
    _limit("threshold", "time", "1 + sqrt(p/d)", "spike_strength above which there is an outlier at the top"),
)
_SPIKES = (
    _both("singular_values", "time spike", "s_k", _VALUES, **_SPIKE),
    _both("alignment", "time spike degree", "(u_k.h_j)^2/|h_j|^2", _DEGREES, **_SPIKE),
    _both("norm_alignment", "time spike", "(u_k.chi)^2/|chi|^2", "the same with chi = (|x|^2 - d)/sqrt(2d)", **_SPIKE),
    _both("spike_degree", "time spike", "argmax_j", _NAMES, **_SHOWN, **_SPIKE),
    _limit("bulk_edge", "time", "s_+", "upper edge of the bulk of singular values of F/sqrt(n)"),
)
_PARTLY = {"absent": "no rule resolves the sign of so many classifiers along several directions", "partial": True}
_OPPOSITE = {"absent": "the labels are not classes, or no rule resolves so narrow outputs", "partial": True}
_AVERAGE = "test error of the mean of so many networks; with classes of the sign of their mean"
_REGRESSION = {
    "absent": "label noises of their own, which the parts compare, are not derived for classes",
    "partial": True,
}
_HINGE = {"absent": "the overlap of two hinge fits is not derived", "partial": True}
_VARIANCE = (
    _both(
        "bias", "time", "E(Ef - g)^2", "squared error of the mean of many networks that share nothing", **_REGRESSION
    ),
    _both("from_layer", "time", "W", "variance due to the first layer alone", **_REGRESSION),
    _both("from_samples", "time", "X", "variance due to the inputs of the fit alone", **_REGRESSION),
    _both("from_noise", "time", "E", "variance due to the label noise of the samples", **_REGRESSION),
    _both("from_layer_samples", "time", "WX", "variance of first layer and inputs together", **_REGRESSION),
    _both("from_layer_noise", "time", "WE", "variance of first layer and label noise together", **_REGRESSION),
    _both("test_error", "time", "E(y - f)^2 or P(y f<0)", _TEST),
    _both("disagreement", "time shared", "E(f_a - f_b)^2", "of two networks alike that share the layer, the samples"),
    _both("sign_disagreement", "time shared", "P(f_a f_b<0)", "how often the signs of two of them differ", **_OPPOSITE),
    _both("ensemble_error", "time shared members", "E(y - mean f)^2", _AVERAGE, **_PARTLY),
)
_SENSITIVITY = (
    _both("gradient_norm2", "time", "E|grad f|^2", "mean squared length of the gradient of the output in the input"),
    _both("gradient_learnt", "time", "E|P grad f|^2", "its part along the directions of the target"),
    _both("gradient_rest", "time", "E|(1 - P) grad f|^2", "its part across them"),
    _both("attacked_error", "time eps", "E(|y - f| + eps |grad f|)^2 or P", _ATTACKED),
)
_SHIFT = (
    _both("test_error", "time", "E'(y - f)^2 or P'(y f<0)", "error at test inputs of another law, noise included"),
    _both("test_misclassified", "time", "P'(sign f != sign<w*,x>)", "wrong signs at these inputs", **_SIGN),
    _both("disagreement", "time shared", "E'(f_a - f_b)^2", "of two networks alike at these inputs", **_HINGE),
)
_NOT_CLASSES = {"absent": "the labels are not classes", "partial": True}
_NOT_REGRESSION = {"absent": "the labels are classes", "partial": True}
_UNSEEN = {"absent": "the labels are not classes, or no output has this logit", "partial": True, "counted": True}
_AT_T = "how far probabilities are off at this temperature"
_COVERAGE = "share of labels within 1.96 roots of the training error"
_CALIBRATION = (
    _both("log_loss", "time", "E log(1 + e^-yf)", "log loss of the output taken as a logit", **_NOT_CLASSES),
    _both("brier", "time", "E(P - y)^2", "squared error of its probabilities, y = 0 or 1", **_NOT_CLASSES),
    _both("calibration_error", "time", "E|P(y|f) - P|", "how far its probabilities are off", **_NOT_CLASSES, **_SHOWN),
    _both("temperature", "time", "T", "temperature of the least log loss; inf: chance is better", **_NOT_CLASSES),
    _both("log_loss_recalibrated", "time", "E log(1 + e^-yf/T)", "log loss at this temperature", **_NOT_CLASSES),
    _both("calibration_error_recalibrated", "time", "E|P(y|f) - P_T|", _AT_T, **_NOT_CLASSES, **_SHOWN),
    _both("log_loss_floor", "time", "E H(y|f)", "that of the best function of the output", **_NOT_CLASSES, **_SHOWN),
    _both("reliability", "time logit", "P(y = 1|f)", "share of the label 1 where the output is this logit", **_UNSEEN),
    _both("coverage", "time", "P(|y - f|<1.96 s)", _COVERAGE, **_NOT_REGRESSION),
    _both("honest_width", "time", "w_0.95", "half width of the interval that holds 95% of labels", **_NOT_REGRESSION),
)
SHARED = ("layer", "samples", "nothing")
"""What two networks have in common: the trained first layer, the samples of the fit with their labels, or nothing."""

TEST_SAMPLES = 10_000
"""Fresh samples of a test error, which then has a statistical error of about 1%."""
_ASKED = {
    "errors": Question(
        "test and training error of the read-out after every step, order parameters and floors",
        _ERRORS,
        settings={
            "test_samples": Setting(TEST_SAMPLES, "fresh samples of the test error", engines=_EXPERIMENT),
            "stretch": Setting(
                True,
                "small and growing steps at a finite dim: count the fluctuation of |x|^2 (step_size_regimes (6c))",
                engines=_LIMIT,
            ),
        },
        plot=("test_error", "train_error"),
        coarse_tolerance=1e-3,
    ),
    "steps": Question(
        "where the neurons of every block are after every step, and how they spread",
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
        settings={
            "x": Setting(None, "where the density is wanted (chosen if left out)"),
            "normalisation": Setting("p", "eigenvalues of Phi^T Phi/p or of Phi^T Phi/n", choices=("p", "n")),
        },
        plot=("density",),
    ),
    "resolvent": Question(
        "Stieltjes transform and block traces of the resolvent of Phi^T Phi/p after every step, at complex z",
        _RESOLVENT,
        settings={"z": Setting(None, "complex points off the positive real axis", example=[-1.0, 1 + 1j])},
        plot=("m_imag",),
    ),
    "weights": Question(
        "spike of the updated first layer: extreme singular values and their vectors",
        _WEIGHTS,
        plot=("top_singular_value",),
    ),
    "spikes": Question(
        "spikes of the feature matrix, named by their degree in the learnt feature",
        _SPIKES,
        settings={"degree": Setting(None, "degrees of the alignments (0 to 4 if left out)")},
        plot=("singular_values",),
    ),
    "variance": Question(
        "bias of the read-out after every step, where its variance comes from, averages of several networks",
        _VARIANCE,
        settings={
            "members": Setting(None, "networks that are averaged (1, 2, 4 and inf if left out)"),
            "test_samples": Setting(TEST_SAMPLES, "fresh samples of the test error", engines=_EXPERIMENT),
        },
        plot=("bias", "from_layer", "from_samples"),
        figure="variance",
        labels={"shared": SHARED},
    ),
    "sensitivity": Question(
        "gradient of the fitted network after every step, and its error where inputs are perturbed",
        _SENSITIVITY,
        settings={
            "eps": Setting(None, "lengths of the perturbation (0, 0.1, 0.25 and 0.5 if left out)"),
            "test_samples": Setting(4000, "fresh samples of the gradient", engines=_EXPERIMENT),
        },
        plot=("gradient_norm2", "gradient_rest"),
    ),
    "shift": Question(
        "error and disagreement after every step where test inputs have another law than those of the fit",
        _SHIFT,
        settings={"test_samples": Setting(TEST_SAMPLES, "fresh samples of the test error", engines=_EXPERIMENT)},
        plot=("test_error", "disagreement"),
        labels={"shared": SHARED},
    ),
    "calibration": Question(
        "how far the outputs after every step can be trusted: probabilities of classes, intervals of regression",
        _CALIBRATION,
        settings={
            "logit": Setting(None, "logits of the reliability (-6, -5.5, ..., 6 if left out)"),
            "test_samples": Setting(40_000, "fresh samples, sorted by their logit", engines=_EXPERIMENT),
        },
        plot=("log_loss", "coverage"),
        figure="reliability",
    ),
}
_TIME = Dimension("time", "trajectory", "steps made")
QUESTIONS: Mapping[str, Question] = {
    name: replace(question, dimensions=(*question.dimensions, _TIME)) for name, question in _ASKED.items()
}


def questions_without(
    names: Collection[str], dims: Collection[str] = (), settings: Collection[str] = (), what: Collection[str] = ()
) -> dict[str, Question]:
    """Return the questions of a preset: without these variables, dimensions, settings and questions."""
    return {
        asked: replace(
            question,
            variables=tuple(
                replace(variable, dims=tuple(dim for dim in variable.dims if dim not in dims))
                for variable in question.variables
                if variable.name not in names and f"{asked}.{variable.name}" not in names
            ),
            settings={name: setting for name, setting in question.settings.items() if name not in settings},
        )
        for asked, question in QUESTIONS.items()
        if asked not in what
    }

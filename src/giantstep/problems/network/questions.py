"""Questions about a network and their variables, declared once; those beyond its mean
error are in `beyond`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from giantstep.core.scenario.dimensions import Dimension
from giantstep.core.scenario.family import Engine, Question, Setting, Variable

LIMIT: tuple[Engine, ...] = ("limit",)
EXPERIMENT: tuple[Engine, ...] = ("experiment",)
_TIME = Dimension("time", "trajectory", "steps made")


def both(name: str, dims: str, symbol: str, meaning: str, **options: Any) -> Variable:
    """Declare a variable of both engines, its dimensions in one word each."""
    return Variable(name, tuple(dims.split()), symbol, meaning, **options)


# traces and floors that no finite network has
_limit = partial(both, engines=LIMIT)
"""Declare a variable that only the limit has."""
# both engines fill it, but no z-score is made of it
SHOWN = {"compared": False}
_CLOSED = {"absent": "the closed form that answers here does not have it"}
_NO_ROWS = (
    "it is known for one target direction on isotropic inputs, where the spike does not"
    " depend on the rows"
)
# NaN without a failure in both engines: for several directions, or inputs with a
# covariance
_ROWS = {"absent": _NO_ROWS, "partial": True}
SIGN = {"absent": "the label is not the sign of a direction", "partial": True}
_SQUARE = {"absent": "it is defined for the square loss"}
_OUTLIER: dict[str, Any] = {"absent": "no further outlier exists", "partial": True}
_COUNT = {
    "absent": (
        "an outlier is too near to the edge, or there is no edge, to count at this dim"
    ),
    "partial": True,
}
# an experiment has no gaps, only distances between eigenvalues
_GAP = {"absent": "no further gap exists", "compared": False}
_SPIKE = {"absent": "no such outlier exists"}
_LEARNT = {"absent": "nothing is learnt yet"}
_SPREAD = {"absent": "how rows spread after a sign step is not followed"}
_FURTHER = {"absent": "no further direction is learnt"}
TEST = (
    "mean squared error on fresh samples, label noise included; "
    "with classes the misclassified fraction of fresh samples"
)
_TRAIN = (
    "mean squared error on the n samples of the fit; with classes the misclassified"
    " fraction of these samples"
)
_CDF = (
    "fraction of the p eigenvalues up to x, the atom included, the outliers left out"
    " (it ends at 1 - k/p)"
)
_CDF_OPEN = (
    "one eigenvalue, and what one sample, neuron and dimension more or less move"
)
_OUTLIERS_OPEN = (
    "what one sample, neuron and dimension more or less move, and more near the edge"
)
_OUTLIERS = (
    "eigenvalues above the bulk, largest first (inf: grows with the dimension), in the"
    " limit then those in gaps"
)
_VALUES = (
    "largest singular values of F/sqrt(n), F the features of the fit; in the limit the"
    " outliers (inf: it grows)"
)
_DEGREES = (
    "squared cosine of the left vector and h_j = He_j/sqrt(j!) of the learnt feature"
    " <x, beta>/|beta|"
)
_NAMES = (
    "name of the spike: the degree of its largest alignment (NaN: no spike, or that of"
    " |x|^2)"
)
_STRETCH = (
    "small and growing steps at a finite dim: count the fluctuation of |x|^2"
    " (step_size_regimes (6c))"
)

_ERRORS = (
    both("test_error", "time", "E(y - f)^2 or P(y f<0)", TEST),
    # with classes a fraction of few samples: that no trial saw an error contradicts no
    # small one
    both(
        "train_error", "time", "sum (y - f)^2/n or P(y_i f_i<0)", _TRAIN, counted=True
    ),
    both(
        "objective",
        "time",
        "loss/n",
        "loss plus penalty on the samples of the fit, per sample",
    ),
    both(
        "test_misclassified",
        "time",
        "P(sign f != sign<w*,x>)",
        "fraction of samples with the wrong sign",
        **SIGN,
    ),
    both(
        "norm",
        "time",
        "|a|^2/p",
        "squared norm of the fitted second layer, per neuron",
        **_CLOSED,
    ),
    both("Q2", "time block", "Q2_q", "|a_q|^2/p, the same block by block", **_CLOSED),
    both(
        "theta",
        "time block",
        "theta_q",
        "sum of a_i over block q, divided by sqrt(p)",
        **SHOWN,
        **_CLOSED,
    ),
    _limit("V2", "time block", "V2_q", "tr[(Phi^T Phi/p + lambda)^-1]_qq/p", **_CLOSED),
    both(
        "t",
        "time block",
        "t_q",
        "sum of a_i <w0_i, v> over block q, divided by sqrt(p)",
        **_ROWS,
    ),
    both(
        "psi",
        "time block",
        "psi_q",
        "sum of a_i <w0_i, v_perp> over block q, divided by sqrt(p)",
        **_ROWS,
    ),
    both(
        "Q1",
        "time block block_2",
        "Q1_qq'",
        "a_q W0_q (1 - v v^T) W0_q'^T a_q'/p",
        **_ROWS,
    ),
    _limit(
        "V1",
        "time block block_2",
        "V1_qq'",
        "tr[W0_q^T (Phi^T Phi/p + lambda)^-1_qq' W0_q']/p",
        **_ROWS,
    ),
    _limit(
        "learned",
        "time",
        "m",
        "number of directions of the target that are learned",
        **_CLOSED,
    ),
    _limit(
        "all_data_error",
        "time",
        "E(y - f)^2, n/d = inf",
        "error of this width on all data",
        **_SQUARE,
    ),
    _limit(
        "floor",
        "time",
        "E(y - f)^2, n/d = p/d = inf",
        "least error of these features at any width",
        **_SQUARE,
    ),
    _limit(
        "identity",
        "time",
        "-",
        "relative violation of the loss identity, a self-test of the solution",
        **_CLOSED,
    ),
    _limit("null_error", "", "E y^2", "error of predicting zero"),
    _limit(
        "affine_error",
        "",
        "E y^2 - g0^2 - |g1|^2",
        "error of the best affine predictor",
        **_SQUARE,
    ),
    _limit(
        "effective_rank",
        "",
        "r_eff/d",
        "(tr Sigma)^2/tr Sigma^2 of the inputs per dimension",
    ),
    _limit(
        "effective_rank_4",
        "",
        "r_4/d",
        "(tr Sigma^2)^2/tr Sigma^4 of the inputs per dimension",
    ),
)
_STEPS = (
    both(
        "U",
        "time block direction",
        "U_q",
        "mean overlap of the rows of a block with a target direction",
    ),
    both("s", "time block", "s_q", "length of a row across the target directions"),
    both(
        "cosine",
        "time block direction",
        "U_q/|w|",
        "cosine of a row with a target direction",
    ),
    both("row_norm", "time block", "|w|^2", "squared norm of a row, w^T Sigma w"),
    both(
        "spread",
        "time block direction direction_2",
        "(J_q J_q^T)_U",
        "d Cov of the overlaps of a block",
        **_SPREAD,
    ),
    both(
        "spread_s",
        "time block",
        "(J_q J_q^T)_s",
        "d times the variance of s inside a block",
        **SHOWN,
        **_SPREAD,
    ),
    _limit(
        "learned", "time", "m", "number of directions of the target that are learned"
    ),
    _limit(
        "gamma",
        "time direction",
        "gamma_a",
        "length of a target direction inside the learnt space",
        **_FURTHER,
    ),
    _limit(
        "B",
        "time block atom",
        "B_q(lambda)",
        "what became of the initial weights in an eigenspace",
    ),
    _limit("eigenvalue", "atom", "lambda_j", "eigenvalue of the inputs"),
)
_ALONG = (
    both(
        "error_along",
        "time kappa",
        "E[(y - f)^2 | kappa]",
        "squared error at a place along kappa",
        **_LEARNT,
    ),
    both(
        "mean_along",
        "time kappa",
        "E[f | kappa]",
        "mean output at a place along kappa",
        **_LEARNT,
    ),
)
_SPECTRUM = (
    both(
        "density", "time x", "rho(x)", "density of the bulk, of mass 1 - atom", **SHOWN
    ),
    # steps of 1/p: the gap to the limit counts beyond that resolution
    both("cdf", "time x", "F(x)", _CDF, resolution="cdf_resolution"),
    _limit("cdf_resolution", "time x", "dF", _CDF_OPEN),
    both(
        "lower_edge",
        "time",
        "x_-",
        "lower edge of the bulk (nonzero eigenvalues)",
        **SHOWN,
    ),
    both("upper_edge", "time", "x_+", "upper edge of the bulk", **SHOWN),
    both("atom", "time", "mass at 0", "fraction of eigenvalues that are zero"),
    both(
        "mean_eigenvalue", "time", "int x rho dx", "first moment of the bulk", **SHOWN
    ),
    both(
        "outliers",
        "time outlier",
        "z_j",
        _OUTLIERS,
        **_OUTLIER,
        resolution="outliers_resolution",
    ),
    _limit(
        "outliers_resolution",
        "time outlier",
        "dz_j",
        _OUTLIERS_OPEN,
        absent=_OUTLIER["absent"],
    ),
    both(
        "outlier_count",
        "time",
        "k",
        "number of eigenvalues that stand clear above the bulk",
        **_COUNT,
    ),
    _limit(
        "gap_lower", "time gap", "g_-", "where a gap inside the bulk begins", **_GAP
    ),
    _limit("gap_upper", "time gap", "g_+", "where it ends", **_GAP),
)
_RESOLVENT = (
    both(
        "m_real",
        "time z",
        "Re m(z)",
        "Stieltjes transform tr(Phi^T Phi/p - z)^-1/p, real part",
    ),
    both("m_imag", "time z", "Im m(z)", "Stieltjes transform, imaginary part"),
    both(
        "V2_real",
        "time z block",
        "Re V2_q",
        "trace of the resolvent over block q, divided by p",
    ),
    both(
        "V2_imag",
        "time z block",
        "Im V2_q",
        "trace of the resolvent over block q, imaginary part",
    ),
    both(
        "V1_real",
        "time z block block_2",
        "Re V1_qq'",
        "trace with W0_q ... W0_q'^T inserted, over p",
        **_ROWS,
    ),
    both(
        "V1_imag",
        "time z block block_2",
        "Im V1_qq'",
        "the same, imaginary part",
        **_ROWS,
    ),
)
_WEIGHTS = (
    both(
        "top_singular_value",
        "time",
        "s_1(W)",
        "largest singular value of the weights; the edge without an outlier",
    ),
    both(
        "left_alignment",
        "time",
        "(u.a)^2/|a|^2",
        "squared cosine of its left vector and the second layer",
        **_SPIKE,
    ),
    both(
        "right_alignment",
        "time",
        "(v.w*)^2",
        "squared cosine of its right vector and the target",
        **_SPIKE,
    ),
    both(
        "bottom_singular_value",
        "time",
        "s_min(W)",
        "smallest of the min(p, d) singular values; or the edge",
    ),
    both(
        "bottom_left_alignment",
        "time",
        "(u_min.a)^2/|a|^2",
        "squared cosine of its left vector and a",
        **_SPIKE,
    ),
    both(
        "bottom_right_alignment",
        "time",
        "(v_min.w*)^2",
        "squared cosine of its right vector and w*",
        **_SPIKE,
    ),
    _limit(
        "bulk_lower", "time", "|1 - sqrt(p/d)|", "lower edge of the singular values"
    ),
    _limit("bulk_upper", "time", "1 + sqrt(p/d)", "upper edge of the singular values"),
    _limit(
        "spike_strength", "time", "ell", "squared length of W^T a/|a|, 1 without a step"
    ),
    _limit(
        "threshold",
        "time",
        "1 + sqrt(p/d)",
        "spike_strength above which there is an outlier at the top",
    ),
)
_SPIKES = (
    # below the edge a singular value is one of the bulk
    both("singular_values", "time spike", "s_k", _VALUES, level="bulk_edge", **_SPIKE),
    both("alignment", "time spike degree", "(u_k.h_j)^2/|h_j|^2", _DEGREES, **_SPIKE),
    both(
        "norm_alignment",
        "time spike",
        "(u_k.chi)^2/|chi|^2",
        "the same with chi = (|x|^2 - d)/sqrt(2d)",
        **_SPIKE,
    ),
    both("spike_degree", "time spike", "argmax_j", _NAMES, **SHOWN, **_SPIKE),
    _limit(
        "bulk_edge",
        "time",
        "s_+",
        "upper edge of the bulk of singular values of F/sqrt(n)",
    ),
)
_kept = partial(both, engines=EXPERIMENT, compared=False)
"""Declare a variable of the networks themselves, which `keep_networks` adds to an
experiment.
"""
KEPT = (
    _kept(
        "first_layer",
        "time neuron input",
        "w_i",
        "rows of the first layer (of whitened inputs, where these are not)",
    ),
    _kept(
        "layer_of_steps",
        "neuron",
        "zeta_i",
        "second layer during the steps, times sqrt(p)",
    ),
    _kept(
        "target_directions",
        "direction input",
        "w*",
        "directions of the target, in the coordinates of the rows",
    ),
)
# there is a second layer where the question fits one
KEPT_FITS = (
    _kept(
        "second_layer",
        "time neuron",
        "a_i",
        "fitted: f(x) = sum_i a_i sigma(<w_i,x>)/sqrt(p)",
    ),
)
KEPT_SPECTRA = (
    _kept(
        "eigenvalues",
        "time rank",
        "x_j",
        "all p eigenvalues, increasing, zeros and outliers included",
    ),
)
FITTED = ("errors", "along", "shift", "sensitivity", "calibration")
"""Questions that fit a second layer to one network."""
TEST_SAMPLES = 10_000
"""Fresh samples of a test error, which then has a statistical error of about 1%."""
after_steps = partial(Question, dimensions=(_TIME,))
"""Declare a question that is answered after every step."""
QUESTIONS: Mapping[str, Question] = {
    "errors": after_steps(
        "test and training error of the read-out after every step, order parameters and"
        " floors",
        _ERRORS,
        settings={
            "test_samples": Setting(
                TEST_SAMPLES, "fresh samples of the test error", engines=EXPERIMENT
            ),
            "stretch": Setting(True, _STRETCH, engines=LIMIT),
        },
        plot=("test_error", "train_error"),
        # a curve on a screen does not show more
        coarse_tolerance=1e-3,
    ),
    "steps": after_steps(
        "where the neurons of every block are after every step, and how they spread",
        _STEPS,
        plot=("U",),
        # in place of those of `after_steps`, and so with the time once more
        dimensions=(Dimension("atom", "entries"), _TIME),
    ),
    "along": after_steps(
        "error and output after every step, resolved along the leading learnt direction"
        " kappa",
        _ALONG,
        settings={
            "kappa": Setting(
                None,
                "positions along the learnt direction (-3, -2.75, ..., 3 if left out)",
            ),
            "test_samples": Setting(
                # more than for one error: every cell has its own
                40_000,
                "fresh samples, sorted by kappa",
                engines=EXPERIMENT,
            ),
        },
        plot=("error_along",),
    ),
    "spectrum": after_steps(
        "bulk spectrum of the feature covariance after every step, its edges, atom and"
        " outliers",
        _SPECTRUM,
        settings={
            "x": Setting(None, "where the density is wanted (chosen if left out)"),
            "normalisation": Setting(
                "p", "eigenvalues of Phi^T Phi/p or of Phi^T Phi/n", choices=("p", "n")
            ),
        },
        plot=("density",),
    ),
    "resolvent": after_steps(
        "Stieltjes transform and block traces of the resolvent of Phi^T Phi/p after"
        " every step, at complex z",
        _RESOLVENT,
        settings={
            "z": Setting(
                None,
                "complex points off the positive real axis",
                # without a default the question cannot be asked: it needs an example
                example=[-1.0, 1 + 1j],
            )
        },
        plot=("m_imag",),
    ),
    "weights": after_steps(
        "spike of the updated first layer: extreme singular values and their vectors",
        _WEIGHTS,
        plot=("top_singular_value",),
    ),
    "spikes": after_steps(
        "spikes of the feature matrix, named by their degree in the learnt feature",
        _SPIKES,
        settings={
            "degree": Setting(None, "degrees of the alignments (0 to 4 if left out)")
        },
        plot=("singular_values",),
    ),
}

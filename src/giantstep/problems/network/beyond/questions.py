"""Questions beyond the mean error: their variables, their settings, and the networks of
which they know nothing.

The theory is beyond_the_error. `variance` and `tested` answer, `measure` measures.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from giantstep.core.base.types import Floats, Points
from giantstep.core.scenario.checks import check_list
from giantstep.core.scenario.family import Question, Setting
from giantstep.problems.network.plugins import Questions
from giantstep.problems.network.questions import (
    EXPERIMENT,
    SHOWN,
    SIGN,
    TEST,
    TEST_SAMPLES,
    after_steps,
    both,
)

if TYPE_CHECKING:
    from giantstep.problems.network.scenario import Network

_ATTACKED = (
    "test error where every input moves by eps against the fit, to first order in eps:"
    " no bound where features bend"
)
_PARTLY = {
    "absent": (
        "no rule resolves the sign of so many classifiers along several directions"
    ),
    "partial": True,
}
_OPPOSITE = {
    "absent": "the labels are not classes, or no rule resolves so narrow outputs",
    "partial": True,
}
_AVERAGE = (
    "test error of the mean of so many networks; with classes of the sign of their mean"
)
_REGRESSION = {
    "absent": (
        "label noises of their own, which the parts compare, are not derived for"
        " classes"
    ),
    "partial": True,
}
_HINGE = {"absent": "the overlap of two hinge fits is not derived", "partial": True}
_VARIANCE = (
    both(
        "bias",
        "time",
        "E(Ef - g)^2",
        "squared error of the mean of many networks that share nothing",
        **_REGRESSION,
    ),
    both(
        "from_layer",
        "time",
        "W",
        "variance due to the first layer alone",
        **_REGRESSION,
    ),
    both(
        "from_samples",
        "time",
        "X",
        "variance due to the inputs of the fit alone",
        **_REGRESSION,
    ),
    both(
        "from_noise",
        "time",
        "E",
        "variance due to the label noise of the samples",
        **_REGRESSION,
    ),
    both(
        "from_layer_samples",
        "time",
        "WX",
        "variance of first layer and inputs together",
        **_REGRESSION,
    ),
    both(
        "from_layer_noise",
        "time",
        "WE",
        "variance of first layer and label noise together",
        **_REGRESSION,
    ),
    both("test_error", "time", "E(y - f)^2 or P(y f<0)", TEST),
    both(
        "disagreement",
        "time shared",
        "E(f_a - f_b)^2",
        "of two networks alike that share the layer, the samples",
    ),
    both(
        "sign_disagreement",
        "time shared",
        "P(f_a f_b<0)",
        "how often the signs of two of them differ",
        **_OPPOSITE,
    ),
    both(
        "ensemble_error", "time shared members", "E(y - mean f)^2", _AVERAGE, **_PARTLY
    ),
)
_SENSITIVITY = (
    both(
        "gradient_norm2",
        "time",
        "E|grad f|^2",
        "mean squared length of the gradient of the output in the input",
    ),
    both(
        "gradient_learnt",
        "time",
        "E|P grad f|^2",
        "its part along the directions of the target",
    ),
    both("gradient_rest", "time", "E|(1 - P) grad f|^2", "its part across them"),
    both("attacked_error", "time eps", "E(|y - f| + eps |grad f|)^2 or P", _ATTACKED),
)
_SHIFT = (
    both(
        "test_error",
        "time",
        "E'(y - f)^2 or P'(y f<0)",
        "error at test inputs of another law, noise included",
    ),
    both(
        "test_misclassified",
        "time",
        "P'(sign f != sign<w*,x>)",
        "wrong signs at these inputs",
        **SIGN,
    ),
    both(
        "disagreement",
        "time shared",
        "E'(f_a - f_b)^2",
        "of two networks alike at these inputs",
        **_HINGE,
    ),
)
_NOT_CLASSES = {"absent": "the labels are not classes", "partial": True}
_NOT_REGRESSION = {"absent": "the labels are classes", "partial": True}
_UNSEEN = {
    "absent": "the labels are not classes, or no output has this logit",
    "partial": True,
    "counted": True,
}
_AT_T = "how far probabilities are off at this temperature"
_COVERAGE = "share of labels within 1.96 roots of the training error"
_CALIBRATION = (
    both(
        "log_loss",
        "time",
        "E log(1 + e^-yf)",
        "log loss of the output taken as a logit",
        **_NOT_CLASSES,
    ),
    both(
        "brier",
        "time",
        "E(P - y)^2",
        "squared error of its probabilities, y = 0 or 1",
        **_NOT_CLASSES,
    ),
    both(
        # measured in cells, which chance biases: shown, not compared
        "calibration_error",
        "time",
        "E|P(y|f) - P|",
        "how far its probabilities are off",
        **_NOT_CLASSES,
        **SHOWN,
    ),
    both(
        "temperature",
        "time",
        "T",
        "temperature of the least log loss; inf: chance is better",
        **_NOT_CLASSES,
    ),
    both(
        "log_loss_recalibrated",
        "time",
        "E log(1 + e^-yf/T)",
        "log loss at this temperature",
        **_NOT_CLASSES,
    ),
    both(
        # in the same cells
        "calibration_error_recalibrated",
        "time",
        "E|P(y|f) - P_T|",
        _AT_T,
        **_NOT_CLASSES,
        **SHOWN,
    ),
    both(
        # in the same cells
        "log_loss_floor",
        "time",
        "E H(y|f)",
        "that of the best function of the output",
        **_NOT_CLASSES,
        **SHOWN,
    ),
    both(
        "reliability",
        "time logit",
        "P(y = 1|f)",
        "share of the label 1 where the output is this logit",
        **_UNSEEN,
    ),
    both("coverage", "time", "P(|y - f|<1.96 s)", _COVERAGE, **_NOT_REGRESSION),
    both(
        "honest_width",
        "time",
        "w_0.95",
        "half width of the interval that holds 95% of labels",
        **_NOT_REGRESSION,
    ),
)
SHARED = ("layer", "samples", "nothing")
"""What two networks have in common: the trained first layer, the samples of the fit
with their labels, or nothing.
"""

BEYOND: Mapping[str, Question] = {
    "variance": after_steps(
        "bias of the read-out after every step, where its variance comes from, averages"
        " of several networks",
        _VARIANCE,
        settings={
            "members": Setting(
                None, "networks that are averaged (1, 2, 4 and inf if left out)"
            ),
            "test_samples": Setting(
                TEST_SAMPLES, "fresh samples of the test error", engines=EXPERIMENT
            ),
        },
        plot=("bias", "from_layer", "from_samples"),
        figure="variance",
        labels={"shared": SHARED},
    ),
    "sensitivity": after_steps(
        "gradient of the fitted network after every step, and its error where inputs"
        " are perturbed",
        _SENSITIVITY,
        settings={
            "eps": Setting(
                None, "lengths of the perturbation (0, 0.1, 0.25 and 0.5 if left out)"
            ),
            "test_samples": Setting(
                4000, "fresh samples of the gradient", engines=EXPERIMENT
            ),
        },
        plot=("gradient_norm2", "gradient_rest"),
    ),
    "shift": after_steps(
        "error and disagreement after every step where test inputs have another law"
        " than those of the fit",
        _SHIFT,
        settings={
            "test_samples": Setting(
                TEST_SAMPLES, "fresh samples of the test error", engines=EXPERIMENT
            )
        },
        plot=("test_error", "disagreement"),
        labels={"shared": SHARED},
    ),
    "calibration": after_steps(
        "how far the outputs after every step can be trusted: probabilities of classes,"
        " intervals of regression",
        _CALIBRATION,
        settings={
            "logit": Setting(
                None, "logits of the reliability (-6, -5.5, ..., 6 if left out)"
            ),
            # more than for one error: every cell has its own
            "test_samples": Setting(
                40_000, "fresh samples, sorted by their logit", engines=EXPERIMENT
            ),
        },
        plot=("log_loss", "coverage"),
        figure="reliability",
    ),
}


def lacking(network: Network, points: Points, what: str) -> tuple[str, str] | None:
    """Return the field and the theory that one of these questions is missing; None
    where there is one.
    """
    said = f'a theory of what="{what}"'
    if network.inputs is not None:
        return "inputs", f"{said} for inputs with a covariance"
    # section 12 of beyond_the_error: what no overlap is derived for
    if any(step.shares_sample for step in network.steps):
        return "steps", f"{said} after small or growing steps"
    if any(step.sees_coordinates for step in network.steps):
        return "steps", f"{said} after a sign step"
    if np.isfinite(
        [batch for name, batch in points.items() if name.endswith(".batch_per_dim")]
    ).any():
        return (
            "steps",
            f"{said} after a step on a finite batch, which two networks may share",
        )
    if what == "variance" and network.readout.kind == "hinge":
        return (
            "readout.kind",
            (
                "the overlap of two hinge fits: beyond_the_error (2.11) is derived for"
                " the logistic loss"
            ),
        )
    if what == "sensitivity" and network.activation.jumps:
        return "activation", "the gradient of a network whose activation jumps"
    return None


# -- settings --------------------------------------------------------------------------


def _different(numbers: Floats) -> bool:
    return bool(np.all(np.diff(np.sort(numbers)) > 0))


def _whole(numbers: Floats) -> bool:
    # inf is the mean of infinitely many networks
    return _different(numbers) and bool(
        np.all((numbers >= 1) & (np.isinf(numbers) | (numbers % 1 == 0)))
    )


def _lengths(numbers: Floats) -> bool:
    return _different(numbers) and bool(np.all((numbers >= 0) & np.isfinite(numbers)))


def _increasing(numbers: Floats) -> bool:
    # cells of the measured share end half way between neighbours
    return bool(np.isfinite(numbers).all() and np.all(np.diff(numbers) > 0))


CHECKS: Mapping[str, Callable[[Any], Floats]] = {
    "members": partial(
        check_list,
        "members",
        "different whole numbers from 1 on, or inf",
        _whole,
        (1, 2, 4, np.inf),
    ),
    "eps": partial(
        check_list,
        "eps",
        "different finite numbers from 0 on",
        _lengths,
        (0, 0.1, 0.25, 0.5),
    ),
    "logit": partial(
        check_list,
        "logit",
        "finite numbers in increasing order",
        _increasing,
        np.arange(-12, 13) / 2,
    ),
}
"""Setting -> what checks it, and fills it in where it is left out."""

OFFERED = Questions(
    questions=BEYOND,
    checks=CHECKS,
    lacking=lacking,
    answers={
        "variance": "beyond.variance",
        "shift": "beyond.tested",
        "sensitivity": "beyond.tested",
        "calibration": "beyond.tested",
    },
    measures="beyond.measure",
)

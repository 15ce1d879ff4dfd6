"""The estimators of the experiment: sum_i v_i l(y_i, <w,a_i> + b) + lambda/2 |w|^2 +
lambda1 |w|_1, to optimality.

Square, logistic and Huber losses run on the device of their rows, the others and l1
penalties on the CPU. Every fit carries a certificate of how far it is from the optimum:
a duality gap, or Newton's decrement.
"""

from __future__ import annotations

import numpy as np

from giantstep.core.base.types import DeviceArray, Floats, Integers
from giantstep.core.lab import array_module, to_numpy
from giantstep.core.readout.losses.fitting.hinge import fit_hinge, fit_max_margin
from giantstep.core.readout.losses.fitting.least_squares import (
    fit_interpolation,
    fit_ridge,
)
from giantstep.core.readout.losses.fitting.objective import ConvexFit, Objective
from giantstep.core.readout.losses.fitting.smooth import fit_huber, fit_logistic
from giantstep.core.readout.losses.functions import LOSSES

__all__ = ["ConvexFit", "fit", "fit_path"]


def fit(
    rows: DeviceArray,
    labels: DeviceArray,
    loss: str,
    *,
    ridge: float,
    l1: float = 0.0,
    intercept: bool = False,
    weights: DeviceArray | None = None,
    threshold: float = 1.0,
) -> ConvexFit:
    """Minimise the penalised loss of samples x_i/sqrt(d) (n, d) with labels (n,), on
    any device.

    `loss` is square, logistic, hinge, huber (linear from `threshold` on), interpolate
    (least norm that fits) or maxmargin (least norm with margins 1), the last two
    without penalties; `weights` (n,) are ones if left out.
    """
    # these solvers are SciPy's, which knows no other device
    if l1 or loss in ("hinge", "interpolate", "maxmargin"):
        rows = to_numpy(rows)
        labels = to_numpy(labels)
        if weights is not None:
            weights = to_numpy(weights)
    of_classes = loss in ("logistic", "hinge", "maxmargin")
    if intercept and of_classes and bool((labels == labels[0]).all()):
        return ConvexFit.missing(
            rows.shape[1],
            "the samples are all of one class, which an intercept fits alone",
        )
    xp = array_module(rows)
    if weights is None:
        scale = xp.ones(len(labels))
    else:
        scale = xp.asarray(weights)
    objective = Objective(
        rows=rows, labels=labels, scale=scale, ridge=ridge, l1=l1, intercept=intercept
    )
    if loss == "huber":
        return fit_huber(objective, threshold)
    # up to an infinite threshold Huber's loss is the square one, and its solver knows
    # l1
    if loss == "square" and l1:
        return fit_huber(objective, np.inf)
    solvers = {
        "square": fit_ridge,
        "interpolate": fit_interpolation,
        "logistic": fit_logistic,
        "hinge": fit_hinge,
        "maxmargin": fit_max_margin,
    }
    return solvers[loss](objective)


def fit_path(
    rows: DeviceArray,
    labels: DeviceArray,
    loss: str,
    sizes: Integers,
    penalties: Floats,
) -> tuple[DeviceArray, Floats, Floats]:
    """Minimise the loss of classes and penalty/2 |w|^2 over the first rows, for B pairs
    (size, penalty).

    Returns the weights (d, B), the misclassified fraction of the rows, and loss plus
    penalty per row (B,); all of them are NaN for a fit that failed.
    """
    xp = array_module(rows)
    weights = []
    train = []
    objective = []
    for size, penalty in zip(sizes, penalties):
        result = fit(rows[:size], labels[:size], loss, ridge=penalty)
        # NaN runs through all that is computed of a fit that failed
        w = np.full(rows.shape[1], np.nan)
        if result.solved:
            w = result.weights
        margin = to_numpy(labels[:size] * (rows[:size] @ xp.asarray(w)))
        # NaN < 0 is false, which would say that all is well
        misclassified = np.nan
        if result.solved:
            misclassified = float(np.mean(margin < 0))
        mean_loss = np.mean(LOSSES[loss].value(margin))
        weights.append(w)
        train.append(misclassified)
        # the loss is a mean over the rows, the penalty one of their sum
        objective.append(mean_loss + 0.5 * penalty * (w @ w) / size)
    return xp.asarray(np.stack(weights, axis=1)), np.array(train), np.array(objective)

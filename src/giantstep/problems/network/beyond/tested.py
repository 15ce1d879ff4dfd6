"""The fitted network at test inputs of any law, after every step: errors, gradients,
and how far outputs are trusted.

beyond_the_error sections 3 (calibration), 4 (shift) and 5 (sensitivity).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from giantstep.core.base.errors import InputError
from giantstep.core.base.types import Floats
from giantstep.core.maths.gaussian.target import Target
from giantstep.core.readout.calibration import (
    NAIVE,
    LogitLaw,
    coverage,
    honest_width,
    wrong_signs,
)
from giantstep.core.readout.output_law import OutputLaw
from giantstep.core.readout.pairs import Overlap
from giantstep.core.readout.sensitivity import (
    GradientLaw,
    attacked_classes,
    error_times_gradient,
)
from giantstep.problems.network.answers.errors import Table
from giantstep.problems.network.beyond.fresh_inputs import (
    FOR_MEANS,
    FOR_QUANTILES,
    FreshInputs,
)
from giantstep.problems.network.beyond.laws import Fits, FittedPoint, solved_groups
from giantstep.problems.network.beyond.variance import half_disagreements, overlaps_of
from giantstep.problems.network.follow import Moment, reason_of
from giantstep.problems.network.problem import Share
from giantstep.problems.network.scenario import Network
from giantstep.problems.network.shift import FreshLaw, test_law

OF_CLASSES = (
    *("log_loss", "brier", "calibration_error", "temperature", "log_loss_recalibrated"),
    *("calibration_error_recalibrated", "log_loss_floor"),
)
OF_REGRESSION = ("coverage", "honest_width")


def _fill(
    table: Table,
    fits: Fits,
    time: int,
    values_of: Callable[[FittedPoint, FreshLaw, float], Mapping[str, Any]],
) -> None:
    """Fill what a function says of every point, the law of its test inputs and their
    label noise.
    """
    for point in fits.points():
        place = np.array([point.place])
        try:
            found = values_of(
                point, *test_law(table.network, table.points, point.place)
            )
        # a rule of too many nodes: this point stays NaN, others go on
        except InputError as error:
            table.note(place, reason_of(error))
            continue
        for name, value in found.items():
            table.put(name, place, time, np.asarray(value, dtype=float)[None])


# -- shift -----------------------------------------------------------------------------


def answer_shift(
    table: Table, share: Share, moment: Moment, time: int, settings: Mapping[str, Any]
) -> None:
    """Fill ``what="shift"``: (4.4) and (4.5)."""
    for fits in solved_groups(table, share, moment, settings, time):
        # the overlap of two hinge fits is not derived
        known = table.network.readout.kind != "hinge"
        _fill(
            table,
            fits,
            time,
            partial(_shifted, table.network, overlaps_of(fits) if known else None),
        )


def _shifted(
    network: Network,
    overlaps: tuple[Overlap, ...] | None,
    point: FittedPoint,
    law: FreshLaw,
    noise: float,
) -> dict[str, Any]:
    # a flip turns a right answer into a wrong one, and a wrong one into a right one
    missed = _missed(point, network.class_direction, law)
    test = (1 - 2 * point.flip) * missed + point.flip
    if not network.readout.classes:
        test = shifted_error(point, law, noise)
    if overlaps is None:
        apart = np.full(3, np.nan)
    else:
        apart = _shifted_disagreements(point, law, overlaps)
    return {"test_error": test, "test_misclassified": missed, "disagreement": apart}


def _shifted_disagreements(
    point: FittedPoint, law: FreshLaw, overlaps: tuple[Overlap, ...]
) -> Floats:
    """Return (4.5) (3,); at a finite dimension with terms of order 1/d that no law of
    inputs moves.
    """
    number = point.number
    # the overlap of a fit with itself comes first: it is no pair
    pairs = [(part.Q1[number], part.Q2[number]) for part in overlaps[1:]]
    gaps = _disagreements(*point.plain(law), pairs)
    # at inputs of the fit all terms of order 1/d are known: what the formula lacks
    # there is added
    if point.finite:
        gaps += 2 * half_disagreements(*overlaps)[number] - _disagreements(
            *point.plain(point.own_law), pairs
        )
    return gaps


def shifted_error(point: FittedPoint, law: FreshLaw, noise: float) -> float:
    """Return E'(y - f)^2 at inputs of a law, (4.4); terms of order 1/d beyond the
    spread are those at the fit.
    """
    moved = _mean_square(*point.plain(law)) + noise
    if not point.finite:
        return moved
    return (
        moved
        + point.test_error
        - _mean_square(*point.plain(point.own_law))
        - point.noise
    )


def _mean_square(inputs: FreshInputs, output: OutputLaw) -> float:
    # (4.4), with the variance of the fitted means at a finite dimension
    mean = output.mean
    return float(
        inputs.weights
        @ (
            inputs.square
            - 2 * inputs.label * mean
            + mean**2
            + output.variance
            + output.spread
        )
    )


def _disagreements(
    inputs: FreshInputs, output: OutputLaw, pairs: list[tuple[Floats, Floats]]
) -> Floats:
    """Return (4.5) of networks that share the layer, the samples, nothing (3,)."""
    own = float(inputs.weights @ output.variance)
    moved = float(inputs.weights @ output.spread)
    # two outputs have 2(Q - Q_ab) between them, and on samples of their own the spread
    # of both means, (2.13)
    layer, samples = (
        own - float(inputs.weights @ output.quadratic(Q1, Q2)) for Q1, Q2 in pairs
    )
    return 2 * np.array([layer + moved, samples, own + moved])


def _missed(point: FittedPoint, normal: Floats | None, law: FreshLaw) -> float:
    """Return how often the output has another sign than the direction of the classes;
    NaN without one.
    """
    if normal is None:
        return np.nan
    # as a target, so that the rule breaks where the class ends
    terms = " + ".join(
        f"{float(part)!r}*z{axis + 1}" for axis, part in enumerate(normal)
    )
    sign = Target(f"sign({terms})", directions=len(normal))
    inputs, output = point.signs(law, sign)
    # without flips, and without the spread, which over-corrects a 0/1 error: section 2
    return wrong_signs(
        output.mean, output.variance, 0.5 * (1 + inputs.label), inputs.weights
    )


# -- sensitivity -----------------------------------------------------------------------


def answer_sensitivity(
    table: Table, share: Share, moment: Moment, time: int, settings: Mapping[str, Any]
) -> None:
    """Fill ``what="sensitivity"``: (5.5)-(5.7), of first order in eps and no bound,
    (5.8).
    """
    eps = settings["eps"]
    classes = table.network.readout.classes

    def attacked(point: FittedPoint, law: FreshLaw, noise: float) -> dict[str, Any]:
        # (5.7) asks for the sign of f, (5.6) for |y - f|, which bends where y - f
        # changes its sign
        if classes:
            inputs, output = point.signs(law)
        else:
            inputs, output = point.residuals(law, noise, FOR_MEANS)
        gradient = GradientLaw(output)
        along, across = (
            float(inputs.weights @ values)
            for values in (gradient.along, gradient.across)
        )
        if classes:
            errors = attacked_classes(
                gradient, point.positive(inputs), inputs.weights, eps
            )
        else:
            # at inputs of the fit the error is known
            if table.network.shift is None:
                test = point.test_error
            else:
                test = shifted_error(point, law, noise)
            # the only term of (5.6) that takes nodes of the gradient
            if np.any(eps > 0):
                cross = error_times_gradient(
                    gradient, inputs.label, noise, inputs.weights
                )
            else:
                cross = 0.0
            errors = test + 2 * eps * cross + eps**2 * (along + across)
        parts = {
            "gradient_norm2": along + across,
            "gradient_learnt": along,
            "gradient_rest": across,
        }
        return {**parts, "attacked_error": errors}

    for fits in solved_groups(table, share, moment, settings, time):
        _fill(table, fits, time, attacked)


# -- calibration -----------------------------------------------------------------------


def answer_calibration(
    table: Table, share: Share, moment: Moment, time: int, settings: Mapping[str, Any]
) -> None:
    """Fill ``what="calibration"``: (3.5)-(3.7) where the labels are classes, (3.8)
    where they are not.
    """
    # a network has labels of one kind: answers about the other stay NaN
    absent: dict[str, Any] = dict.fromkeys((*OF_CLASSES, *OF_REGRESSION), np.nan)
    absent["reliability"] = np.full(len(settings["logit"]), np.nan)

    def trusted(point: FittedPoint, law: FreshLaw, noise: float) -> dict[str, Any]:
        if table.network.sign_direction is None:
            return {**absent, **_of_regression(point, law, noise)}
        return {**absent, **of_classes(point, law, settings["logit"])}

    for fits in solved_groups(table, share, moment, settings, time):
        _fill(table, fits, time, trusted)


def of_classes(point: FittedPoint, law: FreshLaw, logits: Floats) -> dict[str, Any]:
    """Return what the output is worth as a logit."""
    inputs, output = point.signs(law)
    # the spread of the fitted means counts in losses of probabilities: section 2
    found = LogitLaw.of(
        output.mean,
        output.variance + output.spread,
        point.positive(inputs),
        inputs.weights,
    )
    return {**calibrated(found), "reliability": found.reliability(logits)}


def calibrated(found: LogitLaw) -> dict[str, float]:
    """Return the scores of a law of logits, as it is and at the best temperature."""
    sharpness = found.sharpness
    # in the order of `OF_CLASSES`; sharpness 0 is the temperature at which all outputs
    # are chance
    scores = (
        *(
            found.log_loss(),
            found.brier(),
            found.calibration_error(),
            1 / sharpness if sharpness else np.inf,
        ),
        *(found.log_loss(sharpness), found.calibration_error(sharpness), found.floor),
    )
    return dict(zip(OF_CLASSES, scores))


def _of_regression(point: FittedPoint, law: FreshLaw, noise: float) -> dict[str, Any]:
    inputs, output = point.residuals(law, noise, FOR_QUANTILES)
    # b and s^2 of (3.8), with the spread at a finite dimension
    gap = inputs.label - output.mean
    variance = output.variance + output.spread + noise
    # the interval that a user would take from the training error
    naive = NAIVE * np.sqrt(float(point.fit.solution.train[point.number]))
    found = (
        coverage(naive, gap, variance, inputs.weights),
        honest_width(gap, variance, inputs.weights),
    )
    return dict(zip(OF_REGRESSION, found))

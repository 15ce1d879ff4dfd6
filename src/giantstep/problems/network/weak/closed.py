"""Closed forms of a network with a single small or growing step: which formula answers,
and its answer as a table.

Their variables have no time, they are those after the step. The whole gradient
(step.update="exact") has a remainder beside its rank-one part. theory="isotropic"
counts it as an isotropic lengthening of the rows, an approximation. With
initial_output = 1, beta is correlated with W0 and stands for an independent one of
another length: the singular values of the features are exact, and kappa is that of the
gradient up to terms of order 1/eta.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from giantstep.core.base.errors import Code, InputError, bad_field
from giantstep.core.base.types import Floats, Points
from giantstep.core.readout.feature_spikes import (
    HIGHEST_DEGREE,
    Neurons,
    check_degrees,
    feature_spikes,
)
from giantstep.core.readout.random_features import (
    HIGHEST_PLATEAU,
    after_step,
    last_degree_counts,
    solve_random_features,
)
from giantstep.core.readout.same_sample import fit_on_same_sample
from giantstep.core.readout.weight_spikes import weight_spikes
from giantstep.core.scenario.answer import Answer
from giantstep.problems.network.problem import second_layer_law
from giantstep.problems.network.scenario import Network
from giantstep.problems.network.weak.step import REMAINDER, WeakStep

NOT_FINITE = "the closed form has no finite answer here"
JUMPS = (
    "the limit jumps at an exponent of {exponent}, where degree {degree} begins: take"
    " one beside it, or give dim"
)
TOO_MANY_DEGREES = (
    f"more than {HIGHEST_PLATEAU} degrees begin below an exponent so near to 1/2: "
    "take a smaller one, a MaximalStep, or give dim"
)
NO_LENGTH = (
    "with initial_output = 1 so small a step has no spike of positive length: take a"
    " larger rate, or a SmallStep without dim"
)
STRONG_SPIKE = 0.6
STRONG_ON_SAMPLE = 0.3
"""Size s of the step at one neuron above which the bulk of random features, or the fit
on its sample, is off.
"""
LEFT_OUT = 0.02
"""What the rest of the gradient may add to the squared length of the rows before the
limit warns.
"""


def _neurons(network: Network, whole: bool = False) -> Neurons:
    return Neurons(
        network.activation,
        *second_layer_law(network, whole),
        network.rows == "gaussian",
    )


def limit_errors(
    step: WeakStep, network: Network, points: Points, settings: Mapping[str, Any]
) -> Answer:
    """Answer ``what="errors"`` of a small or growing step without a dimension; the
    other variables are not computed.
    """
    activation = network.activation
    label = network.label
    reached = step.spike_degrees(points)
    # tables of degrees end there; points beyond it have a status
    degrees = np.minimum(reached, HIGHEST_PLATEAU)
    # E y^2 of step_size_regimes section 1
    power = label.second_moment(np.zeros(1), np.ones(1))[0] + points["noise"]
    samples, width, ridge = (
        points[name] for name in ("samples_per_dim", "width_per_dim", "readout.ridge")
    )
    bulk = solve_random_features(activation, samples, width, ridge)
    spike = step.spike(network, points)
    neurons = _neurons(network)
    target = label.hermite(int(max(degrees.max(), 1)))
    large = np.full(len(ridge), 1e12)  # the shift of the initial output has died out
    # cos omega of step_size_regimes (2a)
    cosine = spike.g1 / (np.sqrt(spike.power(large)) / large)
    # a constant part is a spike of infinite strength: the others count across it
    centred = abs(activation.hermite(0)[0]) < 1e-12
    taken = 0.0 if centred else neurons.mean**2
    eta = spike.eta * np.sqrt(neurons.power - taken)
    risk = after_step(
        activation, target, power, bulk, eta, spike.power(eta), cosine, degrees
    )
    test, train, objective = bulk.errors(*risk)
    # the objective is the training error and the penalty, which has the norm
    norm = np.where(ridge > 0, (objective - train) * (samples / width) / ridge, np.nan)
    values = {
        "test_error": test,
        "train_error": train,
        "objective": objective,
        "norm": norm,
        "null_error": power,
    }
    answer = _errors_answer(network, values)
    counts = last_degree_counts(activation, target, cosine, degrees)
    # an array of texts would cut longer ones
    status = answer.status.astype(object)
    for point in np.flatnonzero(step.on_boundary(points) & counts):
        # degree l begins at (l - 1)/(2 l): step_size_regimes section 7
        degree = int(degrees[point])
        status[point] = JUMPS.format(
            degree=degree, exponent=Fraction(degree - 1, 2 * degree)
        )
    status[reached > HIGHEST_PLATEAU] = TOO_MANY_DEGREES
    answer.status = status
    return answer


def _errors_answer(network: Network, values: dict[str, Floats]) -> Answer:
    g0, g1 = network.label.hermite(1)
    # the best affine predictor has the first two Hermite coefficients of the target
    values["affine_error"] = values["null_error"] - g0**2 - g1**2
    solved = np.isfinite(values["test_error"]) & np.isfinite(values["train_error"])
    return Answer.closed(values, status=np.where(solved, "", NOT_FINITE))


def same_sample_errors(
    step: WeakStep,
    network: Network,
    points: Points,
    settings: Mapping[str, Any],
    order: int = HIGHEST_DEGREE,
) -> Answer:
    """Answer ``what="errors"`` where ``fit_sample="same"``; the order parameters are
    not computed.
    """
    if step.update != "rank-one":
        allowed = (
            '"rank-one" for the limit where fit_sample="same" (no theory of the whole'
            " gradient is known there)"
        )
        raise bad_field("steps.0.update", step.update, allowed, Code.NO_THEORY)
    if np.any(np.isinf(points["dim"])):
        raise InputError(
            'Field `dim` is missing: where fit_sample="same" the limit needs the'
            " dimension, a whole number, because its formula is one at a finite size.",
            Code.NEEDS_DIMENSION,
        )
    spike = step.spike(network, points)
    neurons = _neurons(network)
    count = points["width_per_dim"] * points["dim"]
    # s = eta c1 b/sqrt(N) of step_size_regimes section 6, b^2 of (2a) without f0
    strength = spike.eta * spike.c1 * np.sqrt((spike.g1**2 + spike.noise) / count)
    own = (
        points[name]
        for name in ("samples_per_dim", "width_per_dim", "readout.ridge", "noise")
    )
    fit = fit_on_same_sample(
        neurons, network.label, (*own, spike.residual), strength, count, order
    )
    answer = _errors_answer(network, fit)
    answer.attrs["theory"] = "exact"
    strong = np.abs(strength) > STRONG_ON_SAMPLE
    largest = f"{np.max(np.abs(strength)):.2g}"
    if strong.any():
        answer.warnings.append(
            'The theory of fit_sample="same" is one of weak spikes, s^2 << 1, but s ='
            f" eta c1 |beta|/sqrt(p) is above {STRONG_ON_SAMPLE:g} at {strong.sum()} of"
            f" {len(strong)} points (up to {largest})."
        )
        answer.approximations["the spike is taken as weak"] = f"s is up to {largest}"
    c0, _, c2 = network.activation.hermite(2)
    if abs(neurons.mean) > 1e-10 and abs(c2) > max(
        abs(c0), 1e-10
    ):  # |x|^2 has a right vector along the spike's
        answer.warnings.append(
            'The theory of fit_sample="same" leaves out the fluctuation of |x|^2, which'
            " mixes with the spike where the second layer has a nonzero mean and the"
            " activation is nearly centred but not odd: expect errors off by about 3%"
            " at every dimension."
        )
        answer.approximations["the fluctuation of |x|^2 is left out"] = (
            "about 3% at every dimension"
        )
    return answer


def answer_spikes(
    step: WeakStep, network: Network, points: Points, settings: Mapping[str, Any]
) -> Answer:
    """Answer ``what="spikes"`` at every point; a growing step needs a finite
    ``points["dim"]``.
    """
    finite = np.isfinite(points["dim"]) & np.isfinite(points["steps.0.batch_per_dim"])
    # without a dimension, or on the population, the rest of the gradient vanishes
    exact = settings.get("theory") != "isotropic" and (
        step.update == "rank-one" or not finite.any()
    )
    dim = points["dim"]
    width = points["width_per_dim"]
    degrees = check_degrees(settings.get("degree"))
    spike = step.spike(network, points)
    neurons = _neurons(network, whole=True)
    if exact:
        added = np.zeros(len(dim))
    else:
        added = step.remainder(network, points)
    # b^2 has a term 2/eta, but counts with eta^2: any b does where eta is 0
    still = spike.eta == 0
    # b^2
    length = np.where(
        still, 1.0, spike.power(spike.eta) / np.where(still, 1.0, spike.eta**2)
    )
    # 0 without a dimension
    s = spike.eta * spike.c1 * np.sqrt(np.maximum(length, 0.0) / (width * dim))
    sizes = (width, points["samples_per_dim"], dim)
    power = spike.eta**2 * length
    values = feature_spikes(neurons, sizes, s, power, added, degrees)
    # step_size_regimes section 2: b^2 below 0 has a limit, but no spike of its own
    answer = Answer.closed(
        values, status=np.where(np.isfinite(dim) & (length <= 0), NO_LENGTH, "")
    )
    if exact:
        answer.attrs["theory"], answer.approximations = ("exact", {})
    else:
        answer.attrs["theory"], answer.approximations = ("isotropic", dict([REMAINDER]))
    if np.max(np.abs(s)) > STRONG_SPIKE:
        answer.warnings.append(
            "The spikes stand on the bulk of random features, which so large a step"
            f" moves (eta c1 |beta|/sqrt(p) = {np.max(np.abs(s)):.2g}); expect an error"
            " of several per cent."
        )
    return answer


def answer_weights(
    step: WeakStep, network: Network, points: Points, settings: Mapping[str, Any]
) -> Answer:
    """Answer ``what="weights"`` at every point; a growing step needs a finite
    ``points["dim"]``.
    """
    if settings.get("theory") not in (None, "exact"):
        raise bad_field("theory", settings["theory"], '"exact" for what="weights"')
    spike = step.spike(network, points)
    power = _neurons(network, whole=True).power
    # the formulas have eta in units of |a|
    eta = spike.eta * np.sqrt(power)
    width = points["width_per_dim"]
    values = weight_spikes(width, eta, spike.c1, spike.g1, spike.noise, spike.fed_back)
    answer = Answer.closed(values, attrs={"theory": "exact"})
    added = np.max(step.remainder(network, points)) * power
    if added > LEFT_OUT:
        left_out = f"which adds {added:.0%} to the squared length of the rows"
        answer.approximations = {
            "all but the rank-one part of the gradient is left out": left_out
        }
        answer.warnings.append(
            "The limit leaves out all but the rank-one part of the gradient,"
            f' {left_out}; step.update="rank-one" is the experiment it describes.'
        )
    return answer

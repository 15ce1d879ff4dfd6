"""Closed forms of a network with a single small or growing step: which formula answers, and its answer as a table.

Their variables have no time, they are those after the step. The whole gradient (step.update="exact") has a remainder
beside its rank-one part. theory="isotropic" counts it as an isotropic lengthening of the rows, an approximation. With
initial_output = 1, beta is correlated with W0 and stands for an independent one of another length: the singular values
of the features are exact, and kappa is that of the gradient up to terms of order 1/eta.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from giantstep.errors import InputError, bad_field
from giantstep.families.network.problem import second_layer_law
from giantstep.families.network.scenario import Network
from giantstep.families.network.steps.weak import REMAINDER, WeakStep
from giantstep.family import Answer
from giantstep.readout import random_features as formulas
from giantstep.readout.feature_spikes import (
    HIGHEST_DEGREE,
    SPIKE_ROOM,
    FeatureBulk,
    Neurons,
    check_degrees,
    eigenpairs,
    spike_degrees,
)
from giantstep.readout.same_sample import SameSample
from giantstep.types import Floats, Points

NOT_FINITE = "the closed form has no finite answer here"
NO_LENGTH = (
    "with initial_output = 1 so small a step has no spike of positive length: take a larger rate, "
    "or a SmallStep without dim"
)
STRONG_SPIKE, STRONG_ON_SAMPLE = 0.6, 0.3
"""Size s of the step at one neuron above which the bulk of random features, or the fit on its sample, is off."""
LEFT_OUT = 0.02
"""What the rest of the gradient may add to the squared length of the rows before the limit warns."""


def _neurons(network: Network, whole: bool = False) -> Neurons:
    return Neurons(network.activation, *second_layer_law(network, whole), network.rows == "gaussian")


def limit_errors(step: WeakStep, network: Network, points: Points, settings: Mapping[str, Any]) -> Answer:
    """Answer ``what="errors"`` of a small or growing step without a dimension; the other variables are not computed."""
    degrees, ridge = step.spike_degrees(points), points["readout.ridge"]
    target = formulas.TargetSeries.of(network.label, points["noise"], int(max(degrees.max(), 1)))
    samples, width = points["samples_per_dim"], points["width_per_dim"]
    bulk = formulas.solve_random_features(network.activation, samples, width, ridge)
    activation, spike, neurons = network.activation, step.spike(network, points), _neurons(network)
    V, dV = (np.empty(len(degrees)) for _ in range(2))
    for degree in np.unique(degrees).tolist():
        if degree:
            large = np.full(len(ridge), 1e12)  # the shift of the initial output has died out
            cosine = spike.g1 / (np.sqrt(spike.power(large)) / large)
            risk = formulas.plateau(activation, target, bulk, cosine, degree)
        else:
            centred = abs(activation.hermite(0)[0]) < 1e-12
            eta = spike.eta * np.sqrt(neurons.power - (0.0 if centred else neurons.mean**2))
            risk = formulas.small_step(activation, target, bulk, eta, spike.power(eta))
        rows = degrees == degree
        V[rows], dV[rows] = (values[rows] for values in risk)
    test, train, objective = bulk.errors(V, dV)
    with np.errstate(divide="ignore", invalid="ignore"):
        norm = np.where(ridge > 0, (objective - train) * (samples / width) / ridge, np.nan)
    values = {"test_error": test, "train_error": train, "objective": objective, "norm": norm}
    values["null_error"] = target.power
    return _errors_answer(network, values)


def _errors_answer(network: Network, values: dict[str, Floats], **more: Any) -> Answer:
    g0, g1 = network.label.hermite(1)
    values["affine_error"] = values["null_error"] - g0**2 - g1**2
    solved = np.isfinite(values["test_error"]) & np.isfinite(values["train_error"])
    return Answer.closed(values, status=np.where(solved, "", NOT_FINITE), **more)


def same_sample_errors(
    step: WeakStep, network: Network, points: Points, settings: Mapping[str, Any], order: int = HIGHEST_DEGREE
) -> Answer:
    """Answer ``what="errors"`` where ``fit_sample="same"``; the order parameters are not computed."""
    if step.update != "rank-one":
        allowed = '"rank-one" for the limit where fit_sample="same" (no theory of the whole gradient is known there)'
        raise bad_field("steps.0.update", step.update, allowed)
    if np.any(np.isinf(points["dim"])):
        raise InputError(
            'Field `dim` is missing: where fit_sample="same" the limit needs the dimension, a whole number, '
            "because its formula is one at a finite size."
        )
    spike, neurons, count = step.spike(network, points), _neurons(network), points["width_per_dim"] * points["dim"]
    strength = spike.eta * spike.c1 * np.sqrt((spike.g1**2 + spike.noise) / count)
    samples, width, ridge = (points[name] for name in ("samples_per_dim", "width_per_dim", "readout.ridge"))
    fit = SameSample(neurons, network.label, samples, width, ridge, points["noise"], spike.residual, order)
    answer = _errors_answer(network, fit.errors(strength, count), attrs={"theory": "exact"})
    strong, largest = np.abs(strength) > STRONG_ON_SAMPLE, f"{np.max(np.abs(strength)):.2g}"
    if strong.any():
        answer.warnings.append(
            f'The theory of fit_sample="same" is one of weak spikes, s^2 << 1, but s = eta c1 |beta|/sqrt(p) is above '
            f"{STRONG_ON_SAMPLE:g} at {strong.sum()} of {len(strong)} points (up to {largest})."
        )
        answer.approximations["the spike is taken as weak"] = f"s is up to {largest}"
    c0, _, c2 = network.activation.hermite(2)
    if abs(neurons.mean) > 1e-10 and abs(c2) > max(abs(c0), 1e-10):  # |x|^2 has a right vector along the spike's
        answer.warnings.append(
            'The theory of fit_sample="same" leaves out the fluctuation of |x|^2, which mixes with the spike where the '
            "second layer has a nonzero mean and the activation is nearly centred but not odd: expect errors off by "
            "about 3% at every dimension."
        )
        answer.approximations["the fluctuation of |x|^2 is left out"] = "about 3% at every dimension"
    return answer


def answer_spikes(step: WeakStep, network: Network, points: Points, settings: Mapping[str, Any]) -> Answer:
    """Answer ``what="spikes"`` at every point; a growing step needs a finite ``points["dim"]``."""
    finite = np.isfinite(points["dim"]) & np.isfinite(points["steps.0.batch_per_dim"])
    exact = settings.get("theory") != "isotropic" and (step.update == "rank-one" or not finite.any())
    dim, width, degrees = points["dim"], points["width_per_dim"], check_degrees(settings.get("degree"))
    count, spike, neurons = len(dim), step.spike(network, points), _neurons(network, whole=True)
    added = np.zeros(count) if exact else step.remainder(network, points)
    values = {
        "singular_values": np.full((count, SPIKE_ROOM), np.nan),
        "alignment": np.full((count, SPIKE_ROOM, len(degrees)), np.nan),
        "norm_alignment": np.full((count, SPIKE_ROOM), np.nan),
        "bulk_edge": np.full(count, np.nan),
    }
    status = np.full(count, "", dtype=object)
    c1, rest = formulas.linear_and_rest(network.activation)
    eta = np.where(spike.eta == 0, 1.0, spike.eta)
    length = np.where(spike.eta == 0, 1.0, spike.power(eta) / eta**2)  # b^2
    s = spike.eta * c1 * np.sqrt(np.maximum(length, 0.0) / (width * dim))  # 0 without a dimension
    for point in range(count):
        bulk = FeatureBulk(c1, rest, float(width[point]), float(width[point] / points["samples_per_dim"][point]))
        threshold = bulk.threshold()
        values["bulk_edge"][point] = np.sqrt(bulk.spike(np.array(threshold))[1])
        if np.isinf(dim[point]):
            strength, vectors = neurons.without_dimension(spike.eta[point] ** 2 * length[point], bulk.width)
        elif length[point] <= 0:
            status[point] = NO_LENGTH
            continue
        else:
            gram = neurons.gram(float(s[point]), float(dim[point]), bulk.width, float(added[point]))
            strength, vectors = eigenpairs(gram, c1**2 * bulk.width)
        outside = np.flatnonzero(strength > threshold)[:SPIKE_ROOM]
        singular, overlaps = bulk.outliers(strength[outside], vectors[:, outside])
        values["singular_values"][point, : len(outside)] = singular
        values["alignment"][point, : len(outside)] = overlaps[degrees].T
        values["norm_alignment"][point, : len(outside)] = overlaps[-1]
    values["spike_degree"] = spike_degrees(values["alignment"], values["norm_alignment"], degrees)
    answer = Answer.closed(values, status=status, coords={"degree": degrees})
    if np.max(np.abs(s)) > STRONG_SPIKE:
        answer.warnings.append(
            f"The spikes stand on the bulk of random features, which so large a step moves (eta c1 |beta|/sqrt(p) = "
            f"{np.max(np.abs(s)):.2g}); expect an error of several per cent."
        )
    answer.attrs["theory"] = "exact" if exact else "isotropic"
    answer.approximations = {} if exact else dict([REMAINDER])
    return answer


def answer_weights(step: WeakStep, network: Network, points: Points, settings: Mapping[str, Any]) -> Answer:
    """Answer ``what="weights"`` at every point; a growing step needs a finite ``points["dim"]``.

    W1 = W0 + eta c1 a beta^T up to a vanishing remainder, with beta = X0^T r/n0 (step_size_regimes section 4). With
    c = p/d, b0^2 = g1^2 + E r^2 d/n0, f0 the initial output (0 or 1) and eta in units of |a| = sqrt(E zeta^2),
    ell = (1 - f0 eta c1^2)^2 + eta^2 c1^2 b0^2 is the squared length of W1^T a/|a|. The bulk of singular values is that
    of W0, |1 -+ sqrt(c)|. One leaves it at the top where ell > 1 + sqrt(c) (Baik, Ben Arous, Peche), and then (4a)

        s^2 = ell + c ell/(ell - 1),   (left . a)^2/|a|^2 = (1 - c/(ell - 1)^2)/(1 + c/(ell - 1)),
        (right . w*)^2 = (eta c1 g1)^2/ell (1 - c/(ell - 1)^2).

    With f0 = 1 and c < 1 one leaves it at the bottom where ell < 1 - sqrt(c), with the same formulas.
    """
    if settings.get("theory") not in (None, "exact"):
        raise bad_field("theory", settings["theory"], '"exact" for what="weights"')
    spike, power, c = step.spike(network, points), _neurons(network, whole=True).power, points["width_per_dim"]
    step_length = spike.eta * np.sqrt(power) * spike.c1
    ell = (1 - spike.fed_back * step_length * spike.c1) ** 2 + step_length**2 * (spike.g1**2 + spike.noise)
    lower, upper = np.abs(1 - np.sqrt(c)), 1 + np.sqrt(c)
    top, bottom = ell > upper, ell < 1 - np.sqrt(c)
    with np.errstate(divide="ignore", invalid="ignore"):
        kept = np.where(top | bottom, 1 - c / (ell - 1) ** 2, np.nan)
        value = np.sqrt(ell + c * ell / (ell - 1))
        left, right = kept / (1 + c / (ell - 1)), (step_length * spike.g1) ** 2 / ell * kept
    values = {"bulk_lower": lower, "bulk_upper": upper, "spike_strength": ell, "threshold": upper}
    for end, prefix, there, edge in (("top", "", top, upper), ("bottom", "bottom_", bottom, lower)):
        values[f"{end}_singular_value"] = np.where(there, value, edge)
        values[f"{prefix}left_alignment"] = np.where(there, left, np.nan)
        values[f"{prefix}right_alignment"] = np.where(there, right, np.nan)
    answer = Answer.closed(values, attrs={"theory": "exact"})
    added = np.max(step.remainder(network, points)) * power
    if added > LEFT_OUT:
        left_out = f"which adds {added:.0%} to the squared length of the rows"
        answer.approximations = {"all but the rank-one part of the gradient is left out": left_out}
        answer.warnings.append(
            f"The limit leaves out all but the rank-one part of the gradient, {left_out}; "
            'step.update="rank-one" is the experiment it describes.'
        )
    return answer

"""Small and growing steps in the limit: which closed form answers, and its answer as a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from giantstep.families.network.closed import NOT_FINITE
from giantstep.families.network.problem import second_layer_law
from giantstep.families.network.scenario import Network
from giantstep.families.network.steps.weak import WeakStep, spike_power
from giantstep.family import Answer
from giantstep.readout import random_features as formulas
from giantstep.types import Floats, Points


def closed_form_errors(step: WeakStep, network: Network, points: Points, settings: Mapping[str, Any]) -> Answer:
    """Answer ``what="errors"`` of a small or growing step without a dimension; the other variables are not computed."""
    degrees = step.spike_degrees(points)
    target = formulas.TargetSeries.of(network.label, points["noise"], int(max(degrees.max(), 1)))
    bulk = formulas.solve_random_features(
        network.activation, points["samples_per_dim"], points["width_per_dim"], points["readout.ridge"]
    )
    V, dV = (np.empty(len(degrees)) for _ in range(2))
    for degree in np.unique(degrees):
        rows = degrees == degree
        risk = _population_risk(step, network, points, target, bulk, int(degree))
        V[rows], dV[rows] = (values[rows] for values in risk)
    test, train, objective = bulk.errors(V, dV)
    ratio = points["samples_per_dim"] / points["width_per_dim"]
    with np.errstate(divide="ignore", invalid="ignore"):
        norm = np.where(points["readout.ridge"] > 0, (objective - train) * ratio / points["readout.ridge"], np.nan)
    g0, g1 = network.label.hermite(1)
    values = {
        "test_error": test,
        "train_error": train,
        "objective": objective,
        "norm": norm,
        "null_error": target.power,
        "affine_error": target.power - g0**2 - g1**2,
    }
    return Answer.closed(values, status=np.where(np.isfinite(test), "", NOT_FINITE))


def _population_risk(
    step: WeakStep,
    network: Network,
    points: Points,
    target: formulas.TargetSeries,
    bulk: formulas.RandomFeatures,
    degree: int,
) -> tuple[Floats, Floats]:
    zeta, pi = second_layer_law(network)
    activation = network.activation
    if degree == 0:
        centred = abs(activation.hermite(0)[0]) < 1e-12
        power = np.sum(pi * zeta**2) - (0.0 if centred else np.sum(pi * zeta) ** 2)
        eta = step.size(points) * np.sqrt(power)
        return formulas.small_step(activation, target, bulk, eta, spike_power(network, points, eta))
    large = 1e12  # the shift of the initial output has died out
    length = np.sqrt(spike_power(network, points, np.full(len(points["readout.ridge"]), large))) / large
    cosine = network.label.hermite(1)[1] / length
    return formulas.plateau(activation, target, bulk, cosine, degree)

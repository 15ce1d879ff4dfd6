"""Small and growing steps in the limit: which closed form answers, and its answer as a table."""

from __future__ import annotations

import numpy as np

from giantstep.families.one_step.answers import closed_forms
from giantstep.families.one_step.scenario import OneStep
from giantstep.families.one_step.second_layer import second_layer_law
from giantstep.families.one_step.steps.weak import WeakStep, spike_power
from giantstep.family import Answer
from giantstep.types import Floats, Points


def closed_form_errors(step: WeakStep, scenario: OneStep, points: Points) -> Answer:
    """Answer ``what="errors"`` of a small or growing step without a dimension; the other variables are not computed."""
    degrees = step.spike_degrees(points)
    target = closed_forms.TargetSeries.of(scenario.target, points["noise"], int(max(degrees.max(), 1)))
    bulk = closed_forms.solve_random_features(
        scenario.activation, points["samples_per_dim"], points["width_per_dim"], points["ridge"]
    )
    V, dV = (np.empty(len(degrees)) for _ in range(2))
    for degree in np.unique(degrees):
        rows = degrees == degree
        risk = _population_risk(step, scenario, points, target, bulk, int(degree))
        V[rows], dV[rows] = (values[rows] for values in risk)
    test, train, objective = bulk.errors(V, dV)
    ratio = points["samples_per_dim"] / points["width_per_dim"]
    with np.errstate(divide="ignore", invalid="ignore"):
        norm = np.where(points["ridge"] > 0, (objective - train) * ratio / points["ridge"], np.nan)
    g0, g1 = scenario.target.hermite(1)
    values = {
        "test_error": test,
        "train_error": train,
        "objective": objective,
        "norm": norm,
        "null_error": target.power,
        "affine_error": target.power - g0**2 - g1**2,
    }
    unsolved = ~np.isfinite(test)
    status = np.where(unsolved, "the closed form has no finite answer here", "").astype(str)
    return Answer(values, status, np.zeros(len(test)), np.zeros(len(test), dtype=np.int64))


def _population_risk(
    step: WeakStep,
    scenario: OneStep,
    points: Points,
    target: closed_forms.TargetSeries,
    bulk: closed_forms.RandomFeatures,
    degree: int,
) -> tuple[Floats, Floats]:
    zeta, pi = second_layer_law(scenario)
    activation = scenario.activation
    if degree == 0:
        centred = abs(activation.hermite(0)[0]) < 1e-12
        power = np.sum(pi * zeta**2) - (0.0 if centred else np.sum(pi * zeta) ** 2)
        eta = step.size(points) * np.sqrt(power)
        return closed_forms.small_step(activation, target, bulk, eta, spike_power(scenario, points, eta))
    large = 1e12  # the shift of the initial output has died out
    length = np.sqrt(spike_power(scenario, points, np.full(len(points["ridge"]), large))) / large
    cosine = scenario.target.hermite(1)[1] / length
    return closed_forms.plateau(activation, target, bulk, cosine, degree)

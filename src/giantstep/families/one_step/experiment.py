"""The one-step network at finite size: real data, a real gradient step, fits along a learning curve.

One trial draws the first layer, takes the step, and passes once over the training data; all sample sizes and
ridges are answered on the way: spiked_features section 8.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from giantstep.families.one_step import covariance
from giantstep.families.one_step.choices import check_degrees, count_outliers
from giantstep.families.one_step.measurements.errors import measure_along, measure_classes, measure_ridge
from giantstep.families.one_step.measurements.spectrum import measure_resolvent, measure_spectrum
from giantstep.families.one_step.measurements.spikes import measure_spikes, measure_weights
from giantstep.families.one_step.network import count_neurons, count_samples, draw_network
from giantstep.families.one_step.scenario import OneStep
from giantstep.lab import Draws, chunk_rows
from giantstep.lab.network import gram_memory, ridge_memory, stream_memory
from giantstep.types import Array, Points

TEST_SAMPLES = 10_000


def trial(
    scenario: OneStep, points: Points, what: str, dim: int, draws: Draws, settings: Mapping[str, Any]
) -> dict[str, Array]:
    """Run one trial: one draw of weights and data for all points.

    Parameters
    ----------
    scenario : the network; its numbers are taken from `points`.
    points : (B,) arrays by dotted field; they differ in ``samples_per_dim`` and ``ridge`` only.
    what : a question of the scenario.
    dim : dimension d of the inputs.
    draws : random arrays by named stream, on the device that computes.
    settings : those of the question; ``test_samples`` may be left out.

    Returns
    -------
    Variable name -> (B, ...) array.
    """
    if covariance.answers(scenario, what):
        return covariance.trial(scenario, points, what, dim, draws, settings)
    scenario.step.check_question(scenario, what)
    trained = draw_network(scenario, points, dim, draws)
    ridges, test_samples = points["ridge"], int(settings.get("test_samples") or TEST_SAMPLES)
    if what == "errors" and scenario.loss != "square":
        return measure_classes(trained, scenario.loss, float(points["flip"][0]), ridges, test_samples, draws)
    if what == "errors":
        return measure_ridge(trained, ridges, test_samples, draws)
    if what == "along":
        return measure_along(trained, ridges, np.asarray(settings["kappa"], dtype=float), test_samples, draws)
    if what == "spectrum":
        outliers, x = count_outliers(scenario, points, dim), np.asarray(settings["x"], dtype=float)
        return measure_spectrum(trained, outliers, x, settings.get("normalisation", "p"), draws)
    if what == "resolvent":
        return measure_resolvent(trained, np.asarray(settings["z"], dtype=complex), draws)
    if what == "weights":
        return measure_weights(trained, draws)
    return measure_spikes(trained, check_degrees(settings.get("degree")), draws)


def memory(scenario: OneStep, points: Points, what: str, dim: int, settings: Mapping[str, Any]) -> int:
    """Return the bytes one trial needs at its peak."""
    if covariance.answers(scenario, what):
        return covariance.memory(scenario, points, what, dim, settings)
    p, d, samples = count_neurons(points, dim), dim, count_samples(points, dim)
    device, most = settings.get("device", "cpu"), int(samples.max())
    chunk = chunk_rows(device)
    weights = scenario.step.copies * p * d
    building = weights + p * d + scenario.step.memory(points, p, d, chunk)
    if what == "weights":
        return 8 * max(building, weights + 3 * min(p, d) ** 2)
    if what in ("resolvent", "spikes"):
        fitting = p * p + max(3 * p * p, 2 * p * p + (scenario.blocks + 1) * d * min(chunk, p))
    elif what == "errors" and scenario.loss != "square":  # all features at once, Newton's weighted copy, its matrices
        fitting = 2 * most * p + 2 * p * p
    elif what == "errors":
        fitting = ridge_memory(p, samples, points["ridge"], chunk)
    else:
        fitting = gram_memory(p, samples)
    if device != "cpu":
        fitting += 6 * min(p, most) ** 2 + 3 * chunk * p
    return 8 * max(building, weights + stream_memory(p, d, samples, chunk) + fitting)

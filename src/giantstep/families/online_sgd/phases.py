"""Exponents of batch size, rate and time: n_b = d^mu, rate = d^-delta, T = d^theta, and where a run lies.

The lines are those of gradient_dynamics section 2.4, the regimes of overlaps of order one those of its section 2.1.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from giantstep.families.online_sgd.scenario import OnlineSGD
from giantstep.families.online_sgd.tolerances import SAME_EXPONENT
from giantstep.family import Answer
from giantstep.learnability.complexity import best_batch, largest_rate, phase_names, shortest_time, time_at_rate
from giantstep.learnability.exponents import exponents
from giantstep.types import Floats


def order_of(scenario: OnlineSGD) -> float:
    """Return the exponent that governs the algorithm: generative where a sample is used twice, else information."""
    orders = exponents(scenario.target)
    nonlinear = scenario.known_algorithm.repeats or not scenario.known_algorithm.affine
    return float(orders.generative if nonlinear else orders.information)


def phases(scenario: OnlineSGD, points: Mapping[str, Floats]) -> Answer:
    """Answer with the exponents of the runs."""
    count = len(points["rate"])
    d = np.log(points["dim"])
    mu, delta = np.log(points["batch_size"]) / d, -np.log(points["rate"]) / d
    order = order_of(scenario)
    correlation = scenario.known_algorithm.name == "correlation"
    gap = delta - (1 - mu)
    regime = np.select(
        [gap > SAME_EXPONENT, gap > -SAME_EXPONENT, delta > (1 - mu) / 2],
        ["population flow", "drift and noise (Saad-Solla)", "noise-dominated"],
        "not defined",
    )
    values = {
        "order": np.full(count, order),
        "mu": mu,
        "delta": delta,
        "theta": time_at_rate(order, mu, delta, correlation, SAME_EXPONENT),
        "theta_best": shortest_time(order, mu, correlation),
        "delta_best": largest_rate(order, mu, correlation),
        "mu_best": np.full(count, best_batch(order, correlation)),
        "theta_run": np.log(points["steps"]) / d,
        "phase": phase_names(order, mu, delta, correlation, SAME_EXPONENT),
        "regime": regime,
    }
    return Answer.closed(values)

"""Batch size n_b = d^mu, rate d^-delta and time T = d^theta of one-pass training:
gradient_dynamics section 2.4.
"""

from __future__ import annotations

import numpy as np

from giantstep.core.base.types import Array, Floats


def largest_rate(order: float, mu: Floats, correlation: bool) -> Floats:
    """Return the exponent delta of the largest useful rate d^-delta at batch size d^mu.

    Noise asks for delta >= max(1, l/2) - mu. The squared loss also for delta >= 0,
    because a neuron's own output grows with it; the correlation loss has no such term
    and stops at one step that would overshoot, min(0, 1 - l/2), until a single giant
    step with delta = -(l - 1)/2 learns everything from mu = l on.
    """
    noise = max(1.0, order / 2) - mu
    if not correlation:
        return np.maximum(noise, 0.0)
    return np.where(
        mu >= order, -(order - 1) / 2, np.maximum(noise, min(0.0, 1 - order / 2))
    )


def shortest_time(order: float, mu: Floats, correlation: bool) -> Floats:
    """Return the exponent theta of the time at the largest useful rate (order 2: up to
    a factor log d).
    """
    return np.maximum(
        max(1.0, order - 1) - mu, 0.0 if correlation else max(order / 2 - 1, 0.0)
    )


def best_batch(order: float, correlation: bool) -> float:
    """Return the smallest exponent of the batch size that reaches the shortest time."""
    if order < 2:
        return 1.0
    return order - 1 if correlation else order / 2


def time_at_rate(
    order: float, mu: Floats, delta: Floats, correlation: bool, slack: float = 0.0
) -> Floats:
    """Return the exponent theta of the time at the rate d^-delta, infinite where it is
    too large, up to `slack`.
    """
    theta = np.where(correlation & (mu >= order), 0.0, delta + max(order / 2 - 1, 0.0))
    too_large = delta < largest_rate(order, mu, correlation) - slack
    too_large |= delta < max(1.0, order / 2) - mu - slack
    return np.where(too_large, np.inf, np.maximum(theta, 0.0))


def phase_names(
    order: float, mu: Floats, delta: Floats, correlation: bool, slack: float = 0.0
) -> Array:
    """Return where runs with batches d^mu and rates d^-delta lie when they start
    without overlap.
    """
    theta = time_at_rate(order, mu, delta, correlation, slack)
    noisy = delta < max(1.0, order / 2) - mu - slack
    wild = delta < largest_rate(order, mu, correlation) - slack
    return np.select(
        [noisy, wild, correlation & (mu >= order), theta <= slack],
        [
            "rate too large: noise dominates",
            "rate too large: a step overshoots",
            "one giant step",
            "polylogarithmic",
        ],
        "weak recovery in d^theta",
    )

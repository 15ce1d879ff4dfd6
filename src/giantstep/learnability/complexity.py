"""Batch size, rate and time that the order l of a target asks of one-pass training, as powers of the dimension.

n_b = d^mu, rate = d^-delta, T = d^theta, for the squared and the correlation loss: gradient_dynamics section 2.4.
"""

from __future__ import annotations

import numpy as np

from giantstep.types import Floats


def largest_rate(order: float, mu: Floats, correlation: bool) -> Floats:
    """Return the exponent delta of the largest useful rate d^-delta at batch size d^mu.

    Noise asks for delta >= max(1, l/2) - mu. The squared loss also for delta >= 0, because a neuron's own output grows
    with it; the correlation loss has no such term and stops at one step that would overshoot, min(0, 1 - l/2), until a
    single giant step with delta = -(l - 1)/2 learns everything from mu = l on.
    """
    noise = max(1.0, order / 2) - mu
    if not correlation:
        return np.maximum(noise, 0.0)
    return np.where(mu >= order, -(order - 1) / 2, np.maximum(noise, min(0.0, 1 - order / 2)))


def shortest_time(order: float, mu: Floats, correlation: bool) -> Floats:
    """Return the exponent theta of the time at the largest useful rate (order 2: up to a factor log d)."""
    floor = 0.0 if correlation else max(order / 2 - 1, 0.0)
    return np.maximum(max(1.0, order - 1) - mu, floor)


def best_batch(order: float, correlation: bool) -> float:
    """Return the smallest exponent of the batch size that reaches the shortest time."""
    if order < 2:
        return 1.0
    return order - 1 if correlation else order / 2

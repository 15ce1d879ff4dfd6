"""Batch size, rate and time that the order l of a target asks of one-pass training, as powers of the dimension.

n_b = d^mu, rate = d^-delta, T = d^theta, for the squared and the correlation loss: gradient_dynamics section 2.4.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from giantstep.display import Readable
from giantstep.errors import InputError
from giantstep.gaussian.subspaces import direction_text, tidy_signs
from giantstep.gaussian.target import Target
from giantstep.types import Array, Floats

if TYPE_CHECKING:
    import xarray


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


def time_at_rate(order: float, mu: Floats, delta: Floats, correlation: bool, slack: float = 0.0) -> Floats:
    """Return the exponent theta of the time at the rate d^-delta, infinite where it is too large, up to `slack`."""
    theta = np.where(correlation & (mu >= order), 0.0, delta + max(order / 2 - 1, 0.0))
    too_large = delta < largest_rate(order, mu, correlation) - slack
    too_large |= delta < max(1.0, order / 2) - mu - slack
    return np.where(too_large, np.inf, np.maximum(theta, 0.0))


def phase_names(order: float, mu: Floats, delta: Floats, correlation: bool, slack: float = 0.0) -> Array:
    """Return where runs with batches d^mu and rates d^-delta lie when they start without overlap."""
    theta = time_at_rate(order, mu, delta, correlation, slack)
    noisy = delta < max(1.0, order / 2) - mu - slack
    wild = delta < largest_rate(order, mu, correlation) - slack
    return np.select(
        [noisy, wild, correlation & (mu >= order), theta <= slack],
        ["rate too large: noise dominates", "rate too large: a step overshoots", "one giant step", "polylogarithmic"],
        "weak recovery in d^theta",
    )


# -- Where stages of order 1 and 2 happen when samples are proportional to the dimension: thresholds in n/d ---


class ProportionalAnswer(Readable):
    """An answer about a target that also knows its thresholds in n/d."""

    target: Target

    def thresholds(self, noise: float = 0.0, flip: float = 0.0) -> xarray.Dataset:
        """Return n/d above which message passing, the best known fast algorithm, learns each direction (`BayesLimit`).

        0 for a stage of order 1, a number at order 2, else inf (bayes_multi_index section 4): the exponents say whether
        samples of order d are enough, this says how many (``alpha_direction``, of the directions ``vector``). Targets
        of several directions that are no labels need some `noise`.

        >>> import giantstep as gs
        >>> round(float(gs.exponents("abs(z)").thresholds().alpha_direction[0]), 9)
        0.5
        """
        from giantstep.families import family_class
        from giantstep.study import predict

        scenario = family_class("bayes-limit")(target=self.target, noise=noise, flip=flip, samples_per_dim=1.0)
        return predict(scenario, what="thresholds")


def stages_text(target: Target) -> str:
    """Return n/d above which message passing learns each direction without noise, in words."""
    from giantstep.families import family_class

    if target.directions > 2:
        return "order d; n/d of every stage: .thresholds()"
    try:
        scenario: Any = family_class("bayes-limit")(target=target, samples_per_dim=1.0)
        alphas, rows = scenario.direction_thresholds()
    except InputError:
        return "order d; n/d of every stage at some noise: .thresholds(noise=...)"
    texts = [f"{direction_text(row)} {_above(alpha)}" for alpha, row in zip(alphas.tolist(), tidy_signs(rows))]
    return "; ".join(texts)


def _above(alpha: float) -> str:
    if math.isnan(alpha):
        return "at an unknown n/d"
    if math.isinf(alpha):
        return "never with samples of order d"
    return f"above n = {alpha:.6g} d" if alpha > 0 else "at any n/d"

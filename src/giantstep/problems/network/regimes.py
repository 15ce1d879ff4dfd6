"""Which regime a step of a finite network belongs to, and why."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from giantstep.core.base.display import Readable
from giantstep.core.base.errors import InputError, bad_field
from giantstep.core.readout.random_features import active_degrees
from giantstep.core.scenario.own_classes import refuse_limit
from giantstep.problems.network.one_step import OneStep
from giantstep.problems.network.scenario import Network
from giantstep.problems.network.steps.base import GradientStep

HIGHEST_DEGREE = 12
"""Degrees that are looked at: the next one needs an exponent above 6/13, nearly that of
a maximal step.
"""
_NO_LINEAR_PART = 1e-10
"""Hermite coefficient of degree 1 that is rounding."""


@dataclass(frozen=True, repr=False)
class Regime(Readable):
    """The regime of a step: its name, the exponent log(eta)/log(n0), the degrees it
    learns, and the reasons.
    """

    name: str
    exponent: float
    degrees: tuple[int, ...]
    reasons: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.name} (exponent {self.exponent:.3g}): " + " ".join(self.reasons)


def regime(scenario: OneStep | Network, dim: int) -> Regime:
    """Tell which regime the step of a network of dimension `dim` belongs to.

    With eta the step in the normalisation eta_raw = eta sqrt(p), the exponent is
    alpha = log eta/log n0. Degree k of the learnt direction kappa makes a spike of
    strength |c_k| s^k sqrt(p), s = eta c1 |beta|/sqrt(p), against a bulk of order 1: it
    counts from alpha > (k-1)/(2k) on, where c_k is not 0. From alpha = 1/2 on the step
    is maximal.

    >>> import giantstep as gs
    >>> s = gs.OneStep(
    ...     width_per_dim=2,
    ...     samples_per_dim=4,
    ...     ridge=0.2,
    ...     second_layer="gaussian",
    ...     step=gs.GrowingStep(rate=1.0, exponent=0.3, batch_per_dim=4.0),
    ... )
    >>> print(gs.regime(s, dim=500).name)
    growing step, 2 spikes
    """
    if isinstance(dim, bool) or not isinstance(dim, int | np.integer) or dim < 2:
        raise bad_field("dim", dim, "a whole number at least 2")
    if isinstance(scenario, Network):
        network = scenario
    else:
        network = scenario.network(1)
    if not network.steps:
        return Regime("random features", -math.inf, (), ("There is no step.",))
    refuse_limit(scenario)
    step = network.steps[0]
    if len(network.steps) > 1 or not isinstance(step, GradientStep):
        raise InputError(
            "A regime belongs to one gradient step, but there are several, or what"
            " happens is planted."
        )
    if step.rate == 0:
        return Regime("random features", -math.inf, (), ("The rate is 0.",))
    # a step of negative rate learns as much
    eta = abs(float(step.size({**network.point(), "dim": np.array([float(dim)])})[0]))
    samples = _batch_size(network, step, dim)
    width = max(1, round(network.width_per_dim * dim))
    exponent = math.log(eta) / math.log(samples)
    reasons = [f"eta = {eta:.4g} = n0^{exponent:.3g} with n0 = {samples}, p = {width}."]
    name, degrees, why = _stairs(network, exponent)
    # the first step sees the target by its linear part g1 alone
    if abs(network.label.hermite(1)[1]) < _NO_LINEAR_PART:
        degrees = ()
        reasons.append(
            "The target has no linear part, so the gradient does not see its direction."
        )
    return Regime(name, exponent, degrees, (*reasons, *why))


def _batch_size(network: Network, step: GradientStep, dim: int) -> int:
    """Return n0; the samples of the fit stand for those of the population."""
    if math.isfinite(step.batch_per_dim):
        batch_per_dim = step.batch_per_dim
    else:
        batch_per_dim = network.samples_per_dim
    # at least 2, so that log n0 is not 0
    return max(2, round(batch_per_dim * dim))


def _stairs(
    network: Network, exponent: float
) -> tuple[str, tuple[int, ...], list[str]]:
    """Return the name of the regime at an exponent, the degrees that are learnt, and
    the reasons.
    """
    present = active_degrees(network.activation, HIGHEST_DEGREE)
    # a constant learns nothing
    present = [degree for degree in present if degree > 0]
    # the step does not grow with n0
    if exponent <= 0:
        why = "One spike of finite strength: the fit stays linear in x."
        return "small step", (1,), [why]
    # (k - 1)/(2 k) is below 1/2 for every k
    if exponent >= 0.5:
        why = (
            "The spike is as large as the initial weights: every degree that the second"
            " layer can tell apart is learnt."
        )
        return "maximal step", tuple(present), [why]
    # degree k counts from (k - 1)/(2 k) on
    reached = [k for k in range(1, HIGHEST_DEGREE + 1) if exponent > (k - 1) / (2 * k)]
    degrees = tuple(k for k in reached if k in present)
    reasons = [
        f"Degrees {', '.join(map(str, degrees))} of the learnt direction have diverging"
        " spikes."
    ]
    silent = [k for k in reached if k not in present]
    if silent:
        reasons.append(
            f"Degrees {', '.join(map(str, silent))} would, but the activation has none"
            " of them."
        )
    plural = "" if len(degrees) == 1 else "s"
    return f"growing step, {len(degrees)} spike{plural}", degrees, reasons

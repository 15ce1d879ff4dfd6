"""Exponents of learning curves that theory knows: linear regression without ridge on inputs with a power law.

The eigenvalues of the inputs fall as j^-a and the shares of the target's variance as j^-b, b > 1 (capacity and source
conditions). Without noise and without ridge, n samples leave an error n^-min(b - 1, 2a). The best fit on p random
projections of the inputs leaves p^-min(b - 1, a). Where both grow at a fixed ratio the slower one stays.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

THEORY = (
    "noiseless regression without ridge, eigenvalues j^-a, target's shares j^-b: n^-min(b - 1, 2a), p^-min(b - 1, a)"
)
_RIDGELESS = 1e-6
"""Ridge, per sample and in units of the mean eigenvalue, below which a fit counts as one without."""


def known_exponent(scenario: Any, names: Iterable[str]) -> float:
    """Return d log error/d log factor of a scenario whose fields `names` grow by that factor; NaN where not known."""
    inputs: Any = getattr(scenario, "inputs", None)
    if getattr(inputs, "kind", "") != "power-law" or not _is_linear_and_free_of_noise(scenario):
        return math.nan
    a, tail = float(inputs.exponent), float(inputs.target_exponent) - 1
    rates = {"samples_per_dim": min(tail, 2 * a), "width_per_dim": min(tail, a)}
    named = set(names)
    if not named or not named <= set(rates) or tail <= 0:
        return math.nan
    return -min(rates[name] for name in named)


def _is_linear_and_free_of_noise(scenario: Any) -> bool:
    readout = getattr(scenario, "readout", None)
    ridge = getattr(readout, "ridge", getattr(scenario, "ridge", math.inf))
    z = np.linspace(-2.0, 2.0, 9)
    target, activation = scenario.target, scenario.activation
    if getattr(scenario, "steps", None) or getattr(getattr(scenario, "step", None), "kind", "none") != "none":
        return False  # what a step learns of the target does not follow the law of the inputs
    if scenario.noise or ridge > _RIDGELESS or getattr(readout, "kind", "ridge") != "ridge" or target.directions > 1:
        return False
    both = np.ravel(target(z[:, None])), activation(z)
    return all(np.allclose(values, values[z == 1] * z, rtol=0, atol=1e-12) for values in both)

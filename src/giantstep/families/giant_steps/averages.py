"""Averages of the activation over the part of a preactivation that a neuron shares with nobody.

lambda_i = u + sd e_i with e_i ~ N(0,1) private to neuron i, gradient_dynamics section 5.3. Every average over e is a
function of u alone; it is tabulated and interpolated (relu: closed forms).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy
from scipy.special import ndtr

from giantstep.families.giant_steps.tolerances import LEAST_SPREAD
from giantstep.gaussian import Function, gauss_legendre_panels, normal_density
from giantstep.gaussian.grids import even_rule
from giantstep.solve.finite import require_finite
from giantstep.types import Floats

_TABLE, _SPLINE = 1500, 7
"""Points of a table at most, of which there are twenty for each spread, and the degree of the spline through it."""
_PANEL = 16
"""Gauss-Legendre nodes of a panel between kinks, two standard deviations wide or less."""


@dataclass(frozen=True)
class Averages:
    """Averages over e at given u: with S = E s and x = s - S.

    ``S``, ``V = E x^2``, ``D = E s'``, ``De = E s' e``, ``Se = E s e``, ``DD = E s'^2``, ``XD = E x s'``,
    ``XDe = E x s' e``, ``XXD = E x^2 s'``, ``XDD = E x s'^2``, ``XXDD = E x^2 s'^2``.
    """

    S: Floats
    V: Floats
    D: Floats
    De: Floats
    Se: Floats
    DD: Floats
    XD: Floats
    XDe: Floats
    XXD: Floats
    XDD: Floats
    XXDD: Floats


def private_averages(activation: Function, u: Floats, spread: float) -> Averages:
    """Return the averages at all u (N,) for one spread sd = sqrt(q - R)."""
    if spread < LEAST_SPREAD:
        s, slope, zero = activation(u), activation.derivative(u), np.zeros_like(u)
        return Averages(s, zero, slope, zero, zero, slope**2, zero, zero, zero, zero, zero)
    if activation.expression == "relu(z)":
        return _relu(u, spread)
    require_finite("a field of the neurons", u, spread)
    low, high = float(u.min()), float(u.max())
    if high - low < 1e-12:
        single = _integrate(activation, np.array([0.5 * (low + high)]), spread)
        return Averages(*np.broadcast_to(single, (len(single), len(u))))
    count = int(np.clip(np.ceil((high - low) / (0.05 * spread)), 64, _TABLE))
    nodes = np.linspace(low, high, count)
    values = _integrate(activation, nodes, spread)
    require_finite("a moment of the activation", values)
    return Averages(*scipy.interpolate.make_interp_spline(nodes, values, k=_SPLINE, axis=1)(u))


def _relu(u: Floats, sd: float) -> Averages:
    t = u / sd
    P, bell = ndtr(t), normal_density(t)
    first = u * P + sd * bell
    second = (u * u + sd * sd) * P + u * sd * bell
    S, V = first, np.maximum(second - first**2, 0.0)
    XD = first - S * P
    XXD = second - 2 * S * first + S * S * P
    positive_e = sd * P  # E relu(lambda) e = sd E 1(lambda > 0)
    XDe = positive_e - S * bell
    return Averages(S, V, P, bell, positive_e, P, XD, XDe, XXD, XD, XXD)


def _integrate(activation: Function, u: Floats, sd: float) -> Floats:
    """Return the eleven averages at the nodes, an array (11, len(u))."""
    if activation.kinks:
        moving = np.clip((np.array(activation.kinks) - u[:, None]) / sd, -9.0, 9.0)
        fixed = np.broadcast_to(np.linspace(-9.0, 9.0, 10), (len(u), 10))
        e, weights = gauss_legendre_panels(np.sort(np.concatenate([fixed, moving], axis=1), axis=1), _PANEL)
        weights = weights * normal_density(e)
    else:
        e, weights = (values[None, :] for values in even_rule(min(0.12, 0.25 / max(sd, 1.0))))
    at = u[:, None] + sd * e
    s, slope = activation(at), activation.derivative(at)
    S = np.sum(s * weights, axis=1)
    x = s - S[:, None]
    products = (
        x * x, slope, slope * e, s * e, slope**2, x * slope, x * slope * e, x * x * slope, x * slope**2,
        x * x * slope**2,
    )  # fmt: skip
    return np.stack([S, *(np.sum(product * weights, axis=1) for product in products)])

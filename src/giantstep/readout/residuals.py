"""The law of residuals along one target direction, carried over from a rule in (s, eps) to nodes of the residual."""

from __future__ import annotations

import numpy as np

from giantstep.gaussian import Function, gauss_legendre_panels
from giantstep.types import Array

PANELS, PANEL_NODES = 12, 8
"""Panels of the residual, of equal width in its arcsinh, and nodes on each."""


def residual_rule(target: Function, offset: float, noise: float) -> tuple[Array, Array, Array]:
    """Return nodes rho (J,), weights (3, J) of 1, s, s^2 and the moments E rho^j, j = 0..4.

    rho = g(s) + sqrt(noise) eps - offset. The two-dimensional rule in (s, eps) is carried over to panels in rho by
    local interpolation, which integrates polynomials of degree 7 on each panel exactly.
    """
    edges = np.unique(np.concatenate([np.arange(-9.0, 10.0), [k for k in target.kinks if abs(k) < 9]]))
    s, w = gauss_legendre_panels(edges[None], 12)
    s, w = s[0], w[0] * np.exp(-(s[0] ** 2) / 2)
    w /= w.sum()
    eps, w_eps = np.polynomial.hermite_e.hermegauss(40) if noise > 0 else (np.zeros(1), np.ones(1))
    w_eps = w_eps / w_eps.sum()
    rho = (target(s)[:, None] + np.sqrt(noise) * eps[None] - offset).ravel()
    weight = (w[:, None] * w_eps).ravel()
    keep = weight > 1e-22
    rho, weight, s = rho[keep], weight[keep], np.repeat(s, len(eps))[keep]
    moments = np.array([np.sum(weight * rho**j) for j in range(5)])
    scale = np.sqrt(moments[2])
    t = np.arcsinh(rho / scale)
    cuts = np.linspace(t.min(), t.max() + 1e-12, PANELS + 1)
    legendre, _ = np.polynomial.legendre.leggauss(PANEL_NODES)
    panel = np.clip(np.searchsorted(cuts, t, side="right") - 1, 0, PANELS - 1)
    left, right = np.sinh(cuts[:-1]) * scale, np.sinh(cuts[1:]) * scale
    nodes = 0.5 * (left + right)[:, None] + 0.5 * (right - left)[:, None] * legendre
    local = (2 * rho - left[panel] - right[panel]) / np.maximum((right - left)[panel], 1e-300)
    basis = _lagrange(legendre, local)  # (points, nodes of the panel)
    weights = np.zeros((3, PANELS, PANEL_NODES))
    for power in range(3):
        np.add.at(weights[power], panel, (weight * s**power)[:, None] * basis)
    return nodes.ravel(), weights.reshape(3, -1), moments


def _lagrange(nodes: Array, x: Array) -> Array:
    vandermonde = np.polynomial.legendre.legvander(nodes, len(nodes) - 1)
    return np.linalg.solve(vandermonde.T, np.polynomial.legendre.legvander(x, len(nodes) - 1).T).T

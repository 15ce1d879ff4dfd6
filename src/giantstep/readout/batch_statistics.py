"""What a gradient step on a finite batch leaves behind: averages over the batch.

spiked_features section 6, for every activation: finite_batch_general (17.1)-(17.4).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from giantstep.gaussian import Function, expectation, gauss_legendre_panels
from giantstep.readout import BatchBulk
from giantstep.types import Array

PANELS, PANEL_NODES = 12, 8


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


def batch_statistics(
    activation: Function, target: Function, offset: Array, e: Array, alpha0: Array, noise: Array
) -> BatchBulk:
    """Return the batch of every point: e = eta zeta_q (B, k), `offset` (B,) what is taken from the labels."""
    c1, c2, c3 = (activation.hermite(3) * np.sqrt([1.0, 1.0, 2.0, 6.0]))[1:]
    c2 = 0.0 if activation.parity == "odd" else c2

    def mean(function: Any) -> float:
        value, _ = expectation(function, kinks=activation.kinks)
        return float(value)

    def remainder(z: Array) -> Array:
        return activation.derivative(z) - c1 - c2 * z

    v, k3, k4 = (mean(lambda z, j=j: remainder(z) ** j) for j in (2, 3, 4))
    a1 = mean(lambda z: z * remainder(z) ** 2)
    a2, a3 = mean(lambda z: z**2 * remainder(z) ** 2), mean(lambda z: z * remainder(z) ** 3)
    e3, b2 = mean(lambda z: z**3 * remainder(z)), mean(lambda z: (z**2 - 1) * remainder(z) ** 2)

    pairs = np.stack([np.broadcast_to(offset, noise.shape), noise], axis=1)
    distinct, which = np.unique(pairs, axis=0, return_inverse=True)
    rules, which = [residual_rule(target, *pair) for pair in distinct.tolist()], which.reshape(-1)
    nodes = np.stack([rule[0] for rule in rules])[which]
    weights = np.stack([rule[1] for rule in rules])[which]
    M1, M2, M3, M4 = (np.array([rule[2][j] for rule in rules])[which][:, None] for j in (1, 2, 3, 4))
    a0 = alpha0[:, None]
    q = e * c2
    g1 = target.hermite(1)[1]
    G = np.sqrt(g1**2 + M2 / a0)
    K2 = 1 + 2 * q * M1 + q**2 * (M1**2 + M2 / a0)
    norm = K2 + e**2 * v * M2 / a0
    f1, f2, f3, f4 = M1, M2 / a0, M3 / a0**2, M4 / a0**3
    F2, F3 = f2 + f1**2, f3 + 3 * f2 * f1 + f1**3
    F4 = f4 + 4 * f3 * f1 + 2 * f2**2 + 6 * f2 * f1**2 + f1**4
    none = np.zeros_like(e)
    carried = np.stack([2 * e * c3 * (1 + q * M1), (2 * e * c3 * q + e**2 * a1) / a0, none], axis=1)  # (17.1)
    second = e * (c3 * (2 * q + 2 * q**2 * M1) + 2 * e * a1 * (1 + q * M1)) / a0
    third = e * (c3 * q**2 + 2 * e * a1 * q + e**2 * k3) / a0**2
    own = carried + np.stack([none, second, third], axis=1)  # (17.2), (17.3)
    rho, w = nodes[:, :, None], weights[:, 0, :, None]
    powers = weights[:, 1, None] @ np.stack([nodes, nodes**2, nodes**3], axis=2)  # E_b[s varrho^j]
    kr = 1 + q[:, None] * (rho / a0[:, None] + M1[:, None])
    dk = 2 * q[:, None] * rho / a0[:, None] + q[:, None] ** 2 * (
        rho**2 / a0[:, None] ** 2 + 2 * rho * M1[:, None] / a0[:, None]
    )
    spread = (  # (17.4)
        2 * ((1 + 4 * q * f1 + 6 * q**2 * F2 + 4 * q**3 * F3 + q**4 * F4) - K2**2)
        + (powers @ carried)[:, 0] ** 2
        + 4 * e**2 / a0 * (a2 * np.sum(w * rho**2 * kr**2, axis=1) + v * q**2 * M2**2 / a0)
        + 4 * e**3 * a3 / a0**2 * np.sum(w * rho**3 * kr, axis=1)
        + e**4 * (2 * M2**2 * v**2 / a0**2 + M4 * (k4 - v**2) / a0**3)
        + 4 * e * e3 * np.sum(w * rho * kr * dk, axis=1)
        + 2 * e**2 * b2 / a0 * np.sum(w * rho**2 * dk, axis=1)
    )
    doubled = bool(np.any(q != 0))
    return BatchBulk(
        doubled=doubled,
        alpha0=alpha0,
        linear=q,
        square=e**2 * v / a0,
        nodes=nodes,
        weights=weights,
        gamma=g1 / G[:, 0],
        strength=G[:, 0],
        own=own,
        carried=carried,
        spread=spread,
        row_norm=norm,
    )

"""Features written by hand, without any family: planted shifts of several classes in a
plane or on a line.
"""

from __future__ import annotations

import numpy as np

import giantstep as gs
from giantstep.core.readout import Equations, Features


def trapezoid(step: float, dimension: int) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes (m, N) and weights (N,) of the tensor rule of few_steps_readout
    section 5.
    """
    line = step * np.arange(-np.floor(9 / step), np.floor(9 / step) + 1)
    nodes = np.stack(np.meshgrid(*[line] * dimension, indexing="ij")).reshape(
        dimension, -1
    )
    return drop_rare(nodes, np.exp(-(nodes**2).sum(axis=0) / 2))


def split_plane(order: int = 8) -> tuple[np.ndarray, np.ndarray]:
    """Return a rule in the plane that breaks at z1 = 0 and z2 = z1."""
    x, w = np.polynomial.legendre.leggauss(order)

    def panels(edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        middle = (edges[1:] + edges[:-1]) / 2
        half = np.diff(edges) / 2
        return (middle[:, None] + half[:, None] * x).ravel(), (
            half[:, None] * w
        ).ravel()

    units = np.arange(-9.0, 10.0)
    nodes = []
    weights = []
    for first, outer in zip(*panels(units)):
        second, inner = panels(np.unique(np.append(units, first)))
        nodes.append(np.stack([np.full_like(second, first), second]))
        weights.append(outer * inner * np.exp(-(first**2 + second**2) / 2))
    return drop_rare(np.concatenate(nodes, axis=1), np.concatenate(weights))


def drop_rare(nodes: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    weights = weights / weights.sum()
    kept = weights > 1e-19
    return nodes[:, kept], weights[kept] / weights[kept].sum()


def planted(activation, pi, U, s, rule, h, h1, hh) -> Features:
    """Return the features of w_i = s_q w0_i + U_q, one channel for every target
    direction, learnt (m) or not (L).
    """
    kappa, weights = rule
    pi, U, s = (np.asarray(values, dtype=float) for values in (pi, U, s))
    moments = gs.Function(activation).moments((U @ kappa)[None], s[None, :, None])
    h1 = np.asarray(h1).reshape(-1, kappa.shape[1])
    (m, N), L, k = kappa.shape, len(h1), len(pi)
    T0 = np.concatenate([kappa[:, None] * moments.slope[0], np.zeros((L, k, N))])
    Jp = np.concatenate(
        [np.zeros((L, m, k)), np.eye(L)[:, :, None] * np.ones(k)], axis=1
    )
    return Features(
        pi=pi,
        weights=weights[None],
        mu0=moments.mean,
        mu1=moments.slope,
        mu2=moments.noise,
        T0=T0.reshape(1, -1, N),
        omega=np.ones((1, (m + L) * k)),
        Jp=Jp.reshape(1, L, (m + L) * k),
        h=h[None],
        h1=h1[None],
        hh=hh[None],
        kappa=kappa[None],
    )


def setting_e() -> Equations:
    """Return setting E of few_steps_readout section 14: m = 2, one unlearnt
    direction.
    """
    rule = trapezoid(0.2, 2)
    (z1, z2), _ = rule
    h = z1 + z1 * z2
    h1 = np.tanh(z1)
    U = [(1.2, 0.3), (-0.5, 1), (0.4, -1.5)]
    s = (1, 0.8, 1.2)
    features = planted("tanh", (0.4, 0.3, 0.3), U, s, rule, h, h1, h**2 + h1**2 + 0.1)
    return ridge_fit(features, 2, 1.5, 0.05)


def setting_f() -> Equations:
    """Return setting F: m = 2, no unlearnt direction, a target with kinks."""
    rule = split_plane()
    (z1, z2), _ = rule
    h = np.abs(z1) + np.maximum(z2 - z1, 0)
    features = planted(
        "relu",
        (0.5, 0.25, 0.25),
        [(1.5, 0.5), (-1, 1), (0.3, -2)],
        (1, 1, 0.7),
        rule,
        h,
        [],
        h**2 + 0.05,
    )
    return ridge_fit(features, 1.5, 2, 0.02)


def ridge_fit(features: Features, samples, width, ridge) -> Equations:
    samples, width, ridge = np.broadcast_arrays(
        *(np.atleast_1d(np.float64(value)) for value in (samples, width, ridge))
    )
    return Equations.of_ridge(features, samples / width, width, ridge)

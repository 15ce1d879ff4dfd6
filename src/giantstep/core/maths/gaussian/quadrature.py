"""Integration against the standard normal density, with errors that are measured."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

# Beyond 9.6 standard deviations lies a probability of 1e-21; functions that grow need
# the wider ones.
BOUNDS = (9.6, 13.0, 18.0, 25.0, 37.0)
PANEL_NODES = 16
PANEL_LIMIT = 1 << 14
MOST_NODES = 1 << 25
"""Nodes of an equally spaced rule, on each side; what is computed at more of them is
not heard from for seconds.
"""


def normal_density(z: ArrayLike) -> np.ndarray:
    """Return exp(-z^2/2)/sqrt(2 pi)."""
    z = np.asarray(z, dtype=float)
    return np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi)


def normal_distribution(z: ArrayLike) -> np.ndarray:
    """Return P(a standard normal is at most z), to 1e-14 of its value in both tails."""
    from scipy.special import ndtr

    return np.asarray(ndtr(np.asarray(z, dtype=float)))


def legendre_rule(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the Gauss-Legendre nodes and weights on [0, 1]."""
    nodes, weights = kept_rule("legendre", count)
    return 0.5 * (nodes + 1), 0.5 * weights


@lru_cache(
    maxsize=128
    # some kB each; a rule of a hundred nodes takes a millisecond, and every average
    # asks
)
def kept_rule(name: str, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the nodes and weights of the "legendre" or the "hermite" rule of NumPy."""
    rules = {
        "legendre": np.polynomial.legendre.leggauss,
        "hermite": np.polynomial.hermite_e.hermegauss,
    }
    nodes, weights = rules[name](count)
    nodes.setflags(write=False)
    weights.setflags(write=False)
    return nodes, weights


def gauss_legendre_panels(
    edges: ArrayLike, nodes_per_panel: int = PANEL_NODES
) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes and weights for dz (..., panels*nodes) of Gauss-Legendre panels
    between edges (..., panels + 1).
    """
    edges = np.asarray(edges, dtype=float)
    unit, unit_weights = legendre_rule(nodes_per_panel)
    width = np.diff(edges, axis=-1)[..., None]
    shape = (*edges.shape[:-1], -1)
    return (edges[..., :-1, None] + width * unit).reshape(shape), (
        width * unit_weights
    ).reshape(shape)


def trapezoid_rule(step: float, bound: float) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes k*step up to ``bound`` on both sides and weights step*phi(node), phi
    the normal density.
    """
    count = int(np.ceil(bound / step - 1e-9))
    if count > MOST_NODES:
        raise MemoryError(f"a rule with {2.0 * count:.1g} nodes")
    nodes = step * np.arange(-count, count + 1)
    return nodes, step * normal_density(nodes)


def expectation(
    f: Callable[[np.ndarray], np.ndarray],
    kinks: Iterable[float] = (),
    tolerance: float = 1e-12,
) -> tuple[np.ndarray | float, np.ndarray | float]:
    """Return E f(z), z ~ N(0,1), and a bound on its error as measured; f takes (n,) and
    returns (..., n).

    Panels break at the kinks. They are halved until that changes the integral by less
    than ``tolerance * E|f|`` in all, or until there are 2^14 of them. The error is ten
    times that change, plus what lies beyond the largest node, plus rounding. It is
    infinite when a value of ``f`` is not finite. A feature that falls between all nodes
    of the first panels (of width 1, with 16 nodes each) cannot be seen.
    """
    with np.errstate(all="ignore"):
        bulk = np.linspace(-8.0, 8.0, 81)
        size = np.max(np.abs(f(bulk + 1e-3) * normal_density(bulk)), axis=-1)
        for bound in BOUNDS:  # the first beyond which f*phi is negligible
            rim = bound * np.linspace(0.97, 1.0, 6)
            rim = np.concatenate([-rim, rim])
            tail = bound * np.max(np.abs(f(rim) * normal_density(rim)), axis=-1)
            if np.all(tail <= 1e-18 * bound * size):
                break
        inside = np.array([k for k in kinks if -bound < k < bound])
        edges = np.unique(
            np.concatenate([np.linspace(-bound, bound, 2 * int(bound) + 1), inside])
        )
        value, error = _integrate(f, edges, tolerance)
        error = np.where(
            np.isfinite(value) & np.isfinite(error + tail), error + tail, np.inf
        )
    if np.ndim(value) == 0:
        return (float(value), float(error))
    return (value, error)


def _integrate(
    f: Callable[[np.ndarray], np.ndarray], edges: np.ndarray, tolerance: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return the integral of f*phi and a bound on its error: ten times what the last
    halvings of the panels changed.
    """
    left = edges[:-1]
    right = edges[1:]
    coarse, sizes = _measure(f, left, right)
    before = np.zeros_like(coarse)
    value, error, size = (np.zeros(coarse.shape[:-1]) for _ in range(3))
    count = 0
    while True:
        middle = 0.5 * (left + right)
        left = np.stack([left, middle], axis=1)
        right = np.stack([middle, right], axis=1)
        halves, sizes = _measure(f, left, right)
        fine = halves.sum(axis=-1)
        sizes = sizes.sum(axis=-1)
        gap = 10 * np.abs(coarse - fine)
        change = np.maximum(gap, 0.05 * before)  # one small gap may be an accident
        count += len(middle)
        allowed = tolerance * (size + sizes.sum(axis=-1)) / (2 * count)
        split = np.any((change > allowed[..., None]).reshape(-1, len(middle)), axis=0)
        split &= (right - left)[:, 0] > 1e-14 * (1 + np.abs(middle))
        if not np.isfinite(fine).all() or count > PANEL_LIMIT:
            split[:] = False
        value, error, size = (
            total + part[..., ~split].sum(axis=-1)
            for total, part in ((value, fine), (error, change), (size, sizes))
        )
        if not split.any():
            return value, error + 16 * np.finfo(float).eps * size
        coarse = halves[..., split, :].reshape(*halves.shape[:-2], -1)
        before = np.repeat(gap[..., split], 2, axis=-1)
        left = left[split].ravel()
        right = right[split].ravel()


def _measure(
    f: Callable[[np.ndarray], np.ndarray], left: np.ndarray, right: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the integrals of f*phi and of |f|*phi over every panel."""
    nodes, weights = gauss_legendre_panels(np.stack([left, right], axis=-1))
    values = np.asarray(f(nodes.ravel()), dtype=float)
    weighted = values.reshape(*values.shape[:-1], *nodes.shape) * (
        normal_density(nodes) * weights
    )
    return weighted.sum(axis=-1), np.abs(weighted).sum(axis=-1)

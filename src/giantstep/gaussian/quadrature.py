"""Integration against the standard normal density, with errors that are measured."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

# Beyond 9.6 standard deviations lies a probability of 1e-21; functions that grow need the wider ones.
BOUNDS = (9.6, 13.0, 18.0, 25.0, 37.0)
PANEL_NODES = 16
PANEL_LIMIT = 1 << 14
MOST_NODES = 1 << 25
"""Nodes of an equally spaced rule, on each side; what is computed at more of them is not heard from for seconds."""
FEW = 1000
"""So many values of the normal distribution are taken from the standard library."""


def normal_density(z: ArrayLike) -> np.ndarray:
    """Return exp(-z^2/2)/sqrt(2 pi)."""
    z = np.asarray(z, dtype=float)
    return np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi)


def normal_distribution(z: ArrayLike) -> np.ndarray:
    """Return P(a standard normal is at most z), to 1e-14 of its value in both tails.

    Loading SciPy's special functions takes a tenth of a second of CPU, an eighth of the first answer of a process.
    """
    z = np.asarray(z, dtype=float)
    if z.size > FEW:
        from scipy.special import ndtr

        return np.asarray(ndtr(z))
    return np.reshape([0.5 * math.erfc(value) for value in (-math.sqrt(0.5) * z).flat], z.shape)


@lru_cache(maxsize=64)  # some kB each; every panel rule asks for one
def legendre_rule(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the Gauss-Legendre nodes and weights on [0, 1], as arrays that must not be changed."""
    nodes, weights = np.polynomial.legendre.leggauss(count)
    nodes, weights = 0.5 * (nodes + 1), 0.5 * weights
    nodes.setflags(write=False)
    weights.setflags(write=False)
    return nodes, weights


def gauss_legendre_panels(edges: ArrayLike, nodes_per_panel: int = PANEL_NODES) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes and weights for dz of the composite Gauss-Legendre rule.

    Parameters
    ----------
    edges : array, shape (..., panels + 1)
        Panel edges in increasing order along the last axis; panels may have width 0.
    nodes_per_panel : int
        The rule is exact for polynomials of degree below twice this on every panel.

    Returns
    -------
    nodes, weights : arrays, shape (..., panels * nodes_per_panel)
        The density is not part of the weights.

    Examples
    --------
    >>> nodes, weights = gauss_legendre_panels([0.0, 1.0, 3.0], 4)
    >>> round(float(weights @ nodes**3), 12)
    20.25
    """
    edges = np.asarray(edges, dtype=float)
    unit, unit_weights = legendre_rule(nodes_per_panel)
    width = np.diff(edges, axis=-1)[..., None]
    shape = (*edges.shape[:-1], -1)
    nodes = edges[..., :-1, None] + width * unit
    return nodes.reshape(shape), (width * unit_weights).reshape(shape)


def trapezoid_rule(step: float, bound: float) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes k*step up to ``bound`` on both sides and weights step*phi(node), phi the normal density.

    For smooth functions the error falls faster than any power of ``step``.

    >>> nodes, weights = trapezoid_rule(0.5, 10.0)
    >>> round(float(weights @ nodes**4), 12)
    3.0
    """
    count = int(np.ceil(bound / step - 1e-9))
    if count > MOST_NODES:
        raise MemoryError(f"a rule with {2.0 * count:.1g} nodes")
    nodes = step * np.arange(-count, count + 1)
    return nodes, step * normal_density(nodes)


def sufficient_bound(f: Callable[[np.ndarray], np.ndarray]) -> tuple[float, np.ndarray]:
    """Return the first of ``BOUNDS`` beyond which f*phi is negligible, and an estimate of what is outside."""
    bulk = np.linspace(-8.0, 8.0, 81)
    size = np.max(np.abs(f(bulk + 1e-3) * normal_density(bulk)), axis=-1)
    for bound in BOUNDS:
        rim = bound * np.linspace(0.97, 1.0, 6)
        rim = np.concatenate([-rim, rim])
        tail = np.max(np.abs(f(rim) * normal_density(rim)), axis=-1)
        if np.all(tail <= 1e-18 * size):
            break
    return bound, np.asarray(tail * bound)


def expectation(
    f: Callable[[np.ndarray], np.ndarray], kinks: Iterable[float] = (), tolerance: float = 1e-12
) -> tuple[np.ndarray | float, np.ndarray | float]:
    """Return E f(z), z ~ N(0,1), and a bound on its error as measured.

    Parameters
    ----------
    f : callable
        Takes an array of shape (n,), returns one of shape (..., n).
    kinks : iterable of float
        Where ``f`` is not smooth; the panels break there.
    tolerance : float
        Panels are halved until the summed errors, judged by how fast the Legendre coefficients of f*phi
        fall on each, are below ``tolerance * E|f|``, or until there are 2^14 of them.

    Returns
    -------
    value, error : float or arrays of shape (...)
        The error is that sum, plus what lies beyond the largest node, plus rounding. It
        is infinite when a value of ``f`` is not finite. A feature that falls between all nodes of the first
        panels (of width 1, with 16 nodes each) cannot be seen.

    Examples
    --------
    >>> value, error = expectation(lambda z: np.maximum(z, 0.0), kinks=[0.0])
    >>> abs(value - 1/np.sqrt(2*np.pi)) < error < 1e-11
    True
    """
    with np.errstate(all="ignore"):
        bound, tail = sufficient_bound(f)
        inside = np.array([k for k in kinks if -bound < k < bound])
        edges = np.unique(np.concatenate([np.linspace(-bound, bound, 2 * int(bound) + 1), inside]))
        value, error = _integrate(f, edges, inside, tolerance)
        error = np.where(np.isfinite(value) & np.isfinite(error + tail), error + tail, np.inf)
    return (float(value), float(error)) if np.ndim(value) == 0 else (value, error)


class _Panels(NamedTuple):
    """Panels [left, right] with, for each, the integrals of f*phi and |f|*phi, a bound on the error of the
    first, and f*phi extrapolated from the nodes to both ends.
    """

    left: np.ndarray
    right: np.ndarray
    integral: np.ndarray
    size: np.ndarray
    error: np.ndarray
    at_left: np.ndarray
    at_right: np.ndarray

    def take(self, which: np.ndarray) -> _Panels:
        return _Panels(*(values[..., which] for values in self))

    def join(self, other: _Panels) -> _Panels:
        return _Panels(*(np.concatenate(pair, axis=-1) for pair in zip(self, other)))


def _integrate(
    f: Callable[[np.ndarray], np.ndarray], edges: np.ndarray, kinks: np.ndarray, tolerance: float
) -> tuple[np.ndarray, np.ndarray]:
    panels = _measure(f, edges[:-1], edges[1:])
    for _ in range(100):
        panels = panels.take(np.argsort(panels.left))
        errors = panels.error + _hidden(panels, kinks)
        size, error = panels.size.sum(axis=-1), errors.sum(axis=-1)
        count = panels.left.size
        if np.all(error <= tolerance * size) or count > PANEL_LIMIT:
            break
        split = np.any((errors > tolerance * size[..., None] / (2 * count)).reshape(-1, count), axis=0)
        split &= panels.right - panels.left > 1e-14 * (1 + np.abs(panels.left))
        if not np.any(split):
            break
        wide = panels.take(split)
        middle = 0.5 * (wide.left + wide.right)
        halves = _measure(f, np.append(wide.left, middle), np.append(middle, wide.right))
        panels = panels.take(~split).join(halves)
    return panels.integral.sum(axis=-1), error + 16 * np.finfo(float).eps * size


def _measure(f: Callable[[np.ndarray], np.ndarray], left: np.ndarray, right: np.ndarray) -> _Panels:
    """Integrate over every panel; the error is judged by the last three Legendre coefficients of f*phi.

    For smooth functions they are far larger than the error of the Gauss rule; across a kink, a jump or an
    integrable singularity the factor 10 keeps them above it (three, since one may vanish by accident).
    """
    nodes, weights = gauss_legendre_panels(np.stack([left, right], axis=-1))
    values = np.asarray(f(nodes.ravel()), dtype=float)
    values = values.reshape(*values.shape[:-1], *nodes.shape) * normal_density(nodes)
    weighted = values * weights
    highest, to_left, to_right = _legendre_functionals()
    return _Panels(
        left,
        right,
        integral=weighted.sum(axis=-1),
        size=np.abs(weighted).sum(axis=-1),
        error=10 * np.abs(weighted @ highest).max(axis=-1),
        at_left=values @ to_left,
        at_right=values @ to_right,
    )


def _legendre_functionals() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The three highest Legendre polynomials at the nodes, and the weights that extrapolate to both ends."""
    unit, weights = legendre_rule(PANEL_NODES)
    polynomials = np.polynomial.legendre.legvander(2 * unit - 1, PANEL_NODES - 1)
    degrees = np.arange(PANEL_NODES)
    expansion = weights[:, None] * polynomials * (2 * degrees + 1)
    return polynomials[:, -3:], expansion @ (-1.0) ** degrees, expansion.sum(axis=1)


def _hidden(panels: _Panels, kinks: np.ndarray) -> np.ndarray:
    """What a kink may hide between the outermost node and a panel's end, where it leaves a mismatch."""
    mismatch = np.abs(panels.at_right[..., :-1] - panels.at_left[..., 1:])
    mismatch = np.where(np.isin(panels.left[1:], kinks), 0.0, mismatch)
    none = np.zeros_like(panels.integral[..., :1])
    around = np.concatenate([none, mismatch], axis=-1) + np.concatenate([mismatch, none], axis=-1)
    return around * (panels.right - panels.left) * legendre_rule(PANEL_NODES)[0][0]

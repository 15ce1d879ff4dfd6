"""One direction without noise: a sum over preimages of y, bayes_multi_index (7), and
labels of intervals, (6), (11).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import NamedTuple

import numpy as np

from giantstep.core.base.chunks import split_rows
from giantstep.core.base.types import DeviceArray, Floats, Indices
from giantstep.core.maths.gaussian.primitives import special
from giantstep.core.maths.gaussian.quadrature import (
    gauss_legendre_panels,
    normal_density,
)
from giantstep.problems.bayes_limit.reading import Line
from giantstep.problems.bayes_limit.tolerances import REACH, TINY

_PANEL = 0.5
_RATIO = 4.0
_SMALLEST = 1e-13
_NODES = 10
"""Panels of z: widest, how they shrink towards a break, down to which width, and their
nodes. They leave 1e-10.
"""
_LIGHTEST = 1e-18
"""Weight of z below which a node is left out."""
_ROUNDED = 1e-6
"""Closer than this to a critical point of value 1 rounding of y hides the preimages;
they are read here instead.
"""
_XI = 0.7
"""Largest step of the trapezoid rule in xi, in standard deviations: it leaves 1e-17 for
one Gaussian.
"""
_DIGITS = 32.0
"""Minus the logarithm of the error of that rule, relative to all of z: 1e-14; with 28,
1e-7 is lost at some q.
"""
_LEVELS = 2
"""Steps in xi are rounded down to powers of 2^(1/2), so that nodes z that share one are
summed together.
"""
_NEGLIGIBLE = -45.0
"""Logarithm of the weight below which another preimage is left out: 3e-20."""
_BLOCK = 1 << 18
"""Numbers of one block of the sum, 2 MB."""
_CUT = 9.0
"""Standard deviations of omega at which labels are cut."""
_OFFSETS = np.array(
    [-8.0, -6.0, -4.0, -3.0, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0]
)
"""Edges of panels of omega around an end of an interval, in standard deviations of z
given omega.
"""
_LABEL_NODES = 20
"""Nodes of such a panel; they leave 1e-12."""
_NEWTON = 2
"""Newton's steps from between two nodes to a boundary between labels: they leave 1e-7;
errors are quadratic in it.
"""


class Preimages(NamedTuple):
    """Nodes z with the other points of their level sets."""

    z: Floats
    weights: Floats  # weights (N,) with the density of N(0, 1)
    log_slope: Floats  # log |g'(z)|
    distance: Floats  # z_j - z of the other preimages (N, J); zero where there is none
    log_ratio: Floats  # log |g'(z)/g'(z_j)| (N, J); minus infinity where there is none


def _geometric_panels(breaks: tuple[float, ...]) -> tuple[Floats, Floats]:
    """Return nodes and weights dz on (-8.5, 8.5), panels shrinking geometrically
    towards every break.
    """
    shrinking = _PANEL * _RATIO ** -np.arange(
        1, np.ceil(np.log(_PANEL / _SMALLEST) / np.log(_RATIO))
    )
    edges = [
        np.linspace(-REACH, REACH, int(2 * REACH / _PANEL) + 1),
        np.asarray(breaks, dtype=float),
    ]
    for index, end in enumerate(breaks):
        left = end - breaks[index - 1] if index else np.inf
        right = breaks[index + 1] - end if index + 1 < len(breaks) else np.inf
        edges += [
            end - shrinking[shrinking < 0.6 * left],
            end + shrinking[shrinking < 0.6 * right],
        ]
    together = np.concatenate(edges)
    return gauss_legendre_panels(np.unique(together[np.abs(together) <= REACH]), _NODES)


@dataclass(frozen=True)
class Exact:
    """y = g(z) without noise; where g is a label, another one with probability
    `flip`.
    """

    line: Line
    flip: float = 0.0

    directions = 1
    last = 9.0
    farthest = 34.0

    @cached_property
    def nodes(self) -> Preimages | None:
        """Quadrature nodes on the monotone pieces, with their preimages; None where y
        is a label.
        """
        if self.line.is_discrete:
            return None
        z, weights = _geometric_panels(self.line.breaks)
        if self.line.parity in ("even", "odd"):  # z < 0 adds the same as z > 0
            z, weights = z[z > 0], 2 * weights[z > 0]
        on_atom = np.zeros(len(z), dtype=bool)
        for piece in self.line.flat:
            on_atom |= (z > piece.low) & (z < piece.high)
        weights = weights * normal_density(z)
        z = z[~on_atom & (weights > _LIGHTEST)]
        weights = weights[~on_atom & (weights > _LIGHTEST)]
        for point in sorted({*self.line.ends} - {*self.line.kinks}):  # critical points
            near = _ROUNDED * min(
                1.0, float(np.sqrt(np.abs(self.line(np.array(point)))))
            )
            z = np.where(
                np.abs(z - point) < near, point + np.copysign(near, z - point), z
            )
        images = self.line.preimages(self.line(z))
        lows = np.array([low for low, _ in self.line.pieces])
        images[np.arange(len(z)), np.searchsorted(lows, z) - 1] = np.nan
        there = np.isfinite(images)
        with np.errstate(divide="ignore"):
            log_slope = np.log(np.abs(self.line.slope(z)))
            others = np.log(np.abs(self.line.slope(np.where(there, images, 0.0))))
        kept = np.isfinite(log_slope)
        ratio = np.where(
            there & np.isfinite(others), log_slope[:, None] - others, -np.inf
        )
        distance = np.where(there, images - z[:, None], 0.0)
        return Preimages(
            z[kept], weights[kept], log_slope[kept], distance[kept], ratio[kept]
        )

    @cached_property
    def continuous_mass(self) -> float:
        """Probability that y is not an atom; M = 1 is stable above alpha = 1 over
        it.
        """
        if self.nodes is None:
            return 0.0
        if not self.line.labels:
            return 1.0
        return float(self.nodes.weights.sum())

    def information(self, q: float) -> tuple[float, float]:
        """Return I(q) and Psi(q), bayes_multi_index (2); Psi contains E log|g'|."""
        information = psi = 0.0
        if self.line.labels:
            omega, weights = label_panels(self.line, q)
            Z, slope, _ = self.law(omega, 1 - q)
            Z = np.maximum(Z, TINY)
            information = float((slope**2 / Z).sum(axis=0) @ weights)
            psi = float((Z * np.log(Z)).sum(axis=0) @ weights)
        if self.nodes is not None:
            more = _from_preimages(self.nodes, q)
            information = information + more[0]
            psi = psi + more[1]
        return information, psi

    def law(self, omega: Floats, V: float) -> tuple[Floats, Floats, Floats]:
        """Return Z_l(omega) of the labels and its first two derivatives in omega,
        (K, N) each.
        """
        return label_law(self.line, self.flip, omega, V, np)

    def onset(self) -> tuple[float, float]:
        """Return E m1^2 and rho = E (E[z^2 - 1|y])^2, bayes_multi_index (12)."""
        Z, first, second = self.law(np.zeros(1), 1.0)
        m1 = float((first**2 / Z).sum())
        rho = float((second**2 / Z).sum())
        if self.nodes is None:
            return m1, rho
        z, weights, _, distance, log_ratio = self.nodes
        odds = np.exp(log_ratio - 0.5 * distance**2 - distance * z[:, None])
        total = 1 + odds.sum(axis=1)
        others = z[:, None] + distance
        mean = (z + (odds * others).sum(axis=1)) / total
        square = (z**2 + (odds * others**2).sum(axis=1)) / total - 1
        return m1 + float(weights @ mean**2), rho + float(weights @ square**2)

    def errors(self, q: float) -> tuple[float, float]:
        """Return the best square error and, of labels, the best fraction of wrong ones,
        bayes_multi_index (11).
        """
        if not self.line.is_discrete:
            return (
                0.0
                if q >= 1
                else max(0.0, self.line.second_moment - self.line.mean_square(q))
            ), np.nan
        values = np.asarray(self.line.labels)
        omega = np.zeros(1)
        weights = np.ones(1)
        if q > 0:  # with edges where another label becomes the likeliest
            omega, _ = label_panels(self.line, q)
            best = self.law(omega, 1 - q)[0].argmax(axis=0)
            place = np.flatnonzero(best[1:] != best[:-1])
            before = best[place]
            after = best[place + 1]
            each = np.arange(len(place))
            edges = 0.5 * (omega[place] + omega[place + 1])
            for _ in range(_NEWTON if len(place) else 0):
                Z, slope, _ = self.law(edges, 1 - q)
                lead, fall = (
                    law[before, each] - law[after, each] for law in (Z, slope)
                )
                edges = np.clip(
                    edges - lead / np.where(fall == 0, np.inf, fall),
                    omega[place],
                    omega[place + 1],
                )
            omega, weights = label_panels(self.line, q, edges)
        Z, _, _ = self.law(omega, 1 - q)
        mean = values @ Z
        return float((values**2 @ Z - mean**2) @ weights), float(
            (Z.sum(axis=0) - Z.max(axis=0)) @ weights
        )


def _from_preimages(nodes: Preimages, q: float) -> tuple[float, float]:
    """Return what the continuous part of y adds to I and Psi."""
    V = 1 - q
    ratio = (
        nodes.log_ratio
        - nodes.distance**2 / (2 * V)
        - nodes.distance * nodes.z[:, None]
    )
    rate = nodes.distance * np.sqrt(q / V)
    seen = ratio + np.abs(rate) * REACH > _NEGLIGIBLE
    steepest = np.where(seen, np.abs(nodes.distance), 0.0).max(axis=1, initial=0.0)
    # poles at distance b = pi sqrt(V/q)/|z_j - z| from the real axis: error exp(-2 pi
    # b/step) times the weight of z
    scale = 2 * np.pi**2 / np.maximum(_DIGITS + np.log(nodes.weights), 8.0)
    step = np.minimum(_XI, scale * np.sqrt(V / q) / np.maximum(steepest, 1e-300))
    level = np.ceil(_LEVELS * np.log2(_XI / step) - 1e-9).astype(int)

    def integrate(
        part: Indices, columns: Indices, xi: Floats, density: Floats
    ) -> tuple[float, float]:
        """Return the parts of some nodes z, by the trapezoid rule in xi, omega = q z +
        sqrt(q (1 - q)) xi.
        """
        plain = nodes.z[part][:, None] - np.sqrt(q / V) * xi  # (z - omega)/V
        log_total = np.zeros((1, len(xi)))
        shift = 0.0
        if len(columns):
            pick = np.ix_(part, columns)
            log_odds = (
                np.where(seen[pick], ratio[pick], -np.inf)[:, :, None]
                + rate[pick][:, :, None] * xi
            )
            top = np.maximum(log_odds.max(axis=1), 0.0)
            odds = np.exp(log_odds - top[:, None])
            total = np.exp(-top) + odds.sum(axis=1)
            shift = np.einsum("njx,nj->nx", odds, nodes.distance[pick]) / (V * total)
            log_total = top + np.log(total)
        log_Z = (
            -0.5 * V * plain**2
            - 0.5 * np.log(2 * np.pi * V)
            - nodes.log_slope[part][:, None]
            + log_total
        )
        weights = nodes.weights[part]
        return float(weights @ (np.square(plain + shift) @ density)), float(
            weights @ (log_Z @ density)
        )

    information = psi = 0.0
    for number in np.unique(level):
        rows = np.flatnonzero(level == number)
        fine = _XI / 2.0 ** (number / _LEVELS)
        xi = fine * np.arange(-int(REACH / fine), int(REACH / fine) + 1)
        columns = np.flatnonzero(seen[rows].any(axis=0))
        for part in split_rows(len(rows), len(xi) * max(len(columns), 1), _BLOCK):
            pieces = integrate(rows[part], columns, xi, fine * normal_density(xi))
            information = information + pieces[0]
            psi = psi + pieces[1]
    return information, psi


def label_law(
    line: Line, flip: float, omega: DeviceArray, V: float, xp: ModuleType
) -> tuple[DeviceArray, DeviceArray, DeviceArray]:
    """Return Z_l(omega) of labels of intervals, z ~ N(omega, V), and its first two
    derivatives, (K, N) each.
    """
    s = float(np.sqrt(V))
    P, first, second = (xp.zeros((len(line.labels), len(omega))) for _ in range(3))
    for low, high, value in line.flat:
        row = line.labels.index(value)
        a, b = ((end - omega) / s for end in (low, high))
        P[row] += between(a, b, xp)
        at_a, at_b = (
            xp.exp(-0.5 * x * x) / float(np.sqrt(2 * np.pi) * s) for x in (a, b)
        )
        first[row] += at_a - at_b
        a, b = (xp.where(xp.isfinite(x), x, 0.0) for x in (a, b))
        second[row] += (a * at_a - b * at_b) / s
    Z, first = noisy_labels(P, first, flip)
    return Z, first, noisy_labels(P, second, flip)[1]


def between(a: DeviceArray, b: DeviceArray, xp: ModuleType = np) -> DeviceArray:
    """Return P(a < u < b), u ~ N(0, 1), from the side on which it does not cancel."""
    ndtr = special(xp).ndtr
    swap = a > 0
    return ndtr(xp.where(swap, -a, b)) - ndtr(xp.where(swap, -b, a))


def label_panels(
    line: Line, q: float, extra: Floats | tuple[()] = ()
) -> tuple[Floats, Floats]:
    """Return nodes omega and weights with the density of N(0, q), finer at the ends of
    the intervals.
    """
    # omega >= 0 alone where the other half gives the same sums over labels
    s = np.sqrt(1 - q)
    cut = _CUT * np.sqrt(q)
    half = line.parity in ("even", "odd")
    low = 0.0 if half else -cut
    ends = sorted({end for piece in line.flat for end in piece[:2] if np.isfinite(end)})
    around = (np.array(ends)[:, None] + s * _OFFSETS).ravel()
    plain = np.linspace(
        low, cut, max(2, int(np.ceil((cut - low) / min(0.5, 0.75 * np.sqrt(q)))) + 1)
    )
    edges = np.unique(
        np.concatenate([plain, around[(around > low) & (around < cut)], extra])
    )
    omega, weights = gauss_legendre_panels(edges, _LABEL_NODES)
    return omega, (2.0 if half else 1.0) * weights * normal_density(
        omega / np.sqrt(q)
    ) / np.sqrt(q)


def noisy_labels(
    P: DeviceArray, slope: DeviceArray, flip: float
) -> tuple[DeviceArray, DeviceArray]:
    """Return Z_l and its derivative where a label is replaced by another one with
    probability `flip`.
    """
    others = flip / max(len(P) - 1, 1)
    return (1 - flip) * P + others * (1 - P), (1 - flip - others) * slope

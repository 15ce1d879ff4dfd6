"""One direction without noise: the channel as a sum over preimages and atoms, bayes_multi_index (7)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from giantstep.deadline import check_time
from giantstep.families.bayes_limit.labels import interval_probabilities, label_panels
from giantstep.families.bayes_limit.line import REACH, Line
from giantstep.gaussian.quadrature import gauss_legendre_panels, normal_density
from giantstep.types import Booleans, Floats, Indices

_WIDTH = 0.5
_FLAT = 1e-6
"""Closer than this to a critical point of value 1 rounding of y hides the preimages; they are read here instead."""
_XI = 8.5
_BLOCK = 1 << 18
_TINY = 1e-290


class Steps(NamedTuple):
    """How fine the rules are.

    Attributes
    ----------
    nodes, ratio, smallest : nodes of a panel of z, how panels shrink towards a break, and down to which width.
    xi : largest step in xi.
    accuracy : minus the logarithm of the error of the trapezoid rule in xi, relative to all of z.
    levels : into how many groups an octave of steps in xi is split.
    reach, lightest : standard deviations of xi that count, and the weight from which nodes z do.
    negligible : logarithm of the weight below which another preimage is left out.
    rounds : halvings in which preimages are found.
    """

    nodes: int = 10
    ratio: float = 4.0
    smallest: float = 1e-13
    xi: float = 0.7
    accuracy: float = 32.0
    levels: int = 2
    reach: float = _XI
    lightest: float = 1e-18
    negligible: float = -45.0
    rounds: int = 64


ACCURATE, ROUGH = Steps(), Steps(5, 6.0, 1e-7, 1.0, 15.0, 1, 5.5, 1e-9, -14.0, 44)


class Preimages(NamedTuple):
    """Nodes z with the other points of their level sets."""

    z: Floats
    weights: Floats
    """Weights (N,) with the density of N(0, 1)."""
    log_slope: Floats
    """log |g'(z)|."""
    distance: Floats
    """z_j - z of the other preimages (N, J); zero where there is none."""
    log_ratio: Floats
    """log |g'(z)/g'(z_j)| (N, J); minus infinity where there is none."""


def geometric_panels(breaks: tuple[float, ...], steps: Steps = ACCURATE) -> tuple[Floats, Floats]:
    """Return nodes and weights dz on (-8.5, 8.5), panels shrinking geometrically towards every break."""
    levels = np.ceil(np.log(_WIDTH / steps.smallest) / np.log(steps.ratio))
    shrinking = _WIDTH * steps.ratio ** -np.arange(1, levels)
    edges = [np.linspace(-REACH, REACH, int(2 * REACH / _WIDTH) + 1), np.asarray(breaks, dtype=float)]
    for index, end in enumerate(breaks):
        left = end - breaks[index - 1] if index else np.inf
        right = breaks[index + 1] - end if index + 1 < len(breaks) else np.inf
        edges += [end - shrinking[shrinking < 0.6 * left], end + shrinking[shrinking < 0.6 * right]]
    together = np.concatenate(edges)
    return gauss_legendre_panels(np.unique(together[np.abs(together) <= REACH]), steps.nodes)


@dataclass(frozen=True)
class Exact:
    """y = g(z) without noise."""

    line: Line

    directions = 1
    last, spacing, farthest = 9.0, 0.4, 34.0

    @cached_property
    def nodes(self) -> Preimages:
        """Quadrature nodes on the monotone pieces, with their preimages."""
        return self._nodes(ACCURATE)

    @cached_property
    def _few_nodes(self) -> Preimages:
        return self._nodes(ROUGH)

    def _nodes(self, steps: Steps) -> Preimages:
        z, weights = geometric_panels(self.line.breaks, steps)
        if self.line.is_even_or_odd:  # z < 0 adds the same as z > 0
            z, weights = z[z > 0], 2 * weights[z > 0]
        on_atom = np.zeros(len(z), dtype=bool)
        for piece in self.line.flat:
            on_atom |= (z > piece.low) & (z < piece.high)
        z, weights = z[~on_atom], (weights * normal_density(z))[~on_atom]
        z, weights = z[weights > steps.lightest], weights[weights > steps.lightest]
        for point in self.line.critical_points:
            near = _FLAT * min(1.0, float(np.sqrt(np.abs(self.line(np.array(point))))))
            z = np.where(np.abs(z - point) < near, point + np.copysign(near, z - point), z)
        images = self.line.preimages(self.line(z), steps.rounds)
        lows = np.array([low for low, _ in self.line.pieces])
        images[np.arange(len(z)), np.searchsorted(lows, z) - 1] = np.nan
        there = np.isfinite(images)
        with np.errstate(divide="ignore"):
            log_slope = np.log(np.abs(self.line.slope(z)))
            others = np.log(np.abs(self.line.slope(np.where(there, images, 0.0))))
        kept = np.isfinite(log_slope)
        ratio = np.where(there & np.isfinite(others), log_slope[:, None] - others, -np.inf)
        distance = np.where(there, images - z[:, None], 0.0)
        return Preimages(z[kept], weights[kept], log_slope[kept], distance[kept], ratio[kept])

    @cached_property
    def continuous_mass(self) -> float:
        """Probability that y is not an atom; M = 1 is stable above alpha = 1 over it."""
        return 1.0 if not self.line.flat else float(self.nodes.weights.sum())

    @cached_property
    def _atoms(self) -> tuple[float, ...]:
        return tuple(sorted({piece.value for piece in self.line.flat}))

    def information(self, q: float) -> tuple[float, float]:
        """Return I(q) and Psi(q), bayes_multi_index (2); Psi contains E log|g'|."""
        return self._summed(q, self.nodes, ACCURATE)

    def survey(self, q: Floats) -> Floats:
        """Return I at many q from few nodes."""
        return np.array([self._summed(float(x), self._few_nodes, ROUGH)[0] for x in q])

    def _summed(self, q: float, nodes: Preimages, steps: Steps) -> tuple[float, float]:
        V = 1 - q
        ratio = nodes.log_ratio - nodes.distance**2 / (2 * V) - nodes.distance * nodes.z[:, None]
        rate = nodes.distance * np.sqrt(q / V)
        seen = ratio + np.abs(rate) * steps.reach > steps.negligible
        steepest = np.where(seen, np.abs(nodes.distance), 0.0).max(axis=1, initial=0.0)
        # poles at distance b = pi sqrt(V/q)/|z_j - z| from the real axis: error exp(-2 pi b/step) times the weight of z
        scale = 2 * np.pi**2 / np.maximum(steps.accuracy + np.log(nodes.weights), 8.0)
        step = np.minimum(steps.xi, scale * np.sqrt(V / q) / np.maximum(steepest, 1e-300))
        level = np.ceil(steps.levels * np.log2(steps.xi / step) - 1e-9).astype(int)
        information = psi = 0.0
        for number in np.unique(level):
            rows = np.flatnonzero(level == number)
            fine = steps.xi / 2.0 ** (number / steps.levels)
            xi = fine * np.arange(-int(steps.reach / fine), int(steps.reach / fine) + 1)
            density = fine * normal_density(xi)
            columns = np.flatnonzero(seen[rows].any(axis=0))
            size = max(1, _BLOCK // (len(xi) * max(len(columns), 1)))
            for start in range(0, len(rows), size):
                check_time()
                part = rows[start : start + size]
                pieces = _integrate(nodes, part, columns, ratio, rate, seen, (xi, density), q)
                information, psi = information + pieces[0], psi + pieces[1]
        atoms = self._atom_terms(q)
        return information + atoms[0], psi + atoms[1]

    def _atom_terms(self, q: float) -> tuple[float, float]:
        if not self._atoms:
            return 0.0, 0.0
        omega, weights = label_panels(self.line.flat, q)
        P, slope = interval_probabilities(self.line.flat, self._atoms, omega, 1 - q)
        P = np.maximum(P, _TINY)
        return float((slope**2 / P).sum(axis=0) @ weights), float((P * np.log(P)).sum(axis=0) @ weights)

    def onset(self) -> tuple[float, float]:
        """Return E m1^2 and rho, bayes_multi_index (12)."""
        nodes = self.nodes
        odds = np.exp(nodes.log_ratio - 0.5 * nodes.distance**2 - nodes.distance * nodes.z[:, None])
        total = 1 + odds.sum(axis=1)
        others = nodes.z[:, None] + nodes.distance
        first = (nodes.z + (odds * others).sum(axis=1)) / total
        second = (nodes.z**2 + (odds * others**2).sum(axis=1)) / total - 1
        m1, rho = float(nodes.weights @ first**2), float(nodes.weights @ second**2)
        if self._atoms:
            from giantstep.families.bayes_limit.labels import Labels

            for value in self._atoms:
                own = tuple(piece for piece in self.line.flat if piece.value == value)
                atom = Labels(own, 0.0).onset()
                m1, rho = m1 + atom[0], rho + atom[1]
        return m1, rho

    def errors(self, q: float) -> tuple[float, float]:
        """Return the best square error; there are no labels."""
        return (0.0 if q >= 1 else max(0.0, self.line.second_moment - self.line.mean_square(q))), np.nan


def _integrate(
    nodes: Preimages,
    part: Indices,
    columns: Indices,
    ratio: Floats,
    rate: Floats,
    seen: Booleans,
    rule: tuple[Floats, Floats],
    q: float,
) -> tuple[float, float]:
    """Return the parts of I and Psi of some nodes z, by the trapezoid rule in xi, omega = q z + sqrt(q (1 - q)) xi."""
    (xi, density), V, z = rule, 1 - q, nodes.z[part]
    plain = z[:, None] - np.sqrt(q / V) * xi  # (z - omega)/V
    log_total = np.zeros((1, len(xi)))
    shift = 0.0
    if len(columns):
        pick = np.ix_(part, columns)
        log_odds = np.where(seen[pick], ratio[pick], -np.inf)[:, :, None] + rate[pick][:, :, None] * xi
        top = np.maximum(log_odds.max(axis=1), 0.0)
        odds = np.exp(log_odds - top[:, None])
        total = np.exp(-top) + odds.sum(axis=1)
        shift = np.einsum("njx,nj->nx", odds, nodes.distance[pick]) / (V * total)
        log_total = top + np.log(total)
    log_Z = -0.5 * V * plain**2 - 0.5 * np.log(2 * np.pi * V) - nodes.log_slope[part][:, None] + log_total
    weights = nodes.weights[part]
    return float(weights @ (np.square(plain + shift) @ density)), float(weights @ (log_Z @ density))

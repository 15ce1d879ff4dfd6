"""One direction with Gaussian noise: the channel by matrix products, bayes_multi_index
section 5.

The rules in z, y and omega are graded: fine where posteriors of several preimages of y
compete, which is near the kinks and critical points of the target; coarse where one
Gaussian bump remains, and where hardly any probability lies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import NamedTuple

import numpy as np

from giantstep.core.base.chunks import split_rows
from giantstep.core.base.deadline import check_time
from giantstep.core.base.types import Floats, Indices
from giantstep.core.maths.gaussian.quadrature import (
    gauss_legendre_panels,
    normal_density,
)
from giantstep.problems.bayes_limit.reading import Line
from giantstep.problems.bayes_limit.tolerances import REACH, SEEN, TINY, VISIBLE

_PANEL_NODES = 12
"""Gauss-Legendre nodes of a panel in z, y and omega; with half the widths below nothing
changes by 1e-9.
"""
_Y_STEP = 0.4
"""Even steps of y, in standard deviations of the noise."""
_Y_REACH = 8.0
"""Standard deviations of the noise beyond the outputs of g that are integrated over."""
Y_BLOCK = 48
"""Values of y that share one list of the z they see, at least."""
_OMEGA_BLOCK = 8.0
_LEAST_BLOCK = 16
_MOST_ROWS = 256
"""Width of a block of omega, in units of sqrt(1 - q); the least and the largest number
of nodes in it.
"""
_MOST_RULES = 12
_MOST_KEPT = 2_000_000
"""Rules that are kept, and numbers of the likelihood that one keeps: 16 MB."""
_Z_WIDTH = 3.6
_Z_WIDEST = 1.0
"""Panels of z: in standard deviations of likelihood times posterior, and at most in
those of z.
"""
_Y_CORE = 2.0
_Y_FAR = 3.0
_Y_LEVEL = 0.6
_Y_GROWTH = 0.3
"""Widths of the panels of y.

Near a critical value: in sqrt(noise). Far from all: in standard deviations of y given
omega. Between them: over the distance from the critical value. Last: the largest slope
of the width along y.
"""
_Y_JUMP = 4.0
"""The same in noise/J where g jumps by J: the odds of its two sides turn over that
distance.
"""
_OMEGA_CORE = 1.2
_OMEGA_LEVEL = 1.2
_OMEGA_GROWTH = 1.0
_OMEGA_WIDEST = 2.6
"""Panels of omega: in sqrt(1 - q) near kinks and critical points; over the distance and
growth as for y; at most in sqrt(q).
"""
_PLATEAU = 2.0
"""Distance of omega from a critical point, in sqrt(1 - q), up to which panels stay as
narrow as there.
"""
_MOST_PANELS = 200_000
"""Panels that fit into memory."""


class Block(NamedTuple):
    """Some y with weights dy: the z whose g is near enough to be seen, in increasing
    order; the likelihood (z, y).
    """

    near: Indices
    likelihood: Floats
    dy: Floats


@dataclass(frozen=True)
class GradedRule:
    """Nodes z with weights dz; the likelihood of y, block by block. Of even targets z >
    0 stands for both signs.
    """

    z: Floats
    weights: Floats
    blocks: Callable[[], Iterable[Block]]


def y_step(noise: float, jump: float, widest: float = _Y_STEP) -> float:
    """Return the step of the trapezoid rule in y, at most so many standard deviations
    of the noise.
    """
    step = widest * float(np.sqrt(noise))
    # where g jumps by J the odds of its two sides turn over y ~ noise/J: poles pi
    # noise/J from the real line
    if jump > 0:
        return min(step, max(0.7 * noise / jump, 0.1 * step))
    return step


@dataclass(frozen=True)
class Noisy:
    """y = g(z) + sqrt(noise) N(0, 1)."""

    line: Line
    noise: float
    jump: float = 0.0  # largest jump of g
    # width of panels and steps over that of the accurate rules; less shows how accurate
    # they are
    stretch: float = 1.0

    directions = 1
    continuous_mass = 0.0
    farthest = 18.0

    @property
    def last(self) -> float:
        """How far in logit q the curve is tabulated at once: q = 1 - noise/12."""
        return float(np.clip(2.5 - np.log(self.noise), 5.5, 14.0))

    @cached_property
    def _slope(self) -> tuple[Floats, Floats]:
        z = np.linspace(-REACH, REACH, 3401)
        return z, self.line.slope(z)

    @cached_property
    def _steepness(self) -> tuple[Floats, Floats]:
        z = self._slope[0]
        slope = np.abs(self._slope[1])
        around = np.maximum(slope, np.maximum(np.roll(slope, 1), np.roll(slope, -1)))
        return z, np.where(np.isfinite(around), around, 0.0)

    @cached_property
    def _length(self) -> Floats:
        """Over which distance in z the slope of g changes: |g'/g''|, or the distance to
        the next kink.
        """
        z, slope = self._slope
        with np.errstate(all="ignore"):
            length = np.abs(slope / np.gradient(slope, z))
        length = np.where(np.isnan(length), np.inf, length)
        kinks = np.asarray(self.line.kinks)
        if len(kinks):
            return np.minimum(length, np.abs(z[:, None] - kinks).min(axis=1))
        return length

    def z_rule(self, V: float) -> tuple[Floats, Floats]:
        """Return nodes and weights dz: panels of at most min(1, 2.5 sqrt(V), 3
        sqrt(noise)/|g'|), broken at kinks.
        """
        z, slope = self._steepness
        width = np.minimum(
            min(1.0, 2.5 * float(np.sqrt(V))),
            3 * np.sqrt(self.noise) / np.maximum(slope, 1e-12),
        )
        return graded_panels(z, width, self._stops(-REACH, REACH))

    def _stops(self, low: float, high: float) -> Floats:
        """Return the ends of an interval and the kinks inside."""
        return np.array(
            [low, *(kink for kink in self.line.kinks if low < kink < high), high]
        )

    def _seen_z(self, V: float) -> tuple[Floats, Floats]:
        """Return nodes and weights dz for likelihood times posterior; of even targets
        for z > 0 alone.
        """
        z, slope = self._steepness
        width = _Z_WIDTH * self.stretch / np.sqrt(1 / V + slope**2 / self.noise)
        # how much wider panels may be where z is rare
        light = 1 + np.clip((np.abs(z) - 3.5) / 3, 0.0, 1.5)
        width = np.minimum(width * light, _Z_WIDEST)
        return graded_panels(
            z, width, self._stops(0.0 if self.line.parity == "even" else -REACH, REACH)
        )

    @cached_property
    def _rules(self) -> Callable[[int], GradedRule]:
        return lru_cache(maxsize=_MOST_RULES)(self._rule)

    def _rule(self, level: int) -> GradedRule:
        """Return the rule for posterior variances V from 4^level on, up to a factor of
        four.
        """
        V = 4.0**level
        z, weights = self._seen_z(V)
        g, (y, dy) = self.line(z), self.y_rule(V)
        margin = SEEN * np.sqrt(self.noise)
        seen = (g > y[0] - margin) & (g < y[-1] + margin)
        z = z[seen]
        weights = weights[seen]
        g = g[seen]
        blocks = partial(self._blocks, g, y, dy)
        if len(z) * Y_BLOCK < _MOST_KEPT:
            kept = partial(iter, list(blocks()))
        else:
            kept = blocks
        return GradedRule(z, weights, kept)

    @cached_property
    def _image(self) -> tuple[Floats, Floats, Floats]:
        """The outputs g of what is visible in order, |g'| there, about how far the next
        critical value is.
        """
        grid, slope = self._steepness
        inside = np.abs(grid) <= VISIBLE
        kinks = np.array([kink for kink in self.line.kinks if abs(kink) <= VISIBLE])
        g = self.line(np.concatenate([grid[inside], kinks]))
        away = (
            0.5 * slope[inside] * np.where(slope[inside] > 0, self._length[inside], 0.0)
        )
        order = np.argsort(g)
        zeros = np.zeros(len(kinks))
        slopes = np.concatenate([slope[inside], zeros])[order]
        away = np.concatenate([away, zeros])[order]
        return g[order], slopes, away

    def y_rule(self, V: float) -> tuple[Floats, Floats]:
        """Return nodes y and weights dy over what is visible of g and its noise."""
        g, slope, away = self._image
        s = float(np.sqrt(self.noise))
        if self.jump > 0:
            core = min(_Y_CORE * s, _Y_JUMP * self.noise / self.jump)
        else:
            core = _Y_CORE * s
        low = float(g[0]) - _Y_REACH * s
        high = float(g[-1]) + _Y_REACH * s
        width = _Y_FAR * np.sqrt(self.noise + slope**2 * V)
        width = np.minimum(width, core + _Y_LEVEL * np.maximum(away - 2 * core, 0.0))
        ends = np.full(2, core)
        y = np.concatenate([[low, g[0]], g, [g[-1], high]])
        width = limit_growth(y, np.concatenate([ends, width, ends]), _Y_GROWTH)
        return graded_panels(y, self.stretch * width, np.array([low, high]))

    def information(self, q: float) -> tuple[float, float]:
        """Return I(q) and Psi(q), bayes_multi_index (2), block by block in omega
        and y.
        """
        s = float(np.sqrt(1 - q))
        rule = self._rules(int(np.floor(0.5 * np.log2(1 - q))))
        omega, density = self._omega_rule(q)
        information = 0.0
        psi = 0.0
        start = 0
        while start < len(omega):
            check_time()
            far = int(np.searchsorted(omega, omega[start] + _OMEGA_BLOCK * s))
            part = slice(start, min(max(start + _LEAST_BLOCK, far), start + _MOST_ROWS))
            for Z, slope, dy in _summed(
                rule, omega[part], s, self.line.parity == "even"
            ):
                np.maximum(Z, TINY, out=Z)
                slope *= slope
                slope /= Z
                information += float(density[part] @ (slope @ dy)) / s**2
                np.multiply(Z, np.log(Z), out=slope)
                psi += float(density[part] @ (slope @ dy))
            start = part.stop
        return information, psi

    def _omega_rule(self, q: float) -> tuple[Floats, Floats]:
        """Return omega and weights of N(0, q); omega >= 0 alone where the other half
        gives the same.
        """
        # far from kinks and critical points what is left after y varies with the slope
        # of g alone
        s = float(np.sqrt(1 - q))
        root = float(np.sqrt(q))
        half = self.line.parity in ("even", "odd")
        z, length = (
            table[len(table) // 2 if half else 0 :]
            for table in (self._slope[0], self._length)
        )
        width = _OMEGA_CORE * s + _OMEGA_LEVEL * np.maximum(length - _PLATEAU * s, 0.0)
        width = limit_growth(z, np.minimum(width, _OMEGA_WIDEST * root), _OMEGA_GROWTH)
        stops = self._stops(0.0 if half else -VISIBLE * root, VISIBLE * root)
        omega, weights = graded_panels(z, self.stretch * width, stops)
        return (
            omega,
            (2.0 if half else 1.0) * weights * normal_density(omega / root) / root,
        )

    def _blocks(self, g: Floats, nodes: Floats, weights: Floats) -> Iterator[Block]:
        """Yield the likelihood block by block in y."""
        s = float(np.sqrt(self.noise))
        seen = int(2 * SEEN * s / (nodes[-1] - nodes[0]) * len(nodes))  # from one z
        for part in split_rows(len(nodes), 1, max(Y_BLOCK, seen)):
            y = nodes[part]
            near: Indices = np.flatnonzero(
                (g > y[0] - SEEN * s) & (g < y[-1] + SEEN * s)
            )
            if len(near):
                yield Block(
                    near, normal_density((y - g[near, None]) / s) / s, weights[part]
                )

    def onset(self) -> tuple[float, float]:
        """Return E m1^2 and rho, bayes_multi_index (12)."""
        rule = self._rules(-1)  # as for small q
        z = rule.z
        density = rule.weights * normal_density(rule.z)
        first = density * z
        second = density * (z**2 - 1)
        if self.line.parity == "even":
            density = 2 * density
            first = 0 * first
            second = 2 * second
        m1 = rho = 0.0
        for near, L, dy in rule.blocks():
            P = np.maximum(density[near] @ L, TINY)
            m1 += float(((first[near] @ L) ** 2 / P) @ dy)
            rho += float(((second[near] @ L) ** 2 / P) @ dy)
        return m1, rho

    def errors(self, q: float) -> tuple[float, float]:
        """Return the best square error; there are no labels."""
        return (
            self.noise + max(0.0, self.line.second_moment - self.line.mean_square(q)),
            np.nan,
        )


def likelihood_sums(
    kernels: Floats, g: Floats, y: Floats, noise: float
) -> Iterator[tuple[Floats, slice]]:
    """Yield kernels (M, N) @ P(y|z_n) for increasing values g (N,) of the target, some
    increasing y at a time.
    """
    s = float(np.sqrt(noise))
    if not len(g):
        return
    start, stop = np.searchsorted(y, [g[0] - SEEN * s, g[-1] + SEEN * s])
    for part in split_rows(stop - start, 1, Y_BLOCK):
        seen = slice(start + part.start, start + part.stop)
        low, high = np.searchsorted(g, [y[seen][0] - SEEN * s, y[seen][-1] + SEEN * s])
        yield (
            kernels[:, low:high]
            @ (normal_density((y[seen] - g[low:high, None]) / s) / s),
            seen,
        )


def _summed(
    rule: GradedRule, omega: Floats, s: float, fold: bool
) -> Iterator[tuple[Floats, Floats, Floats]]:
    """Yield Z and s dZ/domega (omega, y) with the weights dy, some y at a time."""
    reach = SEEN * s
    low, high = (
        int(x) for x in np.searchsorted(rule.z, [omega[0] - reach, omega[-1] + reach])
    )
    if low == high:
        return
    kernels = _kernels(rule.z[low:high], rule.weights[low:high], omega, s)
    if fold and omega[0] < reach:
        kernels += _kernels(-rule.z[low:high], rule.weights[low:high], omega, s)
    for near, likelihood, dy in rule.blocks():
        first, last = np.searchsorted(near, [low, high])
        if first < last:
            both = kernels[:, _columns(near[first:last] - low)] @ likelihood[first:last]
            yield both[: len(omega)], both[len(omega) :], dy


def _kernels(z: Floats, weights: Floats, omega: Floats, s: float) -> Floats:
    """Return dz N(z; omega, s^2) and (z - omega)/s times it, one below the other: (2
    omega, z).
    """
    both = np.empty((2 * len(omega), len(z)))
    plain = both[: len(omega)]
    sloped = both[len(omega) :]
    np.subtract(z, omega[:, None], out=sloped)
    sloped /= s
    np.multiply(sloped, sloped, out=plain)
    plain *= -0.5
    np.exp(plain, out=plain)
    plain *= weights / (s * np.sqrt(2 * np.pi))
    sloped *= plain
    return both


def _columns(index: Indices) -> Indices | slice:
    """Return neighbouring columns as a slice, which needs no copy."""
    together = index[-1] - index[0] == len(index) - 1
    return slice(int(index[0]), int(index[-1]) + 1) if together else index


def limit_growth(x: Floats, width: Floats, slope: float) -> Floats:
    """Return the largest function below `width` at increasing x whose slope is at most
    `slope` both ways.
    """
    rising = np.minimum.accumulate(width - slope * x) + slope * x
    return np.asarray(
        np.minimum.accumulate((rising + slope * x)[::-1])[::-1] - slope * x
    )


def graded_panels(x: Floats, width: Floats, stops: Floats) -> tuple[Floats, Floats]:
    """Return Gauss-Legendre nodes and weights between the `stops`, on panels about as
    wide as `width` says at x.
    """
    grown = np.concatenate(
        [[0.0], np.cumsum(0.5 * (1 / width[1:] + 1 / width[:-1]) * np.diff(x))]
    )
    at = np.interp(stops, x, grown)
    if not at[-1] - at[0] < _MOST_PANELS:
        raise MemoryError("the noise is too small for the slope of the target")
    edges = [
        np.interp(
            np.linspace(low, high, max(1, int(np.ceil(high - low))) + 1), grown, x
        )
        for low, high in zip(at, at[1:])
    ]
    for piece, low, high in zip(edges, stops, stops[1:]):
        piece[0] = low
        piece[-1] = high
    return gauss_legendre_panels(np.unique(np.concatenate(edges)), _PANEL_NODES)

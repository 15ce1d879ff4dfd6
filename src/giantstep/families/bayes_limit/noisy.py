"""One direction with Gaussian noise: the channel by matrix products, bayes_multi_index section 5."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from giantstep.blocks import split_rows
from giantstep.families.bayes_limit.line import Line
from giantstep.families.bayes_limit.tolerances import REACH, SEEN, TINY
from giantstep.gaussian.quadrature import gauss_legendre_panels, normal_density, trapezoid_rule
from giantstep.types import Floats

_PANEL_NODES = 12
"""Gauss-Legendre nodes of a panel in z and y; with half the widths below nothing changes by 1e-9."""
_Z_WIDTH = 3.6
"""Panels of z, in standard deviations of likelihood times posterior; they are at most one wide."""
_Y_STEP = 0.4
"""Even steps of y, in standard deviations of the noise."""
_Y_REACH = 8.0
"""Standard deviations of the noise beyond the outputs of g that are integrated over."""
_Y_VISIBLE = 7.6
"""Standard deviations of z whose images y are integrated over, bayes_multi_index section 5."""
Y_BLOCK = 32
"""Values of y that share one list of the z they see."""
_Y_CORE, _Y_FAR, _Y_LEVEL, _Y_GROWTH = 2.0, 3.0, 0.6, 0.3
"""Widths of the panels of y.

Near a critical value: in sqrt(noise). Far from all: in standard deviations of y given omega. Between them: over the
distance from the critical value. Last: the largest slope of the width along y."""
_Y_JUMP = 4.0
"""The same in noise/J where g jumps by J: the odds of its two sides turn over that distance."""
_OMEGA_STEP = 0.12
"""Step of omega, in sqrt(q) or sqrt(1 - q), whichever is less."""
_OMEGA_BLOCK = 96
"""Values of omega that share one list of the z they see."""
_MOST_PANELS = 200_000
"""Panels that fit into memory."""


def y_step(noise: float, jump: float, widest: float = _Y_STEP) -> float:
    """Return the step of the trapezoid rule in y, at most so many standard deviations of the noise.

    Where g jumps by J the odds of its two sides turn over y ~ noise/J: poles at distance pi noise/J from the real line.
    """
    step = widest * float(np.sqrt(noise))
    return min(step, max(0.7 * noise / jump, 0.1 * step)) if jump > 0 else step


@dataclass(frozen=True)
class Noisy:
    """y = g(z) + sqrt(noise) N(0, 1)."""

    line: Line
    noise: float
    jump: float = 0.0  # largest jump of g
    stretch: float = 1.0  # width of panels and steps over that of the accurate rules; less shows how accurate they are

    directions = 1
    continuous_mass = 0.0
    farthest = 18.0

    @property
    def last(self) -> float:
        """How far in logit q the curve is tabulated at once: q = 1 - noise/12."""
        return float(np.clip(2.5 - np.log(self.noise), 5.5, 14.0))

    @cached_property
    def _steepness(self) -> tuple[Floats, Floats]:
        z = np.linspace(-REACH, REACH, 3401)
        slope = np.abs(self.line.slope(z))
        around = np.maximum(slope, np.maximum(np.roll(slope, 1), np.roll(slope, -1)))
        return z, np.where(np.isfinite(around), around, 0.0)

    def z_rule(self, V: float) -> tuple[Floats, Floats]:
        """Return nodes and weights dz that resolve likelihood times posterior, on panels broken at kinks."""
        z, slope = self._steepness
        width = np.minimum(_Z_WIDTH / np.sqrt(1 / V + slope**2 / self.noise), 1.0)
        stops = np.array([-REACH, *(kink for kink in self.line.kinks if abs(kink) < REACH), REACH])
        return _graded_panels(z, self.stretch * width, stops)

    @cached_property
    def _image(self) -> tuple[Floats, Floats, Floats]:
        """The outputs g of what is visible in order, |g'| there, about how far the next critical value is."""
        z, slope = self._steepness
        kinks = np.array([kink for kink in self.line.kinks if abs(kink) <= _Y_VISIBLE])
        with np.errstate(all="ignore"):  # over which distance in z the slope changes: |g'/g''|, or to the next kink
            change = np.abs(self.line.slope(z) / np.gradient(self.line.slope(z), z))
        reach = np.abs(z[:, None] - kinks).min(axis=1, initial=np.inf)
        away = 0.5 * slope * np.where(slope > 0, np.fmin(change, reach), 0.0)
        inside, zeros = np.abs(z) <= _Y_VISIBLE, np.zeros(len(kinks))
        g = self.line(np.concatenate([z[inside], kinks]))
        order = np.argsort(g)
        slope, away = (np.concatenate([values[inside], zeros])[order] for values in (slope, away))
        return g[order], slope, away

    def y_rule(self, V: float) -> tuple[Floats, Floats]:
        """Return nodes y and weights dy over what is visible of g and its noise."""
        g, slope, away = self._image
        s = float(np.sqrt(self.noise))
        core = min(_Y_CORE * s, _Y_JUMP * self.noise / self.jump) if self.jump > 0 else _Y_CORE * s
        low, high = float(g[0]) - _Y_REACH * s, float(g[-1]) + _Y_REACH * s
        width = _Y_FAR * np.sqrt(self.noise + slope**2 * V)
        width = np.minimum(width, core + _Y_LEVEL * np.maximum(away - 2 * core, 0.0))
        ends, y = np.full(2, core), np.concatenate([[low, g[0]], g, [g[-1], high]])
        width = np.concatenate([ends, width, ends]) - _Y_GROWTH * y  # the largest below it that grows no faster
        width = np.minimum.accumulate(width) + 2 * _Y_GROWTH * y
        width = np.minimum.accumulate(width[::-1])[::-1] - _Y_GROWTH * y
        return _graded_panels(y, self.stretch * width, np.array([low, high]))

    def information(self, q: float) -> tuple[float, float]:
        """Return I(q) and Psi(q), bayes_multi_index (2), block by block in omega and y."""
        s, root, (z, dz), (y, dy) = float(np.sqrt(1 - q)), float(np.sqrt(q)), self.z_rule(1 - q), self.y_rule(1 - q)
        xi, density = trapezoid_rule(self.stretch * _OMEGA_STEP * min(1.0, s / root), REACH)
        if self.line.is_even_or_odd:  # omega < 0 gives the same
            xi, density = xi[len(xi) // 2 :], density[len(xi) // 2 :] * np.append(1.0, np.full(len(xi) // 2, 2.0))
        information, psi, g = 0.0, 0.0, self.line(z)
        for part in split_rows(len(xi), 1, _OMEGA_BLOCK):
            omega, weights = root * xi[part, None], density[part]
            low, high = np.searchsorted(z, [omega[0, 0] - SEEN * s, omega[-1, 0] + SEEN * s])
            near = low + np.argsort(g[low:high])
            away = (z[near] - omega) / s
            plain = dz[near] * normal_density(away) / s
            kernels = np.concatenate([plain, plain * away])
            for both, seen in likelihood_sums(kernels, g[near], y, self.noise):
                Z, slope = np.maximum(both[: len(omega)], TINY), both[len(omega) :]
                slope *= slope
                slope /= Z
                information += float(weights @ (slope @ dy[seen])) / s**2
                psi += float(weights @ (np.multiply(Z, np.log(Z), out=slope) @ dy[seen]))
        return information, psi

    def onset(self) -> tuple[float, float]:
        """Return E m1^2 and rho, bayes_multi_index (12)."""
        (z, dz), (y, dy), m1, rho = self.z_rule(1.0), self.y_rule(1.0), 0.0, 0.0
        order = np.argsort(self.line(z))
        z, dz = z[order], dz[order]
        moments = dz * normal_density(z) * np.stack([np.ones_like(z), z, z**2 - 1])
        for (P, first, second), seen in likelihood_sums(moments, self.line(z), y, self.noise):
            P = np.maximum(P, TINY)
            m1, rho = m1 + float((first**2 / P) @ dy[seen]), rho + float((second**2 / P) @ dy[seen])
        return m1, rho

    def errors(self, q: float) -> tuple[float, float]:
        """Return the best square error; there are no labels."""
        return self.noise + max(0.0, self.line.second_moment - self.line.mean_square(q)), np.nan


def likelihood_sums(kernels: Floats, g: Floats, y: Floats, noise: float) -> Iterator[tuple[Floats, slice]]:
    """Yield kernels (M, N) @ P(y|z_n) where the target has increasing values g (N,), some increasing y at a time.

    The values that they see are neighbours; y that see none are left out.
    """
    s = float(np.sqrt(noise))
    if not len(g):
        return
    start, stop = np.searchsorted(y, [g[0] - SEEN * s, g[-1] + SEEN * s])
    for part in split_rows(stop - start, 1, Y_BLOCK):
        seen = slice(start + part.start, start + part.stop)
        low, high = np.searchsorted(g, [y[seen][0] - SEEN * s, y[seen][-1] + SEEN * s])
        yield kernels[:, low:high] @ (normal_density((y[seen] - g[low:high, None]) / s) / s), seen


def _graded_panels(x: Floats, width: Floats, stops: Floats) -> tuple[Floats, Floats]:
    """Return Gauss-Legendre nodes and weights between the `stops`, on panels about as wide as `width` says at x."""
    grown = np.concatenate([[0.0], np.cumsum(0.5 * (1 / width[1:] + 1 / width[:-1]) * np.diff(x))])
    at = np.interp(stops, x, grown)
    if not at[-1] - at[0] < _MOST_PANELS:
        raise MemoryError("the noise is too small for the slope of the target")
    edges = [
        np.interp(np.linspace(low, high, max(1, int(np.ceil(high - low))) + 1), grown, x)
        for low, high in zip(at, at[1:])
    ]
    for piece, low, high in zip(edges, stops, stops[1:]):
        piece[0], piece[-1] = low, high
    return gauss_legendre_panels(np.unique(np.concatenate(edges)), _PANEL_NODES)

"""Moments of f(A + s z) by quadrature, with rules whose resolution is chosen by
measuring.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from giantstep.core.base.chunks import split_rows
from giantstep.core.base.errors import InputError
from giantstep.core.maths.gaussian.hermite import hermite_functions
from giantstep.core.maths.gaussian.moments import Moments
from giantstep.core.maths.gaussian.quadrature import (
    BOUNDS,
    expectation,
    gauss_legendre_panels,
    normal_density,
    trapezoid_rule,
)

Values = Callable[[np.ndarray], np.ndarray]


CHUNK = 1 << 17
"""Values of a function held at a time (1 MB)."""


PANEL_NODES = 16


PANEL_WIDTH = 1.6
"""Gauss-Legendre nodes of a panel, and its width in z at resolution 1, for functions
that vary on the scale 1.
"""


TRAPEZOID_STEP = 0.12
"""Step in z of the trapezoidal rule at s = 1 and resolution 1."""


LOWEST_LEVEL = -6


HIGHEST_LEVEL = 14
"""Powers of two of the scale s between which rules differ; larger scales are
refused.
"""


GRADING = np.concatenate([[0.0], 2.0 ** np.arange(-44, -1)])
"""Edges of panels towards a singularity, in units of the distance to the next kink."""


# Where a rule is tried out: (A, s), most of them no multiples of steps that a function
# may have itself.
PROBES = (
    np.array([0.0, 0.3719, -1.1037, 0.2113]),
    np.array([1.0, 0.9517, 0.8831, 0.4877]),
)


MANY_PROBES = (
    np.tile(2.0 * np.sin(np.arange(16.0)), 4),
    np.repeat([0.25, 0.5, 1.0, 2.0], 16),
)


@dataclass(frozen=True)
class MomentRule:
    """How to integrate one function of x = A + s z.

    Without kinks the trapezoid rule in z with s*step <= 0.12/resolution; with kinks
    Gauss-Legendre panels of width <= 1.6/resolution in z (and in x, once s > 1) between
    the images (k - A)/s of the kinks, ``graded`` towards them if the function is
    singular there. Both reach as far as f^2 phi is not negligible.
    """

    kinks: tuple[float, ...] = ()  # where the function is not smooth
    resolution: int = (
        1  # refinement against the rule that suits functions varying on the scale 1
    )
    graded: bool = False  # whether panels shrink geometrically towards the kinks
    # measured, of E f and E z f (relative to sqrt(E f^2)) and E f^2 (to itself), worst
    # case
    error: float = 0.0

    def moments(self, f: Values, A: np.ndarray, s: np.ndarray) -> Moments:
        """Return the moments for one-dimensional ``A`` and ``s > 0``; entries share
        only rounding.
        """
        return Moments(*self.integrate(f, A, s)[:4])

    def integrate(self, f: Values, A: np.ndarray, s: np.ndarray) -> np.ndarray:
        """Return the moments, and D_3 and D_4 = E[He_j(z) f(A + s z)]/s^j: (6,
        len(A)).
        """
        result = np.empty((6, len(A)))
        levels = np.ceil(np.log2(np.clip(s, 2.0**LOWEST_LEVEL, None)) - 1e-9).astype(
            int
        )
        if len(A) and levels.max() > HIGHEST_LEVEL:
            raise InputError(
                f"The scale s must be at most {2**HIGHEST_LEVEL} for quadrature, but is"
                f" {s.max():g}."
            )
        with np.errstate(all="ignore"):
            for level in np.unique(levels):
                pending = np.flatnonzero(levels == level)
                for bound in BOUNDS:
                    pending = self._fill(result, f, A, s, pending, int(level), bound)
        return result

    def _fill(
        self,
        result: np.ndarray,
        f: Values,
        A: np.ndarray,
        s: np.ndarray,
        entries: np.ndarray,
        level: int,
        bound: float,
    ) -> np.ndarray:
        """Compute the entries chunk by chunk; return those for which ``bound`` was too
        small.
        """
        if not len(entries):
            return entries
        short = []
        enough = 1e-17 if bound < BOUNDS[-1] else 1e-3
        nodes = 2 * int(np.ceil(bound / self._step(level))) + 1
        if self.kinks:
            nodes = PANEL_NODES * sum(
                len(pattern) - 1 for pattern in self._patterns(level, bound)
            )
        for part in split_rows(len(entries), nodes, CHUNK):
            chunk = entries[part]
            a = A[chunk, None]
            scale = s[chunk, None]
            z, weights = self._nodes(a, scale, level, bound)
            values = f(a + scale * z)
            rim = (
                np.square(values[:, [0, -1]]).max(axis=1)
                * float(normal_density(bound))
                * bound
            )
            result[:, chunk] = _project(values, z, weights, scale[:, 0])
            mean, slope, noise = result[:3, chunk]
            second = noise + mean**2 + slope**2
            short.append(chunk[~(np.isfinite(second) & (rim <= enough * second))])
        missed = np.concatenate(short)
        if len(missed) and bound == BOUNDS[-1]:
            where = f"A = {A[missed[0]]:g} and s = {s[missed[0]]:g}"
            raise InputError(
                "The function is not finite or not square integrable at A + s z with"
                f" {where}."
            )
        return missed

    def _step(self, level: int) -> float:
        return TRAPEZOID_STEP * 2.0 ** -max(level, -1) / self.resolution

    def _patterns(self, level: int, bound: float) -> Iterator[np.ndarray]:
        """Yield, for every segment between kinks, the panel edges relative to it: from
        0 to 1.
        """
        lowest = 2.0 ** (level - 1) if level > LOWEST_LEVEL else 0.0
        gaps = [np.inf, *np.diff(self.kinks), np.inf]
        for gap in gaps:
            width = min(2 * bound, gap / lowest if lowest else np.inf)
            panels = int(np.ceil(width / PANEL_WIDTH * 2.0 ** max(level, 0)))
            pattern = np.linspace(0.0, 1.0, panels + 1)
            if self.graded:
                pattern = np.unique(np.concatenate([pattern, GRADING, 1 - GRADING]))
            yield self._refine(pattern)

    def _refine(self, edges: np.ndarray) -> np.ndarray:
        """Divide every panel into ``resolution`` equal ones."""
        fractions = np.arange(self.resolution) / self.resolution
        return np.append(
            (edges[:-1, None] + np.diff(edges)[:, None] * fractions).ravel(), edges[-1]
        )

    def _nodes(
        self, A: np.ndarray, s: np.ndarray, level: int, bound: float
    ) -> tuple[np.ndarray, np.ndarray]:
        if not self.kinks:
            return trapezoid_rule(self._step(level), bound)
        breaks = np.clip((np.array(self.kinks) - A) / s, -bound, bound)
        ends = np.pad(
            breaks, ((0, 0), (1, 1)), constant_values=((0, 0), (-bound, bound))
        )
        edges = [ends[:, :1]]
        for i, pattern in enumerate(self._patterns(level, bound)):
            low = ends[:, i, None]
            high = ends[:, i + 1, None]
            edges.append(
                np.where(
                    pattern[1:] < 0.5,
                    low + (high - low) * pattern[1:],
                    high - (high - low) * (1 - pattern[1:]),
                )
            )
        nodes, weights = gauss_legendre_panels(
            np.concatenate(edges, axis=1), PANEL_NODES
        )
        return nodes, weights * normal_density(nodes)

    def hermite(self, f: Values, order: int) -> np.ndarray:
        """Return E[f(z) h_j(z)], j = 0..order, with the normalised Hermite polynomials
        h_j.
        """
        bound = 20.0
        if self.kinks:
            inside = [k for k in self.kinks if -bound < k < bound]
            parts = [np.linspace(-bound, bound, 81), np.array(inside)]
            if self.graded:
                parts += [k + side * GRADING for k in inside for side in (-1, 1)]
            z, weights = gauss_legendre_panels(
                self._refine(np.unique(np.concatenate(parts))), PANEL_NODES
            )
        else:
            z = np.linspace(-bound, bound, 800 * self.resolution + 1)
            weights = np.full_like(z, z[1] - z[0])
        root = np.sqrt(normal_density(z))
        values = f(z)
        # there the values overflow, but the density is nothing
        died = (root < 1e-20) & ~np.isfinite(values)
        return hermite_functions(z, order) @ (
            np.where(died, 0.0, values) * root * weights
        )


def _project(
    values: np.ndarray, z: np.ndarray, weights: np.ndarray, s: np.ndarray
) -> list[np.ndarray]:
    """Mean and slope first, the rest from the residual of the affine fit, so that
    nothing large cancels.
    """
    mean, slope = _averages(values, weights, 1, z)
    residual = values - mean[:, None] - slope[:, None] * z
    second, third, fourth = _averages(
        residual, weights, z * z - 1, (z * z - 3) * z, (z * z - 6) * z * z + 3
    )
    (noise,) = _averages(np.square(residual, out=residual), weights, 1)
    return [mean, slope, noise, second / s, third / s**3, fourth / s**4]


def _averages(
    values: np.ndarray, weights: np.ndarray, *functions: np.ndarray | int
) -> np.ndarray:
    """Return the averages of values (rows, nodes) times functions of z: (functions,
    rows).
    """
    weighted = [weights * function for function in functions]
    if weights.ndim == 1:
        return (values @ np.stack(weighted, axis=1)).T
    return np.stack([np.einsum("ij,ij->i", values, each) for each in weighted])


def choose_rule(f: Values, kinks: tuple[float, ...], name: str) -> MomentRule:
    """Return the coarsest rule that a finer one confirms to 1e-13, else the best one
    tried, with its error.
    """
    with np.errstate(all="ignore"):
        second, error = expectation(lambda z: np.square(f(z)), kinks, tolerance=1e-10)
        if not np.isfinite(second) or error > 1e-2 * second:
            raise InputError(
                f"The function {name} must be finite and square integrable under the"
                " Gaussian measure, but E f(z)^2 with z ~ N(0,1) does not converge."
            )
        if kinks:
            finer = [(m, True) for m in (1, 2, 4)]
        else:
            finer = [(m, False) for m in (16, 32, 64, 128)]
        rules = [
            MomentRule(kinks, *choice)
            for choice in [*((m, False) for m in (1, 2, 4, 8)), *finer]
        ]
        tried: list[MomentRule] = []
        previous = rules[0].moments(f, *PROBES)
        for rule, next_rule in pairwise(rules):
            current = next_rule.moments(f, *PROBES)
            change = _difference(previous, current)
            if change <= 1e-13:
                return replace(rule, error=change)
            tried.append(replace(next_rule, error=change))
            previous = current
        best = min(rule.error for rule in tried)
        chosen = next(rule for rule in tried if rule.error <= 10 * best)
        # what an unknown kink does depends on where it falls between two nodes: a few
        # places may be lucky
        thrice = replace(chosen, resolution=3 * chosen.resolution)
        change = 2 * _difference(
            chosen.moments(f, *MANY_PROBES), thrice.moments(f, *MANY_PROBES)
        )
    return replace(chosen, error=max(chosen.error, change))


def _difference(a: Moments, b: Moments) -> float:
    second_a, second_b = (m.noise + m.mean**2 + m.slope**2 for m in (a, b))
    size = np.maximum(second_a, second_b)
    gaps = [np.abs(a.mean - b.mean) ** 2, np.abs(a.slope - b.slope) ** 2]
    with np.errstate(all="ignore"):
        relative = [np.sqrt(gap / size) for gap in gaps] + [
            np.abs(second_a - second_b) / size
        ]
    return float(np.max(np.where(size > 0, relative, 0.0)))

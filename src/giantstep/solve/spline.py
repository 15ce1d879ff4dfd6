"""Cubic splines of one variable with little overhead, for tables of a few dozen values.

The curve of SciPy's ``CubicSpline`` to rounding, made in a third of its time, and without loading `scipy.interpolate`,
where one answer takes a few milliseconds and makes several.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from giantstep.types import Floats


@dataclass(frozen=True)
class Spline:
    """A piecewise cubic function, sum_k coefficients[k] (t - x_i)^k from the knot x_i on."""

    x: Floats
    """Knots in increasing order, (n,)."""
    coefficients: Floats
    """(4, n - 1)."""

    def __call__(self, t: Floats | Sequence[float] | float, order: int = 0) -> Floats:
        """Return the function (order 0) or its slope (order 1); beyond the knots the outer pieces go on.

        >>> x = np.linspace(0.0, 2.0, 6)
        >>> cubic = spline_through(x, x**3)
        >>> float(round(cubic(1.3).item(), 12)), float(round(cubic(1.3, 1).item(), 12))
        (2.197, 5.07)
        """
        at = np.asarray(t, dtype=float)
        piece = np.clip(np.searchsorted(self.x, at, side="right") - 1, 0, len(self.x) - 2)
        u, (c0, c1, c2, c3) = at - self.x[piece], self.coefficients[:, piece]
        return np.asarray(c1 + u * (2 * c2 + u * 3 * c3) if order else c0 + u * (c1 + u * (c2 + u * c3)))

    def crossing(self, level: float, low: float, high: float) -> float:
        """Return where the function, monotone from low to high, takes a value between those at both ends.

        >>> x = np.linspace(0.0, 2.0, 6)
        >>> round(spline_through(x, x**3).crossing(1.728, 0.1, 1.9), 9)
        1.2
        """
        inner = self.x[(self.x > low) & (self.x < high)]
        at = np.concatenate([[low], inner, [high]])
        above = self(at) > level
        index = int(np.argmax(above != above[0]))
        low, high = float(at[index - 1]), float(at[index])
        piece = int(np.clip(np.searchsorted(self.x, low, side="right") - 1, 0, len(self.x) - 2))
        start, (c0, c1, c2, c3) = float(self.x[piece]), self.coefficients[:, piece].tolist()
        left, right, rising = low - start, high - start, bool(above[index])
        u = 0.5 * (left + right)
        for _ in range(60):
            value = c0 - level + u * (c1 + u * (c2 + u * c3))
            left, right = (left, u) if (value > 0) == rising else (u, right)
            slope = c1 + u * (2 * c2 + u * 3 * c3)
            moved = u - value / slope if slope else left
            moved = moved if left < moved < right else 0.5 * (left + right)
            if abs(moved - u) < 1e-13 * (1 + abs(start)):
                break
            u = moved
        return start + u

    def turns(self) -> Floats:
        """Return where the slope vanishes between the knots, in increasing order.

        >>> x = np.linspace(-2.0, 2.0, 9)
        >>> spline_through(x, x**3 - 3 * x).turns().round(9).tolist()
        [-1.0, 1.0]
        """
        _, c, half_b, third_a = self.coefficients
        a, b, width = 3 * third_a, 2 * half_b, np.diff(self.x)
        with np.errstate(divide="ignore", invalid="ignore"):
            far = -0.5 * (b + np.copysign(np.sqrt(b * b - 4 * a * c), b))  # no cancellation
            u = np.stack([far / a, c / far])
            kept = (u >= 0) & (u < width)
        return np.unique((self.x[:-1] + u)[kept])


def spline_through(x: Floats, y: Floats) -> Spline:
    """Return the cubic spline through values at four or more increasing x.

    Its third derivative is continuous at the second knot and at the last but one.
    """
    h = np.diff(x)
    d = np.diff(y) / h
    n = len(x)
    matrix, right = np.zeros((n, n)), np.empty(n)
    inner = np.arange(1, n - 1)
    matrix[inner, inner - 1], matrix[inner, inner], matrix[inner, inner + 1] = h[1:], 2 * (h[1:] + h[:-1]), h[:-1]
    right[1:-1] = 3 * (h[1:] * d[:-1] + h[:-1] * d[1:])
    for end, (near, next_to_it), (first, second), sides in (
        (0, (h[0], h[1]), (d[0], d[1]), (0, 1)),
        (n - 1, (h[-1], h[-2]), (d[-1], d[-2]), (n - 1, n - 2)),
    ):
        both = near + next_to_it
        matrix[end, sides[0]], matrix[end, sides[1]] = next_to_it, both
        right[end] = ((near + 2 * both) * next_to_it * first + near**2 * second) / both
    slope = np.linalg.solve(matrix, right)
    bend = (slope[:-1] + slope[1:] - 2 * d) / h
    return Spline(x, np.stack([y[:-1], slope[:-1], (d - slope[:-1]) / h - bend, bend / h]))

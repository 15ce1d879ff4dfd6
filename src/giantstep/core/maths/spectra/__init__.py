"""A density on an interval with square-root edges, sampled on panels: mass, moments and
distribution function.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from giantstep.core.base.deadline import check_time
from giantstep.core.base.types import Booleans, Floats, Integers


@dataclass(frozen=True)
class Panels:
    """Panels on [low, high], each with its Gauss-Legendre nodes in a variable s in
    which the density is smooth.

    On panel j, x = left + (right - left) w(s) with w(s) = s, s^2 (square-root behaviour
    at the left end) or 1 - (1-s)^2 (at the right end), s in [0, 1].
    """

    left: Floats  # (P,)
    right: Floats  # (P,)
    power: Integers  # (P,), 0 linear, -1 square root at the left, +1 at the right
    order: int

    @property
    def _rule(self) -> tuple[Floats, Floats]:
        nodes, weights = np.polynomial.legendre.leggauss(self.order)
        return (nodes + 1) / 2, weights / 2

    @property
    def _nodes(self) -> tuple[Floats, Floats]:
        """The nodes x and dx/ds there, (P, order)."""
        return self._position(
            self._rule[0][None, :], np.arange(len(self.left))[:, None]
        )

    def _position(self, s: Floats, panel: Integers) -> tuple[Floats, Floats]:
        """Return x and dx/ds at s on the given panels."""
        power = self.power[panel]
        width = (self.right - self.left)[panel]
        w = np.where(power == 0, s, np.where(power < 0, s**2, 1 - (1 - s) ** 2))
        slope = np.where(power == 0, 1.0, np.where(power < 0, 2 * s, 2 * (1 - s)))
        return self.left[panel] + width * w, width * slope

    @property
    def nodes(self) -> Floats:
        """The nodes (P, order), increasing."""
        return self._nodes[0]

    @property
    def weights(self) -> Floats:
        """Quadrature weights dx of the nodes (P, order)."""
        return self._rule[1] * self._nodes[1]

    def integral(self, values: Floats) -> float:
        """Return the integral of a function given at the nodes."""
        return float(np.sum(self.weights * values))

    def roughness(self, density: Floats) -> Floats:
        """Return for each panel (P,) the mass that its polynomial may misplace: its
        last Legendre coefficients.

        It is large where the density is not smooth inside a panel, at the edges of a
        gap in the bulk, say.
        """
        return np.abs(self._legendre(density * self._nodes[1])[:, -2:]).sum(axis=1)

    def _legendre(self, values: Floats) -> Floats:
        """Return the coefficients (P, order) of the polynomials in s that have these
        values at the nodes.
        """
        vandermonde = np.polynomial.legendre.legvander(
            2 * self._rule[0] - 1, self.order - 1
        )
        return np.asarray(np.linalg.solve(vandermonde, values.T).T, dtype=np.float64)

    def split(self, which: Booleans) -> tuple[Panels, Integers]:
        """Halve the panels in `which` (in s); return the panels and, for each, its old
        index, or -1 if it is new.
        """
        halves = np.where(which, 2, 1)
        parent = np.repeat(np.arange(len(which)), halves)
        fresh = which[parent]
        second = fresh & np.concatenate([[False], parent[1:] == parent[:-1]])
        middle, _ = self._position(np.full(len(which), 0.5), np.arange(len(which)))
        left = self.left[parent].copy()
        right = self.right[parent].copy()
        power = self.power[parent].copy()
        left[second] = middle[parent[second]]
        right[fresh & ~second] = middle[parent[fresh & ~second]]
        power[(fresh & ~second) & (power > 0) | second & (power < 0)] = 0
        return Panels(left, right, power, self.order), np.where(fresh, -1, parent)

    def tail(self, density: Floats, x: Floats) -> Floats:
        """Return the mass above x of a density given at the nodes (P, order)."""
        integrand = density * self._nodes[1]
        masses = integrand @ self._rule[1]
        beyond = np.concatenate([np.cumsum(masses[::-1])[::-1], [0.0]])
        x = np.asarray(x, dtype=float)
        inside = np.clip(x, self.left[0], self.right[-1])
        panel = np.clip(
            np.searchsorted(self.right, inside, side="left"), 0, len(self.left) - 1
        )
        fraction = np.clip(
            (inside - self.left[panel]) / (self.right - self.left)[panel], 0.0, 1.0
        )
        power = self.power[panel]
        s = np.where(
            power == 0,
            fraction,
            np.where(power < 0, np.sqrt(fraction), 1 - np.sqrt(1 - fraction)),
        )
        # integrate the interpolating polynomial of the panel from s to 1
        primitive = np.polynomial.legendre.legint(self._legendre(integrand), axis=1)
        at_end = primitive.sum(axis=1)[panel]
        at_s = np.sum(
            np.polynomial.legendre.legvander(2 * s - 1, self.order) * primitive[panel],
            axis=-1,
        )
        return beyond[panel + 1] + 0.5 * (at_end - at_s)


def bulk_panels(
    low: float, high: float, *, order: int = 10, finest: float = 1e-7
) -> Panels:
    """Return panels on the bulk [low, high], geometric towards a small or vanishing
    lower edge.

    With ``low`` above 0 both ends are square-root edges; with ``low = 0`` the panels
    run geometrically down to ``finest * high`` and what lies below is left to the
    caller.
    """
    floor = low if low > 0 else finest * high
    middle = 0.5 * (floor + high)
    cuts = [middle]
    while cuts[-1] > 4 * floor:
        check_time()
        cuts.append(cuts[-1] / 3)
    cuts = [
        floor,
        *[cut for cut in reversed(cuts) if cut > 1.2 * floor or cut == middle],
    ]
    cuts += [middle + (high - middle) * f for f in (0.5, 1.0)]
    edges = np.array(cuts)
    power = np.zeros(len(edges) - 1, dtype=np.int64)
    power[-1] = 1
    if low > 0:
        power[0] = -1
    return Panels(edges[:-1], edges[1:], power, order)

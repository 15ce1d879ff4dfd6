"""Spectrum of the feature covariance Phi^T Phi/p: the first-order equations at lambda =
-z (spiked_features section 7).

Resolvent and density at complex z; edges and the atom at 0 on the real axis; the whole
law on panels. Outliers are in `outliers`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from giantstep.core.base.deadline import check_time
from giantstep.core.base.types import Array, Booleans, Floats, Integers
from giantstep.core.readout.bulk import Response
from giantstep.core.readout.first_order import (
    Equations,
    FirstOrder,
    begin,
    solve_first_order,
)
from giantstep.core.readout.input_bulk import InputBulk

RELATIVE_HEIGHT = 1e-7
"""Im z/x at which the density is read; outside the bulk it leaves a density of about
this size.
"""
COARSE = 8
"""Values of z that are continued from large imaginary parts; the others start from
their neighbours.
"""
ON_THE_WAY = 1e-4
"""Residual that is good enough for a solution from which the next one starts."""
SOLVED = 1e-13
"""Residual of the last stage."""
MOST_STAGES = 400
"""Stages of a continuation that has lost its branch, at most."""
LEAST_ATOM = 1e-6
"""Mass below which nothing is at zero."""
DARK = 1e-4
"""x density(x), or Im m/|m|, below which x is taken to be outside the bulk."""
LOWEST = 1e-8
"""Part of the mean of the nonzero eigenvalues below which a lower edge counts as 0."""
SCAN = 0.2
LOWER_SCAN = 0.8
"""Distances of log x at which the bulk is scanned above and below the mean of the
nonzero eigenvalues.
"""
EDGE_POINTS = np.array([48.0, 40.0, 30.0, 20.0, 12.0, 6.0]) * 1e-4
"""Distances from an edge, relative to x, from which it is extrapolated: to 1e-10."""
NEAR = 0.1
"""Difference of positions up to which a solution starts another one without steps
between.
"""
LEAST_HEIGHT = 1e-10
"""Im z/x of solutions near an edge or outside the bulk, where 1e-7 would show in the
tenth digit.
"""


@dataclass
class Spectrum:
    """The spectrum of one point, whose equations are solved at any (a, b)."""

    equations: Equations
    bounded: bool = True
    """Whether the bulk has an upper edge: the slope of the activation, and what the
    step saw, are bounded.
    """
    _near_axis: tuple[Array, Response] | None = None
    """Where there are solutions just above the real axis so far, and their
    responses.
    """

    @property
    def ratio(self) -> float:
        """R = n/p."""
        return float(self.equations.ratio[0])

    @property
    def width(self) -> float:
        """Beta = p/d."""
        return float(self.equations.width[0])

    def at(self, a: Array, b: Floats) -> Equations:
        """Return the first-order equations of this point at the given (a, b)."""
        return dataclasses.replace(
            self.equations.take(np.zeros(len(a), dtype=np.int64)), a=a, b=b
        )

    @property
    def mean(self) -> float:
        """First moment of the bulk: r sum_q pi_q E[mu1_q^2 + mu2_q], for rows of
        norm 1.
        """
        features = self.equations.features
        # steps change the length of the rows
        row_norm = self.equations.bulk.row_norm[0][:, None]
        square = row_norm * features.mu1[0] ** 2 + features.mu2[0]
        power = np.sum(features.weights[0] * square, axis=1)
        if self.equations.pi is None:
            fractions = features.pi
        else:
            fractions = self.equations.pi[0]
        return float(self.ratio * np.sum(fractions * power))

    @property
    def scale(self) -> float:
        """Mean of the eigenvalues that are not zero."""
        return self.mean / (1 - self.atom)

    def stieltjes(self, first: FirstOrder) -> Array:
        """Return m(z) = sum_q V2_q of solutions."""
        return np.asarray(first.response.R.sum(axis=1) / self.width)

    def solve(self, z: Array) -> FirstOrder:
        """Solve at complex z (Im z > 0) on the branch with Im R_q > 0."""
        # a few values, evenly among the sorted ones, are continued from far above; the
        # others start from them
        few = np.unique(np.linspace(0, len(z) - 1, min(len(z), COARSE)).astype(int))
        few = np.argsort(z.real)[few]
        return self._extend(z[few], self._descend(z[few]).response, z)

    def _extend(self, known: Array, responses: Response, z: Array) -> FirstOrder:
        """Return the solutions at z, each found from the nearest ones so far; first
        those with known responses.
        """
        at = np.concatenate([known, z])
        count = len(known)
        # room for the new ones, overwritten as they are solved
        room = responses.take(np.zeros(len(z), dtype=np.int64))
        responses = Response.join([responses, room])
        solved = begin(self.at(-z, np.ones(len(z))), responses.take(slice(count, None)))
        position = np.log(np.abs(at))
        for fresh, around in bisect(position, np.arange(len(at)) < count):
            left, right = around
            width = position[right] - position[left]
            share = (position[fresh] - position[left]) / np.where(
                width == 0, 1.0, width
            )
            start = begin(
                self.at(-at[fresh], np.ones(len(fresh))),
                _between(
                    responses.take(left),
                    responses.take(right),
                    np.clip(share, 0.0, 1.0),
                ),
            )
            part = self._from_neighbours(at[fresh], start)
            responses.put(fresh, part.response)
            solved.put(fresh - count, part)
        return solved

    def _from_neighbours(self, z: Array, neighbours: FirstOrder) -> FirstOrder:
        part = solve_first_order(self.at(-z, np.ones(len(z))), neighbours)
        # a neighbour across an edge may lead to another branch
        lost = np.flatnonzero(~is_physical(part))
        if lost.size:
            part.put(lost, self._descend(z[lost]))
        return part

    def _descend(self, z: Array, stages: int = 8) -> FirstOrder:
        """Continue from large Im z, where Newton started at Vh = 0 cannot miss, down
        to z.
        """
        top = np.maximum(2.0, 3 * self.mean + np.abs(z))
        part: FirstOrder | None = None
        for stage in range(stages + 1):
            check_time()
            # geometric in the imaginary part; z itself comes last
            height = top * (z.imag / top) ** (stage / stages)
            goal = SOLVED if stage == stages else ON_THE_WAY
            equations = self.at(-(z.real + 1j * height), np.ones(len(z)))
            part = solve_first_order(equations, part, goal=goal)
        assert part is not None
        # those that have left the branch go down in smaller steps
        lost = np.flatnonzero(~is_physical(part))
        if lost.size and stages < MOST_STAGES:
            part.put(lost, self._descend(z[lost], stages * 4))
        return part

    def density(self, x: Array) -> tuple[Array, FirstOrder]:
        """Return the density of the bulk at x > 0; later calls start from the solutions
        of earlier ones.
        """
        z = x * (1 + 1j * RELATIVE_HEIGHT)
        if self._near_axis is None:
            first = self.solve(z)
        else:
            first = self._extend(*self._near_axis, z)
        # points that were lost are NaN, and nothing starts from them
        sound = is_physical(first)
        if sound.any():
            self._remember(z[sound], first.response.take(np.flatnonzero(sound)))
        # Im m(x + i0) = pi density, less than nothing by rounding
        density = np.maximum(0.0, self.stieltjes(first).imag / np.pi)
        return np.where(sound, density, np.nan), first

    def _remember(self, z: Array, responses: Response) -> None:
        """Keep solutions near the real axis, for others to start from."""
        if self._near_axis is not None:
            earlier_z, earlier_responses = self._near_axis
            z = np.concatenate([earlier_z, z])
            responses = Response.join([earlier_responses, responses])
        self._near_axis = (z, responses)

    def upper_edge(self) -> float:
        """Return the upper edge of the bulk; inf where it has none (unbounded slope or
        residuals).
        """
        if self.bounded:
            return self.end
        return np.inf

    @cached_property
    def end(self) -> float:
        """Where the bulk ends for these nodes, which are bounded even where the law is
        not.
        """
        x, inside = self._scan
        # no density at all, or more of it beyond the last place
        if not inside.size or inside[-1] == len(x) - 1:
            return float(np.nan)
        return self.edge_between(x[inside[-1]], x[inside[-1] + 1], of_all=True)

    @cached_property
    def _scan(self) -> tuple[Floats, Integers]:
        """Places from below the bulk to above it, and which of them are not outside."""
        # well above Marchenko-Pastur's edge
        top = 20 * (1 + 1 / np.sqrt(self.ratio)) ** 2 * max(1.0, self.width)
        below = np.geomspace(LOWEST, 1, 1 + int(-np.log(LOWEST) / LOWER_SCAN))
        above = np.geomspace(1, top, 1 + int(np.log(top) / SCAN))
        x = self.scale * np.append(below, above[1:])
        return x, np.flatnonzero(~self._is_outside(x))

    def lower_edge(self) -> float:
        """Return the lower edge of the nonzero eigenvalues; 0 where the bulk reaches
        down to zero.
        """
        x, inside = self._scan
        if not inside.size:
            return float(np.nan)
        # with a place below the first that is inside, there is an edge between
        if inside[0]:
            return self.edge_between(x[inside[0]], x[inside[0] - 1], of_all=True)
        return 0.0

    def _is_outside(self, x: Floats, of_all: bool = True) -> Booleans:
        """Tell which x are below or above the whole bulk, or (not `of_all`) where there
        is no density.

        Im m, without the atom at zero, is about 1e-7 of m there. Beyond a part of the
        bulk that is too narrow to be seen, 1 + V has turned its sign at some nodes, or
        R of some blocks, or g of some atoms of the inputs.
        """
        _, first = self.density(x)
        m = self.stieltjes(first) - self.atom / first.equations.a
        outside = np.asarray(~(is_physical(first) & (m.imag > DARK * np.abs(m))))
        if not of_all:
            return outside
        outside &= _of_one_sign(first.denominator) & _of_one_sign(first.response.R)
        if isinstance(self.equations.bulk, InputBulk):
            g = np.einsum("bjqq->bjq", first.response.g).reshape(len(x), -1)
            outside &= _of_one_sign(g)
        return outside

    def edge_between(
        self, inside: float, outside: float, of_all: bool = False
    ) -> float:
        """Return the edge of the whole bulk or of a part, enclosed, then extrapolated
        as the zero of density^2.
        """
        from scipy.interpolate import BarycentricInterpolator

        while abs(outside - inside) > 1e-4 * outside:
            check_time()
            x = np.linspace(inside, outside, 5)
            is_outside = np.append(self._is_outside(x[1:-1], of_all), True)
            last = np.flatnonzero(is_outside)[0]
            inside = x[last]
            outside = x[last + 1]
        # the density rises as a root from an edge, so that its square is smooth there
        towards = np.copysign(inside, inside - outside)
        x = inside + towards * EDGE_POINTS
        square = self.stieltjes(self.beside(x)).imag ** 2
        edge = np.nan
        if (np.diff(square) < 0).all():
            edge = float(BarycentricInterpolator(square, x)(0.0))
        # an extrapolation that leaves the bracket is not one of a root
        if abs(edge - inside) < 2 * abs(outside - inside):
            return edge
        return float(outside)

    def beside(self, x: Floats) -> FirstOrder:
        """Return the solutions at x, so near the real axis that the distance does not
        count.
        """
        return self._from_neighbours(x * (1 + 1j * LEAST_HEIGHT), self.density(x)[1])

    @cached_property
    def atom(self) -> float:
        """The fraction of zero eigenvalues: lim -z m(z) as z -> 0. What is below 1e-11
        of the mean counts as zero.
        """
        masses = self.smaller_than(np.array([1e-9, 1e-11]) * self.mean)
        # at n = p it still falls as sqrt(ridge): ten times less from the first to the
        # second, which is extrapolated
        mass = float(10 * masses[1] - masses[0]) / 9
        if mass > LEAST_ATOM:
            return mass
        return 0.0

    def smaller_than(self, y: Floats) -> Floats:
        """Return E[y/(x + y)] over all eigenvalues x, zeros included: the fraction
        below y, its end smoothed.
        """
        one = np.ones(len(y))
        # only the product a b = y matters; no variable diverges as y vanishes
        if self.ratio < 1:
            a = one
            b = y
        else:
            a = y
            b = one
        return np.asarray(self.stieltjes(solve_first_order(self.at(a, b))) * a)


def is_physical(first: FirstOrder) -> Booleans:
    """Tell which complex solutions converged on the branch with Im R_q > 0 and Im
    V(kappa) >= 0.

    From a neighbour outside the bulk Newton can reach a solution inside whose V is
    negative at some kappa.
    """
    # rounding may turn a V that is real to all digits
    upward = np.all(first.V.imag >= -1e-12 * np.abs(first.V), axis=1)
    return (first.residual < 1e-8) & upward & np.all(first.response.R.imag > 0, axis=1)


def _between(left: Response, right: Response, share: Floats) -> Response:
    """Return responses on the lines between others, by a share of the right ones."""
    between = {}
    for name in ("R", "S", "g"):
        from_left = np.einsum("b,b...->b...", 1 - share, getattr(left, name))
        from_right = np.einsum("b,b...->b...", share, getattr(right, name))
        between[name] = from_left + from_right
    return dataclasses.replace(left, **between)


def _of_one_sign(values: Array) -> Booleans:
    """Tell at which points (B, n) the real parts have one sign."""
    return np.asarray(np.ptp(np.sign(values.real), axis=1) == 0)


def bisect(position: Floats, done: Booleans) -> Iterator[tuple[Integers, Integers]]:
    """Yield (which entries come next, one on either side that is done (2, ...)) until
    all are done.

    Those that are near (`NEAR`) to one that is done come next, and the middle of every
    gap. Where there is none on one side, it is the nearest one again.
    """
    # stable: equal positions keep their order, so that answers do not change
    order = np.argsort(position, kind="stable")
    done = done.copy()
    at = position[order]
    while not done.all():
        check_time()
        # from here on indices are ranks of the positions
        known = np.flatnonzero(done[order])
        todo = np.flatnonzero(~done[order])
        after = np.searchsorted(known, todo)
        # at the ends both sides are the same one
        left = known[np.maximum(after - 1, 0)]
        right = known[np.minimum(after, len(known) - 1)]
        left_is_nearer = np.abs(at[left] - at[todo]) <= np.abs(at[right] - at[todo])
        nearest = np.where(left_is_nearer, left, right)
        # `after` numbers the gaps: the place of an entry in its gap, and their number
        place_in_gap = np.arange(len(after)) - np.searchsorted(after, after)
        entries_of_gap = np.bincount(after, minlength=len(known) + 1)
        middle = entries_of_gap[after] // 2 == place_in_gap
        fresh = middle | (np.abs(at[nearest] - at[todo]) < NEAR)
        yield order[todo[fresh]], order[np.stack([left[fresh], right[fresh]])]
        done[order[todo[fresh]]] = True

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
from giantstep.core.maths.spectra import Panels, bulk_panels
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
ROUGH = 1e-5
"""Mass that a panel of the density may misplace before it is halved."""
MAX_REFINEMENTS = 16
FINEST = 1e-3
"""Part of the largest x below which the density is not refined: each node of kappa may
be a bulk of its own there.
"""
SEEN = 1e-6
"""Mass below which nothing is at zero."""
BESIDE = 30.0
"""Distance, as a ratio, from the lowest panel at which the mass below it is measured:
to 1/30 of what is not zero.
"""
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
        row_norm = self.equations.bulk.row_norm[0][:, None]
        power = np.sum(
            features.weights[0] * (row_norm * features.mu1[0] ** 2 + features.mu2[0]),
            axis=1,
        )
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

    # -- complex z ---------------------------------------------------------------------

    def solve(self, z: Array) -> FirstOrder:
        """Solve at complex z (Im z > 0) on the branch with Im R_q > 0."""
        few = np.argsort(z.real)[
            np.unique(np.linspace(0, len(z) - 1, min(len(z), COARSE)).astype(int))
        ]
        return self._extend(z[few], self._descend(z[few]).response, z)

    def _extend(self, known: Array, responses: Response, z: Array) -> FirstOrder:
        """Return the solutions at z, each found from the nearest ones so far; first
        those with known responses.
        """
        at = np.concatenate([known, z])
        count = len(known)
        responses = Response.join(
            [responses, responses.take(np.zeros(len(z), dtype=np.int64))]
        )
        found = begin(self.at(-z, np.ones(len(z))), responses.take(slice(count, None)))
        position = np.log(np.abs(at))
        for fresh, around in bisect(position, np.arange(len(at)) < count):
            (left, right), (low, high) = (
                (responses.take(side) for side in around),
                position[around],
            )
            share = np.clip(
                (position[fresh] - low) / np.where(low == high, 1.0, high - low),
                0.0,
                1.0,
            )
            between = {
                name: (
                    np.einsum("b,b...->b...", 1 - share, getattr(left, name))
                    + np.einsum("b,b...->b...", share, getattr(right, name))
                )
                for name in ("R", "S", "g")
            }
            start = begin(
                self.at(-at[fresh], np.ones(len(fresh))),
                dataclasses.replace(left, **between),
            )
            part = self._from_neighbours(at[fresh], start)
            responses.put(fresh, part.response)
            found.put(fresh - count, part)
        return found

    def _from_neighbours(self, z: Array, neighbours: FirstOrder) -> FirstOrder:
        part = solve_first_order(self.at(-z, np.ones(len(z))), neighbours)
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
            height = top * (z.imag / top) ** (stage / stages)
            goal = 1e-13 if stage == stages else ON_THE_WAY
            part = solve_first_order(
                self.at(-(z.real + 1j * height), np.ones(len(z))), part, goal=goal
            )
        assert part is not None
        lost = np.flatnonzero(~is_physical(part))
        if lost.size and stages < 400:
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
        sound = is_physical(first)
        if sound.any():
            at = z[sound]
            responses = first.response.take(np.flatnonzero(sound))
            if self._near_axis is not None:
                at = np.concatenate([self._near_axis[0], at])
                responses = Response.join([self._near_axis[1], responses])
            self._near_axis = at, responses
        return (
            np.where(
                sound, np.maximum(0.0, self.stieltjes(first).imag / np.pi), np.nan
            ),
            first,
        )

    # -- edges -------------------------------------------------------------------------

    def upper_edge(self) -> float:
        """Return the upper edge of the bulk; inf where it has none (unbounded slope or
        residuals).
        """
        return self.end if self.bounded else np.inf

    @cached_property
    def end(self) -> float:
        """Where the bulk ends for these nodes, which are bounded even where the law is
        not.
        """
        x, inside = self._scan
        if not inside.size or inside[-1] == len(x) - 1:
            return float(np.nan)
        return self.edge_between(x[inside[-1]], x[inside[-1] + 1], of_all=True)

    @cached_property
    def _scan(self) -> tuple[Floats, Integers]:
        """Places from below the bulk to above it, and which of them are not outside."""
        top = 20 * (1 + 1 / np.sqrt(self.ratio)) ** 2 * max(1.0, self.width)
        below = np.geomspace(LOWEST, 1, 1 + int(-np.log(LOWEST) / LOWER_SCAN))
        x = self.scale * np.append(
            below, np.geomspace(1, top, 1 + int(np.log(top) / SCAN))[1:]
        )
        return x, np.flatnonzero(~self._is_outside(x))

    def lower_edge(self) -> float:
        """Return the lower edge of the nonzero eigenvalues; 0 where the bulk reaches
        down to zero.
        """
        x, inside = self._scan
        if not inside.size:
            return float(np.nan)
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
        first = self.density(x)[1]
        m = self.stieltjes(first) - self.atom / first.equations.a
        dark = ~(is_physical(first) & (m.imag > DARK * np.abs(m)))
        signs = [first.denominator, first.response.R] if of_all else []
        if of_all and isinstance(self.equations.bulk, InputBulk):
            signs.append(np.einsum("bjqq->bjq", first.response.g).reshape(len(x), -1))
        return np.all(
            [dark, *(np.ptp(np.sign(part.real), axis=1) == 0 for part in signs)], axis=0
        )

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
            last = np.flatnonzero(np.append(self._is_outside(x[1:-1], of_all), True))[0]
            inside = x[last]
            outside = x[last + 1]
        x = inside + np.copysign(inside, inside - outside) * EDGE_POINTS
        square = self.stieltjes(self.beside(x)).imag ** 2
        if (np.diff(square) < 0).all():
            edge = float(BarycentricInterpolator(square, x)(0.0))
        else:
            edge = np.nan
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
        # at n = p it still falls as sqrt(ridge)
        mass = float(10 * masses[1] - masses[0]) / 9
        return mass if mass > SEEN else 0.0

    def smaller_than(self, y: Floats) -> Floats:
        """Return E[y/(x + y)] over all eigenvalues x, zeros included: the fraction
        below y, its end smoothed.
        """
        one = np.ones(len(y))
        a, b = (one, y) if self.ratio < 1 else (y, one)
        return np.asarray(self.stieltjes(solve_first_order(self.at(a, b))) * a)


def is_physical(first: FirstOrder) -> Booleans:
    """Tell which complex solutions converged on the branch with Im R_q > 0 and Im
    V(kappa) >= 0.

    From a neighbour outside the bulk Newton can reach a solution inside whose V is
    negative at some kappa.
    """
    upward = np.all(first.V.imag >= -1e-12 * np.abs(first.V), axis=1)
    return (first.residual < 1e-8) & upward & np.all(first.response.R.imag > 0, axis=1)


@dataclass
class Law:
    """The bulk law of one point: edges, atom, panels with the density on them."""

    lower: float
    upper: float
    atom: float
    panels: Panels
    on_panels: Array
    # intervals between the edges in which there is no density
    gaps: list[tuple[float, float]]
    residual: float
    iterations: int

    @property
    def mass(self) -> float:
        """Mass of the density on the panels."""
        return self.panels.integral(self.on_panels)

    def mass_below(self, spectrum: Spectrum) -> float:
        """Return the mass below the panels, the atom included: what the resolvent at a
        negative z sees beside them.
        """
        y = BESIDE * self.panels.left[:1]
        above = self.panels.integral(self.on_panels * y / (self.panels.nodes + y))
        return float(spectrum.smaller_than(y)[0]) - above

    def cdf(self, x: Array) -> Array:
        """Return the fraction of eigenvalues up to x, the atom at zero included, the
        outliers left out.
        """
        below = 1 - self.panels.tail(self.on_panels, x)
        return np.where(
            x < 0,
            0.0,
            np.where(x < self.lower, self.atom, np.clip(below, self.atom, 1.0)),
        )


def bulk_law(spectrum: Spectrum) -> Law:
    """Compute the law of one point."""
    upper = spectrum.upper_edge()
    lower = spectrum.lower_edge()
    atom = spectrum.atom
    reach = upper
    if not np.isfinite(upper):  # a point that leaves a mass below 1e-6 above it
        x = spectrum.mean * 2.0 ** np.arange(0, 16)
        heavy = np.flatnonzero(np.nan_to_num(spectrum.density(x)[0]) * x > 1e-6)
        reach = float(2 * x[heavy[-1]] if heavy.size else x[4])
    panels = bulk_panels(lower if np.isfinite(lower) else 0.0, reach)
    values = np.zeros(panels.nodes.shape)
    residual = 0.0
    iterations = 0
    fresh = np.ones(len(values), dtype=bool)
    for left in reversed(
        range(MAX_REFINEMENTS + 1)
    ):  # towards the edges of gaps, where p/d is large or small
        check_time()
        density, first = spectrum.density(panels.nodes[fresh].ravel())
        values[fresh] = np.nan_to_num(density).reshape(-1, panels.order)
        residual = max(residual, float(np.max(first.residual)))
        iterations = max(iterations, int(np.max(first.iterations)))
        rough = (panels.roughness(values) > ROUGH) & (panels.right > FINEST * reach)
        if not (left and rough.any()):
            break
        panels, origin = panels.split(rough)
        fresh = origin < 0
        values = np.where(fresh[:, None], 0.0, values[origin])
    # a bulk that begins well above zero is smooth
    resolved = 0.0 if lower > 1e-2 * FINEST * reach else FINEST * reach
    x = panels.nodes.ravel()
    gaps = list[tuple[float, float]]()
    lit = np.flatnonzero((values.ravel() * x > DARK) & (x > resolved))
    for last, first_again in zip(
        lit, lit[1:]
    ):  # gaps too narrow for two nodes are not seen
        if first_again - last > 2:
            begin = spectrum.edge_between(x[last], x[last + 1])
            end = (x[first_again], x[first_again - 1])
            gaps.append((begin, spectrum.edge_between(*end)))
    return Law(lower, upper, atom, panels, values, gaps, residual, iterations)


NEAR = 0.1
"""Difference of positions up to which a solution starts another one without steps
between.
"""


def bisect(position: Floats, done: Booleans) -> Iterator[tuple[Integers, Integers]]:
    """Yield (which entries come next, one on either side that is done (2, ...)) until
    all are done.

    Those that are near (`NEAR`) to one that is done come next, and the middle of every
    gap. Where there is none on one side, it is the nearest one again.
    """
    order = np.argsort(position, kind="stable")
    done = done.copy()
    at = position[order]
    while not done.all():
        check_time()
        known = np.flatnonzero(done[order])
        todo = np.flatnonzero(~done[order])
        after = np.searchsorted(known, todo)
        left = known[np.maximum(after - 1, 0)]
        right = known[np.minimum(after, len(known) - 1)]
        nearest = np.where(
            np.abs(at[left] - at[todo]) <= np.abs(at[right] - at[todo]), left, right
        )
        in_gap = np.arange(len(after)) - np.searchsorted(after, after)
        middle = np.bincount(after, minlength=len(known) + 1)[after] // 2 == in_gap
        fresh = middle | (np.abs(at[nearest] - at[todo]) < NEAR)
        yield order[todo[fresh]], order[np.stack([left[fresh], right[fresh]])]
        done[order[todo[fresh]]] = True

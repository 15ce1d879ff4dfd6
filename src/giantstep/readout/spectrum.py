"""Spectrum of the feature covariance Phi^T Phi/p: the first-order equations at lambda = -z (spiked_features section 7).

Resolvent and density at complex z; edges and the atom at 0 on the real axis; the whole law on panels. Outliers are in
`outliers`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from giantstep.deadline import check_time
from giantstep.readout.bulk import Response
from giantstep.readout.continuation import bisect, combine, cubic_weights, lagrange_weights, linear_weights
from giantstep.readout.first_order import Equations, FirstOrder, packed_coupling, solve_first_order
from giantstep.readout.input_bulk import InputBulk
from giantstep.spectra import Panels, bulk_panels, march_to_edge, stability_at
from giantstep.types import Array, Booleans, Floats

RELATIVE_HEIGHT = 1e-7
"""Im z/x at which the density is read; outside the bulk it leaves a density of about this size."""
COARSE = 8
"""Values of z that are continued from large imaginary parts; the others start from their neighbours."""
ON_THE_WAY = 1e-4
"""Residual that is good enough for a solution from which the next one starts."""
ROUGH = 1e-5
"""Mass that a panel of the density may misplace before it is halved."""
MAX_REFINEMENTS = 16
FINEST = 1e-3
"""Part of the largest x below which the density is not refined: each node of kappa may be a bulk of its own there."""
SEEN = 1e-6
"""Mass below which nothing is at zero."""
BESIDE = 30.0
"""Distance, as a ratio, from the lowest panel at which the mass below it is measured: to 1/30 of what is not zero."""
DARK = 1e-4
"""x density(x) below which a scan takes x to be outside the bulk."""
CLOSE = 0.6
"""Stability below which an edge is close."""
CARRIED = 4
"""Solutions from which one nearer to an edge is extrapolated."""
TRUSTED_MARGIN = 1e-4
"""`Bulk.edge_margin` up to which an edge is found by marching on the real axis."""


@dataclass
class Spectrum:
    """The spectrum of one point, whose equations are solved at any (a, b)."""

    equations: Equations
    bounded: bool = True
    """Whether the bulk has an upper edge: the slope of the activation, and what the step saw, are bounded."""
    _near_axis: FirstOrder | None = None
    """Solutions just above the real axis so far."""

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
        return dataclasses.replace(self.equations.take(np.zeros(len(a), dtype=np.int64)), a=a, b=b)

    @property
    def mean(self) -> float:
        """First moment of the bulk: r sum_q pi_q E[mu1_q^2 + mu2_q], for rows of norm 1."""
        features, row_norm = self.equations.features, self.equations.bulk.row_norm[0][:, None]
        power = np.sum(features.weights[0] * (row_norm * features.mu1[0] ** 2 + features.mu2[0]), axis=1)
        fractions = features.pi if self.equations.pi is None else self.equations.pi[0]
        return float(self.ratio * np.sum(fractions * power))

    def stieltjes(self, first: FirstOrder) -> Array:
        """Return m(z) = sum_q V2_q of solutions."""
        m: Array = first.response.R.sum(axis=1) / self.width
        return m

    # -- complex z -------------------------------------------------------------------------------------------------

    def solve(self, z: Array) -> FirstOrder:
        """Solve at complex z (Im z > 0) on the branch with Im R_q > 0."""
        few = np.argsort(z.real)[np.unique(np.linspace(0, len(z) - 1, min(len(z), COARSE)).astype(int))]
        return self._extend(self._descend(z[few]), z).take(np.arange(-len(z), 0))

    def _extend(self, known: FirstOrder, z: Array) -> FirstOrder:
        """Return the known solutions and after them those at z, each found from the nearest one so far."""
        count = len(known.V)
        at = np.concatenate([-known.equations.a, z])
        solved = known.take(np.zeros(len(at), dtype=np.int64))
        solved = dataclasses.replace(solved, equations=self.at(-at, np.ones(len(at))))
        solved.put(np.arange(count), known)
        position = np.log(np.abs(at))
        for fresh, around in bisect(position, np.arange(len(at)) < count):
            neighbours = [solved.take(side) for side in around]
            linear = linear_weights(position[fresh], position[around])
            cubic = cubic_weights(position[fresh], position[around], linear)
            start = combine(neighbours, cubic)
            wild = ~_points_upward(start)
            if wild.any():
                start = combine(neighbours, np.where(wild, linear, cubic))
            solved.put(fresh, self._from_neighbours(at[fresh], start))
        return solved

    def _from_neighbours(self, z: Array, neighbours: FirstOrder) -> FirstOrder:
        part = solve_first_order(self.at(-z, np.ones(len(z))), neighbours)
        lost = np.flatnonzero(~is_physical(part))
        if lost.size:
            part.put(lost, self._descend(z[lost]))
        return part

    def _descend(self, z: Array, stages: int = 8) -> FirstOrder:
        """Continue from large Im z, where Newton started at Vh = 0 cannot miss, down to z."""
        top = np.maximum(2.0, 3 * self.mean + np.abs(z))
        part: FirstOrder | None = None
        for stage in range(stages + 1):
            check_time()
            height = top * (z.imag / top) ** (stage / stages)
            goal = 1e-13 if stage == stages else ON_THE_WAY
            part = solve_first_order(self.at(-(z.real + 1j * height), np.ones(len(z))), part, goal=goal)
        assert part is not None
        lost = np.flatnonzero(~is_physical(part))
        if lost.size and stages < 400:
            part.put(lost, self._descend(z[lost], stages * 4))
        return part

    def density(self, x: Array) -> tuple[Array, FirstOrder]:
        """Return the density of the bulk at x > 0; later calls start from the solutions of earlier ones."""
        z = x * (1 + 1j * RELATIVE_HEIGHT)
        solved = self.solve(z) if self._near_axis is None else self._extend(self._near_axis, z)
        sound = is_physical(solved)
        self._near_axis = solved.take(np.flatnonzero(sound)) if sound.any() else None
        first = solved.take(np.arange(-len(x), 0))
        density = np.maximum(0.0, self.stieltjes(first).imag / np.pi)
        return np.where(is_physical(first), density, np.nan), first

    # -- real z, outside the bulk ----------------------------------------------------------------------------------

    def stability(self, first: FirstOrder) -> float:
        """Return the smallest eigenvalue of I - Ker W2 at a real solution; it vanishes at the edge."""
        equations, squared = first.equations, first.squared_weights
        tangents = equations.bulk.tangents(first.response)
        if equations.packed:
            product = tangents.matrix[0] / self.width @ packed_coupling(equations, squared)[0]
            return float(1 - np.max(np.linalg.eigvals(product).real))
        Ker = tangents.kernel(equations.features.mu1, equations.features.mu2)[0] / self.width
        root = np.sqrt(squared[0])
        return float(1 - np.linalg.eigvalsh(root[:, None] * Ker * root)[-1])

    def upper_edge(self) -> float:
        """Return the upper edge of the bulk; inf where it has none (unbounded slope or residuals)."""
        return self.end if self.bounded else np.inf

    @cached_property
    def end(self) -> float:
        """Where the bulk ends for these nodes, which are bounded even where the law is not."""
        start = 20 * self.mean * (1 + 1 / np.sqrt(self.ratio)) ** 2 * max(1.0, self.width)
        if self.equations.bulk.edge_margin > TRUSTED_MARGIN:
            return self._end_by_density(start)
        solver = RealSolver(self, lambda z: (-z, 1.0), sign=-1)
        edge = march_to_edge(solver, start, -0.5 * start)
        return np.nan if edge is None else edge

    def _end_by_density(self, top: float) -> float:
        """Return the largest x with a density, where a march on the real axis can go astray."""
        x = top * np.geomspace(1e-4, 1, 41)
        lit = np.flatnonzero(self._is_lit(x))
        if not lit.size or lit[-1] == len(x) - 1:
            return float(np.nan)
        return self.edge_between(x[lit[-1]], x[lit[-1] + 1])

    def _is_lit(self, x: Floats) -> Booleans:
        """Tell where the bulk has a density."""
        return np.nan_to_num(self.density(x)[0]) * x > DARK

    def edge_between(self, inside: float, outside: float) -> float:
        """Return the edge between a point inside the bulk and one outside.

        The edge is enclosed, then the zero of density^2, a smooth function of x inside, is extrapolated.
        """
        from scipy.interpolate import BarycentricInterpolator

        while abs(outside - inside) > 1e-4 * outside:
            check_time()
            x = np.linspace(inside, outside, 9)
            last = np.flatnonzero(np.append(self._is_lit(x[1:-1]), False) == 0)[0]
            inside, outside = x[last], x[last + 1]
        x = inside + np.copysign(inside, inside - outside) * np.array([16.0, 12.0, 8.0, 4.0, 2.0]) * 1e-4
        density, _ = self.density(x)
        square = density**2
        edge = float(BarycentricInterpolator(square, x)(0.0)) if (np.diff(square) < 0).all() else np.nan
        return edge if abs(edge - inside) < 2 * abs(outside - inside) else float(outside)

    def lower_edge(self) -> float:
        """Return the lower edge of the nonzero eigenvalues; 0 where the bulk reaches down to zero."""
        scale = self.mean
        if self.atom > max(0.0, 1 - self.ratio) + SEEN:  # rank deficient features (a linear activation with p > d)
            fading = self._smaller_than[0] - self._smaller_than[1] > SEEN  # rows whose features hardly vary
            return 0.0 if fading else self._scan_lower_edge()
        if self.ratio < 1:  # continue the ridgeless solution to negative ridge, in the kernel normalisation
            solver = RealSolver(self, lambda z: (1.0, -z), sign=1)
            start = 0.0
        else:
            solver = RealSolver(self, lambda z: (-z, 1.0), sign=1)
            start = -1e-3 * scale
            solver(-scale)
        if solver(start) is None:
            return np.nan
        edge = march_to_edge(solver, start, 1e-3 * scale)
        if edge is None or edge < 1e-8 * scale:
            return 0.0
        return edge

    def _scan_lower_edge(self) -> float:
        """Return where the density switches on, by scanning it."""
        x = self.mean * np.geomspace(1e-6, 1, 61)
        lit = np.flatnonzero(self._is_lit(x))
        return 0.0 if not lit.size or lit[0] == 0 else self.edge_between(x[lit[0]], x[lit[0] - 1])

    @cached_property
    def atom(self) -> float:
        """The fraction of zero eigenvalues: lim -z m(z) as z -> 0. What is below 1e-11 of the mean counts as zero."""
        masses = self._smaller_than
        mass = float(10 * masses[1] - masses[0]) / 9  # at n = p it still falls as sqrt(ridge)
        return mass if mass > SEEN else 0.0

    @cached_property
    def _smaller_than(self) -> Floats:
        return self.smaller_than(np.array([1e-9, 1e-11]) * self.mean)

    def smaller_than(self, y: Floats) -> Floats:
        """Return E[y/(x + y)] over all eigenvalues x, zeros included: the fraction below y, its end smoothed."""
        one = np.ones(len(y))
        a, b = (one, y) if self.ratio < 1 else (y, one)
        return np.asarray(self.stieltjes(solve_first_order(self.at(a, b))) * a)


def is_physical(first: FirstOrder) -> Booleans:
    """Tell which complex solutions converged on the branch with Im R_q > 0 and Im V(kappa) >= 0.

    From a neighbour outside the bulk Newton can reach a solution inside whose V is negative at some kappa.
    """
    return (first.residual < 1e-8) & _points_upward(first)


def _points_upward(first: FirstOrder) -> Booleans:
    upward = np.all(first.V.imag >= -1e-12 * np.abs(first.V), axis=1)
    return upward & np.all(first.response.R.imag > 0, axis=1)


class RealSolver:
    """Solves at real z outside the bulk, each time from the nearest solution so far; returns the stability.

    `sign` is that of R on the branch, with 1 + V > 0; None: any, inside a gap.
    """

    def __init__(self, spectrum: Spectrum, pair: Callable[[float], tuple[float, float]], sign: int | None) -> None:
        self.spectrum, self.pair, self.sign = spectrum, pair, sign
        self.solved: list[tuple[float, float, FirstOrder]] = []
        """Points, the stability there, and the solutions."""

    def begin(self, near_axis: FirstOrder) -> None:
        """Start from a solution just above the real axis, where there is no density."""
        equations = near_axis.equations
        real = dataclasses.replace(equations, a=equations.a.real)
        response = near_axis.response
        parts = (response.R, response.S, response.g, response.Vh1, response.D, response.block_width)
        response = Response(*(np.real(part) for part in parts))
        first = dataclasses.replace(near_axis, equations=real, V=near_axis.V.real, response=response)
        self.solved.append((float(-real.a[0]), 1.0, first))

    def at(self, z: float) -> FirstOrder | None:
        """Return the solution at z on the branch of the solutions so far, or None."""
        a, b = self.pair(z)
        equations = self.spectrum.at(np.array([a]), np.array([b]))
        if self.solved:
            first = solve_first_order(equations, self._start(z), probe=True)
        else:
            first = solve_first_order(equations)
        proper = self.sign is None or np.all(first.denominator > 0) and np.all(np.sign(first.response.R) == self.sign)
        if first.residual[0] > 1e-9 or not proper or not (self.sign is None or _is_outside(first)):
            return None
        return first

    def _start(self, z: float) -> FirstOrder:
        """Return the nearest solution, near an edge carried on along the curve through the nearest ones.

        Near an edge everything is smooth in the stability v, and z = edge + a v^2 + b v^3 + ...
        """
        nearest = sorted(self.solved, key=lambda known: abs(known[0] - z))[:CARRIED]
        first = nearest[0][2]
        close = {v: (at, solution) for at, v, solution in nearest if v < CLOSE}
        if len(close) < 2:
            return first
        known, at = np.array(list(close)), np.array([at for at, _ in close.values()])
        v = stability_at(z, at, known)
        if v is None:
            return first
        start = combine([solution for _, solution in close.values()], lagrange_weights(np.array([v]), known[:, None]))
        sound = np.all(np.sign(start.response.R) == np.sign(first.response.R)) and np.all(start.denominator > 0)
        return start if sound else first

    def __call__(self, z: float) -> float | None:
        """Return the stability at z, or None where there is no solution."""
        first = self.at(z)
        if first is None:
            return None
        value = self.spectrum.stability(first)
        if value > 0:
            self.solved.append((z, value, first))
        return value


def _is_outside(first: FirstOrder) -> bool:
    """Tell whether no atom of the inputs is passed: beyond an island of leading ones their G are negative."""
    if not isinstance(first.equations.bulk, InputBulk):
        return True
    sizes = np.linalg.eigvalsh(np.real(first.response.g))
    return bool(sizes.min() >= -1e-9 * np.abs(sizes).max())


@dataclass
class Law:
    """The bulk law of one point: edges, atom, panels with the density on them."""

    lower: float
    upper: float
    atom: float
    panels: Panels
    on_panels: Array
    gaps: list[tuple[float, float]]
    """Intervals between the edges in which there is no density."""
    residual: float
    iterations: int

    @property
    def mass(self) -> float:
        """Mass of the density on the panels."""
        return self.panels.integral(self.on_panels)

    def mass_below(self, spectrum: Spectrum) -> float:
        """Return the mass below the panels, the atom included: what the resolvent at a negative z sees beside them."""
        y = BESIDE * self.panels.left[:1]
        above = self.panels.integral(self.on_panels * y / (self.panels.nodes + y))
        return float(spectrum.smaller_than(y)[0]) - above

    def cdf(self, x: Array) -> Array:
        """Return the fraction of eigenvalues up to x, the atom at zero included, the outliers left out."""
        below = 1 - self.panels.tail(self.on_panels, x)
        return np.where(x < 0, 0.0, np.where(x < self.lower, self.atom, np.clip(below, self.atom, 1.0)))


def bulk_law(spectrum: Spectrum) -> Law:
    """Compute the law of one point."""
    upper, lower, atom = spectrum.upper_edge(), spectrum.lower_edge(), spectrum.atom
    reach = upper if np.isfinite(upper) else _far_quantile(spectrum)
    panels = bulk_panels(lower if np.isfinite(lower) else 0.0, reach)
    values = np.zeros(panels.nodes.shape)
    residual, iterations = 0.0, 0
    fresh = np.ones(len(values), dtype=bool)
    for _ in range(MAX_REFINEMENTS):  # towards the edges of gaps, where p/d is large or small
        check_time()
        density, first = spectrum.density(panels.nodes[fresh].ravel())
        values[fresh] = np.nan_to_num(density).reshape(-1, panels.order)
        residual = max(residual, float(np.max(first.residual)))
        iterations = max(iterations, int(np.max(first.iterations)))
        rough = (panels.roughness(values) > ROUGH) & (panels.right > FINEST * reach)
        if not rough.any():
            break
        panels, origin = panels.split(rough)
        fresh = origin < 0
        values = np.where(fresh[:, None], 0.0, values[origin])
    else:
        density, _ = spectrum.density(panels.nodes[fresh].ravel())
        values[fresh] = np.nan_to_num(density).reshape(-1, panels.order)
    resolved = 0.0 if lower > 1e-2 * FINEST * reach else FINEST * reach  # a bulk that begins well above zero is smooth
    seen = panels.nodes.ravel() > resolved
    gaps = find_gaps(spectrum, panels.nodes.ravel()[seen], values.ravel()[seen])
    return Law(lower, upper, atom, panels, values, gaps, residual, iterations)


def find_gaps(spectrum: Spectrum, x: Floats, density: Floats) -> list[tuple[float, float]]:
    """Return the gaps between stretches of x with a density; those too narrow for two nodes are not seen."""
    lit = np.flatnonzero(density * x > DARK)
    breaks = np.flatnonzero(np.diff(lit) > 2)
    pairs = [(lit[index], lit[index + 1]) for index in breaks]
    return [
        (spectrum.edge_between(x[left], x[left + 1]), spectrum.edge_between(x[right], x[right - 1]))
        for left, right in pairs
    ]


def _far_quantile(spectrum: Spectrum) -> float:
    """Return a point that leaves a mass below 1e-6 above it, for a bulk without an upper edge."""
    x = spectrum.mean * 2.0 ** np.arange(0, 16)
    density, _ = spectrum.density(x)
    heavy = np.flatnonzero(np.nan_to_num(density) * x > 1e-6)
    return float(2 * x[heavy[-1]]) if heavy.size else float(x[4])

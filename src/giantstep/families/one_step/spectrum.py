"""Spectrum of the feature covariance Phi^T Phi/p: the first-order equations at lambda = -z (section 7 of the notes)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from giantstep.errors import bad_field
from giantstep.families.one_step.model import KERNEL_NODES_PER_PANEL
from giantstep.families.one_step.scenario import OneStep
from giantstep.families.one_step.steps import (
    Models,
    at_finite_size,
    bulk_row_scale,
    choose_theory,
    grouped_tables,
    second_layer_law,
)
from giantstep.family import Answer
from giantstep.gaussian import Function
from giantstep.readout.batch_bulk import Batch
from giantstep.readout.errors import batch_channels
from giantstep.readout.features import Tables
from giantstep.readout.first_order import (
    PACKED_BLOCKS,
    Equations,
    FirstOrder,
    kernel,
    packed_coupling,
    response_matrix,
    solve_first_order,
)
from giantstep.spectra import Panels, bulk_panels, march_to_edge
from giantstep.types import Array, Booleans, Integers, Points

RELATIVE_HEIGHT = 1e-7
"""Im z/x at which the density is read; outside the bulk it leaves a density of about this size."""
COARSE = 24
MASS_TOLERANCE = 0.02
"""How far the mass of a law may be from one; a density that diverges at 0 leaves a little below the finest panel."""
OUTLIER_ROOM = 8
"""Eigenvalues above the bulk that an answer has room for."""
SPECTRUM_NODES = 40
"""Nodes on a panel of kappa. Where the features are small each node is a bulk of its own: they must overlap."""
ROUGH = 1e-5
"""Mass that a panel of the density may misplace before it is halved."""
MAX_REFINEMENTS = 16


@dataclass
class Bulk:
    """The bulk law of one point: functions of kappa, r = n/p, beta = p/d and the law of the second layer."""

    tables: Tables  # of one parameter set
    pi: Array
    ratio: float
    width: float
    bounded: bool
    """Whether the slope of the activation is bounded; otherwise the bulk has no upper edge."""
    batch: Batch | None
    row_scale: Array
    """What turns rows w0_i into bulk rows in V1, see `steps.bulk_row_scale`."""

    def equations(self, a: Array, b: Array) -> Equations:
        """Return the first-order equations at the given (a, b), all of this point."""
        count = len(a)
        batch = None if self.batch is None else self.batch.take(np.zeros(count, dtype=np.int64))
        return Equations(self.tables, self.pi, np.full(count, self.ratio), np.full(count, self.width), a, b, batch)

    @property
    def mean(self) -> float:
        """First moment of the bulk: r sum_q pi_q E[mu1_q^2 + mu2_q]."""
        row_norm = 1.0 if self.batch is None else self.batch.row_norm[0][:, None]  # mu1 is per unit row norm then
        bulk = row_norm * self.tables.mu1[0] ** 2 + self.tables.mu2[0]
        power = np.sum(self.tables.weights[0] * bulk, axis=1)
        return float(self.ratio * np.sum(self.pi * power))

    # -- complex z -------------------------------------------------------------------------------------------------

    def solve(self, z: Array) -> FirstOrder:
        """Solve at complex z (Im z > 0) on the branch with Im R_q > 0: a few by continuation, the others from these."""
        order = np.argsort(z.real)
        coarse = order[np.unique(np.linspace(0, len(z) - 1, min(len(z), COARSE)).astype(int))]
        first = self._descend(z[coarse])
        room = first.take(np.zeros(len(z), dtype=np.int64))
        found = FirstOrder(self.equations(-z, np.ones(len(z))), room.V, room.response, room.residual, room.iterations)
        self._put(found, coarse, first)
        known = np.zeros(len(z), dtype=bool)
        known[coarse] = True
        while not known.all():
            places = np.flatnonzero(known[order])
            gaps = [(l + r) // 2 for l, r in zip(places[:-1], places[1:]) if r - l > 1]
            fresh = order[gaps]
            before = order[[places[np.searchsorted(places, gap) - 1] for gap in gaps]]
            self._put(found, fresh, self._from_neighbours(z[fresh], found, before))
            known[fresh] = True
        return found

    @staticmethod
    def _put(into: FirstOrder, index: Integers, part: FirstOrder) -> None:
        into.V[index] = part.V
        into.residual[index] = part.residual
        into.iterations[index] = part.iterations
        into.response.put(index, part.response)

    def _from_neighbours(self, z: Array, found: FirstOrder, before: Integers) -> FirstOrder:
        equations = self.equations(-z, np.ones(len(z)))
        part = solve_first_order(equations, found.take(before))
        lost = np.flatnonzero(~_physical(part))
        if lost.size:
            self._put(part, lost, self._descend(z[lost]))
        return part

    def _descend(self, z: Array, stages: int = 12) -> FirstOrder:
        """Continue from large Im z, where Newton started at Vh = 0 cannot miss, down to z."""
        top = np.maximum(2.0, 3 * self.mean + np.abs(z))
        part = None
        for stage in range(stages + 1):
            height = top * (z.imag / top) ** (stage / stages)
            equations = self.equations(-(z.real + 1j * height), np.ones(len(z)))
            if part is None:
                part = solve_first_order(equations)
            else:
                part = solve_first_order(equations, part)
        assert part is not None
        lost = np.flatnonzero(~_physical(part))
        if lost.size and stages < 400:
            self._put(part, lost, self._descend(z[lost], stages * 4))
        return part

    def density(self, x: Array) -> tuple[Array, FirstOrder]:
        """Return the density of the bulk at x > 0."""
        found = self.solve(x * (1 + 1j * RELATIVE_HEIGHT))
        density = np.maximum(0.0, found.response.R.sum(axis=1).imag / self.width / np.pi)
        return np.where(_physical(found), density, np.nan), found

    # -- real z, outside the bulk ----------------------------------------------------------------------------------

    def stability(self, first: FirstOrder) -> float:
        """Return the smallest eigenvalue of I - Ker W2 at a real solution; it vanishes at the edge."""
        squared = first.squared_weights
        if len(self.pi) <= PACKED_BLOCKS:
            product = response_matrix(first.equations, first.response) @ packed_coupling(first.equations, squared)
            return float(1 - np.max(np.linalg.eigvals(product[0]).real))
        Ker, _, _ = kernel(first.equations, first.response)
        root = np.sqrt(squared[0])
        return float(1 - np.linalg.eigvalsh(root[:, None] * Ker[0] * root)[-1])

    def upper_edge(self) -> float:
        """Return the upper edge of the bulk; inf where it has none (unbounded slope or residuals)."""
        return self.end() if self.bounded else np.inf

    def end(self) -> float:
        """Return where the bulk ends for these nodes, which are bounded even where the law is not."""
        start = 20 * self.mean * (1 + 1 / np.sqrt(self.ratio)) ** 2 * max(1.0, self.width)
        if self.batch is not None:
            return self._end_by_density(start)
        solver = _RealSolver(self, lambda z: (-z, 1.0), sign=-1)
        step = -0.2 * start
        while (value := solver(start + step)) is not None and value > 0.5:
            start += step
            step = -0.2 * start
        edge = march_to_edge(solver, start, step / 2)
        return np.nan if edge is None else edge

    def _end_by_density(self, top: float) -> float:
        """Return the largest x with a density, to 1e-6: after a finite batch a march on the real axis can go astray."""
        x = top * np.geomspace(1e-4, 1, 81)
        for _ in range(6):
            density, _ = self.density(x)
            lit = np.flatnonzero(np.nan_to_num(density) * x > 1e-4)
            if not lit.size or lit[-1] == len(x) - 1:
                return float(np.nan)
            x = np.linspace(x[lit[-1]], x[lit[-1] + 1], 17)
        return float(x[-1])

    def lower_edge(self) -> float:
        """Return the lower edge of the nonzero eigenvalues; 0 where the bulk reaches down to zero."""
        scale = self.mean
        if self.atom() > max(0.0, 1 - self.ratio) + 1e-6:  # rank deficient features (a linear activation with p > d)
            return self._scan_lower_edge()
        if self.ratio < 1:  # continue the ridgeless solution to negative ridge, in the kernel normalisation
            solver = _RealSolver(self, lambda z: (1.0, -z), sign=1)
            start = 0.0
        else:
            solver = _RealSolver(self, lambda z: (-z, 1.0), sign=1)
            start = -scale
        if solver(start) is None:
            return np.nan
        edge = march_to_edge(solver, start, 0.02 * scale)
        if edge is None or edge < 1e-8 * scale:
            return 0.0
        return edge

    def _scan_lower_edge(self) -> float:
        """Return where the density switches on, to about 1e-6 relative, by scanning it."""
        x = self.mean * np.geomspace(1e-6, 1, 61)
        density, _ = self.density(x)
        lit = np.flatnonzero(np.nan_to_num(density) * x > 1e-4)
        if not lit.size or lit[0] == 0:
            return 0.0
        low, high = x[lit[0] - 1], x[lit[0]]
        while high / low > 1 + 1e-6:
            middle = np.sqrt(low * high)
            if float(self.density(np.array([middle]))[0][0]) * middle > 1e-4:
                high = middle
            else:
                low = middle
        return float(high)

    def atom(self) -> float:
        """Return the fraction of zero eigenvalues: lim -z m(z) as z -> 0."""
        ridge = np.array([1e-9, 1e-11]) * self.mean
        one = np.ones(2)
        a, b = (one, ridge) if self.ratio < 1 else (ridge, one)
        first = solve_first_order(self.equations(a, b))
        masses = first.response.R.sum(axis=1) / self.width * a
        mass = float(10 * masses[1] - masses[0]) / 9  # at n = p it still falls as sqrt(ridge)
        return mass if mass > 1e-6 else 0.0

    # -- outliers --------------------------------------------------------------------------------------------------

    def outliers(self, edge: float, dim: float) -> Array:
        """Return the eigenvalues above the edge, largest first (7.4); inf for those that grow with the dimension."""
        if not np.isfinite(edge):
            edge = self.end()
        if not np.isfinite(edge):
            return np.empty(0)
        solver = _RealSolver(self, lambda z: (-z, 1.0), sign=-1)
        spikes = _Spikes(self, solver, dim)
        just_above = edge * (1 + (1e-6 if self.batch is None else 1e-3))
        if solver(4 * edge) is None or solver(just_above) is None:
            return np.empty(0)
        count = int(np.sum(spikes(just_above) > 1))
        found = []
        for place in range(count):
            low, high = just_above, 2 * edge
            while spikes(high)[place] > 1:
                low, high = high, 2 * high
            found.append(_crossing(partial(spikes.excess, place), low, high))
        growing = spikes.growing if np.isinf(dim) else 0
        return np.concatenate([np.full(growing, np.inf), np.sort(found)[::-1]])[:OUTLIER_ROOM]


def _crossing(function: Callable[[float], float], low: float, high: float) -> float:
    from scipy.optimize import brentq

    return float(brentq(function, low, high, xtol=1e-12 * high, rtol=1e-12))


class _RealSolver:
    """Solves at real z outside the bulk, each time from the nearest solution so far; returns the stability."""

    def __init__(self, bulk: Bulk, pair: Callable[[float], tuple[float, float]], sign: int) -> None:
        self.bulk, self.pair, self.sign = bulk, pair, sign
        self.solved: list[tuple[float, FirstOrder]] = []

    def at(self, z: float) -> FirstOrder | None:
        """Return the solution at z on the branch of the solutions so far, or None."""
        a, b = self.pair(z)
        equations = self.bulk.equations(np.array([a]), np.array([b]))
        if self.solved:
            near = min(self.solved, key=lambda pair: abs(pair[0] - z))[1]
            first = solve_first_order(equations, near, probe=True)
        else:
            first = solve_first_order(equations)
        proper = np.all(first.denominator > 0) and np.all(np.sign(first.response.R) == self.sign)
        if first.residual[0] > 1e-9 or not proper:
            return None
        return first

    def __call__(self, z: float) -> float | None:
        first = self.at(z)
        if first is None:
            return None
        value = self.bulk.stability(first)
        if value > 0:
            self.solved.append((z, first))
        return value


class _Spikes:
    """Eigenvalues of the spike matrix at real z above the edge; an outlier sits where one of them crosses 1."""

    def __init__(self, bulk: Bulk, solver: _RealSolver, dim: float) -> None:
        self.bulk, self.solver, self.dim = bulk, solver, dim
        tables = bulk.tables
        moments = (tables.mu0[0] * tables.weights[0]) @ tables.mu0[0].T
        eigenvalues = np.linalg.eigvalsh(moments)
        self.growing = int(np.sum(eigenvalues > 1e-10 * max(1.0, eigenvalues[-1]))) if eigenvalues[-1] > 1e-14 else 0

    def excess(self, place: int, z: float) -> float:
        """Return by how much the eigenvalue number `place` exceeds 1."""
        return float(self(z)[place]) - 1

    def __call__(self, z: float) -> Array:
        """Return the eigenvalues of sqrt|R| r E[B B^T/(1+V)] sqrt|R| with B = (sqrt(d) mu0, T), largest first."""
        first = self.solver.at(z)
        if first is None:
            return np.full(4 * len(self.bulk.pi), np.nan)
        if not any(known == z for known, _ in self.solver.solved):
            self.solver.solved.append((z, first))
        tables = self.bulk.tables
        k = len(self.bulk.pi)
        root = np.sqrt(np.abs(first.response.R[0]))[:, None]
        if self.bulk.batch is None:
            repeated = np.tile(root, (tables.channel.shape[1] // k, 1)) * np.sqrt(tables.omega[0])[:, None]
            channels = tables.channel[0] * repeated
        else:
            channels = batch_channels(first)[2][0]
        functions = np.concatenate([tables.mu0[0] * root, channels])
        matrix = (functions * first.node_weights[0]) @ functions.T
        if np.isfinite(self.dim):
            scale = np.concatenate([np.full(k, np.sqrt(self.dim)), np.ones(len(channels))])
            matrix = matrix * scale[:, None] * scale
            if self.bulk.batch is None:  # the means follow the stretch chi/sqrt(2 d) of the inputs
                stretch = tables.stretch[0] * root
                matrix[:k, :k] += 0.5 * (stretch * first.node_weights[0]) @ stretch.T
            return np.linalg.eigvalsh(matrix)[::-1]
        means, cross, rest = matrix[:k, :k], matrix[:k, k:], matrix[k:, k:]
        eliminated = rest - cross.T @ np.linalg.pinv(means, rcond=1e-10, hermitian=True) @ cross
        return np.linalg.eigvalsh(0.5 * (eliminated + eliminated.T))[::-1]


def _physical(found: FirstOrder) -> Booleans:
    return (found.residual < 1e-8) & np.all(found.response.R.imag > 0, axis=1)


def bounded_slope(activation: Function) -> bool:
    """Tell whether the activation grows at most linearly, so that the bulk has an upper edge for every spike."""
    far, near = np.array([1e4, -1e4]), np.array([1e2, -1e2])
    with np.errstate(over="ignore", invalid="ignore"):
        slopes = [np.max(np.abs(activation(z + 1) - activation(z))) for z in (far, near)]
    return bool(np.isfinite(slopes[0]) and slopes[0] <= 1.5 * max(slopes[1], 1.0))


def _bounded_residuals(scenario: OneStep) -> bool:
    """Tell whether the labels are bounded, so that the bulk after a finite batch has an upper edge."""
    z = np.concatenate([-np.geomspace(1, 1e4, 200), np.geomspace(1, 1e4, 200)])
    values = np.abs(scenario.target(z))
    return scenario.noise == 0 and bool(np.max(values) <= 1.5 * np.max(values[np.abs(z) < 5]))


# -- answers ---------------------------------------------------------------------------------------------------


@dataclass
class Law:
    """The whole law of one point: edges, atom, panels with the density on them, outliers."""

    bulk: Bulk
    lower: float
    upper: float
    atom: float
    panels: Panels
    on_panels: Array
    residual: float
    iterations: int

    def cdf(self, x: Array) -> Array:
        """Return the fraction of eigenvalues up to x, the atom at zero included, the outliers left out."""
        below = 1 - self.panels.tail(self.on_panels, x)
        return np.where(x < 0, 0.0, np.where(x < self.lower, self.atom, np.clip(below, self.atom, 1.0)))


def bulk_law(bulk: Bulk) -> Law:
    """Compute the law of one point."""
    upper, lower, atom = bulk.upper_edge(), bulk.lower_edge(), bulk.atom()
    reach = upper if np.isfinite(upper) else _far_quantile(bulk)
    panels = bulk_panels(lower if np.isfinite(lower) else 0.0, reach)
    values = np.zeros(panels.nodes.shape)
    residual, iterations = 0.0, 0
    fresh = np.ones(len(values), dtype=bool)
    for _ in range(MAX_REFINEMENTS):  # towards the edges of gaps, where p/d is large or small
        density, found = bulk.density(panels.nodes[fresh].ravel())
        values[fresh] = np.nan_to_num(density).reshape(-1, panels.order)
        residual = max(residual, float(np.max(found.residual)))
        iterations = max(iterations, int(np.max(found.iterations)))
        rough = (panels.roughness(values) > ROUGH) & (panels.right > 1e-3 * reach)
        if not rough.any():
            break
        panels, place = panels.split(rough)
        fresh = place < 0
        values = np.where(fresh[:, None], 0.0, values[place])
    else:
        density, _ = bulk.density(panels.nodes[fresh].ravel())
        values[fresh] = np.nan_to_num(density).reshape(-1, panels.order)
    return Law(bulk, lower, upper, atom, panels, values, residual, iterations)


def _far_quantile(bulk: Bulk) -> float:
    """Return a point that leaves a mass below 1e-6 above it, for a bulk without an upper edge."""
    x = bulk.mean * 2.0 ** np.arange(0, 16)
    density, _ = bulk.density(x)
    heavy = np.flatnonzero(np.nan_to_num(density) * x > 1e-6)
    return float(2 * x[heavy[-1]]) if heavy.size else float(x[4])


def bulks(scenario: OneStep, points: Points, models: Models) -> dict[int, Bulk]:
    """Return the bulk of every point."""
    found = {}
    few = len(second_layer_law(scenario)[1]) <= PACKED_BLOCKS
    order = SPECTRUM_NODES if few else KERNEL_NODES_PER_PANEL
    for index, model, tables in grouped_tables(scenario, points, models, order):
        here = {name: values[index] for name, values in points.items()}
        for place, point in enumerate(index):
            own = tables.take(np.array([place]))
            flat = bool(np.all(model.u[place] == 0))
            found[int(point)] = Bulk(
                own,
                model.pi,
                float(points["samples_per_dim"][point] / points["width_per_dim"][point]),
                float(points["width_per_dim"][point]),
                (flat or bounded_slope(scenario.activation)) and (model.batch is None or _bounded_residuals(scenario)),
                None if model.batch is None else model.batch.take(np.array([place])),
                bulk_row_scale(model, here)[place],
            )
    return found


def prepare(scenario: OneStep, points: Points, what: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Fill in the ``x`` of a spectrum: 120 cells of equal width from 0 to beyond the largest upper edge of the grid."""
    settings = dict(settings)
    if what == "spectrum":
        settings["x"] = (
            _checked_x(settings["x"]) if settings.get("x") is not None else _chosen_x(scenario, points, settings)
        )
    if what == "resolvent":
        settings["z"] = _checked_z(settings.get("z"))
    return settings


def _chosen_x(scenario: OneStep, points: Points, settings: Mapping[str, Any]) -> Array:
    reach = []
    scaled = at_finite_size(points)
    for bulk in bulks(scenario, scaled, choose_theory(scenario, points, settings.get("theory"))[0]).values():
        edge = bulk.upper_edge()
        edge = edge if np.isfinite(edge) else 6 * bulk.mean * (1 + 1 / np.sqrt(bulk.ratio)) ** 2
        reach.append(edge / (bulk.ratio if settings.get("normalisation") == "n" else 1.0))
    cells = 120
    return (np.arange(cells) + 0.5) * (1.08 * max(reach) / cells)


def _checked_x(x: Any) -> Array:
    try:
        values = np.asarray(x, dtype=float)
    except (TypeError, ValueError):
        values = np.empty(0)
    if (
        values.ndim != 1
        or not values.size
        or not np.all(np.isfinite(values))
        or np.any(values <= 0)
        or np.any(np.diff(values) <= 0)
    ):
        raise bad_field("x", x, "an increasing list of positive numbers")
    return values


def _checked_z(z: Any) -> Array:
    try:
        values = np.atleast_1d(np.asarray(z, dtype=complex))
    except (TypeError, ValueError):
        values = np.empty(0, complex)
    if z is None or values.ndim != 1 or not values.size or not np.all(np.isfinite(values)):
        raise bad_field("z", z, "a list of complex numbers off the positive real axis")
    if np.any((values.imag == 0) & (values.real >= 0)):
        raise bad_field("z", values[(values.imag == 0) & (values.real >= 0)][0], "off the positive real axis")
    return values


_COUNTED: dict[Any, Integers] = {}


def outlier_counts(scenario: OneStep, points: Points, settings: Mapping[str, Any]) -> Integers:
    """Return how many eigenvalues the limit places above the bulk at each point, for the dimension of the point.

    The last answers are kept, because every trial of an experiment asks the same.
    """
    key = (scenario.digest(), settings.get("theory"), *((name, values.tobytes()) for name, values in points.items()))
    if key not in _COUNTED:
        if len(_COUNTED) >= 64:
            _COUNTED.clear()
        _COUNTED[key] = _count_outliers(scenario, points, settings)
    return _COUNTED[key]


@np.errstate(all="ignore")
def _count_outliers(scenario: OneStep, points: Points, settings: Mapping[str, Any]) -> Integers:
    models, _ = choose_theory(scenario, points, settings.get("theory"))
    found = bulks(scenario, at_finite_size(points), models)
    dims = points["dim"]
    return np.array([len(found[i].outliers(found[i].upper_edge(), dims[i])) for i in range(len(dims))])


def spectrum(scenario: OneStep, points: Points, models: Models, settings: Mapping[str, Any]) -> Answer:
    """Answer ``what="spectrum"``: density, distribution, edges, atom and outliers at every point."""
    x = settings["x"]
    count = len(points["ridge"])
    values: dict[str, Array] = {name: np.full((count, len(x)), np.nan) for name in ("density", "cdf")}
    values |= {name: np.full(count, np.nan) for name in ("lower_edge", "upper_edge", "atom", "mean_eigenvalue")}
    values["outliers"] = np.full((count, OUTLIER_ROOM), np.nan)
    status = np.full(count, "", dtype=object)
    residual, iterations = np.full(count, np.nan), np.zeros(count, dtype=np.int64)
    warnings: list[str] = []
    for point, bulk in bulks(scenario, points, models).items():
        scale = bulk.ratio if settings.get("normalisation") == "n" else 1.0
        law = bulk_law(bulk)
        density, found = bulk.density(scale * x)
        outside = (scale * x > law.upper) | (scale * x < law.lower)
        values["density"][point] = scale * np.where(outside, 0.0, density)
        values["cdf"][point] = law.cdf(scale * x)
        values["lower_edge"][point], values["upper_edge"][point] = law.lower / scale, law.upper / scale
        values["atom"][point] = law.atom
        values["mean_eigenvalue"][point] = bulk.mean / scale
        outliers = bulk.outliers(law.upper, float(points["dim"][point]))
        values["outliers"][point, : len(outliers)] = outliers / scale
        residual[point] = max(law.residual, float(np.max(found.residual)))
        iterations[point] = max(law.iterations, int(np.max(found.iterations)))
        if np.isnan(law.upper) or np.isnan(law.lower):
            status[point] = "an edge of the bulk was not found"
        elif abs(law.panels.integral(law.on_panels) + law.atom - 1) > MASS_TOLERANCE:
            status[point] = (
                f"the density has mass {law.panels.integral(law.on_panels):.3f} beside an atom of {law.atom:.3f}"
            )
        elif np.isnan(density).any():
            status[point] = f"the density was not solved at {np.isnan(density).sum()} of {len(x)} values of x"
        if np.isinf(law.upper) and not warnings:
            warnings.append(
                "The bulk has no upper edge: the activation's slope or the batch's residuals are unbounded."
            )
    return Answer(values, status.astype(str), residual, iterations, {"x": x}, warnings)


def resolvent(scenario: OneStep, points: Points, models: Models, settings: Mapping[str, Any]) -> Answer:
    """Answer ``what="resolvent"``: the deterministic equivalent of the resolvent at complex z."""
    z = settings["z"]
    count, blocks = len(points["ridge"]), scenario.blocks
    shapes = {"m": (), "V2": (blocks,), "V1": (blocks, blocks)}
    complex_values = {name: np.full((count, len(z), *shape), np.nan + 0j) for name, shape in shapes.items()}
    status = np.full(count, "", dtype=object)
    residual, iterations = np.full(count, np.nan), np.zeros(count, dtype=np.int64)
    upper = np.where(z.imag < 0, z.conj(), z)  # m(conj z) = conj m(z)
    upper = upper + 1j * np.where(upper.imag == 0, 1e-14 * np.abs(upper), 0.0)
    for point, bulk in bulks(scenario, points, models).items():
        found = bulk.solve(upper)
        V1, V2 = bulk.row_scale[:, None] * found.response.S * bulk.row_scale / bulk.width, found.response.R / bulk.width
        if scenario.second_layer == "gaussian":
            V1, V2 = V1.sum(axis=(1, 2), keepdims=True), V2.sum(axis=1, keepdims=True)
        for name, array in (("m", V2.sum(axis=1)), ("V2", V2), ("V1", V1)):
            flipped = (z.imag < 0).reshape((-1,) + (1,) * (array.ndim - 1))
            complex_values[name][point] = np.where(flipped, array.conj(), array)
        residual[point], iterations[point] = np.max(found.residual), np.max(found.iterations)
        if not _physical(found).all():
            status[point] = f"not solved at {np.sum(~_physical(found))} of {len(z)} values of z"
    values = {}
    for name, array in complex_values.items():
        values[f"{name}_real"], values[f"{name}_imag"] = array.real, array.imag
    return Answer(values, status.astype(str), residual, iterations, {"z": z})

"""Averages of a target over some directions, given the others: E[g | kappa], E[xi g | kappa], ... at nodes of kappa.

z ~ N(0, I_r) is a linear image of independent kappa in R^m and xi in R^L, all standard normal. Nodes and weights
integrate over kappa what is smooth on a given scale; planes on which the target is not smooth break the rules: of kappa
where they lie in its space, of xi, at every node of kappa, where they cut across.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from giantstep.blocks import split_rows
from giantstep.gaussian.grids import BOUND, even_rule, hermite_rule, too_many, with_axis, with_crossings
from giantstep.gaussian.joint import even_points
from giantstep.gaussian.quadrature import gauss_legendre_panels, normal_density
from giantstep.gaussian.subspaces import Directions
from giantstep.gaussian.target import Plane, Target, turned_planes
from giantstep.types import Floats, Integers

PANEL_NODES = 12
"""Gauss-Legendre nodes of a panel between breaks."""
MOST_AXES = 3
"""Directions of kappa up to which product rules are affordable; Sobol points beyond."""
SOBOL_POWER = 16
"""2^17 points with their opposites: three digits of a test error."""
MOST_NODES = 2_000_000
"""Nodes of kappa."""
MOST_VALUES = 400_000_000
"""Values of the target that one table may need."""
MOST_JOINT = 50_000_000
"""Nodes of kappa with those of negligible weight, before they are left out."""
_CHUNK = 1 << 20
"""Values of the target held at a time (8 MB)."""
_STEPS = {1: (0.1, 0.45), 2: (0.2, 0.45), 3: (0.3, 0.75)}
"""Largest step in each direction, and its multiple of the scale, by the number of directions: 1e-12, 1e-12 and 1e-8."""
WIDEST_SCALE = 0.45
"""Scale above which the rules do not change."""
SMEARED = 0.5
"""Width on an axis of kappa below which a plane that turns into other axes needs breaks of its own there."""
_INNER_STEPS = {1: 0.08, 2: 0.15}
"""By the number of directions that are averaged out; 0.3 for more."""


@dataclass(frozen=True)
class ConditionalTarget:
    """A target at N nodes of kappa: E[g], E[xi g], E[xi xi^T g] and E[g^2] given kappa."""

    nodes: Floats  # (N, m)
    weights: Floats  # (N,), they sum to one
    h: Floats  # (N,)
    h1: Floats  # (N, L)
    h2: Floats  # (N, L, L)
    square: Floats  # (N,)


def condition(
    target: Target,
    learnt: Floats,
    rest: Floats,
    scale: float | Sequence[float],
    fineness: float = 1.0,
    breaks: Sequence[Plane] = (),
    *,
    sampled: bool = False,
) -> ConditionalTarget:
    """Return the target of z = learnt kappa + rest xi given kappa, for functions of kappa that vary on `scale`.

    Both matrices, (r, m) and (r, L), have orthonormal rows together; columns of `rest` that are zero come last. `scale`
    is that of all axes, or one for each; two values of `fineness` measure the error. Functions of kappa are not smooth
    on `breaks`, further planes of z. Scales too small for a product rule take random points (`sampled`).
    """
    rules = Rules.of(target, learnt, rest, breaks)
    few = rules.learnt <= MOST_AXES and not sampled
    if few:
        nodes, weights = product_rule(rules, scale, fineness)
    else:  # another fineness is another scrambling, so that two of them measure the error
        from scipy.stats import qmc

        sobol = qmc.Sobol(rules.learnt, seed=rules.learnt + round(1000 * fineness))
        nodes, weights = even_points(sobol.random_base2(SOBOL_POWER if fineness >= 1 else SOBOL_POWER - 1))
    inner = rules.inner(fineness)
    values = len(inner[0]) ** rules.averaged
    if len(nodes) * values > MOST_VALUES:
        raise too_many(len(nodes) * values)
    moments = [_averages(rules, nodes[part], inner) for part in split_rows(len(nodes), values, _CHUNK)]
    h, h1, h2, square = (np.concatenate(column) for column in zip(*moments))
    active, idle = rules.averaged, rest.shape[1] - rules.averaged
    if idle:
        h1 = np.pad(h1, ((0, 0), (0, idle)))
        h2 = np.pad(h2, ((0, 0), (0, idle), (0, idle)))
        h2[:, range(active, active + idle), range(active, active + idle)] = h[:, None]
    return ConditionalTarget(nodes, weights, h, h1, h2, square)


def coarsened(scale: float) -> float:
    """Return the next smaller of few scales on which functions may vary; one for all that are wide."""
    # steep features have fine structure in every panel, not in one of many: 0.8 leaves 1e-9 of them
    octaves = np.floor(2 * np.log2(scale / WIDEST_SCALE)) / 2
    return WIDEST_SCALE if scale >= WIDEST_SCALE else 0.8 * WIDEST_SCALE * 2.0**octaves


@dataclass(frozen=True)
class Rules:
    """A target in the coordinates (kappa, xi): how many are learnt, and the planes on which rules break."""

    target: Target
    basis: Floats  # (r, m + L), without directions that the target does not see
    learnt: int
    planes: list[Plane]

    @classmethod
    def of(cls, target: Target, learnt: Floats, rest: Floats, breaks: Sequence[Plane] = ()) -> Rules:
        """Turn the target."""
        active = int(np.sum(np.linalg.norm(rest, axis=0) > 1e-12))
        basis = np.concatenate([learnt, rest[:, :active]], axis=1)
        turned = turned_planes((*target.planes, *breaks), basis)
        return cls(target, basis, learnt.shape[1], with_crossings(turned, basis.shape[1]))

    @property
    def averaged(self) -> int:
        """Number of directions that are averaged out."""
        return self.basis.shape[1] - self.learnt

    def inner(self, fineness: float) -> tuple[Floats, Floats]:
        """Return the rule of an axis that is averaged out, where it does not break."""
        if self.target.degree is not None:
            return hermite_rule(self.target.degree + 2)
        return even_rule(_INNER_STEPS.get(self.averaged, 0.3) / fineness)


def product_rule(rules: Rules, scale: float | Sequence[float], fineness: float) -> tuple[Floats, Floats]:
    """Return nodes (N, m) of kappa and weights of a rule that is broken where a plane cuts an axis."""
    m, planes = rules.learnt, rules.planes
    scales = np.broadcast_to(scale, m).tolist()
    largest, multiple = _STEPS.get(m, (0.4, 1.0))
    reach = 9.0 if m < 3 else 7.6
    nodes, weights = np.zeros((1, 0)), np.ones(1)
    for axis, own in enumerate(scales):
        step = min(largest, multiple * own) / fineness
        panel = min(1.0, 2.5 * own) / fineness
        soft = [plane for plane in planes if _width(plane, axis) < SMEARED]
        row, last, mass = _axis_rule(nodes, weights, planes, axis, even_rule(step, reach), panel, MOST_JOINT, soft)
        if len(row) > MOST_NODES:
            raise too_many(len(row))
        nodes, weights = np.concatenate([nodes[row], last[:, None]], axis=1), mass
    return nodes, weights / weights.sum()


def inner_points(rules: Rules, nodes: Floats, inner: tuple[Floats, Floats]) -> tuple[Floats, Floats, Integers]:
    """Return points (kappa, xi) of a rule over xi at every node of kappa, their weights, and the node of each."""
    points, weights, owner = nodes, np.ones(len(nodes)), np.arange(len(nodes))
    for axis in range(rules.learnt, rules.basis.shape[1]):
        row, last, weights = _axis_rule(points, weights, rules.planes, axis, inner, 1.0)
        points, owner = np.concatenate([points[row], last[:, None]], axis=1), owner[row]
    return points, weights, owner


def _averages(rules: Rules, nodes: Floats, inner: tuple[Floats, Floats]) -> tuple[Floats, Floats, Floats, Floats]:
    """Integrate the target over xi at some nodes of kappa."""
    count, m, L = len(nodes), rules.learnt, rules.averaged
    points, weights, owner = inner_points(rules, nodes, inner)
    mass = np.bincount(owner, weights, count)
    values = rules.target(points @ rules.basis.T) * weights
    xi = points[:, m:]
    collect = lambda terms: np.bincount(owner, terms, count) / mass  # noqa: E731
    h1, h2 = np.zeros((count, L)), np.zeros((count, L, L))
    for i in range(L):
        h1[:, i] = collect(values * xi[:, i])
        for j in range(i, L):
            h2[:, i, j] = h2[:, j, i] = collect(values * xi[:, i] * xi[:, j])
    square = collect(np.where(weights > 0, values**2 / np.where(weights > 0, weights, 1.0), 0.0))
    return collect(values), h1, h2, square


def _axis_rule(
    points: Floats,
    weights: Floats,
    planes: Sequence[Plane],
    axis: int,
    smooth: tuple[Floats, Floats],
    width: float,
    most: int = MOST_VALUES,
    soft: Sequence[Plane] = (),
) -> tuple[Integers, Floats, Floats]:
    """Return, for one more axis, which point each node extends, its coordinate and its weight."""
    breaking = [*(plane for plane in planes if plane.last_axis == axis), *soft]
    nodes, mass = smooth[0][None, :], smooth[1][None, :]
    if breaking:
        breaks = [
            -(plane.offset + points[:, :axis] @ np.array(plane.normal[:axis])) / plane.normal[axis]
            for plane in breaking
        ]
        panels = np.linspace(-BOUND, BOUND, int(np.ceil(2 * BOUND / width)) + 1)
        columns = [np.broadcast_to(panels, (len(points), len(panels))), np.stack(breaks, axis=1)]
        # nearly parallel planes that turn into a later axis, and what a soft plane is smeared over
        turning = [abs(p.normal[p.last_axis] / p.normal[axis]) for p in planes if p.last_axis > axis and p.normal[axis]]
        graded = [width for width in turning if width < 1]
        for plane, at in zip(breaking, breaks):
            widths = [*graded, _width(plane, axis)] if plane in soft else graded
            columns += [at[:, None] + _around(width) for width in widths]
        count = len(points) * PANEL_NODES * sum(column.shape[1] for column in columns)
        if count > most:
            raise too_many(count)
        edges = np.sort(np.clip(np.concatenate(columns, axis=1), -BOUND, BOUND), axis=1)
        nodes, mass = gauss_legendre_panels(edges, PANEL_NODES)
        mass = mass * normal_density(nodes)
    return with_axis(weights, nodes, mass, most)


def _width(plane: Plane, axis: int) -> float:
    """Return over which distance on an axis a plane that turns into later axes is smeared; inf where it does not."""
    own, later = abs(plane.normal[axis]), float(np.linalg.norm(plane.normal[axis + 1 :]))
    return later / own if later > 1e-12 and own > 1e-12 else np.inf


def _around(width: float) -> Floats:
    """Return breaks around a place, from a width on by octaves (1, breaks)."""
    shift = 2.0 ** np.arange(int(np.ceil(np.log2(2 / width))) + 1) * width
    return np.concatenate([shift, -shift])[None, :]


# -- Averages with the residual of a target, over the rule of its nodes: what a gradient is made of -------


class Residual:
    """E[res f], E[res f zt] and E[res f zt zt^T] for functions f of kappa (M, k, N), res = kept y - output(kappa)."""

    def __init__(self, given: ConditionalTarget, basis: Directions, kept: Floats, output: Floats) -> None:
        self.given, self.output, self.kept = given, output, kept
        self.turn = np.concatenate([basis.learnt, basis.rest], axis=1)
        self.res = kept[:, None] * given.h - output

    def mean(self, f: Floats) -> Floats:
        """Return E[res f] (M, k)."""
        return (f @ (self.given.weights * self.res)[:, :, None])[:, :, 0]

    def linear(self, f: Floats) -> Floats:
        """Return E[res f zt] (M, k, R)."""
        weighted = self.given.weights * f
        learnt = (weighted * self.res[:, None]) @ self.given.nodes
        return np.concatenate([learnt, self.kept[:, None, None] * (weighted @ self.given.h1)], axis=2) @ self.turn.T

    def quadratic(self, f: Floats, columns: Floats) -> Floats:
        """Return E[res f zt zt^T] columns (M, k, R, C): E[res f] times them beside the directions that res sees."""
        given, weighted = self.given, self.given.weights * f
        m, L = given.nodes.shape[1], given.h1.shape[1]
        matrix = np.empty((*f.shape[:2], m + L, m + L))
        along = given.nodes.T
        matrix[..., :m, :m] = ((weighted * self.res[:, None])[:, :, None, :] * along) @ given.nodes
        matrix[..., :m, m:] = self.kept[:, None, None, None] * ((weighted[:, :, None, :] * along) @ given.h1)
        matrix[..., m:, :m] = np.swapaxes(matrix[..., :m, m:], 2, 3)
        bent = (weighted @ given.h2.reshape(len(given.h2), -1)).reshape(*f.shape[:2], L, L)
        said = (weighted @ self.output[:, :, None])[..., None]
        matrix[..., m:, m:] = self.kept[:, None, None, None] * bent - said * np.eye(L)
        inside = self.turn.T @ columns
        return self.mean(f)[..., None, None] * (columns - self.turn @ inside) + self.turn @ (matrix @ inside)

    def power(self, noise: Floats) -> Floats:
        """Return E[(y - f)^2 | kappa] (M, N)."""
        cross = 2 * self.kept[:, None] * self.given.h * self.output
        return self.given.square - cross + self.output**2 + noise[:, None]

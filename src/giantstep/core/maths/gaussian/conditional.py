"""Averages of a target over some directions, given the others: E[g | kappa], E[xi g |
kappa], ... at nodes of kappa.

z ~ N(0, I_r) is a linear image of independent kappa in R^m and xi in R^L, all standard
normal. Nodes and weights integrate over kappa what is smooth on a given scale; planes
on which the target is not smooth break the rules: of kappa where they lie in its space,
of xi, at every node of kappa, where they cut across.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from giantstep.core.base.chunks import split_rows, with_zeros
from giantstep.core.base.types import Floats, Integers
from giantstep.core.maths.gaussian import grids
from giantstep.core.maths.gaussian.joint import even_points
from giantstep.core.maths.gaussian.planes import Plane, turned_planes
from giantstep.core.maths.gaussian.resolution import (
    COARSE_STEP,
    LARGEST_STEP,
    PANEL_NODES,
)
from giantstep.core.maths.gaussian.target import Target

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
_MULTIPLES = {1: 0.45, 2: 0.45, 3: 0.75}
"""Step in units of the scale, by the number of directions; 1 for more: with
`LARGEST_STEP` 1e-12, 1e-12 and 1e-8.
"""
_REACH_OF_FEW = 9.0
_REACH_OF_MANY = 7.6
"""Where even rules end, in one or two directions and in more: the normal density is
1e-18 and 1e-13 there.
"""
WIDEST_SCALE = 0.45
"""Scale above which the rules do not change."""
SMEARED = 0.5
"""Width on an axis of kappa below which a plane that turns into other axes needs breaks
of its own there.
"""
_INNER_STEPS = {1: 0.08, 2: 0.15}
"""By the number of directions that are averaged out; 0.3 for more."""


@dataclass(frozen=True)
class ConditionalTarget:
    """A target at N nodes of kappa: E[g], E[xi g], E[xi xi^T g] and E[g^2] given
    kappa.
    """

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
    """Return the target of z = learnt kappa + rest xi given kappa, for functions of
    kappa that vary on `scale`.

    Both matrices, (r, m) and (r, L), have orthonormal rows together; columns of `rest`
    that are zero come last. `scale` is that of all axes, or one for each; two values of
    `fineness` measure the error. Functions of kappa are not smooth on `breaks`, further
    planes of z. Scales too small for a product rule take random points (`sampled`).
    """
    # while nothing is learnt no network is seen: the target keeps these averages
    at_start = not (learnt.size or breaks) and np.array_equal(rest, np.eye(len(rest)))
    if at_start and fineness in target.averages_at_start:
        return target.averages_at_start[fineness]
    rules = Rules.of(target, learnt, rest, breaks)
    if rules.learnt <= MOST_AXES and not sampled:
        nodes, weights = product_rule(rules, scale, fineness)
    else:
        # another fineness is another scrambling, so that two of them measure the error
        power = SOBOL_POWER
        if fineness < 1:
            power = SOBOL_POWER - 1
        seed = rules.learnt + round(1000 * fineness)
        nodes, weights = even_points(rules.learnt, power, seed)
    given = _conditioned(rules, nodes, weights, fineness, rest=rest.shape[1])
    if at_start:
        target.averages_at_start[fineness] = given
    return given


def _conditioned(
    rules: Rules, nodes: Floats, weights: Floats, fineness: float, rest: int
) -> ConditionalTarget:
    """Return the averages at all nodes, in the coordinates of all `rest` directions."""
    inner = rules.inner(fineness)
    values_of_node = len(inner[0]) ** rules.averaged
    if len(nodes) * values_of_node > MOST_VALUES:
        raise grids.too_many(len(nodes) * values_of_node)
    parts = []
    for part in split_rows(len(nodes), values_of_node, _CHUNK):
        parts.append(_averages(rules, nodes[part], inner))
    h, h1, h2, square = (np.concatenate(column) for column in zip(*parts))
    active = rules.averaged
    if rest > active:
        # along directions that the target does not see xi is free: E[xi xi^T g] = E g
        h1 = with_zeros(h1, (len(h1), rest))
        h2 = with_zeros(h2, (len(h2), rest, rest))
        free = range(active, rest)
        h2[:, free, free] = h[:, None]
    return ConditionalTarget(
        nodes=nodes, weights=weights, h=h, h1=h1, h2=h2, square=square
    )


def coarsened(scale: Floats | float) -> Floats:
    """Return the next smaller of few scales on which functions may vary; one for all
    that are wide.
    """
    # steep features have fine structure in every panel, not in one of many: 0.8 leaves
    # 1e-9 of them
    octaves = np.floor(2 * np.log2(scale / WIDEST_SCALE)) / 2
    return np.where(
        scale >= WIDEST_SCALE, WIDEST_SCALE, 0.8 * WIDEST_SCALE * 2.0**octaves
    )


@dataclass(frozen=True)
class Rules:
    """A target in the coordinates (kappa, xi): how many are learnt, and the planes on
    which rules break.
    """

    target: Target
    basis: Floats  # (r, m + L), without directions that the target does not see
    learnt: int
    planes: list[Plane]

    @classmethod
    def of(
        cls, target: Target, learnt: Floats, rest: Floats, breaks: Sequence[Plane] = ()
    ) -> Rules:
        """Turn the target."""
        active = int(np.sum(np.linalg.norm(rest, axis=0) > 1e-12))
        basis = np.concatenate([learnt, rest[:, :active]], axis=1)
        turned = turned_planes((*target.planes, *breaks), basis)
        # across the breaks at narrow places the target is smooth: where they cross each
        # other nothing happens
        narrow = turned_planes(target.resolution.breaks, basis)
        planes = [*grids.with_crossings(turned, basis.shape[1]), *narrow]
        return cls(target, basis, learnt.shape[1], planes)

    @property
    def averaged(self) -> int:
        """Number of directions that are averaged out."""
        return self.basis.shape[1] - self.learnt

    def inner(self, fineness: float) -> tuple[Floats, Floats]:
        """Return the rule of an axis that is averaged out, where it does not break."""
        if self.target.degree is not None:
            return grids.hermite_rule(self.target.degree + 2)
        return grids.even_rule(
            _INNER_STEPS.get(self.averaged, 0.3)
            / (fineness * self.target.resolution.steps)
        )


def product_rule(
    rules: Rules, scale: float | Sequence[float], fineness: float
) -> tuple[Floats, Floats]:
    """Return nodes (N, m) of kappa and weights of a rule that is broken where a plane
    cuts an axis.
    """
    m = rules.learnt
    resolution = rules.target.resolution
    largest = LARGEST_STEP.get(m, COARSE_STEP) / resolution.steps
    multiple = _MULTIPLES.get(m, 1.0)
    reach = _REACH_OF_FEW if m < 3 else _REACH_OF_MANY
    nodes = np.zeros((1, 0))
    weights = np.ones(1)
    for axis, axis_scale in enumerate(np.broadcast_to(scale, m).tolist()):
        step = min(largest, multiple * axis_scale) / fineness
        width = min(1.0 / resolution.panels, 2.5 * axis_scale) / fineness
        smooth = grids.even_rule(step, reach)
        soft = [plane for plane in rules.planes if _width(plane, axis) < SMEARED]
        row, last, weights = _axis_rule(
            nodes, weights, rules.planes, axis, smooth, width, MOST_JOINT, soft
        )
        if len(row) > MOST_NODES:
            raise grids.too_many(len(row))
        nodes = np.concatenate([nodes[row], last[:, None]], axis=1)
    return nodes, weights / weights.sum()


def inner_points(
    rules: Rules, nodes: Floats, inner: tuple[Floats, Floats]
) -> tuple[Floats, Floats, Integers]:
    """Return points (kappa, xi) of a rule over xi at every node of kappa, their
    weights, and the node of each.
    """
    points = nodes
    weights = np.ones(len(nodes))
    owner = np.arange(len(nodes))
    width = 1.0 / rules.target.resolution.panels
    for axis in range(rules.learnt, rules.basis.shape[1]):
        row, last, weights = _axis_rule(
            points, weights, rules.planes, axis, inner, width
        )
        points = np.concatenate([points[row], last[:, None]], axis=1)
        owner = owner[row]
    return points, weights, owner


def _averages(
    rules: Rules, nodes: Floats, inner: tuple[Floats, Floats]
) -> tuple[Floats, Floats, Floats, Floats]:
    """Integrate the target over xi at some nodes of kappa."""
    count = len(nodes)
    m = rules.learnt
    L = rules.averaged
    points, weights, owner = inner_points(rules, nodes, inner)
    mass = np.bincount(owner, weights, count)
    values = rules.target(points @ rules.basis.T)
    xi = points[:, m:]
    weighted = values * weights

    def given_node(terms: Floats) -> Floats:
        return np.bincount(owner, terms, count) / mass

    h1 = np.zeros((count, L))
    h2 = np.zeros((count, L, L))
    for i in range(L):
        along = weighted * xi[:, i]
        h1[:, i] = given_node(along)
        for j in range(i, L):
            moment = given_node(along * xi[:, j])
            h2[:, i, j] = moment
            h2[:, j, i] = moment
    return given_node(weighted), h1, h2, given_node(weighted * values)


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
    """Return, for one more axis, which point each node extends, its coordinate and its
    weight.
    """
    breaking = [*(plane for plane in planes if plane.last_axis == axis), *soft]
    nodes = smooth[0][None, :]
    mass = smooth[1][None, :]
    if breaking:
        edges = int(np.ceil(2 * grids.BOUND / width)) + 1
        graded = _turning_widths(planes, axis)
        columns = []
        for plane in breaking:
            widths = graded
            if plane in soft:
                widths = [*graded, _width(plane, axis)]
            columns.append(grids.cut(plane, points, axis)[:, None] + _shifts(widths))
        breaks = np.concatenate(columns, axis=1)
        count = len(points) * PANEL_NODES * (edges + breaks.shape[1])
        if count > most:
            raise grids.too_many(count)
        nodes, mass = grids.moving_panels(breaks, edges, PANEL_NODES)
    return grids.with_axis(weights, nodes, mass, most)


def _turning_widths(planes: Sequence[Plane], axis: int) -> list[float]:
    """Return over which distances on an axis planes turn into a later one, below 1:
    where nearly parallel planes do, rules change on such a scale.
    """
    widths = []
    for plane in planes:
        if plane.last_axis > axis and plane.normal[axis]:
            widths.append(abs(plane.normal[plane.last_axis] / plane.normal[axis]))
    return sorted({width for width in widths if width < 1})


def _shifts(widths: Sequence[float]) -> Floats:
    """Return where rules break beside a plane: at the place itself, and around it from
    every width on by octaves, until panels are as wide as 2.
    """
    shifts = []
    for width in widths:
        octaves = int(np.ceil(np.log2(2 / width))) + 1
        shifts.append(2.0 ** np.arange(octaves) * width)
    return np.concatenate([[0.0], *shifts, *(-above for above in shifts)])


def _width(plane: Plane, axis: int) -> float:
    """Return over which distance on an axis a plane that turns into later axes is
    smeared; inf where it does not.
    """
    along = abs(plane.normal[axis])
    later = float(np.linalg.norm(plane.normal[axis + 1 :]))
    if later > 1e-12 and along > 1e-12:
        return later / along
    return np.inf

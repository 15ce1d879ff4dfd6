"""Averages of a target over some directions, given the others: E[g | kappa], E[xi g |
kappa], ... at nodes of kappa.

z ~ N(0, I_r) is a linear image of independent kappa in R^m and xi in R^L, all standard
normal. Nodes and weights integrate over kappa what is smooth on a given scale; planes
on which the target is not smooth break the rules: of kappa where they lie in its space,
of xi, at every node of kappa, where they cut across.

For the law of noisy labels the rule over xi and the label noise, thousands of points at
every node of kappa, is carried over to a few nodes of the label by local interpolation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.polynomial.legendre import leggauss, legvander

from giantstep.core.base.chunks import split_rows, with_zeros
from giantstep.core.base.deadline import check_time
from giantstep.core.base.types import Floats, Integers
from giantstep.core.maths.gaussian import grids
from giantstep.core.maths.gaussian.planes import Plane, turned_planes
from giantstep.core.maths.gaussian.resolution import (
    COARSE_STEP,
    LARGEST_STEP,
    PANEL_NODES,
)
from giantstep.core.maths.gaussian.subspaces import Directions
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
    # while nothing is learnt no network is seen: the target keeps what is asked for
    # then
    at_start = not (learnt.size or breaks) and np.array_equal(rest, np.eye(len(rest)))
    kept: dict[float, ConditionalTarget]
    if at_start:
        kept = vars(target).setdefault("_at_start", {})
    else:
        kept = {}
    if fineness in kept:
        return kept[fineness]
    rules = Rules.of(target, learnt, rest, breaks)
    if rules.learnt <= MOST_AXES and not sampled:
        nodes, weights = product_rule(rules, scale, fineness)
    # another fineness is another scrambling, so that two of them measure the error
    else:
        power = SOBOL_POWER - (fineness < 1)
        seed = rules.learnt + round(1000 * fineness)
        nodes, weights = grids.even_points(rules.learnt, power, seed)
    inner = rules.inner(fineness)
    values = len(inner[0]) ** rules.averaged
    if len(nodes) * values > MOST_VALUES:
        raise grids.too_many(len(nodes) * values)
    moments = [
        _averages(rules, nodes[part], inner)
        for part in split_rows(len(nodes), values, _CHUNK)
    ]
    h, h1, h2, square = (np.concatenate(column) for column in zip(*moments))
    active = rules.averaged
    idle = rest.shape[1] - rules.averaged
    if idle:
        h1 = with_zeros(h1, (len(h1), active + idle))
        h2 = with_zeros(h2, (len(h2), active + idle, active + idle))
        h2[:, range(active, active + idle), range(active, active + idle)] = h[:, None]
    return kept.setdefault(
        fineness, ConditionalTarget(nodes, weights, h, h1, h2, square)
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
    planes = rules.planes
    scales = np.broadcast_to(scale, m).tolist()
    resolution = rules.target.resolution
    largest = LARGEST_STEP.get(m, COARSE_STEP) / resolution.steps
    multiple = _MULTIPLES.get(m, 1.0)
    reach = 9.0 if m < 3 else 7.6
    nodes = np.zeros((1, 0))
    weights = np.ones(1)
    for axis, own in enumerate(scales):
        smooth = grids.even_rule(min(largest, multiple * own) / fineness, reach)
        panel = min(1.0 / resolution.panels, 2.5 * own) / fineness
        soft = [plane for plane in planes if _width(plane, axis) < SMEARED]
        row, last, mass = _axis_rule(
            nodes, weights, planes, axis, smooth, panel, MOST_JOINT, soft
        )
        if len(row) > MOST_NODES:
            raise grids.too_many(len(row))
        nodes = np.concatenate([nodes[row], last[:, None]], axis=1)
        weights = mass
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
    collect = lambda terms: np.bincount(owner, terms, count) / mass  # noqa: E731
    h1 = np.zeros((count, L))
    h2 = np.zeros((count, L, L))
    for i in range(L):
        along = weighted * xi[:, i]
        h1[:, i] = collect(along)
        for j in range(i, L):
            h2[:, i, j] = h2[:, j, i] = collect(along * xi[:, j])
    return collect(weighted), h1, h2, collect(weighted * values)


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
        columns = []
        # nearly parallel planes that turn into a later axis, and what a soft plane is
        # smeared over
        turning = [
            abs(p.normal[p.last_axis] / p.normal[axis])
            for p in planes
            if p.last_axis > axis and p.normal[axis]
        ]
        graded = sorted({width for width in turning if width < 1})
        for plane in breaking:
            # breaks at the place itself, and around it from every width on by octaves
            widths = [*graded, _width(plane, axis)] if plane in soft else graded
            shifts = [
                2.0 ** np.arange(int(np.ceil(np.log2(2 / width))) + 1) * width
                for width in widths
            ]
            shift = np.concatenate([[0.0], *shifts, *(-own for own in shifts)])
            columns.append(grids.cut(plane, points, axis)[:, None] + shift)
        count = (
            len(points)
            * PANEL_NODES
            * (edges + sum(column.shape[1] for column in columns))
        )
        if count > most:
            raise grids.too_many(count)
        nodes, mass = grids.moving_panels(
            np.concatenate(columns, axis=1), edges, PANEL_NODES
        )
    return grids.with_axis(weights, nodes, mass, most)


def _width(plane: Plane, axis: int) -> float:
    """Return over which distance on an axis a plane that turns into later axes is
    smeared; inf where it does not.
    """
    own = abs(plane.normal[axis])
    later = float(np.linalg.norm(plane.normal[axis + 1 :]))
    return later / own if later > 1e-12 and own > 1e-12 else np.inf


# -- Averages with the residual of a target, over the rule of its nodes: what a gradient


class Residual:
    """E[res f], E[res f zt] and E[res f zt zt^T] for functions f of kappa (M, k, N),
    res = kept y - output(kappa).
    """

    def __init__(
        self, given: ConditionalTarget, basis: Directions, kept: Floats, output: Floats
    ) -> None:
        self.given = given
        self.output = output
        self.kept = kept
        self.turn = np.concatenate([basis.learnt, basis.rest], axis=1)
        self.res = kept[:, None] * given.h - output

    def mean(self, f: Floats) -> Floats:
        """Return E[res f] (M, k)."""
        return (f @ (self.given.weights * self.res)[:, :, None])[:, :, 0]

    def linear(self, f: Floats) -> Floats:
        """Return E[res f zt] (M, k, R)."""
        weighted = self.given.weights * f
        learnt = (weighted * self.res[:, None]) @ self.given.nodes
        return (
            np.concatenate(
                [learnt, self.kept[:, None, None] * (weighted @ self.given.h1)], axis=2
            )
            @ self.turn.T
        )

    def quadratic(self, f: Floats, columns: Floats) -> Floats:
        """Return E[res f zt zt^T] columns (M, k, R, C): E[res f] times them beside the
        directions that res sees.
        """
        given = self.given
        weighted = self.given.weights * f
        m = given.nodes.shape[1]
        L = given.h1.shape[1]
        matrix = np.empty((*f.shape[:2], m + L, m + L))
        along = given.nodes.T
        matrix[..., :m, :m] = (
            (weighted * self.res[:, None])[:, :, None, :] * along
        ) @ given.nodes
        matrix[..., :m, m:] = self.kept[:, None, None, None] * (
            (weighted[:, :, None, :] * along) @ given.h1
        )
        matrix[..., m:, :m] = np.swapaxes(matrix[..., :m, m:], 2, 3)
        bent = (weighted @ given.h2.reshape(len(given.h2), -1)).reshape(
            *f.shape[:2], L, L
        )
        said = (weighted @ self.output[:, :, None])[..., None]
        matrix[..., m:, m:] = self.kept[:, None, None, None] * bent - said * np.eye(L)
        inside = self.turn.T @ columns
        return self.mean(f)[..., None, None] * (
            columns - self.turn @ inside
        ) + self.turn @ (matrix @ inside)

    def power(self, noise: Floats) -> Floats:
        """Return E[(y - f)^2 | kappa] (M, N)."""
        cross = 2 * self.kept[:, None] * self.given.h * self.output
        return self.given.square - cross + self.output**2 + noise[:, None]


# -- The law of noisy labels given kappa -----------------------------------------------


PANELS = {0: 20, 1: 12}
LABEL_NODES = 8
"""Panels in the label, without and with directions of kappa, and nodes on each.
Polynomials of degree 7 on a panel are integrated exactly. What a batch of 0.3 d samples
or more asks for has errors of 1e-9, and of 1e-8 with kappa.
"""
FINE_PANELS = 24
"""Panels of the labels without their noise, which is added to each node."""
NOISE_NODES = {0: 60, 1: 24}
"""Gauss-Hermite nodes of the label noise, without and with directions of kappa."""
INNER_STEPS = {1: 0.1, 2: 0.25}
"""Step of the rule over xi, by the number of directions; 0.4 for more."""
NEGLIGIBLE = 1e-17
"""Weight of a point below which it is left out."""


@dataclass(frozen=True)
class LabelLaw:
    """Nodes (kappa, y) with weights of functions of them, times 1, xi_a and xi_a
    xi_b.
    """

    kappa: Floats  # (N, m)
    row: Integers  # (J,): which kappa a node has
    label: Floats  # (J,)
    weights: Floats  # (J,): they sum to one
    linear: Floats  # (L, J)
    quadratic: Floats  # (L, L, J)


def label_law(
    target: Target,
    learnt: Floats,
    rest: Floats,
    scale: float,
    fineness: float,
    noise: float,
    flip: float,
) -> LabelLaw:
    """Return the law of y = g(z) + sqrt(noise) eps, turned with probability `flip`, for
    z as in `condition`.
    """
    rules = Rules.of(target, learnt, rest)
    kappa, mass = product_rule(rules, scale, fineness)
    kappa = kappa[mass > NEGLIGIBLE]
    mass = mass[mass > NEGLIGIBLE]
    inner = grids.even_rule(
        INNER_STEPS.get(rules.averaged, 0.4) / target.resolution.steps
    )
    points, weights, owner = inner_points(rules, kappa, inner)
    weights = weights * (mass / np.bincount(owner, weights, len(kappa)))[owner]
    kept = np.flatnonzero(weights > NEGLIGIBLE)
    points = points[kept]
    weights = weights[kept]
    owner = owner[kept]
    values = target(points @ rules.basis.T)
    xi = points[:, learnt.shape[1] :]
    if flip > 0:
        values = np.concatenate([values, -values])
        weights = np.concatenate([(1 - flip) * weights, flip * weights])
        owner = np.tile(owner, 2)
        xi = np.tile(xi, (2, 1))
    first, second = np.triu_indices(xi.shape[1])
    # 1, xi_a, xi_a xi_b
    moments = np.concatenate(
        [np.ones((1, len(xi))), xi.T, (xi[:, first] * xi[:, second]).T]
    )
    law = Points(values, owner, moments * weights)
    some = min(learnt.shape[1], 1)
    law = _compressed(law, len(kappa), FINE_PANELS if noise > 0 else PANELS[some])
    if noise > 0:
        eps, share = grids.hermite_rule(NOISE_NODES[some])
        label = (law.label[:, None] + np.sqrt(noise) * eps).ravel()
        moments = (law.moments[:, :, None] * share).reshape(len(law.moments), -1)
        law = _compressed(
            Points(label, np.repeat(law.row, len(eps)), moments),
            len(kappa),
            PANELS[some],
        )
    return _law(kappa, law, xi.shape[1])


class Points(NamedTuple):
    """Labels, which kappa each has, and weights times the moments of xi."""

    label: Floats
    row: Integers
    moments: Floats


def _compressed(points: Points, rows: int, panels: int) -> Points:
    """Carry points over to panels in the label at every kappa, where there are more of
    them than nodes.
    """
    check_time()
    (y, row, moments), weights = points, points.moments[0]
    if np.bincount(row, minlength=rows).max() <= panels * LABEL_NODES:
        return points
    centre = np.sum(weights * y) / weights.sum()
    spread = np.sqrt(np.sum(weights * (y - centre) ** 2) / weights.sum())
    t = np.arcsinh((y - centre) / spread)
    low = np.full(rows, np.inf)
    high = np.full(rows, -np.inf)
    np.minimum.at(low, row, t)
    np.maximum.at(high, row, t)
    empty = ~np.isfinite(low)
    low[empty] = high[empty] = 0.0
    width = np.maximum(high - low, 1e-9) / panels
    panel = np.clip(((t - low[row]) / width[row]).astype(np.int64), 0, panels - 1)
    edge = low[:, None] + width[:, None] * np.arange(panels + 1)
    left = centre + spread * np.sinh(edge[:, :-1])
    right = centre + spread * np.sinh(edge[:, 1:])
    legendre, _ = leggauss(LABEL_NODES)
    nodes = (
        0.5 * (left + right)[:, :, None] + 0.5 * (right - left)[:, :, None] * legendre
    )
    a = left[row, panel]
    b = right[row, panel]
    check_time()
    at, inside = (
        legvander(x, LABEL_NODES - 1).T for x in (legendre, (2 * y - a - b) / (b - a))
    )
    check_time()
    # Lagrange polynomials (nodes of the panel, points)
    basis = np.linalg.solve(at, inside)
    check_time()
    cell = row * panels + panel
    cells = rows * panels
    sums = [
        np.stack(
            [np.bincount(cell, own * moment, cells) for own in basis], axis=1
        ).ravel()
        for moment in moments
    ]
    return Points(
        nodes.ravel(), np.repeat(np.arange(rows), panels * LABEL_NODES), np.stack(sums)
    )


def _law(kappa: Floats, points: Points, L: int) -> LabelLaw:
    """Return the law of weighted points; those without weight are left out."""
    moments = points.moments / points.moments[0].sum()
    quadratic = np.zeros((L, L, moments.shape[1]))
    rows, columns = np.triu_indices(L)
    quadratic[rows, columns] = quadratic[columns, rows] = moments[1 + L :]
    kept = np.flatnonzero(np.abs(moments).max(axis=0) > NEGLIGIBLE)
    label = points.label[kept]
    row = points.row[kept]
    return LabelLaw(
        kappa,
        row,
        label,
        moments[0, kept],
        moments[1 : 1 + L, kept],
        quadratic[..., kept],
    )

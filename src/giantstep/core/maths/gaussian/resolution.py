"""How finely a target must be sampled: where rules break beside its kinks, and which
error they leave.

Rules of this package are made for functions that vary on the scale 1 between the planes
on which they break. A target may be narrower than that (a peak, a steep step, a fast
wave), or rough on no plane (a circle). Here that is measured once for every target: a
rule like those of the theories stands against one that resolves details sixteen times
as fine. Where the two differ, the rules get further breaks at the narrow places, or
shorter steps; what is left is the error.

A target of several directions is looked at along straight lines, its axes and others: a
product rule is as good as its rules along lines.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from giantstep.core.base.deadline import check_time
from giantstep.core.base.errors import InputError
from giantstep.core.base.types import Floats
from giantstep.core.maths.gaussian.expression_parts import ridge_parts
from giantstep.core.maths.gaussian.grids import NARROW_NODES, even_rule, product_grid
from giantstep.core.maths.gaussian.planes import Plane
from giantstep.core.maths.gaussian.quadrature import (
    gauss_legendre_panels,
    normal_density,
    trapezoid_rule,
)

if TYPE_CHECKING:
    from giantstep.core.maths.gaussian.target import Target

LARGEST_STEP = {1: 0.1, 2: 0.2, 3: 0.3}
"""Step of a rule without breaks, by the number of directions; `COARSE_STEP` for
more.
"""
COARSE_STEP = 0.4
HERMITE_STEP = 0.3
"""Distance of the nodes of Gauss-Hermite rules of a hundred nodes: what is slower needs
no breaks in them.
"""
PANEL_NODES = NARROW_NODES
"""Gauss-Legendre nodes of a panel between breaks."""
GOOD = {1: 1e-9, 2: 1e-6}
"""Relative error of an average up to which no finer rule is sought, by the number of
directions.
"""
GOOD_ENOUGH = 1e-4
"""The same for more directions, where a rule of half the step costs eight times as
much.
"""
SHORTER = (1.0, 0.9, 0.8, 0.72, 0.65)
"""Even steps of the theories come in many lengths: a wave may be right by accident at
one of them, not at all.
"""
STEPS = {1: (1, 2, 4, 8), 2: (1, 2, 4), 3: (1, 2)}
"""Into how many parts the steps of a rule may be divided, by the number of
directions.
"""
PANELS = {1: (1, 2, 4, 8, 16), 2: (1, 2, 4, 8), 3: (1, 2, 4)}
"""The same for panels, which are there wherever a rule breaks."""
FEW_BREAKS = 40
"""Breaks up to which they are cheaper than shorter steps along every direction."""
MOST_BREAKS = 600
"""Breaks along one direction above which a function is called too fine to be
resolved.
"""
_REACH = 9.0
_FINE_WIDTH = 1 / 8
_FINE_NODES = 16
_DEEPEST = 26
"""Halvings of a panel of width 1: details of width 1e-7 are found at a jump that nobody
knows of.
"""
_ENOUGH = 1e-11
"""Error of one panel, relative to E g^2 or its root, at which it is not divided any
more.
"""

Values = Callable[[Floats], Floats]


class Resolution(NamedTuple):
    """What a rule needs for one target, and what it leaves."""

    breaks: tuple[Plane, ...]  # beside the planes on which the target is not smooth
    steps: int  # into how many parts even steps are divided
    panels: int  # the same for panels between breaks
    # measured: of E g, E[g z], E[g (z^2 - 1)] relative to the root of E g^2, and of E
    # g^2
    error: float


# -- functions of one variable ---------------------------------------------------------


def _moments(values: Floats, z: Floats, weights: Floats) -> Floats:
    """Return E g, E[g z], E[g (z^2 - 1)] and E g^2 of values (..., N) on a rule."""
    weighted = values * weights
    columns = [weighted, weighted * z, weighted * (z * z - 1), weighted * values]
    return np.stack([column.sum(axis=-1) for column in columns], axis=-1)


def _relative(gap: Floats, second: float) -> Floats:
    """Return gaps of `_moments` in units of the root of E g^2, and of E g^2."""
    root = np.sqrt(second)
    return np.abs(gap) / np.array([root, root, root, second])


def _on_panels(g: Values, edges: Floats, nodes: int) -> Floats:
    """Return the moments of every panel between edges (..., P + 1): (..., P, 4)."""
    z, weights = gauss_legendre_panels(edges, nodes)
    weights = weights * normal_density(z)
    values = np.asarray(g(z), dtype=float)
    shape = (*edges.shape[:-1], edges.shape[-1] - 1, nodes)
    return _moments(values.reshape(shape), z.reshape(shape), weights.reshape(shape))


def _fine_panels(g: Values, left: Floats, right: Floats) -> Floats:
    """Return the moments of panels from sixteen nodes on each of their eighths (P,
    4).
    """
    parts = round(1 / _FINE_WIDTH)
    edges = left[:, None] + (right - left)[:, None] * np.linspace(0.0, 1.0, parts + 1)
    return _on_panels(g, edges, _FINE_NODES).sum(axis=1)


class LineStudy(NamedTuple):
    """A function of one variable, its moments, and panels on which `PANEL_NODES` nodes
    are enough.
    """

    moments: Floats
    edges: Floats | None  # None where there would be too many
    left_over: float  # error of the panels

    @property
    def second(self) -> float:
        """E g^2."""
        return float(self.moments[3])


def _unit_edges(kinks: Sequence[float]) -> Floats:
    inside = [kink for kink in kinks if abs(kink) < _REACH]
    return np.unique(
        np.concatenate([np.linspace(-_REACH, _REACH, 2 * int(_REACH) + 1), inside])
    )


def study_line(g: Values, kinks: Sequence[float]) -> LineStudy:
    """Divide the line into panels until eighths of them with more nodes change
    nothing.
    """
    edges = _unit_edges(kinks)
    left = edges[:-1]
    right = edges[1:]
    fine = _fine_panels(g, left, right)
    second = float(fine[:, 3].sum())
    moments = np.zeros(4)
    ends = [edges[:1]]
    left_over = np.zeros(4)
    for depth in range(_DEEPEST + 1):
        check_time()
        coarse = _on_panels(g, np.stack([left, right], axis=1), PANEL_NODES)[:, 0]
        gap = np.abs(coarse - fine)
        divided = np.max(_relative(gap, max(second, 1e-300)), axis=1) > _ENOUGH
        if depth == _DEEPEST or len(ends) > MOST_BREAKS:
            divided[:] = False
        moments += fine[~divided].sum(axis=0)
        left_over += gap[~divided].sum(axis=0)
        ends += [right[~divided]]
        if not divided.any():
            break
        middle = 0.5 * (left + right)[divided]
        left = np.concatenate([left[divided], middle])
        right = np.concatenate([middle, right[divided]])
        if len(left) > MOST_BREAKS:
            return LineStudy(moments + fine[divided].sum(axis=0), None, np.inf)
        fine = _fine_panels(g, left, right)
    error = float(np.max(_relative(left_over, max(float(moments[3]), 1e-300))))
    return LineStudy(moments, np.sort(np.concatenate(ends)), error)


def _error_of_steps(g: Values, study: LineStudy, step: float) -> float:
    """Return the error of even steps of at most this length, where nothing is known to
    be rough.
    """
    errors = []
    for factor in SHORTER:
        z, weights = trapezoid_rule(factor * step, _REACH)
        found = _moments(np.asarray(g(z), dtype=float), z, weights)
        errors.append(np.max(_relative(found - study.moments, study.second)))
    return float(max(errors))


def _error_of_panels(
    g: Values, kinks: Sequence[float], study: LineStudy, panels: int
) -> float:
    """Return the error of even panels that break at the kinks."""
    even = np.linspace(-_REACH, _REACH, 2 * int(_REACH) * panels + 1)
    edges = np.unique(
        np.concatenate([even, [kink for kink in kinks if abs(kink) < _REACH]])
    )
    found = _on_panels(g, edges, PANEL_NODES).sum(axis=0)
    return float(np.max(_relative(found - study.moments, study.second)))


def _least_division(
    error_of: Callable[[int], float], tried: Sequence[int], good: float
) -> tuple[int, float]:
    """Return the first division whose error is good, else the best one, and its
    error.
    """
    errors: dict[int, float] = {}
    for division in tried:
        errors[division] = error_of(division)
        if errors[division] <= good:
            break
    return min(errors.items(), key=lambda item: item[1])


def _new_breaks(edges: Floats, kinks: Sequence[float]) -> Floats:
    """Return the edges of panels that were divided; those of width 1 are there without
    being asked for.
    """
    unit = _unit_edges(kinks)
    added = np.setdiff1d(edges, unit)
    if not len(added):
        return added
    beside = [
        end for end in unit if end not in kinks and np.any(np.abs(added - end) < 1)
    ]
    return np.sort(np.concatenate([added, beside]))


class LineNeed(NamedTuple):
    """What a rule along one line needs, breaks or divisions, and the error that is
    left.
    """

    breaks: Floats
    steps: int
    panels: int
    error: float


class Divisions(NamedTuple):
    """Into how many parts a rule may divide its steps and its panels, and which error
    is as good as none.
    """

    step: float  # the largest even step
    steps: tuple[int, ...]
    panels: tuple[int, ...]
    good: float


def need_of_line(g: Values, kinks: Sequence[float], allowed: Divisions) -> LineNeed:
    """Return the cheapest rule that is good: as it is, with a few breaks, with divided
    steps, or with many breaks.
    """
    none = np.zeros(0)
    good = allowed.good

    def of_step(n: int) -> float:
        return _error_of_steps(g, study, allowed.step / n)

    def of_panels(n: int) -> float:
        return _error_of_panels(g, kinks, study, n)

    with np.errstate(all="ignore"):
        study = study_line(g, kinks)
        if not (np.isfinite(study.moments).all() and study.second > 0):
            # refused, or answered, by who sees the whole target
            return LineNeed(none, 1, 1, 0.0)
        steps = 1
        error_of_steps = 0.0
        if not kinks:
            steps, error_of_steps = _least_division(of_step, allowed.steps, good)
        panels, error_of_panels = _least_division(of_panels, allowed.panels, good)
    divided = LineNeed(none, steps, panels, max(error_of_steps, error_of_panels))
    if study.edges is None or (steps == panels == 1 and divided.error <= good):
        return divided
    breaks = _new_breaks(study.edges, kinks)
    if len(breaks) <= FEW_BREAKS or divided.error > max(good, study.left_over):
        return LineNeed(breaks, 1, 1, study.left_over)
    return divided


# -- targets ---------------------------------------------------------------------------


LINES = 32
"""Straight lines along each axis, and along other directions, on which a target of
several directions is looked at.
"""
_LINE_REACH = 7.0
_GRID_REACH = 6.0
FINER = 0.45
"""Step of the product rule that others are held against, in units of theirs."""


def resolve(target: Target, step: float | None = None) -> Resolution:
    """Return what rules whose even steps are at most `step` need for a target.

    By default these are the product rules of conditional averages, whose steps and
    panels can be divided. Others have a `step` of their own, which stays; they get
    breaks only.
    """
    if target.degree is not None:
        return Resolution((), 1, 1, 0.0)
    k = target.directions
    good = GOOD.get(k, GOOD_ENOUGH)
    allowed = Divisions(
        LARGEST_STEP.get(k, COARSE_STEP), STEPS.get(k, (1,)), PANELS.get(k, (1,)), good
    )
    if step is not None:
        allowed = Divisions(step, (1,), (1,), good)
    if target.expression is not None:
        return _of_expression(target, allowed)
    if allowed not in target.resolutions:
        target.resolutions[allowed] = _resolved(target, allowed)
    return target.resolutions[allowed]


# every scenario of a grid makes its target anew; two of one text are equal
@lru_cache(maxsize=512)
def _of_expression(target: Target, allowed: Divisions) -> Resolution:
    return _resolved(target, allowed)


def _resolved(target: Target, allowed: Divisions) -> Resolution:
    with np.errstate(all="ignore"):
        if target.directions == 1:
            kinks = [-plane.offset / plane.normal[0] for plane in target.planes]
            need = need_of_line(lambda z: target(z[..., None]), kinks, allowed)
            return Resolution(_across(np.ones(1), need.breaks), *need[1:])
        return _of_several(target, allowed)


def _of_several(target: Target, allowed: Divisions) -> Resolution:
    """Resolve the parts that depend on one direction each, then look at the whole along
    lines.
    """
    breaks: list[Plane] = []
    least_steps = least_panels = 1
    for part in (
        ridge_parts(target.tree, target.directions) if target.tree is not None else ()
    ):
        aligned = [
            (np.array(plane.normal) @ part.direction, plane.offset)
            for plane in target.planes
        ]
        kinks = [
            float(-offset / cosine)
            for cosine, offset in aligned
            if abs(cosine) > 1 - 1e-12
        ]
        need = need_of_line(part.values, kinks, allowed)
        breaks += _across(part.direction, need.breaks)
        least_steps = max(least_steps, need.steps)
        least_panels = max(least_panels, need.panels)
    lines = _LinesThrough(target, (*target.planes, *breaks))
    steps, error_of_steps = _least_division(
        lambda n: lines.error(lambda group: lines.even_steps(group, allowed.step / n)),
        [division for division in allowed.steps if division >= least_steps],
        allowed.good,
    )
    panels, error_of_panels = _least_division(
        lambda n: lines.error(lambda group: lines.panels(group, 1 / n, PANEL_NODES)),
        [division for division in allowed.panels if division >= least_panels],
        allowed.good,
    )
    error = max(error_of_steps, error_of_panels)
    if (
        error > allowed.good and target.directions == 2
    ):  # for more the grids would take seconds
        error = min(error, _error_of_grids(target, breaks, allowed.step / steps))
    return Resolution(tuple(breaks), steps, panels, error)


def _across(direction: Floats, places: Floats) -> tuple[Plane, ...]:
    return tuple(
        Plane(tuple(direction.tolist()), -float(place) + 0.0) for place in places
    )


class _Group(NamedTuple):
    """Straight lines base + t along (L, k), where they cross known planes (L, K), and
    fine moments along them.
    """

    base: Floats
    along: Floats
    crossings: Floats
    fine: Floats


class _LinesThrough:
    """Straight lines along the axes and along other directions, on which rules for a
    target are compared.
    """

    def __init__(self, target: Target, planes: Sequence[Plane]) -> None:
        k = target.directions
        rng = np.random.default_rng(17 + k)
        others = rng.standard_normal((LINES, k))
        others /= np.linalg.norm(others, axis=1, keepdims=True)
        self.target = target
        self.groups = []
        for along in [*(np.tile(row, (LINES, 1)) for row in np.eye(k)), others]:
            base = rng.standard_normal((LINES, k))
            base -= np.sum(base * along, axis=1, keepdims=True) * along
            group = _Group(
                base, along, _crossings(base, along, planes), np.zeros((LINES, 4))
            )
            self.groups.append(
                group._replace(fine=self.panels(group, _FINE_WIDTH, _FINE_NODES))
            )
        self.second = float(np.mean([group.fine[:, 3] for group in self.groups]))

    def error(self, rule: Callable[[_Group], Floats]) -> float:
        """Return the error of a product of such rules: the sum of those along its axes,
        or along others if larger.
        """
        sizes = []
        for group in self.groups:
            gap = rule(group) - group.fine
            # rules along neighbouring lines err in both directions: their mean counts,
            # and how well it is known
            spread = gap.std(axis=0) / np.sqrt(LINES)
            sizes.append(np.abs(gap.mean(axis=0)) + 3 * spread)
        if not (np.isfinite(sizes).all() and self.second > 0):
            return 0.0  # refused, or answered, by who sees the whole target
        *along_axes, other = sizes
        return float(
            np.max(
                _relative(np.maximum(np.sum(along_axes, axis=0), other), self.second)
            )
        )

    def panels(self, group: _Group, width: float, nodes: int) -> Floats:
        """Return moments along the lines from panels that break where they cross known
        planes.
        """
        even = np.linspace(
            -_LINE_REACH, _LINE_REACH, round(2 * _LINE_REACH / width) + 1
        )
        even = np.broadcast_to(even, (len(group.base), len(even)))
        edges = np.sort(np.concatenate([even, group.crossings], axis=1), axis=1)
        t, weights = gauss_legendre_panels(edges, nodes)
        return _moments(self._values(group, t), t, weights * normal_density(t))

    def even_steps(self, group: _Group, step: float) -> Floats:
        """Return moments from even steps, those of several lengths that differ most;
        nothing new where planes cross.
        """
        if group.crossings.shape[1]:
            return group.fine
        worst = group.fine
        for factor in SHORTER[::2]:
            t, weights = trapezoid_rule(factor * step, _LINE_REACH)
            t = np.broadcast_to(t, (len(group.base), len(t)))
            found = _moments(self._values(group, t), t, weights)
            if np.max(np.abs(found - group.fine)) > np.max(np.abs(worst - group.fine)):
                worst = found
        return worst

    def _values(self, group: _Group, t: Floats) -> Floats:
        z = group.base[:, None] + t[:, :, None] * group.along[:, None]
        return np.asarray(self.target(z), dtype=float)


def _crossings(base: Floats, along: Floats, planes: Sequence[Plane]) -> Floats:
    """Return where lines cross the planes that cut some of them (L, K); the end of the
    line where they do not.
    """
    columns = [np.zeros((len(base), 0))]
    for plane in planes:
        cosine = along @ np.array(plane.normal)
        crosses = np.abs(cosine) > 1e-9
        if crosses.any():
            place = -(base @ np.array(plane.normal) + plane.offset) / np.where(
                crosses, cosine, 1.0
            )
            inside = np.clip(
                np.where(crosses, place, _LINE_REACH), -_LINE_REACH, _LINE_REACH
            )
            columns.append(inside[:, None])
    return np.concatenate(columns, axis=1)


def _error_of_grids(target: Target, narrow: Sequence[Plane], step: float) -> float:
    """Return the error of whole product rules, from others whose steps are shorter; inf
    where these have no room.

    Rules along single lines say too much of what is rough on curved sets: there errors
    of neighbours cancel.
    """
    try:
        found = [
            _grid_moments(target, narrow, factor * step)
            for factor in (*SHORTER[::2], FINER)
        ]
    except InputError:
        return np.inf
    *rules, finest = found
    second = float(finest[0])
    if not (np.isfinite(found).all() and second > 0):
        return 0.0
    scale = np.full(len(finest), np.sqrt(second))
    scale[0] = second
    return float(2 * np.max(np.abs(np.array(rules) - finest) / scale))


def _grid_moments(target: Target, narrow: Sequence[Plane], step: float) -> Floats:
    """Return E g^2, E g, E[g z_j] and E[g (z_j^2 - 1)] on a product rule."""
    grid = product_grid(
        target.directions,
        target.planes,
        even_rule(step, _GRID_REACH),
        PANEL_NODES,
        narrow,
    )
    values = np.asarray(target(grid.points), dtype=float)
    weighted = grid.weights * values
    lines = np.concatenate(
        [grid.points.T @ weighted, (grid.points**2).T @ weighted - weighted.sum()]
    )
    return np.concatenate([[weighted @ values, weighted.sum()], lines])


def rough_sentence(target: Target, error: float) -> str:
    """Return why a target cannot be averaged well enough, as a status: a clause without
    a full stop.
    """
    differ = f"two quadratures of it differ by {error:.0e}"
    if target.expression is None:
        return (
            f"the target {target.name} has kinks or jumps that are not declared, or is"
            f" very narrow: {differ} (declare planes with gs.Target(f, kinks=...))"
        )
    if target.all_planes:
        return f"the target {target.name} varies on too small a scale: {differ}"
    return (
        f"the target {target.name} has kinks or jumps that lie on no planes: {differ}"
    )

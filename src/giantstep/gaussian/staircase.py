"""In which order a learner finds the directions of a target: leap and generative staircases, in any basis.

At every stage U is the span of the directions found so far and D its complement. For k = 1, 2, ... the tensors
C_k[T, q] = E[T(y) q(z_U) He_k(z_D)] are formed for all test functions q (products of normalised Hermite polynomials
of z_U)
and all label transforms T; the first k with a tensor that is not zero gives the new directions, the range of its
unfolding. T = y alone is what one pass over the data sees (the leap), many T is what repetition can see (generative).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from giantstep.errors import InputError
from giantstep.gaussian.grids import BOUND, Grid, even_rule, hermite_rule, product_grid
from giantstep.gaussian.hermite import hermite_values
from giantstep.gaussian.target import Plane, Target
from giantstep.types import Floats

TOLERANCE = 1e-7
"""A coefficient E[T q h_b] with normalised T, q and h_b counts as zero below this."""
GATE = 10.0
"""... or below the root of this many times the difference between the rule and a coarser one."""
UNDECLARED = 1e-6
"""Two rules that differ by more in E y^2 or the first coefficients (relative): there are undeclared kinks or jumps."""
FEW_VALUES = 8
POWERS = {1: 6, 2: 6, 3: 6, 4: 6, 5: 4, 6: 4}
"""Highest power of a polynomial label among its transforms, by the number of directions."""
FREQUENCIES = (0.5, 1.0, 1.7)
_CHUNK = 1 << 16
_STEPS = {1: (1 / 128, 1 / 1000), 2: (1 / 14, 1 / 40), 3: (1 / 4, 1 / 7), 4: (1 / 2,), 5: (3 / 4,)}
"""Spacings of an axis without breaks, tried in turn; six directions only have room for a Gauss-Hermite rule."""
_SMOOTH = 10
SMOOTH_GAP = 1e-2
"""Two rules may differ by this much for an expression whose kinks and jumps are all known; the gate then widens."""
_EXACT = {1: 200, 2: 100, 3: 60, 4: 26, 5: 15, 6: 11}
"""Most nodes of an axis in an exact rule for polynomials."""
_PIECE = {1: 150, 2: 30, 3: 24, 4: 16, 5: 9, 6: 6}
HIGHEST = {1: 12, 2: 8, 3: 6, 4: 6, 5: 6, 6: 6}
"""Highest order that is looked at, by the number of directions."""
TEST_DEGREE = {0: 0, 1: 8, 2: 6, 3: 4, 4: 3, 5: 3}
"""Highest degree of the test functions, by the number of directions already found."""


@dataclass(frozen=True)
class Stage:
    """One stage of a staircase.

    Attributes
    ----------
    order : the k of the stage, the number of new directions that enter together.
    directions : (count, r) orthonormal rows, the new directions.
    degrees : total degrees n = k + deg q of the Hermite tensors through which they are seen, increasing.
    strength : size of the coefficients in the new directions (norm of the unfolded tensor along each).
    """

    order: int
    directions: Floats
    degrees: tuple[int, ...]
    strength: tuple[float, ...]

    @property
    def count(self) -> int:
        """Number of new directions."""
        return len(self.directions)


@dataclass(frozen=True)
class Staircase:
    """Stages in their order; ``complete`` says whether every direction is found up to the highest order tried."""

    stages: tuple[Stage, ...]
    complete: bool
    highest: int

    @property
    def exponent(self) -> float:
        """The largest order, inf where some direction is not found."""
        if not self.complete:
            return math.inf
        return max(stage.order for stage in self.stages)

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The stages as (order, number of new directions)."""
        return [(stage.order, stage.count) for stage in self.stages]


@dataclass(frozen=True)
class Sampled:
    """A target on a rule: points (N, r), weights, and label transforms (m, N) of zero mean and unit variance."""

    points: Floats
    weights: Floats
    labels: Floats


def reduced(target: Target, basis: Floats) -> tuple[Target, tuple[Plane, ...]]:
    """Return the target as a function of the coordinates of the subspace spanned by the rows of ``basis``."""
    planes = []
    for plane in target.planes:
        normal = basis @ np.array(plane.normal)
        length = float(np.linalg.norm(normal))
        if length > 1e-9:
            clean = np.where(np.abs(normal) < 1e-12 * length, 0.0, normal) / length
            planes.append(Plane(tuple(clean.tolist()), plane.offset / length))
    inner = Target(lambda z: target(z @ basis), directions=len(basis), name=target.name)
    return inner, tuple(planes)


def rules(target: Target, planes: Sequence[Plane], degree: int | None, known: bool | None = None) -> tuple[Grid, Grid]:
    """Return a fine product rule for a target of r variables and a coarser one; polynomials get an exact one twice.

    Parameters
    ----------
    known : whether every kink and jump is on one of the planes (`Target.all_planes` if left out).

    Raises
    ------
    InputError
        Where the target is not finite, or where the two rules tell of kinks or jumps that are not on the planes.
    """
    r = target.directions
    known = target.all_planes if known is None else known
    gap = math.inf
    for fine, coarse in _candidates(r, planes, degree):
        gap = _difference(target, fine, coarse)
        if gap <= UNDECLARED:
            return fine, coarse
    if known and gap <= SMOOTH_GAP:
        return fine, coarse
    if known:
        raise InputError(
            f"The target {target.name} must be square integrable and vary on the scale of 1, but two quadratures of it "
            f"differ by {gap:.0e}."
        )
    raise InputError(
        f"The target {target.name} has kinks or jumps that are not declared: two quadratures of it differ by "
        f"{gap:.0e}, more than {UNDECLARED:.0e} (declare planes with `gs.Target(f, kinks=...)`)."
    )


def _candidates(r: int, planes: Sequence[Plane], degree: int | None) -> Iterator[tuple[Grid, Grid]]:
    """Yield pairs of a fine and a coarser rule, in the order they are worth trying."""
    piece = _PIECE[r]
    if degree is not None:
        tested = max(_test_degree(known, r) for known in range(r))
        exact = math.ceil((POWERS[r] * degree + HIGHEST[r] + tested + 1) / 2)
        if exact <= _EXACT[r]:
            grid = product_grid(r, planes, hermite_rule(exact), piece)
            yield grid, grid
            return
        smooth = [(hermite_rule(_EXACT[r]), hermite_rule(2 * _EXACT[r] // 3))]
    elif r in _STEPS:
        bound = BOUND if r < 5 else 7.5
        smooth = [(even_rule(step, bound), even_rule(1.37 * step, bound)) for step in _STEPS[r]]
    else:
        smooth = [(hermite_rule(_SMOOTH), hermite_rule(2 * _SMOOTH // 3))]
    for fine, coarse in smooth:
        yield product_grid(r, planes, fine, piece), product_grid(r, planes, coarse, max(2 * piece // 3, 4))


def _difference(target: Target, fine: Grid, coarse: Grid) -> float:
    """Return the largest relative difference of two rules in E y^2 and the first coefficients."""
    moments = []
    for grid in (fine, coarse):
        with np.errstate(all="ignore"):
            y = np.asarray(target(grid.points), dtype=float)
        if not np.all(np.isfinite(y)):
            raise InputError(f"The target {target.name} must be finite, but is {y[~np.isfinite(y)][0]} at some points.")
        second = grid.weights @ (y * y)
        low = [grid.weights @ y, *(grid.points.T @ (grid.weights * y)), *((grid.points**2).T @ (grid.weights * y))]
        moments.append(np.array([second, *low]))
    size = moments[0][0]
    if size - moments[0][1] ** 2 <= 1e-14 * size or size == 0:
        raise InputError(f"The target {target.name} must not be constant.")
    scale = np.array([size, *[math.sqrt(size)] * (len(moments[0]) - 1)])
    return float(np.max(np.abs(moments[0] - moments[1]) / scale))


def label_transforms(target: Target, grid: Grid, degree: int | None, repeated: bool) -> Floats:
    """Return T(y) on the rule (m, N): y alone, or the family that repetition can reach.

    The family: indicators of the values where there are at most eight; powers y^j, j <= 6 (4 from five directions on),
    of a polynomial; else y and cos(w y + b). All have zero mean and unit variance.
    """
    y = np.asarray(target(grid.points), dtype=float)
    y = _standardised(y[None, :], grid.weights)
    if not repeated:
        return y
    values = np.unique(np.round(y[0], 9))
    if len(values) <= FEW_VALUES:
        found = np.stack([np.abs(y[0] - value) < 1e-6 for value in values]).astype(float)
    elif degree is not None:
        found = y ** np.arange(1, POWERS[target.directions] + 1)[:, None]
    else:
        waves = [np.cos(w * y[0] + b) for w in FREQUENCIES for b in (0.0, 0.5 * math.pi)]
        found = np.stack([y[0], *waves])
    return _standardised(found, grid.weights)


def _standardised(values: Floats, weights: Floats) -> Floats:
    centred = values - (values @ weights)[:, None]
    size = np.sqrt((centred * centred) @ weights)
    return centred[size > 1e-9] / size[size > 1e-9, None]


@lru_cache(maxsize=256)
def multi_indices(dims: int, order: int) -> tuple[tuple[int, ...], ...]:
    """Return all (b_1, ..., b_dims) of sum ``order``."""
    if dims == 0:
        return ((),) if order == 0 else ()
    return tuple((first, *rest) for first in range(order, -1, -1) for rest in multi_indices(dims - 1, order - first))


def hermite_products(values: Floats, indices: Sequence[tuple[int, ...]]) -> Floats:
    """Products of normalised Hermite polynomials: values (order+1, N, dims) -> (len(indices), N)."""
    result = np.ones((len(indices), values.shape[1]))
    for row, index in zip(result, indices):
        for axis, order in enumerate(index):
            if order:
                row *= values[order, :, axis]
    return result


def hermite_features(points: Floats, indices: Sequence[tuple[int, ...]]) -> Floats:
    """Return h_b(z) for every multi-index b: an array (len(indices), N)."""
    highest = max((max(index, default=0) for index in indices), default=0)
    return hermite_products(hermite_values(points, max(highest, 1)), indices)


def coefficients(sample: Sampled, known: Floats, rest: Floats, order: int, test_degree: int) -> dict[int, Floats]:
    """Return E[T q h_b] by the degree of q: arrays (T, number of q, number of b), b over |b| = order on ``rest``."""
    b_indices = multi_indices(len(rest), order)
    q_indices = {degree: multi_indices(len(known), degree) for degree in range(test_degree + 1)}
    flat = list(itertools.chain.from_iterable(q_indices.values()))
    total = np.zeros((len(sample.labels), len(flat), len(b_indices)))
    for start in range(0, len(sample.weights), _CHUNK):
        part = slice(start, start + _CHUNK)
        z = sample.points[part]
        h = hermite_products(hermite_values(z @ rest.T, order), b_indices)
        q = hermite_products(hermite_values(z @ known.T, max(test_degree, 1)), flat)
        for i, label in enumerate(sample.labels):
            total[i] += (q * (label[part] * sample.weights[part])) @ h.T
    found, place = {}, 0
    for degree, indices in q_indices.items():
        found[degree] = total[:, place : place + len(indices)]
        place += len(indices)
    return found


def unfolding_gram(coefficients: Floats, dims: int, order: int) -> Floats:
    """Return sum over T, q and |b| = order - 1 of C_{b+e_i} C_{b+e_j}/b! for coefficients (..., number of b)."""
    place = {index: i for i, index in enumerate(multi_indices(dims, order))}
    flat = coefficients.reshape(-1, coefficients.shape[-1])
    gram = np.zeros((dims, dims))
    for index in multi_indices(dims, order - 1):
        raised = [tuple(n + (axis == i) for axis, n in enumerate(index)) for i in range(dims)]
        column = np.stack([flat[:, place[up]] * math.sqrt(up[i]) for i, up in enumerate(raised)])
        gram += column @ column.T
    return gram


def staircase(
    fine: Sampled,
    coarse: Sampled,
    cap: int | None = None,
    degrees: Collection[int] | None = None,
    start: Sequence[Stage] = (),
) -> Staircase:
    """Return the stages for the label transforms of the samples.

    Parameters
    ----------
    cap : largest order looked at; 1 gives the directions found by giant steps on O(d) samples, a stage for each step.
    degrees : total degrees of the Hermite tensors a student can see (those with c_n != 0); all if left out.
    start : stages that are known already.
    """
    r = fine.points.shape[1]
    most = cap or HIGHEST[r]
    stages = list(start)
    known = np.concatenate([np.zeros((0, r)), *(stage.directions for stage in stages)])
    while len(known) < r:
        stage = _next_stage(fine, coarse, known, most, degrees)
        if stage is None:
            return Staircase(tuple(stages), False, most)
        stages.append(stage)
        known = np.concatenate([known, stage.directions])
    return Staircase(tuple(stages), True, most)


def _test_degree(known: int, r: int) -> int:
    return TEST_DEGREE[known] if r < 5 else min(TEST_DEGREE[known], 4)


def _next_stage(fine: Sampled, coarse: Sampled, known: Floats, most: int, seen: Collection[int] | None) -> Stage | None:
    r = fine.points.shape[1]
    rest = complement(known, r)
    test_degree = _test_degree(len(known), r)
    for order in range(1, most + 1):
        found = coefficients(fine, known, rest, order, test_degree)
        rough = found if coarse.points is fine.points else coefficients(coarse, known, rest, order, test_degree)
        degrees, total, gap = [], np.zeros((len(rest), len(rest))), 0.0
        for degree in found:
            if seen is not None and order + degree not in seen:
                continue
            gram = unfolding_gram(found[degree], len(rest), order)
            change = np.max(np.abs(gram - unfolding_gram(rough[degree], len(rest), order)))
            if np.max(np.diag(gram)) > max(TOLERANCE**2, GATE * change):
                degrees.append(order + degree)
            total, gap = total + gram, gap + change
        sizes, vectors = np.linalg.eigh(total)
        new = sizes > max(TOLERANCE**2, GATE * gap)
        if np.any(new) and degrees:
            directions = tidy(vectors[:, new].T @ rest)
            strength = np.sqrt(np.einsum("ai,ij,aj->a", directions @ rest.T, total, directions @ rest.T))
            return Stage(order, directions, tuple(degrees), tuple(strength.tolist()))
    return None


def complement(known: Floats, dims: int) -> Floats:
    """Return orthonormal rows that span what is orthogonal to the rows of ``known``; the axes where none is known."""
    if not len(known):
        return np.eye(dims)
    projector = np.eye(dims) - known.T @ known
    sizes, vectors = np.linalg.eigh(projector)
    return tidy(vectors[:, sizes > 0.5].T)


def tidy(rows: Floats) -> Floats:
    """Return an orthonormal basis of the same span, the coordinate axes where they are one, first entries positive."""
    if not len(rows):
        return rows
    echelon, place = np.array(rows, dtype=float), 0
    for column in range(rows.shape[1]):
        if place == len(rows):
            break
        pivot = place + int(np.argmax(np.abs(echelon[place:, column])))
        if abs(echelon[pivot, column]) < 1e-7:
            continue
        echelon[[place, pivot]] = echelon[[pivot, place]]
        echelon[place] /= echelon[place, column]
        others = np.arange(len(rows)) != place
        echelon[others] -= echelon[others, column, None] * echelon[place]
        place += 1
    unit = echelon / np.linalg.norm(echelon, axis=1)[:, None]
    if np.max(np.abs(unit @ unit.T - np.eye(len(unit)))) > 1e-7:
        unit = np.array(rows, dtype=float)
    leading = np.argmax(np.abs(unit) > 1e-6, axis=1)
    unit = unit * np.sign(unit[np.arange(len(unit)), leading])[:, None]
    return np.where(np.abs(unit) < 1e-9, 0.0, unit)

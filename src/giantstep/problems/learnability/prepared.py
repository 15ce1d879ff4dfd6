"""A target made ready for its exponents: the subspace it depends on, quadratures there,
coefficients E[T(y) q h_b].

T is a transform of the label, q a product of normalised Hermite polynomials of the
directions known already, h_b one of order |b| of the others (gradient_dynamics section
1.2).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from giantstep.core.base.chunks import split_rows
from giantstep.core.base.errors import InputError
from giantstep.core.base.types import Floats
from giantstep.core.maths.gaussian.grids import (
    BOUND,
    NodeGrid,
    even_rule,
    hermite_rule,
    product_grid,
)
from giantstep.core.maths.gaussian.hermite import hermite_products, multi_indices
from giantstep.core.maths.gaussian.planes import Plane, turned_planes
from giantstep.core.maths.gaussian.subspaces import tidy
from giantstep.core.maths.gaussian.target import Target

_UNDECLARED = 1e-6
"""Two rules that differ by more in E y^2 or the first coefficients (relative): there
are undeclared kinks or jumps.
"""
_FEW_VALUES = 8
_POWERS = {1: 6, 2: 6, 3: 6, 4: 6, 5: 4, 6: 4}
"""Highest power of a polynomial label among its transforms, by the number of
directions.
"""
_FREQUENCIES = (0.5, 1.0, 1.7)
_CHUNK = 1 << 16
_STEPS = {
    1: (1 / 128, 1 / 1000),
    2: (1 / 14, 1 / 40),
    3: (1 / 4, 1 / 7),
    4: (1 / 2,),
    5: (3 / 4,),
}
"""Spacings of an axis without breaks, tried in turn; six directions only have room for
a Gauss-Hermite rule.
"""
_SMOOTH = 10
_SMOOTH_GAP = 1e-2
"""Two rules may differ by this much for an expression whose kinks and jumps are all
known; the gate then widens.
"""
_EXACT = {1: 200, 2: 100, 3: 60, 4: 26, 5: 15, 6: 11}
"""Most nodes of an axis in an exact rule for polynomials."""
_PIECE = {1: 150, 2: 30, 3: 24, 4: 16, 5: 9, 6: 6}
HIGHEST = {1: 12, 2: 8, 3: 6, 4: 6, 5: 6, 6: 6}
"""Highest order that is looked at, by the number of directions."""
_TEST_DEGREE = {0: 0, 1: 8, 2: 6, 3: 4, 4: 3, 5: 3}
"""Highest degree of the test functions, by the number of directions already found."""
_CONSTANT = 1e-6
"""Relative change of a target that is rounding, and tensors that see nothing."""
_SHIFT = 0.83
"""How far a target is moved along a direction that it may not depend on."""
PROBE = np.random.default_rng(5).standard_normal((200, 6))
"""Points at which symmetries of a target, and directions it does not depend on, are
looked for.
"""


@dataclass(frozen=True)
class PreparedTarget:
    """A target on the subspace it depends on (rows of ``basis``), with a fine and a
    coarser rule.
    """

    basis: Floats
    inner: Target
    degree: int | None
    fine: NodeGrid
    coarse: NodeGrid

    @classmethod
    def of(cls, target: Target) -> PreparedTarget:
        """Find the subspace and the rules."""
        basis, inner, degree = relevant(target)
        return cls(basis, inner, degree, *rules(inner, degree, target.all_planes))

    def samples(self, repeated: bool, odd: bool = False) -> tuple[Sampled, Sampled]:
        """Return the label transforms of one pass or of repetition on both rules; `odd`
        as in `Sampled.of`.
        """
        fine = Sampled.of(self.inner, self.fine, self.degree, repeated, odd)
        if self.coarse is self.fine:
            # an exact rule: there is nothing to compare
            return fine, fine
        coarse = Sampled.of(self.inner, self.coarse, self.degree, repeated, odd)
        return fine, coarse


def relevant(target: Target) -> tuple[Floats, Target, int | None]:
    """Return the subspace a target depends on (rows), and the target and its degree on
    that subspace.
    """
    k = target.directions
    whole = np.eye(k)
    probe = PROBE[:, :k]
    with np.errstate(all="ignore"):
        base = np.asarray(target(probe), dtype=float)
    if not np.all(np.isfinite(base)):
        raise InputError(
            f"The target {target.name} must be finite, but is not at some points."
        )
    if k == 1:
        return whole, target, target.axis_degree
    sizes, vectors = np.linalg.eigh(_low_order_gram(target))
    # where low orders see nothing the target may be constant: it is tried out
    limit = _CONSTANT * (1 + np.max(np.abs(base)))
    idle = 0
    for row in vectors[:, sizes < _CONSTANT].T:
        moved = np.asarray(target(probe + _SHIFT * row), dtype=float)
        idle += bool(np.max(np.abs(moved - base)) < limit)
    if not idle:
        return whole, target, target.axis_degree
    # eigenvalues rise: the idle directions come first
    basis = tidy(vectors[:, idle:].T)
    inner = Target(
        lambda z: target(z @ basis),
        directions=len(basis),
        kinks=turned_planes(target.planes, basis.T),
        name=target.name,
    )
    # turned variables mix the degrees of single ones
    aligned = np.all(np.max(np.abs(basis), axis=1) > 1 - 1e-9)
    degree = target.axis_degree if aligned else target.degree
    return basis, inner, degree


def _low_order_gram(target: Target) -> Floats:
    """Return the sum of the unfolded tensors up to order 4, of all label transforms:
    its range is what low orders see.
    """
    k = target.directions
    fine, _ = rules(target, target.axis_degree)
    sample = Sampled.of(target, fine, target.axis_degree, repeated=True)
    total = np.zeros((k, k))
    for order in range(1, 5):
        tensors = coefficients(sample, np.zeros((0, k)), np.eye(k), order, 0)[0]
        total += unfolding_gram(tensors, k, order)
    return total


def rules(
    target: Target, degree: int | None, known: bool | None = None
) -> tuple[NodeGrid, NodeGrid]:
    """Return a fine and a coarser product rule (polynomials: an exact one twice);
    refuse kinks on no plane.
    """
    if known is None:
        known = target.all_planes
    gap = math.inf
    for fine, coarse in _candidates(target.directions, target.planes, degree):
        gap = _difference(target, fine, coarse)
        if gap <= _UNDECLARED:
            return fine, coarse
    if known and gap <= _SMOOTH_GAP:
        return fine, coarse
    if known:
        raise InputError(
            f"The target {target.name} must be square integrable and vary on the scale"
            f" of 1, but two quadratures of it differ by {gap:.0e}."
        )
    raise InputError(
        f"The target {target.name} has kinks or jumps that are not declared: two"
        f" quadratures of it differ by {gap:.0e}, more than {_UNDECLARED:.0e} (declare"
        " planes with `gs.Target(f, kinks=...)`)."
    )


def _candidates(
    r: int, planes: Sequence[Plane], degree: int | None
) -> Iterator[tuple[NodeGrid, NodeGrid]]:
    """Yield pairs of a fine and a coarser rule, in the order they are worth trying."""
    piece = _PIECE[r]
    if degree is not None:
        tested = max(tested_degree(known, r) for known in range(r))
        exact = math.ceil((_POWERS[r] * degree + HIGHEST[r] + tested + 1) / 2)
        if exact <= _EXACT[r]:
            grid = product_grid(r, planes, hermite_rule(exact), piece)
            yield grid, grid
            return
    if degree is None and r in _STEPS:
        bound = BOUND if r < 5 else 7.5
        # 1.37: no multiple of a step, so that the two rules share no error
        smooth = [
            (even_rule(step, bound), even_rule(1.37 * step, bound))
            for step in _STEPS[r]
        ]
    else:
        most = _SMOOTH if degree is None else _EXACT[r]
        smooth = [(hermite_rule(most), hermite_rule(2 * most // 3))]
    for fine, coarse in smooth:
        yield (
            product_grid(r, planes, fine, piece),
            product_grid(r, planes, coarse, max(2 * piece // 3, 4)),
        )


def _difference(target: Target, fine: NodeGrid, coarse: NodeGrid) -> float:
    """Return the largest relative difference of two rules in E y^2 and the first
    coefficients.
    """
    moments = []
    for grid in (fine, coarse):
        with np.errstate(all="ignore"):
            y = np.asarray(target(grid.points), dtype=float)
        if not np.all(np.isfinite(y)):
            raise InputError(
                f"The target {target.name} must be finite, but is"
                f" {y[~np.isfinite(y)][0]} at some points."
            )
        weighted = grid.weights * y
        second = grid.weights @ (y * y)
        mean = grid.weights @ y
        linear = grid.points.T @ weighted
        square = (grid.points**2).T @ weighted
        moments.append(np.array([second, mean, *linear, *square]))
    second, mean = moments[0][:2]
    if second - mean**2 <= 1e-14 * second or second == 0:
        raise InputError(f"The target {target.name} must not be constant.")
    # all but E y^2 are linear in y
    scale = np.full(len(moments[0]), math.sqrt(second))
    scale[0] = second
    return float(np.max(np.abs(moments[0] - moments[1]) / scale))


def tested_degree(known: int, r: int) -> int:
    """Return the highest degree of the test functions in `known` of r directions."""
    if r < 5:
        return _TEST_DEGREE[known]
    return min(_TEST_DEGREE[known], 4)


@dataclass(frozen=True)
class Sampled:
    """A target on a rule: points (N, r), weights, and label transforms (m, N) of zero
    mean and unit variance.
    """

    points: Floats
    weights: Floats
    labels: Floats

    @classmethod
    def of(
        cls,
        target: Target,
        grid: NodeGrid,
        degree: int | None,
        repeated: bool,
        odd: bool = False,
    ) -> Sampled:
        """Return the label alone, of one pass, or the family of transforms that
        repetition can reach, on a rule.

        Indicators of at most eight values; powers of a polynomial; else y and cos(w y +
        b). With `odd`, the points (y, z) and (-y, -z) are one to who looks at them:
        both are there with half the weight.
        """
        points = grid.points
        weights = grid.weights
        y = np.asarray(target(points), dtype=float)
        if odd:
            points = np.concatenate([points, -points])
            y = np.concatenate([y, -y])
            weights = np.tile(weights, 2) / 2
        labels = _standardise(y[None, :], weights)
        if repeated:
            most = None if degree is None else _POWERS[target.directions]
            labels = _standardise(_transforms(labels[0], most), weights)
        return cls(points, weights, labels)


def _transforms(y: Floats, most: int | None) -> Floats:
    """Return label transforms (m, N): powers up to `most` of a polynomial, else waves;
    indicators of a label of few values, which span all of them.
    """
    values = np.unique(np.round(y, 9))
    if len(values) <= _FEW_VALUES:
        return np.stack([np.abs(y - value) < 1e-6 for value in values]).astype(float)
    if most is not None:
        return y ** np.arange(1, most + 1)[:, None]
    waves = [y]
    for frequency in _FREQUENCIES:
        for phase in (0.0, 0.5 * math.pi):
            waves.append(np.cos(frequency * y + phase))
    return np.stack(waves)


def _standardise(values: Floats, weights: Floats) -> Floats:
    """Return rows with mean 0 and variance 1; constant ones, which see nothing, are
    left out.
    """
    centred = values - (values @ weights)[:, None]
    size = np.sqrt((centred * centred) @ weights)
    varies = size > 1e-9
    return centred[varies] / size[varies, None]


def coefficients(
    sample: Sampled, known: Floats, rest: Floats, order: int, test_degree: int
) -> dict[int, Floats]:
    """Return E[T q h_b] by the degree of q: arrays (T, number of q, number of b), b
    over |b| = order on ``rest``.
    """
    b_indices = multi_indices(len(rest), order)
    q_indices = {
        degree: multi_indices(len(known), degree) for degree in range(test_degree + 1)
    }
    flat = list(itertools.chain.from_iterable(q_indices.values()))
    total = np.zeros((len(sample.labels), len(flat), len(b_indices)))
    for chunk in split_rows(len(sample.weights), 1, _CHUNK):
        z = sample.points[chunk]
        h = hermite_products(z @ rest.T, b_indices)
        q = hermite_products(z @ known.T, flat)
        for i, label in enumerate(sample.labels):
            total[i] += (q * (label[chunk] * sample.weights[chunk])) @ h.T
    ends = np.cumsum([len(indices) for indices in q_indices.values()])
    return dict(enumerate(np.split(total, ends[:-1], axis=1)))


def unfolding_gram(coefficients: Floats, dims: int, order: int) -> Floats:
    """Return sum over T, q and |b| = order - 1 of C_{b+e_i} C_{b+e_j}/b! for
    coefficients (..., number of b).
    """
    position = {index: i for i, index in enumerate(multi_indices(dims, order))}
    flat = coefficients.reshape(-1, coefficients.shape[-1])
    gram = np.zeros((dims, dims))
    for index in multi_indices(dims, order - 1):
        rows = []
        for axis in range(dims):
            # b + e_i, and sqrt(b_i + 1) from the normalisation by b!
            raised = list(index)
            raised[axis] += 1
            rows.append(flat[:, position[tuple(raised)]] * math.sqrt(raised[axis]))
        unfolded = np.stack(rows)
        gram += unfolded @ unfolded.T
    return gram

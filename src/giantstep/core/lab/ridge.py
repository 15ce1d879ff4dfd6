"""Ridge regression along a learning curve: every sample size and penalty from one pass
over the data.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType

import numpy as np

from giantstep.core.base.types import DeviceArray, Floats, Integers
from giantstep.core.lab import algebra
from giantstep.core.lab.devices import to_numpy

EIGEN_PENALTIES = 24
"""More penalties than this at one sample size take one eigendecomposition (worth 25
Cholesky factors).
"""
_EPS = float(np.finfo(np.float64).eps)


Blocks = Iterable[tuple[DeviceArray, DeviceArray]]


def ridge_path(
    blocks: Blocks, width: int, sizes: Integers, penalties: Floats, xp: ModuleType
) -> tuple[DeviceArray, Floats]:
    """Minimise sum (y - F b)^2 + penalty |b|^2 over the first rows of a stream, for B
    pairs (size, penalty).

    Penalty 0 is the limit, the shortest solution. Returned are coefficients (width, B)
    and training errors (B,).
    """
    coefficients = xp.zeros((width, len(sizes)))
    train = np.zeros(len(sizes))
    for stage in accumulate(blocks, width, [int(size) for size in sizes], xp):
        if isinstance(stage, Rows):
            _fit_rows(stage, sizes, penalties, coefficients, train, xp)
        else:
            chosen = np.flatnonzero(sizes == stage.size)
            _fit_gram(stage, chosen, penalties, coefficients, train, xp)
    return coefficients, train


def _fit_rows(
    rows: Rows,
    sizes: Integers,
    penalties: Floats,
    coefficients: DeviceArray,
    train: Floats,
    xp: ModuleType,
) -> None:
    few = np.flatnonzero(sizes <= rows.sizes[-1])
    # its leading blocks serve the smaller sizes
    kernel = algebra.outer_gram(rows.features, xp)
    distinct = np.unique(penalties[few])
    left = []
    for penalty in distinct:
        chosen = few[penalties[few] == penalty]
        largest = int(sizes[chosen].max())
        many = len(distinct) > EIGEN_PENALTIES * len(rows.sizes)
        if many:
            factor = None
        else:
            factor = algebra.cholesky(kernel[:largest, :largest], float(penalty), xp)
        if factor is None:
            left.extend(chosen)
            continue
        half = algebra.solve_triangular(factor, rows.labels[:largest], False, xp)
        inside = xp.arange(largest)[:, None] < xp.asarray(sizes[chosen])[None, :]
        dual = algebra.solve_triangular(
            factor, xp.where(inside, half[:, None], 0.0), True, xp
        )
        del factor
        coefficients[:, chosen] = algebra.multiply(rows.features[:largest].T, dual, xp)
        train[chosen] = (
            to_numpy(xp.sum((float(penalty) * dual) ** 2, axis=0)) / sizes[chosen]
        )
    for size in np.unique(sizes[left]):
        asked = [b for b in left if sizes[b] == size]
        found = _by_eigenvectors(
            kernel[:size, :size], rows.labels[:size], penalties[asked], xp
        )
        for b, (dual, residual) in zip(asked, found):
            coefficients[:, b] = dual @ rows.features[:size]
            train[b] = float(residual @ residual) / size


def _by_eigenvectors(
    matrix: DeviceArray, right: DeviceArray, penalties: Floats, xp: ModuleType
) -> Iterator[tuple[DeviceArray, DeviceArray]]:
    """Yield the shortest solution of (matrix + penalty) x = right, and right - matrix x
    in the eigenbasis.
    """
    values, vectors = algebra.eigenvectors(matrix, xp)
    signal = right @ vectors
    kept = values > len(values) * _EPS * values[-1]
    for penalty in penalties.tolist():
        inverse = xp.where(kept, 1 / xp.where(kept, values + penalty, 1.0), 0.0)
        yield (
            vectors @ (inverse * signal),
            xp.where(kept, penalty * inverse * signal, signal),
        )


def _fit_gram(
    gram: Gram,
    chosen: Integers,
    penalties: Floats,
    coefficients: DeviceArray,
    train: Floats,
    xp: ModuleType,
) -> None:
    left = []
    for b in chosen:
        many = len(chosen) > EIGEN_PENALTIES
        if many:
            factor = None
        else:
            factor = algebra.cholesky(gram.matrix, float(penalties[b]), xp)
        if factor is None:
            left.append(b)
        else:
            half = algebra.solve_triangular(factor, gram.moment, False, xp)
            coefficients[:, b] = algebra.solve_triangular(factor, half, True, xp)
            del factor
    for b, (solution, _) in zip(
        left, _by_eigenvectors(gram.matrix, gram.moment, penalties[left], xp)
    ):
        coefficients[:, b] = solution
    for b in chosen:
        solution = coefficients[:, b]
        fitted = algebra.symmetric_product(gram.matrix, solution, xp)
        excess = (
            gram.energy - 2 * float(gram.moment @ solution) + float(solution @ fitted)
        )
        train[b] = max(excess, 0.0) / gram.size


# -- Streaming Gram matrices: all sample sizes of a learning curve from one pass over th


@dataclass
class Rows:
    """The first rows of the data, kept because they are no more than the columns."""

    # the sample sizes they answer, increasing; the last is the number of rows
    sizes: tuple[int, ...]
    features: DeviceArray  # (n, p) array
    labels: DeviceArray  # (n,) array


@dataclass
class Gram:
    """F^T F (lower triangle), F^T y and |y|^2 of the first `size` rows; the arrays grow
    on after the stage.
    """

    size: int
    matrix: DeviceArray
    moment: DeviceArray
    energy: float


def accumulate(
    blocks: Blocks,
    width: int,
    sizes: Sequence[int],
    xp: ModuleType,
    keep_rows: bool = True,
) -> Iterator[Rows | Gram]:
    """Pass once over blocks of features (m, width) and labels, also views of a buffer,
    and stop at every size.

    Sizes up to `width` are answered by one `Rows` stage (not with `keep_rows=False`),
    larger ones by a `Gram` stage.
    """
    wanted = sorted(set(sizes))
    if keep_rows:
        few = tuple(size for size in wanted if size <= width)
    else:
        few = ()
    many = wanted[len(few) :]
    source = iter(blocks)
    features, labels = xp.empty((0, width)), xp.empty(0)

    def pieces(rows: int) -> Iterator[tuple[DeviceArray, DeviceArray]]:
        nonlocal features, labels
        while rows > 0:
            if not len(features):
                features, labels = next(source)
            yield features[:rows], labels[:rows]
            features, labels, rows = (
                features[rows:],
                labels[rows:],
                rows - len(features),
            )

    head: Rows | None = None
    if few:
        head = Rows(few, xp.empty((few[-1], width)), xp.empty(few[-1]))
        filled = 0
        for some, own in pieces(few[-1]):
            head.features[filled : filled + len(own)] = some
            head.labels[filled : filled + len(own)] = own
            filled += len(own)
        yield head
    if not many:
        return
    sums = Gram(0, xp.zeros((width, width), order="F"), xp.zeros(width), 0.0)
    if head is not None:
        _add(sums, head.features, head.labels, xp)
        head = None
    for size in many:
        for some, own in pieces(size - sums.size):
            _add(sums, some, own, xp)
        yield sums


def _add(
    sums: Gram, features: DeviceArray, labels: DeviceArray, xp: ModuleType
) -> None:
    algebra.add_gram(sums.matrix, features, xp)
    sums.moment += algebra.column_sums(features, labels, xp)
    sums.energy += float(labels @ labels)
    sums.size += len(features)

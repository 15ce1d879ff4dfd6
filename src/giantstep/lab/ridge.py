"""Ridge regression along a learning curve: every sample size and penalty from one pass over the data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType

import numpy as np

from giantstep.lab.algebra import (
    add_gram,
    cholesky,
    column_sums,
    eigenvectors,
    multiply,
    outer_gram,
    solve_triangular,
    symmetric_product,
)
from giantstep.lab.devices import to_numpy
from giantstep.types import DeviceArray, Floats, Integers

EIGEN_PENALTIES = 24
"""More penalties than this at one sample size take one eigendecomposition (worth 25 Cholesky factors)."""
_EPS = float(np.finfo(np.float64).eps)


def ridge_path(
    blocks: Iterable[tuple[DeviceArray, DeviceArray]], width: int, sizes: Integers, penalties: Floats, xp: ModuleType
) -> tuple[DeviceArray, Floats]:
    """Minimise sum (y - F b)^2 + penalty |b|^2 over the first rows of a stream, for B pairs (size, penalty).

    Penalty 0 is the limit: the shortest of the solutions where there are several. With no more rows than columns the
    fit goes through F F^T, whose Cholesky factor contains that of every smaller size. The blocks are those of
    `accumulate`. Returned are coefficients (width, B) on the device and training errors |y - F b|^2/n (B,).
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
    rows: Rows, sizes: Integers, penalties: Floats, coefficients: DeviceArray, train: Floats, xp: ModuleType
) -> None:
    few = np.flatnonzero(sizes <= rows.sizes[-1])
    kernel = rows.kernel(xp)
    distinct = np.unique(penalties[few])
    left = []
    for penalty in distinct:
        chosen = few[penalties[few] == penalty]
        largest = int(sizes[chosen].max())
        many = len(distinct) > EIGEN_PENALTIES * len(rows.sizes)
        factor = None if many else cholesky(kernel[:largest, :largest], float(penalty), xp)
        if factor is None:
            left.extend(chosen)
            continue
        half = solve_triangular(factor, rows.labels[:largest], False, xp)
        inside = xp.arange(largest)[:, None] < xp.asarray(sizes[chosen])[None, :]
        dual = solve_triangular(factor, xp.where(inside, half[:, None], 0.0), True, xp)
        del factor
        coefficients[:, chosen] = multiply(rows.features[:largest].T, dual, xp)
        train[chosen] = to_numpy(xp.sum((float(penalty) * dual) ** 2, axis=0)) / sizes[chosen]
    for size in np.unique(sizes[left]):
        values, vectors = eigenvectors(kernel[:size, :size], xp)
        signal = rows.labels[:size] @ vectors
        kept = values > size * _EPS * values[-1]
        for b in (b for b in left if sizes[b] == size):
            penalty = float(penalties[b])
            inverse = xp.where(kept, 1 / xp.where(kept, values + penalty, 1.0), 0.0)
            coefficients[:, b] = (vectors @ (inverse * signal)) @ rows.features[:size]
            residual = xp.where(kept, penalty * inverse * signal, signal)
            train[b] = float(residual @ residual) / size


def _fit_gram(
    gram: Gram, chosen: Integers, penalties: Floats, coefficients: DeviceArray, train: Floats, xp: ModuleType
) -> None:
    left = []
    for b in chosen:
        many = len(chosen) > EIGEN_PENALTIES
        factor = None if many else cholesky(gram.matrix, float(penalties[b]), xp)
        if factor is None:
            left.append(b)
        else:
            half = solve_triangular(factor, gram.moment, False, xp)
            coefficients[:, b] = solve_triangular(factor, half, True, xp)
            del factor
    if left:
        values, vectors = eigenvectors(gram.matrix, xp)
        signal = gram.moment @ vectors
        kept = values > len(values) * _EPS * values[-1]
        for b in left:
            inverse = xp.where(kept, 1 / xp.where(kept, values + float(penalties[b]), 1.0), 0.0)
            coefficients[:, b] = vectors @ (inverse * signal)
    for b in chosen:
        solution = coefficients[:, b]
        fitted = symmetric_product(gram.matrix, solution, xp)
        excess = gram.energy - 2 * float(gram.moment @ solution) + float(solution @ fitted)
        train[b] = max(excess, 0.0) / gram.size


# -- Streaming Gram matrices: all sample sizes of a learning curve from one pass over the data ------------


@dataclass
class Rows:
    """The first rows of the data, kept because they are no more than the columns."""

    sizes: tuple[int, ...]  # the sample sizes they answer, increasing; the last is the number of rows
    features: DeviceArray  # (n, p) array
    labels: DeviceArray  # (n,) array

    def kernel(self, xp: ModuleType) -> DeviceArray:
        """Return F F^T (n, n), lower triangle filled; its leading blocks serve the smaller sizes."""
        return outer_gram(self.features, xp)


@dataclass
class Gram:
    """Sums over the first `size` rows: matrix = F^T F (lower triangle), moment = F^T y, energy = |y|^2.

    The arrays go on growing after the stage was yielded; copy what must stay.
    """

    size: int
    matrix: DeviceArray
    moment: DeviceArray
    energy: float


def accumulate(
    blocks: Iterable[tuple[DeviceArray, DeviceArray]],
    width: int,
    sizes: Sequence[int],
    xp: ModuleType,
    keep_rows: bool = True,
) -> Iterator[Rows | Gram]:
    """Pass once over blocks of (features, labels) and stop at every sample size.

    Sizes up to `width` are answered by one `Rows` stage, larger ones by a `Gram` stage each; `keep_rows=False` asks for
    a `Gram` stage at every size. Memory is O(p^2) beside the block: the rows are dropped once the Gram matrix has them.
    Blocks are arrays (m, width) and (m,), which may be views of a buffer that is used again; they hold at least the
    largest size.
    """
    wanted = sorted(set(sizes))
    few = tuple(size for size in wanted if size <= width) if keep_rows else ()
    many = wanted[len(few) :]
    source = iter(blocks)
    features, labels = xp.empty((0, width)), xp.empty(0)
    head: Rows | None = None
    if few:
        head = Rows(few, xp.empty((few[-1], width)), xp.empty(few[-1]))
        filled = 0
        while filled < few[-1]:
            features, labels = next(source)
            taken = min(few[-1] - filled, len(features))
            head.features[filled : filled + taken] = features[:taken]
            head.labels[filled : filled + taken] = labels[:taken]
            features, labels, filled = features[taken:], labels[taken:], filled + taken
        yield head
    if not many:
        return
    sums = Gram(0, xp.zeros((width, width), order="F"), xp.zeros(width), 0.0)
    if head is not None:
        _add(sums, head.features, head.labels, xp)
        head = None
    for size in many:
        while sums.size < size:
            if not len(features):
                features, labels = next(source)
            taken = min(size - sums.size, len(features))
            _add(sums, features[:taken], labels[:taken], xp)
            features, labels = features[taken:], labels[taken:]
        yield sums


def _add(sums: Gram, features: DeviceArray, labels: DeviceArray, xp: ModuleType) -> None:
    add_gram(sums.matrix, features, xp)
    sums.moment += column_sums(features, labels, xp)
    sums.energy += float(labels @ labels)
    sums.size += len(features)

"""Streaming Gram matrices: all sample sizes of a learning curve from one pass over the data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType

from giantstep.lab.algebra import add_gram, column_sums, outer_gram
from giantstep.types import DeviceArray


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

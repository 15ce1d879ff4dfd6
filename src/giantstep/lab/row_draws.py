"""Random rows of a table in place of Gaussian inputs, different ones for every use of them."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping

import numpy as np

from giantstep.errors import bad_field
from giantstep.lab import Draws
from giantstep.types import DeviceArray, Floats

LEAST_TEST = 100
"""Rows that are kept for the test at least."""


class RowDraws(Draws):
    """The draws of a trial whose inputs are rows of a table: each stream of `sizes` has its own rows, in random order.

    What no stream of the steps and the fit needs is left to the stream ``test``.
    """

    def __init__(self, draws: Draws, rows: Floats, sizes: Mapping[str, int]) -> None:
        super().__init__(draws.seed, draws.key, draws.trial, draws.device)
        used = sum(sizes.values())
        if used + LEAST_TEST > len(rows):
            shares = f"{used} for the steps and the fit, {LEAST_TEST} for the test"
            needed = f"a table of at least {used + LEAST_TEST} rows: {shares}"
            raise bad_field("inputs", f"{len(rows)} rows", needed)
        starts = np.cumsum([0, *sizes.values()])
        self.rows, self.starts = rows, dict(zip((*sizes, "test"), starts.tolist()))
        self.left = len(rows) - used
        host = np.random.default_rng([self.seed, self.trial, *self.key.encode()])
        self.order = host.permutation(len(rows))

    def anew(self) -> RowDraws:
        """Return draws that begin again, with the same rows in the same order."""
        again = copy.copy(self)
        again._generators = {}
        return again

    def chunks(self, stream: str, rows: int, columns: int) -> Iterator[tuple[int, int, DeviceArray]]:
        """Yield (start, stop, whitened rows) of a stream of inputs; other streams are standard normals."""
        if stream not in self.starts:
            yield from super().chunks(stream, rows, columns)
            return
        first = self.starts[stream]
        for start in range(0, rows, self.chunk):
            stop = min(start + self.chunk, rows)
            yield start, stop, self.xp.asarray(self.rows[self.order[first + start : first + stop]])

"""Seeds: random arrays by named stream, the same numbers wherever and in whatever order
a trial runs.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterator
from typing import Any, Self

import numpy as np

from giantstep.core.base.errors import bad_field
from giantstep.core.base.types import DeviceArray
from giantstep.core.lab.devices import namespace


def chunk_rows(device: str) -> int:
    """Return the rows that `Draws.chunks` draws at a time, part of what a seed means; a
    GPU is idle between few.
    """
    return 1024 if device == "cpu" else 8192


class Draws:
    """Random arrays of one trial, made on its device; there is no global state.

    Every named stream has a generator of its own, seeded by (seed, key, trial, stream);
    calls continue it. So another stream, another order of calls, or more trials change
    no number. CPU and GPU numbers differ. `key` says in words what the numbers belong
    to: the content of the point without the shared fields.
    """

    def __init__(self, seed: int, key: str, trial: int, device: str = "cpu") -> None:
        for name, value in (("seed", seed), ("trial", trial)):
            if (
                isinstance(value, bool)
                or not isinstance(value, int | np.integer)
                or not 0 <= value < 2**64
            ):
                raise bad_field(name, value, "a whole number from 0 to 2**64 - 1")
        self.seed = int(seed)
        self.key = key
        self.trial = int(trial)
        self.device = device
        self.xp = namespace(device)
        self.chunk = chunk_rows(device)
        self._generators: dict[str, Any] = {}

    def anew(self) -> Self:
        """Return draws that begin again: every stream from its first number."""
        again = copy.copy(self)
        again._generators = {}
        return again

    def generator(self, stream: str) -> Any:
        """Return the generator of a stream (NumPy's or CuPy's), made at its first
        use.
        """
        if stream not in self._generators:
            words = (
                word
                for part in (self.seed, self.key, self.trial, stream)
                for word in _words(part)
            )
            sequence = np.random.SeedSequence(list(words))
            if self.device == "cpu":
                bits: Any = np.random.PCG64(sequence)
            else:
                bits = self.xp.random.Philox4x3210(
                    seed=int(sequence.generate_state(1, np.uint64)[0])
                )
            self._generators[stream] = self.xp.random.Generator(bits)
        return self._generators[stream]

    def normal(
        self, stream: str, shape: int | tuple[int, ...], out: DeviceArray = None
    ) -> DeviceArray:
        """Return the next standard normals of a stream, float64 (written into `out`
        where given).
        """
        return self.generator(stream).standard_normal(shape, dtype=np.float64, out=out)

    def uniform(self, stream: str, shape: int | tuple[int, ...]) -> DeviceArray:
        """Return the next numbers of a stream, uniform on [0, 1), float64."""
        return self.generator(stream).random(shape, dtype=np.float64)

    def signs(self, stream: str, shape: int | tuple[int, ...]) -> DeviceArray:
        """Return the next fair signs +1.0 and -1.0 of a stream."""
        return self.xp.where(self.uniform(stream, shape) < 0.5, -1.0, 1.0)

    def chunks(
        self, stream: str, rows: int, columns: int
    ) -> Iterator[tuple[int, int, DeviceArray]]:
        """Yield (start, stop, standard normals) by `chunk` rows, always drawn in full;
        arrays are views of a buffer.
        """
        buffer = self.xp.empty((self.chunk, columns))
        for start in range(0, rows, self.chunk):
            stop = min(start + self.chunk, rows)
            self.normal(stream, buffer.shape, out=buffer)
            yield start, stop, buffer[: stop - start]


def _words(part: int | str) -> list[int]:
    if isinstance(part, int):
        known = part.to_bytes(8, "little")
    else:
        known = hashlib.sha256(part.encode()).digest()
    return np.frombuffer(known, "<u4").tolist()

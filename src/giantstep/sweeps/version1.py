"""Stores of version 1, which giantstep 0.2 wrote: their experiments are taken over, limits are solved again."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from giantstep.sweeps.keys import Ask, Point, digest_of
from giantstep.sweeps.store import Row
from giantstep.types import Array

TRIALS = (
    "old_results JOIN old_points ON old_points.id = point JOIN old_asks ON old_asks.id = ask "
    "WHERE source = 'experiment'"
)
"""All trials, once the tables are called ``old_...``."""
_READ = (
    "SELECT family, what, source, formula_version, settings, old_points.digest, scenario, dim, trial, reason, detail, "
    f"seconds, data, checksum FROM {TRIALS}"
)
_GONE = ("matrix", "stored")
"""A setting of `BayesLimit` that no longer exists, with its default, which is what is computed today."""


def experiments(connection: sqlite3.Connection) -> Iterator[tuple[Ask, Row]]:
    """Yield every trial of the tables ``old_...`` with what was asked; damaged ones are left out."""
    for family, what, source, version, settings, old, scenario, dim, *columns, data, check in connection.execute(_READ):
        asked = {name: value for name, value in json.loads(settings).items() if (name, value) != _GONE}
        ask = Ask(family, what, source, version, asked)
        trial, reason, detail, seconds = columns
        if check == _checksum(old, trial, reason, detail, b"", data):
            point = Point(digest_of(ask, scenario, float(dim)), scenario, float(dim))
            yield ask, Row(point, trial, _arrays(data), reason, detail, seconds)


def _arrays(data: bytes) -> dict[str, Array]:
    """Return arrays by name from a header of JSON and the numbers behind it."""
    content = zlib.decompress(data)
    offset = 4 + int.from_bytes(content[:4], "little")
    values: dict[str, Array] = {}
    for name, kind, shape, names in json.loads(content[4:offset]):
        if kind == "names":
            values[name] = np.array(names, dtype=str).reshape(shape)
            continue
        numbers = np.frombuffer(content, kind, int(np.prod(shape, dtype=np.int64)), offset)
        values[name] = numbers.reshape(shape).copy()
        offset += numbers.nbytes
    return values


def _checksum(*parts: Any) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        data = part if isinstance(part, bytes) else repr(part).encode()
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.digest()

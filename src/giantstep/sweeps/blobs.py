"""Arrays as bytes: what a row of the store holds, compressed, with a checksum over all that the row says."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from giantstep.types import Array

_LEVEL = 3
"""Of zlib, 1 to 9: numbers hardly shrink further above it."""
_NAMES = "names"
_NUMBERS = {"f": "<f8", "i": "<i8", "u": "<i8", "b": "|b1"}


class Damaged(Exception):
    """Bytes that are not what was written."""


def encode_arrays(values: Mapping[str, Any]) -> bytes:
    """Return arrays by name as bytes: a header of JSON, then the numbers (little-endian), compressed.

    >>> arrays = decode_arrays(encode_arrays({"q": [1.5, 2.0], "phase": "easy"}))
    >>> {name: array.tolist() for name, array in arrays.items()}
    {'q': [1.5, 2.0], 'phase': 'easy'}
    """
    header: list[list[Any]] = []
    parts: list[bytes] = []
    for name, value in values.items():
        array = np.asarray(value)
        if array.dtype.kind in "UO":
            header.append([name, _NAMES, array.shape, array.astype(str).reshape(-1).tolist()])
        else:
            kind = _NUMBERS[array.dtype.kind]
            header.append([name, kind, array.shape, []])
            parts.append(array.astype(kind, copy=False).tobytes())
    head = json.dumps(header).encode()
    return zlib.compress(b"".join([len(head).to_bytes(4, "little"), head, *parts]), _LEVEL)


def decode_arrays(data: bytes) -> dict[str, Array]:
    """Return the arrays that `encode_arrays` wrote; raise `Damaged` where the bytes are others."""
    try:
        content = zlib.decompress(data)
        size = int.from_bytes(content[:4], "little")
        header = json.loads(content[4 : 4 + size])
        offset, values = 4 + size, {}
        for name, kind, shape, names in header:
            if kind == _NAMES:
                values[str(name)] = np.array(names, dtype=str).reshape(shape)
                continue
            numbers = np.frombuffer(content, kind, int(np.prod(shape, dtype=np.int64)), offset)
            values[str(name)] = numbers.reshape(shape).copy()
            offset += numbers.nbytes
    except (zlib.error, ValueError, TypeError) as error:
        raise Damaged(str(error)) from None
    return values


def checksum(*parts: bytes | str | int | float | None) -> bytes:
    """Return 16 bytes that change where any of the parts does."""
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        data = part if isinstance(part, bytes) else repr(part).encode()
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.digest()

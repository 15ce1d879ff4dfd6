"""Large arrays between the workers and the server: their bytes as text, which the server keeps without reading."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from giantstep.types import Floats


@dataclass(frozen=True)
class Packed:
    """An array of floats: its shape, and its bytes in base 64."""

    shape: tuple[int, ...]
    data: str


def pack(array: Floats) -> dict[str, Any]:
    """Return an array as the fields of `Packed`, in strict JSON data."""
    import numpy as np

    numbers = np.ascontiguousarray(array, dtype="<f8")
    return {"shape": list(numbers.shape), "data": base64.b64encode(numbers.tobytes()).decode()}


def unpacked(value: Any) -> Any:
    """Return tables with the arrays in place of what is packed.

    >>> import numpy as np
    >>> unpacked({"data": {"inputs": Packed(**pack(np.eye(2)))}})["data"]["inputs"].tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    if isinstance(value, Packed):
        import numpy as np

        return np.frombuffer(base64.b64decode(value.data), dtype="<f8").reshape(value.shape)
    if isinstance(value, dict):
        return {name: unpacked(inner) for name, inner in value.items()}
    if isinstance(value, list) and any(isinstance(entry, dict) for entry in value):  # a list of parts
        return [unpacked(entry) for entry in value]
    return value

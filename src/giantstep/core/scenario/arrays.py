"""Arrays as fields of a scenario: immutable, compared by content.

Large ones lie beside a file as ``.npz``, named by the hash of their content: no file is
read with another array.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike
from pydantic import BaseModel, BeforeValidator, PlainSerializer, WithJsonSchema

from giantstep.core.base.errors import InputError
from giantstep.core.base.files import atomic_write
from giantstep.core.base.types import Array, Floats
from giantstep.core.scenario.lists import holds_parts

WRITTEN_OUT = 256
"""Arrays of at most this many numbers are written into a file; larger ones lie beside
it.
"""


class FrozenArray:
    """A read-only array of real numbers with the equality of its content;
    ``np.asarray`` gives the numbers.
    """

    __slots__ = ("_digest", "values")
    values: Floats

    def __init__(self, values: ArrayLike) -> None:
        # minus zero is zero: the same content
        numbers = np.asarray(np.array(values, dtype=np.float64) + 0.0)
        numbers.setflags(write=False)
        self.values = numbers
        self._digest = ""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if copy or dtype is not None:
            return np.array(self.values, dtype=dtype)
        return self.values

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FrozenArray):
            return NotImplemented
        return self is other or np.array_equal(self.values, other.values)

    def __hash__(self) -> int:
        return hash(self.digest())

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        if self.size <= 16:
            return repr(self.values.tolist())
        return f"<array {'x'.join(map(str, self.shape))}>"

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of its dimensions."""
        return self.values.shape

    @property
    def size(self) -> int:
        """How many numbers it holds."""
        return self.values.size

    def digest(self) -> str:
        """Return the hash of shape and numbers by which its file is named."""
        if not self._digest:
            content = (
                repr(self.shape).encode() + np.ascontiguousarray(self.values).tobytes()
            )
            self._digest = hashlib.sha256(content).hexdigest()[:24]
        return self._digest

    @property
    def file(self) -> str:
        """Name of the file that holds it where it is too large to be written out."""
        return f"{self.digest()}.npz"


def as_array(value: Any) -> FrozenArray:
    """Return numbers, lists of numbers or arrays as a `FrozenArray`; what is not finite
    or no number is refused.
    """
    if isinstance(value, FrozenArray):
        return value
    if isinstance(value, Mapping) and "npz" in value:
        raise InputError(
            f"The array in {value['npz']} is not here: it is read together with the"
            " file that names it."
        )
    if isinstance(value, str | bytes | Mapping | bool):
        raise ValueError("an array of numbers")
    try:
        numbers = np.asarray(value)
    except ValueError:
        raise ValueError("an array of numbers with rows of equal length") from None
    if numbers.dtype.kind not in "iuf" and numbers.size:
        raise ValueError("an array of numbers")
    if not np.isfinite(numbers.astype(np.float64)).all():
        raise ValueError("an array of finite numbers")
    return FrozenArray(numbers)


def _array_json(array: FrozenArray) -> Any:
    is_small = array.size <= WRITTEN_OUT
    if is_small:
        return array.values.tolist()
    return {"npz": array.file, "shape": list(array.shape)}


ArrayField = Annotated[
    FrozenArray,
    BeforeValidator(as_array),
    PlainSerializer(_array_json, when_used="json"),
    WithJsonSchema(
        {"type": "array", "description": "an array of finite numbers, as nested lists"}
    ),
]
"""An array of finite numbers as a field of a scenario; it may not vary over a grid."""


def large_arrays(model: BaseModel) -> Iterator[FrozenArray]:
    """Yield the arrays of a scenario that lie beside its file."""
    for _, value in model:
        for part in value if holds_parts(value) else (value,):
            if isinstance(part, BaseModel):
                yield from large_arrays(part)
        if isinstance(value, FrozenArray) and value.size > WRITTEN_OUT:
            yield value


def write_arrays(model: BaseModel, folder: Path) -> list[Path]:
    """Write the large arrays of a scenario into `folder`; one that is there already has
    the same content.
    """
    written = []
    for array in large_arrays(model):
        path = folder / array.file
        if not path.exists():
            with atomic_write(path) as temporary:
                np.savez_compressed(temporary, array=array.values)
        written.append(path)
    return written


def with_arrays(content: Any, folder: Path) -> Any:
    """Return the content of a file with every ``{ npz = "..." }`` replaced by the array
    that lies in `folder`.
    """
    if isinstance(content, Mapping):
        if "npz" in content:
            return _read(str(content["npz"]), folder)
        return {name: with_arrays(value, folder) for name, value in content.items()}
    if holds_parts(content):
        return [with_arrays(entry, folder) for entry in content]
    return content


def _read(name: str, folder: Path) -> FrozenArray:
    path = folder / name
    if Path(name).name != name:
        raise InputError(
            f"The array file {name} must lie beside the file that names it, without a"
            " folder in its name."
        )
    try:
        with np.load(path, allow_pickle=False) as stored:
            array = as_array(stored["array"])
    except (OSError, KeyError, ValueError) as error:
        if isinstance(error, FileNotFoundError):
            reason = "there is no such file"
        else:
            reason = "it is not one giantstep wrote"
        raise InputError(
            f"The array file {name} cannot be read from {folder}: {reason}."
        ) from None
    if array.file != name:
        raise InputError(
            f"The array file {name} was changed: its content has the name {array.file}."
        )
    return array

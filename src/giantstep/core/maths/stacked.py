"""Dataclasses of arrays that share the axis of the points."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np


class Stacked:
    """A dataclass whose arrays, and parts that are stacked themselves, start with one
    axis of points.
    """

    shared: ClassVar[tuple[str, ...]] = ()  # fields that belong to all points
    goes_along: ClassVar[tuple[str, ...]] = ()
    """Fields without a place in the constructor that some of the points take along.
    Points that are joined or overwritten lose all such fields: a solver left them, and
    finds them again.
    """

    __dataclass_fields__: ClassVar[dict[str, Any]]
    __match_args__: ClassVar[tuple[str, ...]]

    def _stacks(self) -> dict[str, Any]:
        # `__match_args__` are the names of the constructor, in its order
        stacks = {}
        for name in self.__match_args__:
            value = getattr(self, name)
            if name not in self.shared and value is not None:
                stacks[name] = value
        return stacks

    def take(self, index: Any) -> Self:
        """Return the points in `index`."""
        if isinstance(index, slice) and index == slice(None):
            # all points: no copy, and what a solver has left on it stays
            return self
        stacks = {name: _take(value, index) for name, value in self._stacks().items()}
        taken = dataclasses.replace(self, **stacks)
        for name in self.goes_along:
            value = getattr(self, name)
            if value is not None:
                value = value.take(index)
            setattr(taken, name, value)
        return taken

    def for_all(self, count: int) -> Self:
        """Return the one point as `count` of them, its arrays kept once."""
        # views with stride 0, which `take` knows
        stacks = {
            name: np.broadcast_to(value, (count, *value.shape[1:]))
            for name, value in self._stacks().items()
        }
        return dataclasses.replace(self, **stacks)

    def put(self, index: Any, part: Self) -> None:
        """Overwrite the points in `index`, array by array."""
        for name, value in self._stacks().items():
            if isinstance(value, np.ndarray):
                value[index] = getattr(part, name)
            elif isinstance(value, Stacked):
                value.put(index, getattr(part, name))
        # what a solver has left on it belongs to the points as they were
        for field in dataclasses.fields(self):
            if not field.init:
                setattr(self, field.name, None)

    @classmethod
    def join(cls, parts: Sequence[Self]) -> Self:
        """Concatenate chunks of points, whose shared fields are the same."""
        if len(parts) == 1:
            # no copy of the usual case
            return parts[0]
        stacks = {
            name: _join([getattr(part, name) for part in parts])
            for name in parts[0]._stacks()
        }
        return dataclasses.replace(parts[0], **stacks)


def _join(values: Sequence[Any]) -> Any:
    if isinstance(values[0], np.ndarray):
        return np.concatenate(values)
    return type(values[0]).join(values)


def _take(value: Any, index: Any) -> Any:
    if not isinstance(value, np.ndarray):
        return value.take(index)
    same_for_all = value.strides[:1] == (0,)
    if not same_for_all or not isinstance(index, np.ndarray):
        return value[index]
    # a view of the one point that is kept, in place of copies of it
    if index.dtype == bool:
        count = int(np.count_nonzero(index))
    else:
        count = len(index)
    if count <= len(value):
        return value[:count]
    return np.broadcast_to(value[:1], (count, *value.shape[1:]))

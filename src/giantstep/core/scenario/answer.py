"""What the limit of a family answers, and arrays of answers that differ in length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from giantstep.core.base.errors import GiantstepError
from giantstep.core.base.types import Array, Floats, Integers, Strings


@dataclass
class Answer:
    """What the limit returns for a batch of B points.

    `attrs` are facts about how the answer was made (``theory``, ...), kept in the
    result's attributes. One that depends on ``points["dim"]`` says how in
    ``finite_size``, so that a comparison knows that it is not the bare limit; in
    ``notes`` are sentences that reports show. `approximations` (what is approximated on
    the way -> how far off that may be) are kept there, too: curves are then called
    approximate, and a verdict that disagrees names them.

    How far the numbers reach is said point by point, and turned into notes by `reach`:
    `jumps` for the bare limit, `neglected` for an answer at a finite dimension.
    """

    # variable -> (B, ...), with the dims of the variable after the batch
    values: dict[str, Array]
    status: Strings  # (B,); empty where the point was solved, otherwise the reason
    residual: Floats
    iterations: Integers
    # own dims such as ``x``; blocks and neurons count from 1
    coords: dict[str, Array] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)  # sentences shown once per call
    attrs: dict[str, Any] = field(default_factory=dict)
    approximations: dict[str, str] = field(default_factory=dict)
    # field at whose value 0 the bare limit jumps -> dimension (B,) far above which it
    # holds this near to it; 0: any
    jumps: dict[str, Floats] = field(default_factory=dict)
    # what an answer at a finite dimension leaves out, in words -> its estimated size
    # (B,), relative to the first error
    neglected: dict[str, Floats] = field(default_factory=dict)

    @classmethod
    def blank(cls, count: int) -> Answer:
        """Return an answer at `count` points, all of them solved, whose values are to
        be `put`.
        """
        return cls(
            values={},
            status=np.full(count, "", dtype=object),
            residual=np.zeros(count),
            iterations=np.zeros(count, np.int64),
        )

    @classmethod
    def unsolved(cls, count: int, reason: str) -> Answer:
        """Return an answer at `count` points without values, all of them for the same
        reason.
        """
        return replace(
            cls.blank(count),
            status=np.full(count, reason, object),
            residual=np.full(count, np.nan),
        )

    @classmethod
    def closed(cls, values: dict[str, Array], **more: Any) -> Answer:
        """Return an answer in closed form: every point is solved, without iterations;
        `more` are other attributes.
        """
        wanted = "Answer.closed takes arrays with an entry for each of the points"
        if not values:
            raise GiantstepError(f"{wanted}, but there is none.")
        first = next(iter(values))
        shape = np.shape(values[first])
        if not shape:
            raise GiantstepError(f"{wanted}, but `{first}` is one number.")
        return replace(cls.blank(shape[0]), values=values, **more)

    @classmethod
    def joined(cls, answers: Sequence[tuple[Integers, Answer]]) -> Answer:
        """Return answers at parts of the points as one; entries that some have not
        (later times) are NaN.
        """
        if len(answers) == 1:
            return answers[0][1]
        count = sum(len(rows) for rows, _ in answers)
        whole = cls.blank(count)
        for rows, answer in answers:
            for name, array in answer.values.items():
                own_shape = array.shape[1:]
                room = whole.room_for(name, own_shape)
                room[corner(rows, own_shape)] = array
            whole.status[rows] = answer.status
            whole.residual[rows] = answer.residual
            whole.iterations[rows] = answer.iterations
            for text in answer.warnings:
                if text not in whole.warnings:
                    whole.warnings.append(text)
            whole.attrs |= answer.attrs
            whole.approximations |= answer.approximations
            _put_sizes(whole.jumps, rows, answer.jumps, count)
            _put_sizes(whole.neglected, rows, answer.neglected, count)
        return whole

    def room_for(self, name: str, shape: tuple[int, ...]) -> Array:
        """Return a variable, NaN where it is not filled, enlarged where it has no room
        for so many entries a point.
        """
        count = len(self.status)
        known = self.values.get(name)
        if known is None:
            self.values[name] = np.full((count, *shape), np.nan)
            return self.values[name]
        own_shape = known.shape[1:]
        largest = largest_shape([shape, own_shape])
        if own_shape != largest:
            room = np.full((count, *largest), np.nan)
            room[corner(slice(len(known)), own_shape)] = known
            self.values[name] = room
        return self.values[name]

    def put(self, index: Any, values: Mapping[str, Any]) -> None:
        """Fill in variables at the points `index`, or at one point; the rest stays NaN
        (of names: no name).
        """
        for name, value in values.items():
            array = np.asarray(value)
            own_shape = array.shape[1:] if np.ndim(index) else array.shape
            if name not in self.values:
                shape = (len(self.status), *own_shape)
                self.values[name] = blank_array(shape, like=array)
            self.values[name][index] = array


def _put_sizes(
    whole: dict[str, Floats], rows: Integers, sizes: Mapping[str, Floats], count: int
) -> None:
    """Put the sizes that an answer at some of the points has into those of all points;
    0 where it says none.
    """
    for name, values in sizes.items():
        whole.setdefault(name, np.zeros(count))[rows] = values


def blank_array(shape: Sequence[int], like: Array) -> Array:
    """Return an array of NaN, or of empty names where `like` holds names."""
    if like.dtype.kind in "UO":
        return np.full(shape, "", dtype=object)
    return np.full(shape, np.nan)


def largest_shape(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Return the shape into which all of them fit."""
    return tuple(map(max, zip(*shapes)))


def corner(index: Any, shape: Sequence[int]) -> Any:
    """Return where an array of that shape goes at `index` of a larger one."""
    return (index, *map(slice, shape))


def last_known(values: Floats, axis: int) -> Floats:
    """Return the last number along an axis, where a trajectory ends; beyond it a
    shorter one is padded with NaN.
    """
    values = np.moveaxis(values, axis, -1)
    known = np.isfinite(values)
    # the first that is known from the end on
    last = known.shape[-1] - 1 - np.argmax(known[..., ::-1], axis=-1)
    return np.take_along_axis(values, last[..., None], axis=-1)[..., 0]


def pad_stack(arrays: Sequence[Any]) -> Array:
    """Return arrays of one variable as one, (B, ...), blank where one is shorter or
    None.
    """
    known = [np.asarray(array) for array in arrays if array is not None]
    shapes = {array.shape for array in known}
    if len(known) == len(arrays) and len(shapes) == 1:
        is_text = known[0].dtype.kind in "UO"
        return np.stack(known).astype(object if is_text else np.float64)
    full = blank_array((len(arrays), *largest_shape(list(shapes))), like=known[0])
    for index, array in enumerate(arrays):
        if array is not None:
            full[corner(index, np.shape(array))] = array
    return full

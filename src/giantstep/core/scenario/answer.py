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
            {},
            np.full(count, "", dtype=object),
            np.zeros(count),
            np.zeros(count, np.int64),
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
        first, shape = next(
            ((name, np.shape(value)) for name, value in values.items()), ("", ())
        )
        if not shape:
            said = f"`{first}` is one number" if first else "there is none"
            raise GiantstepError(
                "Answer.closed takes arrays with an entry for each of the points, but"
                f" {said}."
            )
        return replace(cls.blank(shape[0]), values=values, **more)

    @classmethod
    def joined(cls, answers: Sequence[tuple[Integers, Answer]]) -> Answer:
        """Return answers at parts of the points as one; entries that some have not
        (later times) are NaN.
        """
        if len(answers) == 1:
            return answers[0][1]
        whole = cls.blank(sum(len(rows) for rows, _ in answers))
        for rows, answer in answers:
            for name, array in answer.values.items():
                whole.room_for(name, array.shape[1:])[corner(rows, array.shape[1:])] = (
                    array
                )
            whole.status[rows], whole.residual[rows] = answer.status, answer.residual
            whole.iterations[rows] = answer.iterations
            whole.warnings += [
                text for text in answer.warnings if text not in whole.warnings
            ]
            whole.attrs |= answer.attrs
            whole.approximations |= answer.approximations
            for joint, own in (
                (whole.jumps, answer.jumps),
                (whole.neglected, answer.neglected),
            ):
                for name, sizes in own.items():
                    joint.setdefault(name, np.zeros(len(whole.status)))[rows] = sizes
        return whole

    def room_for(self, name: str, shape: tuple[int, ...]) -> Array:
        """Return a variable, NaN where it is not filled, enlarged where it has no room
        for so many entries a point.
        """
        known = self.values.get(name)
        if known is None:
            largest = shape
        else:
            largest = largest_shape([shape, known.shape[1:]])
        if known is None or known.shape[1:] != largest:
            self.values[name] = np.full((len(self.status), *largest), np.nan)
            if known is not None:
                self.values[name][corner(slice(len(known)), known.shape[1:])] = known
        return self.values[name]

    def put(self, index: Any, values: Mapping[str, Any]) -> None:
        """Fill in variables at the points `index`, or at one point; the rest stays NaN
        (of names: no name).
        """
        for name, value in values.items():
            array = np.asarray(value)
            own = array.shape[1:] if np.ndim(index) else array.shape
            self.values.setdefault(name, blank_array((len(self.status), *own), array))[
                index
            ] = array


def blank_array(shape: Sequence[int], like: Array) -> Array:
    """Return an array of NaN, or of empty names where `like` holds names."""
    names = like.dtype.kind in "UO"
    return np.full(
        shape, "" if names else np.nan, dtype=object if names else np.float64
    )


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
    known = np.isfinite(np.moveaxis(values, axis, -1))
    last = known.shape[-1] - 1 - np.argmax(known[..., ::-1], axis=-1)
    return np.take_along_axis(np.moveaxis(values, axis, -1), last[..., None], axis=-1)[
        ..., 0
    ]


def pad_stack(arrays: Sequence[Any]) -> Array:
    """Return arrays of one variable as one, (B, ...), blank where one is shorter or
    None.
    """
    known = [np.asarray(array) for array in arrays if array is not None]
    shapes = {array.shape for array in known}
    if len(known) == len(arrays) and len(shapes) == 1:
        return np.stack(known).astype(
            object if known[0].dtype.kind in "UO" else np.float64
        )
    full = blank_array((len(arrays), *largest_shape(list(shapes))), known[0])
    for index, array in enumerate(arrays):
        if array is not None:
            full[corner(index, np.shape(array))] = array
    return full

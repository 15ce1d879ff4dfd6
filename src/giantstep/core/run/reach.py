"""How far an answer of the limit reaches: where the bare limit jumps, and what a finite
size leaves out.

A family says both point by point (`Answer.jumps`, `Answer.neglected`); here that
becomes sentences. No family is known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from giantstep.core.base.errors import GiantstepError
from giantstep.core.base.types import Floats, Indices, Points
from giantstep.core.run.returns import answer_of
from giantstep.core.scenario.answer import Answer, last_known

if TYPE_CHECKING:
    from giantstep.core.run.request import Request
    from giantstep.core.scenario.model import Scenario

REACHABLE = 1000
"""Dimension of a large network that one can still train: what a bare limit is held
against near a jump.
"""
FAR = 30.0
"""Dimension far above which a limit holds, from which on it is held against that of a
reachable network.
"""
APART = 0.05
"""Relative difference between the limit and the theory at `REACHABLE` that is worth a
word.
"""
LARGE = 0.02
"""Relative size of what a finite dimension leaves out that is worth a word."""


class Jump(NamedTuple):
    """A place near which the bare limit jumps: at 0 of a field, and the dimension far
    above which it holds here.
    """

    field: str
    dim: float

    @property
    def sentence(self) -> str:
        """Say what it means."""
        return (
            f"the limit jumps at {self.field} = 0, and this near to it holds for d far"
            f" above {self.dim:.2g} only"
        )


def jumps_of(answer: Answer, point: int) -> Jump | None:
    """Return the jump that matters most at a point of an answer; None where it is far
    from all.
    """
    found = [Jump(name, float(dims[point])) for name, dims in answer.jumps.items()]
    near = [jump for jump in found if jump.dim > FAR]
    return max(near, key=lambda jump: jump.dim, default=None)


def jump_at(
    scenario: Scenario,
    points: Points,
    what: str,
    settings: Mapping[str, Any],
    answer: Answer,
    observed: Callable[[Answer], Floats],
) -> Jump | None:
    """Return the jump that decides the bare limit at one point; None where a reachable
    network has much the same.
    """
    jump = jumps_of(answer, 0)
    if jump is None:
        return None
    there = float(observed(answer)[0])
    reached = float(
        _at_reachable(scenario, points, np.arange(1), what, settings, observed)[0]
    )
    return jump if abs(reached - there) > APART * abs(there) else None


def neglected_of(answer: Answer, point: int) -> tuple[float, str]:
    """Return the estimated size of what an answer leaves out at a point, and what that
    is.
    """
    parts = {
        words: float(sizes[point])
        for words, sizes in answer.neglected.items()
        if sizes[point] > 0
    }
    largest = max(parts, key=parts.__getitem__, default="")
    return sum(parts.values()), largest


def notes_on_reach(
    request: Request, scenario: Scenario, points: Points, answer: Answer, settings: Any
) -> list[str]:
    """Return the notes of an answer at the points of one batch."""
    return [
        *_notes_on_jumps(request, scenario, points, answer, settings),
        *_notes_on_neglect(request, answer),
    ]


def _notes_on_jumps(
    request: Request,
    scenario: Scenario,
    points: Points,
    answer: Answer,
    settings: Mapping[str, Any],
) -> list[str]:
    solved = np.asarray(answer.status) == ""
    name = _first_error(request, answer)
    notes = []
    for field, dims in answer.jumps.items():
        near = np.flatnonzero(solved & (dims > FAR) & np.isinf(points["dim"]))
        if not len(near) or not name:
            continue
        # one answer more: others of the grid are farther from the jump
        nearest = near[[np.argmax(dims[near])]]
        reached = float(
            _at_reachable(
                scenario,
                points,
                nearest,
                request.what,
                settings,
                partial(_column, name=name),
            )[0]
        )
        there = float(_column(answer, name)[nearest][0])
        if not abs(reached - there) > APART * abs(there):
            continue
        sentence = Jump(field, float(dims[nearest][0])).sentence
        said = sentence[0].upper() + sentence[1:]
        if len(solved) > 1:
            said = f"At {len(near)} of {len(solved)} points {sentence}"
        notes.append(
            f"{said}: {name} is {there:.3g} in the limit and {reached:.3g} at d ="
            f" {REACHABLE}; give dim=."
        )
    return notes


def _notes_on_neglect(request: Request, answer: Answer) -> list[str]:
    solved = np.asarray(answer.status) == ""
    name = _first_error(request, answer) or "the error"
    notes = []
    for words, sizes in answer.neglected.items():
        large = solved & (sizes > LARGE)
        if not large.any():
            continue
        percent = 100 * float(np.max(sizes[large]))
        if len(solved) == 1:
            where = ""
        else:
            where = f" at {large.sum()} of {len(solved)} points"
        notes.append(
            f"The theory at a finite dim leaves out about {percent:.2g}% of"
            f" {name}{where}: {words}."
        )
    return notes


def _at_reachable(
    scenario: Scenario,
    points: Points,
    rows: Indices,
    what: str,
    settings: Mapping[str, Any],
    observed: Callable[[Answer], Floats],
) -> Floats:
    """Return what is observed of the theory at a reachable dimension at some points;
    NaN where there is none.
    """
    some = {key: column[rows] for key, column in points.items()}
    some["dim"] = np.full(len(rows), float(REACHABLE))
    try:
        answer = answer_of(scenario, some, what, settings)
    except (
        GiantstepError,
        MemoryError,
        ArithmeticError,
        ValueError,
    ):  # no theory at a finite dimension, or no answer
        return np.full(len(rows), np.nan)
    return np.where(np.asarray(answer.status) == "", observed(answer), np.nan)


def _first_error(request: Request, answer: Answer) -> str:
    """Return the first variable of a question's figure that is one number for each
    point, or its last in time.
    """
    known = (name for name in request.question.plot if name in answer.values)
    return next((name for name in known if np.ndim(answer.values[name]) <= 2), "")


def _column(answer: Answer, name: str) -> Floats:
    values = np.asarray(answer.values[name], dtype=np.float64)
    return values if values.ndim == 1 else last_known(values, 1)

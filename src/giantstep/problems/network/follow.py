"""The steps of a problem one after the other: the layer at every time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from giantstep.core.base.errors import Code, InputError
from giantstep.core.base.types import Integers
from giantstep.problems.network.layer import Layer, trouble
from giantstep.problems.network.problem import Problem
from giantstep.problems.network.splits import split_blocks, split_overlaps
from giantstep.problems.network.start import start


@dataclass(frozen=True)
class Moment:
    """A problem at one time: which parameter sets are still followed, their problem and
    their layer.
    """

    time: int
    sets: Integers
    problem: Problem
    layer: Layer


def follow(problem: Problem, theory: str, reasons: dict[int, str]) -> Iterator[Moment]:
    """Yield the layer before the first step and after every one; why sets are given up
    is put into `reasons`.
    """
    sets = np.arange(len(problem.frame))
    if theory != "split":
        layer = start(problem)
    # isotropic inputs have no leading channel: there the overlaps of the rows are split
    elif problem.isotropic:
        problem, layer = split_overlaps(problem)
    else:
        problem, layer = split_blocks(problem)
    yield Moment(0, sets, problem, layer)
    steps = problem.network.steps
    for number, step in enumerate(steps):
        try:
            layer = step.advance(problem, layer, number, theory)
        except InputError as error:  # more nodes than there is memory for
            # all sets take the step together, so that all of them are given up
            reasons |= dict.fromkeys(sets.tolist(), reason_of(error))
            return
        why = trouble(problem, layer)
        where = f" (steps.{number})" if len(steps) > 1 else ""
        for row in np.flatnonzero(why != ""):
            # rows count the sets that are left, reasons those of the beginning
            reasons[int(sets[row])] = f"{why[row]}{where}"
        kept = np.flatnonzero(why == "")
        if not kept.size:
            return
        # a set in trouble would make the equations of the others fail
        if len(kept) < len(sets):
            sets = sets[kept]
            layer = layer.take(kept)
            problem = problem.take(kept)
        yield Moment(number + 1, sets, problem, layer)


def reason_of(error: InputError) -> str:
    """Return why a point is not answered: what was refused on its way."""
    text = str(error).rstrip(".")
    reason = text[:1].lower() + text[1:]
    if error.code is not Code.TOO_MANY_NODES:
        return reason
    return (
        reason + "; smaller rates, fewer `atoms` of the inputs or a preconditioner"
        " need fewer, gs.simulate none"
    )

"""The steps of a problem one after the other: the layer at every time, and why a parameter set ends early."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from giantstep.errors import Code, InputError
from giantstep.families.network.layer import Layer, start, trouble
from giantstep.families.network.problem import Problem
from giantstep.gaussian.grids import hermite_rule
from giantstep.types import Integers

SPLIT_NODES = {1: 7, 2: 5}
"""Sub-blocks of each block, for one block and for more: structured_inputs (8.2)."""


@dataclass(frozen=True)
class Moment:
    """A problem at one time: which parameter sets are still followed, their problem and their layer."""

    time: int
    sets: Integers
    problem: Problem
    layer: Layer


def follow(problem: Problem, theory: str, reasons: dict[int, str]) -> Iterator[Moment]:
    """Yield the layer before the first step and after every one; why sets are given up is put into `reasons`."""
    sets = np.arange(len(problem.frame))
    layer = start(problem)
    if theory == "split":
        problem, layer = _split_blocks(problem)
    yield Moment(0, sets, problem, layer)
    for number, step in enumerate(problem.network.steps):
        try:
            layer = step.advance(problem, layer, number, theory)
        except InputError as error:  # more nodes than there is memory for
            reasons |= dict.fromkeys(sets.tolist(), reason_of(error))
            return
        found = trouble(problem, layer)
        where = f" (steps.{number})" if len(problem.network.steps) > 1 else ""
        reasons |= {int(sets[row]): f"{found[row]}{where}" for row in np.flatnonzero(found != "")}
        kept = np.flatnonzero(found == "")
        if not kept.size:
            return
        if len(kept) < len(sets):
            sets, layer, problem = sets[kept], layer.take(kept), problem.take(kept)
        yield Moment(number + 1, sets, problem, layer)


def reason_of(error: InputError) -> str:
    """Return why a point is not answered: what was refused on its way."""
    text = str(error).rstrip(".")
    fewer = "; smaller rates, fewer `atoms` of the inputs or a preconditioner need fewer, gs.simulate none"
    return text[:1].lower() + text[1:] + (fewer if error.code is Code.TOO_MANY_NODES else "")


def _split_blocks(problem: Problem) -> tuple[Problem, Layer]:
    """Return the problem with sub-blocks along the leading channel, and its start: structured_inputs (8.2).

    What is linear in the channel n = L^1/2 V^T of one target direction at an infinite dimension is followed at the
    nodes of a Gauss-Hermite rule at a finite one: n.eps = x_l, so that U starts at L^1/2 n x_l/sqrt(d).
    """
    nodes, weights = hermite_rule(SPLIT_NODES[min(len(problem.zeta), 2)])
    finer = dataclasses.replace(
        problem,
        zeta=np.repeat(problem.zeta, len(nodes)),
        pi=(problem.pi[:, :, None] * weights / weights.sum()).reshape(len(problem.pi), -1),
    )
    layer, root = start(finer), np.sqrt(problem.coordinate_eigenvalues)
    n = root * problem.inputs.frame[0]
    n /= np.linalg.norm(n)
    dim = float(problem.numbers["dim"][0])
    U = np.tile(nodes, len(problem.zeta))[:, None] * (root * n) / np.sqrt(dim)
    layer.U[:] = U
    layer.JU[..., 1:] -= np.outer(root * n, n)
    return finer, layer

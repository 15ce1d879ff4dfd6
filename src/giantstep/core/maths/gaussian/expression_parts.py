"""Parts of an expression that depend on one direction."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from giantstep.core.base.types import Floats
from giantstep.core.maths.gaussian.expression import affine, degree, evaluate_node
from giantstep.core.maths.gaussian.tree import Call, Node, Number, VariableNode


class RidgePart(NamedTuple):
    """A part of an expression that is a function of <direction, z> alone."""

    direction: Floats
    node: Node

    def values(self, t: Floats) -> Floats:
        """Return its values where <direction, z> = t and every other coordinate is
        zero.
        """
        variables = {
            name: t * self.direction[_axis(name)] for name in _names(self.node)
        }
        return np.asarray(evaluate_node(self.node, variables), dtype=float)


def _axis(name: str) -> int:
    return int(name[1:]) - 1 if len(name) > 1 else 0


def _names(node: Node) -> tuple[str, ...]:
    if isinstance(node, VariableNode):
        return (node.name,)
    if not isinstance(node, Call):
        return ()
    return tuple(
        sorted({name for argument in node.arguments for name in _names(argument)})
    )


def _direction_of(node: Node, k: int) -> Floats | None:
    """Return the unit vector v where a node is a function of <v, z> alone; zero for a
    constant, None otherwise.
    """
    names = _names(node)
    none = np.zeros(k)
    if not names:
        return none
    form = affine(node, names)
    if form is not None:
        vector = none.copy()
        vector[[_axis(name) for name in names]] = form[0]
        length = float(np.linalg.norm(vector))
        if length < 1e-12:
            return none
        first = vector[np.flatnonzero(np.abs(vector) > 1e-9 * length)[0]]
        return vector / (length * np.sign(first))
    assert isinstance(node, Call)
    found = none
    for argument in node.arguments:
        own = _direction_of(argument, k)
        if own is None:
            return None
        if not own.any():
            continue
        if found.any() and not np.allclose(found, own, rtol=0, atol=1e-12):
            return None
        found = own
    return found


def ridge_parts(node: Node, k: int) -> Iterator[RidgePart]:
    """Yield the largest parts of a tree that depend on one direction and are no
    polynomials.
    """
    if isinstance(node, Number | VariableNode) or degree(node) is not None:
        return
    direction = _direction_of(node, k)
    if direction is not None:
        if direction.any():
            yield RidgePart(direction, node)
        return
    assert isinstance(node, Call)
    for argument in node.arguments:
        yield from ridge_parts(argument, k)

"""Dimensions that variables have beside those of the grid, declared once for files,
tables, plots and page.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from giantstep.core.base.errors import GiantstepError

Role = Literal["layer", "trajectory", "spectrum", "curve", "entries", "values"]


@dataclass(frozen=True)
class Dimension:
    """A dimension of variables, and what runs along it.

    "trajectory": updates; where a run diverges, what came before stands. "spectrum":
    the points of a density. "curve": points of another function. These three make the
    rows of a table and the horizontal axis of a plot. "entries": counted or named
    entries, which tell curves apart. "values": few numbers or names, drawn like those
    of a field. "layer": one of several results laid over each other.
    """

    name: str  # as in `Variable.dims`; a second one of the same kind is ``name_2``
    role: Role = "values"
    label: str = ""  # what an axis along it says, as `symbol`; its name if left out
    symbol: str = ""
    first: int = 1  # number of the first entry where they are counted
    # whether a line may join neighbours along it: nothing lies between one spike and
    # the next
    joined: bool = True

    @property
    def is_long(self) -> bool:
        """Whether it makes rows of a table rather than columns (``V2[1]``)."""
        return self.role in ("trajectory", "spectrum", "curve")


_KNOWN = {
    dimension.name: dimension
    for dimension in (
        Dimension("source", "layer"),
        Dimension("trial", "layer", first=0),
        Dimension("time", "trajectory", "updates made"),
        Dimension("x", "spectrum", "eigenvalue", "x"),
        Dimension("z", "curve", "complex number", "z"),
        Dimension("eps", "curve", "size of the perturbation", "eps"),
        Dimension("logit", "curve", "logit", "l"),
        *(
            Dimension(name, "entries")
            for name in ("block", "neuron", "direction", "cluster", "branch", "outlier")
        ),
        *(
            Dimension(name, "entries")
            for name in ("gap", "field", "crossing", "shared")
        ),
        *(Dimension(name, joined=False) for name in ("spike", "degree")),
        *(Dimension(name) for name in ("step", "reference", "algorithm")),
        Dimension("kappa", label="place along the learnt direction", symbol="kappa"),
        Dimension("members", label="networks averaged", symbol="K"),
    )
}
"""Name -> declaration, in the order in which long ones make rows."""


def declare(dimensions: Iterable[Dimension]) -> None:
    """Add the dimensions of a family; a name has the same role in all families."""
    for dimension in dimensions:
        if _KNOWN.setdefault(dimension.name, dimension).role != dimension.role:
            raise GiantstepError(
                f"The dimension `{dimension.name}` has another role already."
            )


def dimension_named(name: str) -> Dimension:
    """Return the declaration of a dimension; what nobody declared is like a field of
    the grid.
    """
    known = _KNOWN.get(name.removesuffix("_2"), Dimension(name))
    if known.name == name:
        return known
    return replace(known, name=name, role="entries" if known.is_long else known.role)


def long_dimensions(names: Iterable[object]) -> list[str]:
    """Return those of the names that make rows, in the order in which they do."""
    given = {str(name) for name in names}
    return [name for name, known in _KNOWN.items() if name in given and known.is_long]

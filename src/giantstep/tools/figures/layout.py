"""How a variable is drawn, chosen by its dimensions alone: which of them is the
horizontal axis, which tell curves apart, which have a panel for each entry.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import xarray

from giantstep.core.base.errors import InputError
from giantstep.core.scenario.dimensions import dimension_named, long_dimensions
from giantstep.tools.figures.reading import Reading, is_of_variable

FEW = 8
"""A second numeric dimension up to this length is a family of curves, a longer one
makes a heat map.
"""
MOST = 60
"""Curves beyond which a figure shows nothing any more."""
TOGETHER = 9
"""Curves of two fields, or of a field and other entries, beyond which each value of a
field has a panel of its own.
"""
CROWD = 18
"""Curves of several kinds beyond which two fields make maps."""
PANELS = 9
"""Maps of one variable beyond which a figure shows nothing any more."""

Kind = Literal["curves", "spectrum", "map", "names", "table"]


@dataclass(frozen=True)
class View:
    """How one variable is drawn."""

    kind: Kind
    name: str
    array: xarray.DataArray
    # the coordinate along the horizontal axis, and its dimension; a table has none
    x: str = ""
    x_dim: str = ""
    # dimensions that tell the curves apart; of a map, the vertical one, then those with
    # a panel for each entry
    others: tuple[str, ...] = ()
    # dimension of the grid with a panel for each entry, where one has too many curves
    apart: str | None = None

    @property
    def is_map(self) -> bool:
        """Whether it covers a plane: of numbers, or of names."""
        return self.kind in ("map", "names")


def view_of(reading: Reading, name: str, x: str | None = None) -> View:
    """Choose how a variable is drawn; `x` is the horizontal axis where it is given."""
    array = reading.data[name]
    dims = [str(dim) for dim in array.dims if dim != "source"]
    if x is None:
        coordinate = _horizontal(reading, dims)
    else:
        coordinate = _checked_axis(reading, dims, x)
    if coordinate is None:
        return View("table", name, array)
    x_dim = str(reading.data[coordinate].dims[0])
    others = [dim for dim in dims if dim != x_dim]
    rows = _rows_of_map(reading, x_dim, others)
    kind = _kind_of(reading, array, x_dim=x_dim, others=others, rows=rows)
    apart = None
    if kind in ("map", "names") and rows is not None:
        # the vertical axis of a map comes first
        others = [rows, *(dim for dim in others if dim != rows)]
    if kind == "curves":
        apart = _panelled(reading, others)
        others = [dim for dim in others if dim != apart]
    view = View(
        kind=kind,
        name=name,
        array=array,
        x=coordinate,
        x_dim=x_dim,
        others=tuple(others),
        apart=apart,
    )
    _check_count(reading, view)
    return view


def _checked_axis(reading: Reading, dims: Sequence[str], x: str) -> str:
    """Return the horizontal axis asked for; a variable must run along it."""
    lines = [
        str(name)
        for name, coordinate in reading.data.coords.items()
        if coordinate.ndim == 1 and coordinate.dims[0] in dims and name != "source"
    ]
    if x not in {*lines, *dims}:
        allowed = ", ".join(dict.fromkeys([*lines, *dims])) or "none"
        raise InputError(f"`x` must be one of {allowed}, but is x={x!r}.")
    return x


def _kind_of(
    reading: Reading,
    array: xarray.DataArray,
    *,
    x_dim: str,
    others: Sequence[str],
    rows: str | None,
) -> Kind:
    """Return what kind of figure a variable makes; `rows` would be the vertical axis of
    a map.
    """
    if array.dtype.kind in "UO":
        return "names"
    if dimension_named(x_dim).role == "spectrum":
        return "spectrum"
    if rows is not None:
        is_long = reading.data.sizes[rows] > FEW
        is_crowd = reading.count(others) > CROWD and len(others) > 1
        if is_long or is_crowd:
            return "map"
    return "curves"


def _panelled(reading: Reading, others: Sequence[str]) -> str | None:
    """Return the field that has a panel for each of its values, where one panel would
    have too many curves.
    """
    if reading.count(others) <= TOGETHER or len(others) == 1:
        return None
    for dim in others:
        if reading.is_field(dim) and 1 < reading.data.sizes[dim] <= PANELS:
            return dim
    return None


def _check_count(reading: Reading, view: View) -> None:
    """Refuse what nobody could read: too many curves, or too many maps."""
    if view.is_map:
        others: Sequence[str] = view.others[1:]
        most = PANELS
    else:
        others = view.others
        most = MOST
    count = reading.count(others)
    if count > most:
        many = (
            f"`{view.name}` has {count} curves over `{view.x}`, too many for one figure"
        )
        raise InputError(
            f"{many}; choose some along {', '.join(view.others)} (result.isel,"
            " result.sel)."
        )


def _horizontal(reading: Reading, dims: Sequence[str]) -> str | None:
    """Return the coordinate of the horizontal axis; None where there is nothing to draw
    along.
    """
    sizes = reading.data.sizes
    # the first dimension of every role
    roles = {dimension_named(dim).role: dim for dim in reversed(dims)}
    if "spectrum" in roles:
        return roles["spectrum"]
    times = roles.get("trajectory")
    arguments = [dim for dim in dims if sizes[dim] > FEW and _is_argument(reading, dim)]
    if arguments and (times is None or sizes[times] <= FEW):
        return arguments[0]
    grid = [dim for dim in dims if not is_of_variable(dim)]
    numeric = [dim for dim in grid if reading.coordinate(dim) is not None]
    longest = max(numeric, key=lambda dim: sizes[dim], default=None)
    if times is not None:
        if longest is None or _runs_over_time(reading, dims, times, longest):
            return times
    if longest is not None:
        return reading.coordinate(longest)
    rest = grid or long_dimensions(dims) or list(dims)
    if rest:
        return max(rest, key=lambda dim: sizes[dim])
    return None


def _runs_over_time(
    reading: Reading, dims: Sequence[str], times: str, longest: str
) -> bool:
    """Tell whether trajectories show more than curves over the longest field, one for
    each of the times.
    """
    sizes = reading.data.sizes
    others = [dim for dim in dims if dim != longest]
    rows = _rows_of_map(reading, longest, others)
    if rows is not None and sizes[rows] > FEW:  # a map for each of the times
        others.remove(rows)
    # a curve over a field for each of few times shows more than trajectories
    return sizes[times] > min(FEW, sizes[longest]) or reading.count(others) > CROWD


def _is_argument(reading: Reading, dim: str) -> bool:
    """Tell whether a dimension holds the argument of a function: a curve, or numbers
    that no field has.
    """
    role = dimension_named(dim).role
    numbers = reading.data.coords.get(dim)
    if numbers is None or numbers.dtype.kind != "f":
        return False
    if role == "values":
        return "converged" in reading.data and not reading.is_field(dim)
    return role == "curve"


def _rows_of_map(reading: Reading, x_dim: str, others: Sequence[str]) -> str | None:
    """Return the one other dimension with the numbers of a field, where that makes a
    map with `x_dim`.
    """
    rows = [dim for dim in others if _has_numbers(reading, dim)]
    if len(rows) == 1 and _has_numbers(reading, x_dim):
        return rows[0]
    return None


def _has_numbers(reading: Reading, dim: str) -> bool:
    """Tell whether a dimension is one of the grid's, with numbers along it."""
    return not is_of_variable(dim) and reading.coordinate(dim) is not None


def is_ordered(reading: Reading, view: View) -> bool:
    """Tell whether the curves stand for increasing numbers, so that their colours
    should too.
    """
    return len(view.others) == 1 and _has_numbers(reading, view.others[0])

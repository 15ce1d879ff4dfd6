"""Several scenarios in one table: the dimension ``scenario`` comes before the
dimensions of the grid.

A mapping of names to scenarios stands where a verb takes one scenario. All of them are
of one family, and every field that varies is a field of each.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from giantstep.core.base.errors import InputError
from giantstep.core.base.types import Array
from giantstep.core.scenario.grid import Batch, Grid
from giantstep.core.scenario.model import Scenario

if TYPE_CHECKING:
    import xarray

NAME = "scenario"
"""The dimension along which several scenarios lie."""

Scenarios = Scenario | Mapping[str, Scenario]
"""What a verb takes: one scenario, or several by name."""


def by_name(scenarios: Any) -> dict[str, Scenario]:
    """Return the scenarios that a verb was given, by name; a single one has the name
    "". Anything else is refused.
    """
    if not isinstance(scenarios, Mapping):
        check_scenario(scenarios)
        return {"": scenarios}
    if not scenarios:
        raise InputError(
            "The first argument must name at least one scenario, as in {'no step': ...,"
            " 'one step': ...}."
        )
    for name, scenario in scenarios.items():
        if not isinstance(name, str) or not name:
            raise InputError(
                f"Several scenarios must be named by text, not by {name!r}."
            )
        check_scenario(scenario, f"Scenario {name!r}")
    families = dict.fromkeys(type(scenario).__name__ for scenario in scenarios.values())
    if len(families) > 1:
        raise InputError(
            "Scenarios in one table must be of one family, not of"
            f" {' and '.join(families)}: answer each family alone, and draw its result"
            " into the same axes with plot(result, ax=...)."
        )
    return dict(scenarios)


def check_scenario(scenario: Any, called: str = "The first argument") -> None:
    """Refuse what is no scenario."""
    if isinstance(scenario, Scenario):
        return
    if isinstance(scenario, type) and issubclass(scenario, Scenario):
        made = f"make one of it, {scenario.__name__}(...)"
        raise InputError(
            f"{called} must be a scenario, not the class {scenario.__name__}: {made}."
        )
    if isinstance(scenario, list | tuple):
        several = "; name them, as in {'a': ..., 'b': ...}"
    else:
        several = ""
    raise InputError(
        f"{called} must be a scenario, not a {type(scenario).__name__}{several}."
    )


def grid_over(
    scenarios: Scenarios, fields: Mapping[str, Any] | None = None, *, dim: Any = None
) -> Grid:
    """Return the grid of one scenario, or of several."""
    if isinstance(scenarios, Scenario):
        return Grid(scenarios, fields, dim=dim)
    return ScenarioGrid(scenarios, fields, dim=dim)


class ScenarioGrid(Grid):
    """Several scenarios over one grid: the same fields vary in each, over the same
    values.

    Attributes are those of `Grid`; ``scenario`` is the first one.
    """

    def __init__(
        self,
        scenarios: Mapping[str, Scenario],
        fields: Mapping[str, Any] | None = None,
        /,
        *,
        dim: Any = None,
    ) -> None:
        self._grids: dict[str, Grid] = {}
        for name, scenario in scenarios.items():
            try:
                self._grids[name] = Grid(scenario, fields, dim=dim)
            except InputError as error:
                raise InputError(f"Scenario {name!r}: {error}") from None
        first = next(iter(self._grids.values()))
        for name, grid in self._grids.items():
            if (grid.dims, grid.shape) != (first.dims, first.shape):
                raise InputError(
                    f"Scenario {name!r} varies over other fields than the first one."
                )
        self.scenario = first.scenario
        self.dim = first.dim
        self.dim_is_field = first.dim_is_field
        self.dims = (NAME, *first.dims)
        self.shape = (len(self._grids), *first.shape)
        self.size = len(self._grids) * first.size
        self.coords = {NAME: ((NAME,), np.array(list(self._grids))), **first.coords}
        self._axes = first._axes

    def flat(self, name: str) -> Array:
        """Return the values (or codes) of a field that varies at every point, shape
        (size,).
        """
        return np.concatenate([grid.flat(name) for grid in self._grids.values()])

    def batches(self) -> list[Batch]:
        """Return the points of one scenario after the other, split by the names that
        vary.
        """
        parts = [
            (place * grid.size, one)
            for place, grid in enumerate(self._grids.values())
            for one in grid.batches()
        ]
        return [
            Batch(one.scenario, before + one.index, one.points) for before, one in parts
        ]

    def varying(self) -> dict[str, dict[str, Any] | None]:
        """Return the fields that vary as plain data, and under ``scenario`` what each
        name stands for.
        """
        contents = {name: grid.scenario.content() for name, grid in self._grids.items()}
        return {NAME: contents, **next(iter(self._grids.values())).varying()}


def side_by_side(tables: Iterable[Any], dim: str, names: Iterable[str]) -> Any:
    """Return datasets, or columns, along a new dimension that names them; where one
    lacks an entry it is blank.
    """
    import xarray

    how: Any = {
        "join": "outer",
        "combine_attrs": "override",
        "coords": "minimal",
        "compat": "override",
    }
    return xarray.concat(list(tables), xarray.IndexVariable(dim, list(names)), **how)


def stack(
    results: Sequence[xarray.Dataset], names: Sequence[str], dim: str = NAME
) -> xarray.Dataset:
    """Lay results of one question side by side along a new dimension, so that one
    figure shows them all.
    """
    first = results[0]
    for about in ("family", "what", "engine"):
        found = list(dict.fromkeys(str(result.attrs.get(about)) for result in results))
        if len(found) > 1:
            raise InputError(
                "Results laid over each other must answer one question in one way, not"
                f" `{about}` of {' and '.join(found)}."
            )
    stacked = side_by_side(results, dim, names)
    attrs = dict(first.attrs)
    if dim == NAME and all(
        "grid" in result.attrs and "scenario" in result.attrs for result in results
    ):
        contents = {
            name: json.loads(result.attrs["scenario"])
            for name, result in zip(names, results)
        }
        attrs["grid"] = json.dumps({NAME: contents, **json.loads(first.attrs["grid"])})
    stacked.attrs = attrs
    return stacked

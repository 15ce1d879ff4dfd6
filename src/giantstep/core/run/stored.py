"""An experiment that was made before, held against what it is compared with:
`compare(stored=...)`.

The first thing that differs is named, with both values: what was asked, the dimension,
a field of the scenario, the points of the grid, a setting. An experiment without
provenance, of numbers from elsewhere, has its points alone.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from giantstep.core.base.errors import InputError, field_error
from giantstep.core.base.jsondata import LONGEST, json_data
from giantstep.core.base.types import Array
from giantstep.core.run.request import ExperimentSettings, Request
from giantstep.core.scenario.grid import Grid
from giantstep.core.scenario.lists import names_meant
from giantstep.core.scenario.model import Scenario, from_content
from giantstep.core.scenario.several import NAME

if TYPE_CHECKING:
    import xarray

_TAKEN = (
    "`stored` takes an experiment of the same scenario, question, dimension and seed"
)


def check_stored(
    stored: xarray.Dataset, request: Request, experiment: ExperimentSettings
) -> None:
    """Refuse an experiment that answers another question than the request, or that of
    another scenario.
    """
    about = getattr(stored, "attrs", None)
    if about is None or not hasattr(stored, "coords"):
        raise InputError(
            "`stored` must be a result of simulate or sweep, not a"
            f" {type(stored).__name__}."
        )
    if "source" in stored.dims or about.get("engine", "experiment") == "limit":
        raise InputError(
            "`stored` must be an experiment: of a comparison take"
            ' .sel(source="experiment", drop=True).'
        )
    if "scenario" in about and "grid" in about:
        _check_question(about, request)
        _check_dimension(stored, request.grid)
        _check_scenarios(stored, request.grid)
    _check_points(stored, request.grid)
    if "settings" in about:
        _check_settings(json.loads(str(about["settings"])), request, experiment)


def _differs(name: str, theirs: Any, ours: Any) -> InputError:
    """Return the error for a field or setting that has one value in the experiment and
    another one here.
    """
    shown = f"is {_short(theirs)} in the stored experiment, but {_short(ours)} here"
    return field_error(name, f"Field `{{field}}` {shown}; {_TAKEN}.")


def _short(value: Any) -> str:
    """Return a value in a few words; one that is not there is nothing."""
    if value is None:
        return "nothing"
    if isinstance(value, Mapping):
        return f"the callable {value.get('callable')}"
    text = " ".join(
        repr(value.tolist() if isinstance(value, np.ndarray) else value).split()
    )
    return text if len(text) <= 80 else f"{text[:77]}..."


# -- what is asked, and of what dimension ----------------------------------------------


def _check_question(about: Mapping[Any, Any], request: Request) -> None:
    family = request.grid.scenario.family
    if about.get("family") != family:
        raise _differs("family", about.get("family"), family)
    if about.get("what") != request.what:
        raise _differs("what", about.get("what"), request.what)


def _check_dimension(stored: xarray.Dataset, grid: Grid) -> None:
    """Hold the dimension of the experiment, where it is no field of the scenario,
    against that of the grid.
    """
    if grid.dim_is_field:
        return
    settings = json.loads(str(stored.attrs.get("settings", "{}")))
    if "dim" in stored.coords:
        theirs = stored["dim"].values
    else:
        theirs = np.asarray(settings.get("dim", math.inf))
    if "dim" in grid.coords:
        ours = grid.coords["dim"][1]
    else:
        ours = np.asarray(grid.dim)
    if not np.array_equal(theirs.astype(float), ours.astype(float)):
        raise _differs("dim", *(_whole(side) for side in (theirs, ours)))


def _whole(dims: Array) -> Any:
    """Return dimensions as they were given: whole numbers, and None where there is
    none.
    """
    given = [
        int(dim) if math.isfinite(dim) else None for dim in np.atleast_1d(dims).tolist()
    ]
    return given if dims.ndim else given[0]


# -- fields of the scenarios -----------------------------------------------------------


def _check_scenarios(stored: xarray.Dataset, grid: Grid) -> None:
    """Hold what is the same at all points against each other: of one scenario, or of
    each of several.
    """
    about = stored.attrs
    theirs = json.loads(str(about["grid"]))
    ours = grid.varying()
    known = theirs.pop(NAME, None)
    own = ours.pop(NAME, None)
    content = json.loads(str(about["scenario"]))
    if known is not None and NAME in stored.coords and stored[NAME].ndim == 0:
        content = known[str(stored[NAME].values)]
        known = None
    if known is None and own is None:
        _check_content(content, grid.scenario.content(), stored, grid, theirs)
        return
    if known is None or own is None or [*np.atleast_1d(stored[NAME].values)] != [*own]:
        raise _differs(
            NAME, None if known is None else [*known], None if own is None else [*own]
        )
    for name, mine in own.items():
        _check_content(known[name], mine, stored, grid, theirs)


def _check_content(
    theirs: Mapping[str, Any],
    ours: Mapping[str, Any],
    stored: xarray.Dataset,
    grid: Grid,
    varying: Mapping[str, Any],
) -> None:
    """Hold two contents against each other but for what varies here, which
    `_check_points` does.
    """
    known = dict(_leaves(_as_now(theirs)))
    own = dict(_leaves(ours))
    ours_vary = _leaves_of(grid.scenario, grid.coords)
    theirs_vary = _leaves_of(grid.scenario, varying)
    for name in dict.fromkeys([*known, *own]):
        if name in ours_vary:
            continue
        held = known.get(name)
        if name in theirs_vary:
            held = _held_at(stored, theirs_vary[name], varying)
        if not _same(held, own.get(name)):
            raise _differs(name, held, own.get(name))


def _held_at(stored: xarray.Dataset, name: str, varying: Mapping[str, Any]) -> Any:
    """Return what a field that varied in an experiment is in the part of it that is
    here.
    """
    if name not in stored.coords:
        raise InputError(
            f"The stored experiment does not say any more which `{name}` its numbers"
            " have."
        )
    if stored[name].ndim:
        return stored[name].values.tolist()
    value = stored[name].item()
    labels = varying[name] or {}
    return labels.get(str(value), value)


def _as_now(content: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a content as it is written today, with the fields that scenarios have
    gained since.
    """
    try:
        return from_content(content).content()
    except InputError:  # functions and classes that live in Python only
        return content


def _leaves(content: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (dotted name, value) of nested plain data; the entries of a list of tables
    have their place.
    """
    if isinstance(content, Mapping) and "callable" not in content:
        rows = list(content.items())
    elif (
        isinstance(content, list)
        and content
        and all(isinstance(entry, Mapping) for entry in content)
    ):
        rows = list(enumerate(content))
    else:
        yield name, content
        return
    for key, value in rows:
        yield from _leaves(value, f"{name}.{key}" if name else str(key))


def _leaves_of(scenario: Scenario, names: Mapping[str, Any]) -> dict[str, str]:
    """Return the fields that vary under some names -> the name: of all entries of a
    list each has its own.
    """
    return {leaf: name for name in names for leaf in names_meant(scenario, name)}


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, int | float) and isinstance(other, int | float):
        return float(one) == float(other)
    return bool(one == other)


# -- points and settings ---------------------------------------------------------------


def _check_points(stored: xarray.Dataset, grid: Grid) -> None:
    """Hold the values of every field that varies here, and the dimensions they lie
    along, against each other.
    """
    for name, (dims, values) in grid.coords.items():
        if name not in stored.coords:
            varies = (
                f"Field `{{field}}` varies here, over {_short(values)}, but not in the"
                " stored experiment"
            )
            raise field_error(name, f"{varies}; {_TAKEN}.")
        column = stored[name]
        if column.dims != dims or not _equal(column.values, values):
            raise _differs(name, column.values, values)


def _equal(one: Array, other: Array) -> bool:
    return np.array_equal(one, other) or [*map(str, one.ravel())] == [
        *map(str, other.ravel())
    ]


def _check_settings(
    theirs: Mapping[str, Any], request: Request, experiment: ExperimentSettings
) -> None:
    """Hold the seed, the pairing and the settings of the question that an experiment
    takes against each other.
    """
    own = {
        name: setting
        for name, setting in request.question.settings.items()
        if "experiment" in setting.engines
    }
    asked = {"seed": experiment.seed, "paired": experiment.paired}
    usual = {"seed": 0, "paired": False}
    for name, setting in own.items():
        asked[name] = json_data(request.settings[name], LONGEST)
        usual[name] = json_data(setting.default, LONGEST)
    for name, value in asked.items():
        held = theirs.get(name, usual[name])
        if not _same(held, value):
            raise _differs(name, held, value)

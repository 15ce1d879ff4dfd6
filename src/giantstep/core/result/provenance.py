"""Where a result comes from: what its attributes keep of scenario, grid and settings.

`provenance` writes them, `grid_of` and `fields_of` read the scenarios back.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray

from giantstep import __version__
from giantstep.core.base.errors import InputError
from giantstep.core.base.jsondata import LONGEST, json_data
from giantstep.core.scenario.families import family_class
from giantstep.core.scenario.family import Question
from giantstep.core.scenario.grid import Grid
from giantstep.core.scenario.lists import (
    keys_of,
    tables_at,
)
from giantstep.core.scenario.model import from_content, refuse_callable
from giantstep.core.scenario.names import numbers_meant
from giantstep.core.scenario.own_classes import content_of_variants
from giantstep.core.scenario.several import NAME, Scenarios, by_name, grid_over


def provenance(
    grid: Grid,
    what: str,
    engine: str,
    settings: Mapping[str, Any],
    extra: Mapping[str, Any],
) -> dict[str, str | int | float]:
    """Return the attributes of a result: who made it, of what, how; `grid_of` reads the
    scenarios back from them.
    """
    scenario = grid.scenario
    attrs: dict[str, str | int | float] = {
        "title": scenario.title,
        "giantstep_version": __version__,
        "family": scenario.family,
        "what": what,
        "engine": engine,
        "scenario": json.dumps(scenario.content(), allow_nan=False),
        "grid": json.dumps(json_data(grid.varying(), LONGEST), allow_nan=False),
        "settings": json.dumps(json_data(settings, LONGEST), allow_nan=False),
        "formula_version": scenario.formula_version,
        "papers": ", ".join(scenario.papers),
    }
    classes: dict[str, Any] = {}
    for batch in grid.batches():
        classes |= content_of_variants(batch.scenario)
    if classes:
        attrs["classes"] = json.dumps(classes)
    return attrs | {name: _attribute(value) for name, value in extra.items()}


def grid_of(result: xarray.Dataset) -> Grid:
    """Return the grid that a result, or a part of one, stands on; what coordinates do
    not say any more is refused.
    """
    scenario, fields = fields_of(result)
    settings = json.loads(str(result.attrs.get("settings", "{}")))
    known = "dim" in fields or any(
        "dim" in type(one).model_fields for one in by_name(scenario).values()
    )
    return grid_over(scenario, fields, dim=None if known else settings.get("dim"))


def fields_of(result: xarray.Dataset) -> tuple[Scenarios, dict[str, Any]]:
    """Return what a grid is made of: the scenario of a result (or several), and the
    fields its coordinates change.
    """
    attrs = getattr(result, "attrs", {})
    if "scenario" not in attrs or "grid" not in attrs:
        raise InputError(
            "The first argument must be a result of predict, simulate or compare."
        )
    varying = json.loads(str(attrs["grid"]))
    named = varying.pop(NAME, None)
    if named is not None and NAME not in result:
        raise InputError(
            "The result does not say any more which `scenario` its numbers have; keep"
            " the coordinate."
        )
    contents = {"": json.loads(str(attrs["scenario"]))}
    if named is not None:
        contents = {
            str(name): named[str(name)] for name in np.atleast_1d(result[NAME].values)
        }
    fields = {
        name: _column_values(result, name, labels) for name, labels in varying.items()
    }
    for content in contents.values():
        for name, value in fields.items():
            # in place of a callable that the scenario of the whole grid has and no
            # point needs
            last = str(keys_of(name)[-1])
            for table in tables_at(content, keys_of(name)[:-1]):
                if isinstance(table.get(last), Mapping) and "callable" in table[last]:
                    table[last] = np.asarray(value, dtype=object).flat[0]
    scenarios = {name: from_content(content) for name, content in contents.items()}
    first = next(iter(scenarios.values()))
    whole = [
        n
        for n in fields
        if any(info.annotation is int for _, info in numbers_meant(first, n).values())
    ]
    fields = {
        name: int(v) if name in whole and isinstance(v, float) else v
        for name, v in fields.items()
    }
    return (first if named is None or not result[NAME].ndim else scenarios), fields


def _column_values(
    result: xarray.Dataset, name: str, labels: Mapping[str, Any] | None
) -> Any:
    """Return the values of a field that varies: one, or a DataArray over dimensions of
    the grid.
    """
    if name not in result:
        keep = (
            "choose points by sel or isel, and keep the coordinate (without drop=True)"
        )
        raise InputError(
            f"The result does not say any more which `{name}` its numbers have; {keep}."
        )
    column = result[name]
    values = column.values
    if labels is not None:
        flat = np.empty(values.size, dtype=object)
        flat[:] = [labels[str(label)] for label in values.reshape(-1).tolist()]
        for value in flat:
            refuse_callable(name, value)
        values = flat.reshape(values.shape)
    if column.ndim:
        return xarray.DataArray(values, dims=column.dims)
    return values.item()


def has_classes(result: xarray.Dataset) -> bool | None:
    """Tell whether the labels behind a result are classes; None where some are and some
    are not, or nobody knows.
    """
    try:
        found = {batch.scenario.has_classes() for batch in grid_of(result).batches()}
    except InputError:  # functions that live in Python only, or no result of a scenario
        return None
    return found.pop() if len(found) == 1 else None


def question_of(attrs: Mapping[Any, Any]) -> Question | None:
    """Return the question that a result with these attributes answers, where it says so
    and the family is known.
    """
    try:
        return family_class(str(attrs["family"])).questions[str(attrs["what"])]
    except (InputError, KeyError):
        return None


def main_variables(attrs: Mapping[Any, Any]) -> Sequence[str]:
    """Return the variables that a figure of a result with these attributes shows."""
    if "plot" in attrs:
        return [str(name) for name in json.loads(str(attrs["plot"]))]
    question = question_of(attrs)
    return () if question is None else question.plot


def _attribute(value: Any) -> str | int | float:
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, str | int) or (
        isinstance(value, float) and math.isfinite(value)
    ):
        return value
    return json.dumps(json_data(value, LONGEST), allow_nan=False)


def merge_facts(answers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the facts of several batches as one: equal ones once, different ones side
    by side.
    """
    facts: dict[str, Any] = {}
    for name in dict.fromkeys(name for answer in answers for name in answer):
        values = list(
            dict.fromkeys(
                _attribute(answer[name]) for answer in answers if name in answer
            )
        )
        if len(values) == 1:
            facts[name] = values[0]
        else:
            facts[name] = "; ".join(map(str, values))
    return facts

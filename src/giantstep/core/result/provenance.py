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
from giantstep.core.scenario.model import Scenario, from_content, refuse_callable
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
    scenarios, fields = fields_of(result)
    classes = [type(scenario) for scenario in by_name(scenarios).values()]
    if "dim" in fields or any("dim" in cls.model_fields for cls in classes):
        return grid_over(scenarios, fields)
    settings = json.loads(str(result.attrs.get("settings", "{}")))
    return grid_over(scenarios, fields, dim=settings.get("dim"))


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
    content_of_name = varying.pop(NAME, None)
    if content_of_name is None:
        contents = {"": json.loads(str(attrs["scenario"]))}
    elif NAME in result:
        names = map(str, np.atleast_1d(result[NAME].values))
        contents = {name: content_of_name[name] for name in names}
    else:
        raise InputError(
            "The result does not say any more which `scenario` its numbers have; keep"
            " the coordinate."
        )
    fields = {
        name: _column_values(result, name, labels) for name, labels in varying.items()
    }
    for content in contents.values():
        for name, value in fields.items():
            _replace_callable(content, name, value)
    scenarios = {name: from_content(content) for name, content in contents.items()}
    first = next(iter(scenarios.values()))
    for name, value in fields.items():
        if isinstance(value, float) and _is_whole(first, name):
            fields[name] = int(value)
    if content_of_name is None or not result[NAME].ndim:
        return first, fields
    return scenarios, fields


def _replace_callable(content: dict[str, Any], name: str, value: Any) -> None:
    """Put a value of a field that varies in place of a callable, which plain data do
    not hold: the scenario of the whole grid has it, and no point needs it.
    """
    *parents, last = keys_of(name)
    for table in tables_at(content, parents):
        held = table.get(str(last))
        if isinstance(held, Mapping) and "callable" in held:
            table[str(last)] = np.asarray(value, dtype=object).flat[0]


def _is_whole(scenario: Scenario, name: str) -> bool:
    """Tell whether a field holds whole numbers."""
    declared = [info for _, info in numbers_meant(scenario, name).values()]
    return any(info.annotation is int for info in declared)


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
        batches = grid_of(result).batches()
        answers = {batch.scenario.has_classes() for batch in batches}
    except InputError:
        # functions that live in Python only, or no result of a scenario
        return None
    return answers.pop() if len(answers) == 1 else None


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
    if isinstance(value, np.generic):
        value = value.item()
    # NetCDF has no truth values
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, str | int):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    return json.dumps(json_data(value, LONGEST), allow_nan=False)


def merge_facts(answers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the facts of several batches as one: equal ones once, different ones side
    by side.
    """
    different: dict[str, list[Any]] = {}
    for answer in answers:
        for name, fact in answer.items():
            values = different.setdefault(name, [])
            value = _attribute(fact)
            if value not in values:
                values.append(value)
    facts: dict[str, Any] = {}
    for name, values in different.items():
        facts[name] = values[0] if len(values) == 1 else "; ".join(map(str, values))
    return facts

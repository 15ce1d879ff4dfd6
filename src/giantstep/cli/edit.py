"""A study changed by the options of a command, checked as if the file had said so."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from giantstep.cli.options import Changes, Experiment, Theory, given
from giantstep.cli.values import assignments, dimensions, many, single
from giantstep.errors import InputError

if TYPE_CHECKING:
    from giantstep.study import Study


_LIMIT_ONLY = ("tolerance", "strict", "finite_size")
"""Settings of the limit that have no option of their own; --set reaches them."""
_OPTIONS = ("what", "theory", "trials", "seed", "device", "paired", "keep_trials")


def edit_study(study: Study, verb: str, changes: Changes, *settings: Theory | Experiment) -> Study:
    """Return the study with the changes made; `verb` decides which engine ``--dim`` is for."""
    fields = assignments("--set", changes.set_ or (), lambda name, text: single(text))
    lists = assignments("--grid", changes.grid or (), many)
    for name in lists:
        if name in fields:
            raise InputError(f"Field `{name}` is given both to --set and to --grid.")
    fields.update(lists)
    options = given(*settings)
    study = _ask(study, changes.what)
    own = {name: fields.pop(name) for name in list(fields) if name in study.question.settings}
    limit, experiment = {**study.limit}, {**study.experiment}
    _take_settings(study, fields, limit)
    dim = _take_dim(study, options, fields)
    limit.update({name: value for name, value in options.items() if name == "theory"})
    experiment.update({name: value for name, value in options.items() if name != "theory"})
    if dim is not None and verb == "predict":
        limit["dim"] = dim
    elif dim is not None:
        experiment["dim"] = dim
        limit.pop("dim", None)
    grid = {name: value for name, value in study.grid.items() if name.replace("__", ".") not in fields}
    scenario = study.scenario
    if any(name.endswith(".kind") for name in fields):  # a new part, and perhaps fields of it
        scenario = scenario.replace({name: fields.pop(name) for name in list(fields) if name not in lists})
    tables: dict[str, Any] = {"grid": {**grid, **fields}, "settings": {**study.settings, **own}}
    return dataclasses.replace(study, scenario=scenario, limit=limit, experiment=experiment, **tables)


def _ask(study: Study, what: str | None) -> Study:
    """Return the study with another question; the settings of the old one go."""
    if what is None or what == study.what:
        return study
    tables: dict[str, Any] = {
        table: {name: value for name, value in getattr(study, table).items() if name not in study.question.settings}
        for table in ("settings", "limit", "experiment")
    }
    return dataclasses.replace(study, what=what, **tables)


def _take_dim(study: Study, options: dict[str, Any], fields: dict[str, Any]) -> Any:
    text = options.pop("dim", None)
    if "dim" in type(study.scenario).model_fields or "dim" not in fields:
        return dimensions(text)
    if text is not None:
        raise InputError("Field `dim` is given twice.")
    return fields.pop("dim")


def _take_settings(study: Study, fields: dict[str, Any], limit: dict[str, Any]) -> None:
    """Move what --set says of the limit into its table; what has an option of its own is refused."""
    for name in [name for name in fields if name not in type(study.scenario).model_fields]:
        if name in _LIMIT_ONLY:
            limit[name] = fields.pop(name)
        elif name in _OPTIONS:
            raise InputError(f"`{name}` is no field of the scenario; use the option --{name.replace('_', '-')}.")

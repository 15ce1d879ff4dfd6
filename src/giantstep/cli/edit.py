"""A study changed by the options of a command, checked as if the file had said so."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from giantstep.cli.values import assignments, dimensions, many, single
from giantstep.errors import InputError

if TYPE_CHECKING:
    from giantstep.study import Study


_LIMIT_ONLY = ("tolerance", "strict", "finite_size")
"""Settings of the limit that have no option of their own; --set reaches them."""
_OPTIONS = ("what", "theory", "trials", "seed", "device", "paired", "keep_trials")


@dataclasses.dataclass(frozen=True)
class Changes:
    """The options of a command; None is what was not given.

    Attributes
    ----------
    what : another question.
    single, grid : the texts given to ``--set`` and ``--grid``.
    dim : the text given to ``--dim``.
    limit, experiment : settings of the engines.
    """

    what: str | None
    single: Sequence[str]
    grid: Sequence[str]
    dim: str | None
    limit: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    experiment: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def edited(study: Study, verb: str, changes: Changes) -> Study:
    """Return the study with the changes made; `verb` decides which engine ``--dim`` is for."""
    fields = assignments("--set", changes.single, lambda name, text: single(text))
    lists = assignments("--grid", changes.grid, many)
    for name in lists:
        if name in fields:
            raise InputError(f"Field `{name}` is given both to --set and to --grid.")
    fields.update(lists)
    study = _asking(study, changes.what)
    question = study.scenario.questions[study.what or next(iter(study.scenario.questions))]
    settings = {name: fields.pop(name) for name in list(fields) if name in question.settings}
    limit, experiment = {**study.limit}, {**study.experiment}
    _take_settings(study, fields, limit)
    limit.update({name: value for name, value in changes.limit.items() if value is not None})
    experiment.update({name: value for name, value in changes.experiment.items() if value is not None})
    dim = _dim(study, changes, fields)
    if dim is not None and verb == "predict":
        limit["dim"] = dim
    elif dim is not None:
        experiment["dim"] = dim
        limit.pop("dim", None)
    grid = {name: value for name, value in study.grid.items() if name.replace("__", ".") not in fields}
    return dataclasses.replace(
        study,
        grid={**grid, **fields},
        settings={**study.settings, **settings},
        limit=limit,
        experiment=experiment,
    )


def _asking(study: Study, what: str | None) -> Study:
    """Return the study with another question; the settings of the old one go."""
    if what is None or what == study.what:
        return study
    old = study.scenario.questions[study.what or next(iter(study.scenario.questions))]

    def kept(table: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in table.items() if name not in old.settings}

    return dataclasses.replace(
        study,
        what=what,
        settings=kept(study.settings),
        limit=kept(study.limit),
        experiment=kept(study.experiment),
    )


def _dim(study: Study, changes: Changes, fields: dict[str, Any]) -> Any:
    if "dim" in type(study.scenario).model_fields or "dim" not in fields:
        return dimensions(changes.dim)
    if changes.dim is not None:
        raise InputError("Field `dim` is given twice.")
    return fields.pop("dim")


def _take_settings(study: Study, fields: dict[str, Any], limit: dict[str, Any]) -> None:
    """Move what --set says of the limit into its table; what has an option of its own is refused."""
    for name in [name for name in fields if name not in type(study.scenario).model_fields]:
        if name in _LIMIT_ONLY:
            limit[name] = fields.pop(name)
        elif name in _OPTIONS:
            raise InputError(f"`{name}` is no field of the scenario; use the option --{name.replace('_', '-')}.")

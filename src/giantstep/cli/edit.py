"""A study changed by the options of a command, checked as if the file had said so."""

from __future__ import annotations

import contextlib
import dataclasses
import tomllib
from collections.abc import Callable, Sequence
from typing import Any

import giantstep as gs
from giantstep.cli.options import Changes, Experiment, Theory, given
from giantstep.errors import InputError

_LIMIT_ONLY = ("tolerance", "strict", "finite_size")
"""Settings of the limit that have no option of their own; --set reaches them."""
_OPTIONS = ("what", "theory", "trials", "seed", "device", "paired", "keep_trials")


def edit_study(study: gs.Study, verb: str, changes: Changes, *settings: Theory | Experiment) -> gs.Study:
    """Return the study with the changes made; `verb` decides which engine ``--dim`` is for."""
    fields, lists = assignments("--set", changes.set_), assignments("--grid", changes.grid, many)
    for name in [name for name in lists if name in fields]:
        raise InputError(f"Field `{name}` is given both to --set and to --grid.")
    fields.update(lists)
    options = given(*settings)
    if changes.what not in (None, study.what):  # another question: the settings of the old one go
        old = study.question.settings
        tables: dict[str, Any] = {
            table: {name: value for name, value in getattr(study, table).items() if name not in old}
            for table in ("settings", "limit", "experiment")
        }
        study = dataclasses.replace(study, what=changes.what, **tables)
    own = {name: fields.pop(name) for name in list(fields) if name in study.question.settings}
    limit, experiment = {**study.limit}, {**study.experiment}
    declared = type(study.scenario).model_fields
    for name in [name for name in fields if name not in declared]:
        if name in _LIMIT_ONLY:
            limit[name] = fields.pop(name)
        elif name in _OPTIONS:
            raise InputError(f"`{name}` is no field of the scenario; use the option --{name.replace('_', '-')}.")
    text = options.pop("dim", None)
    dim = None if text is None else [single(word) for word in _split(text)]
    dim = dim[0] if dim is not None and len(dim) == 1 else dim
    if "dim" in fields and "dim" not in declared:
        if text is not None:
            raise InputError("Field `dim` is given twice.")
        dim = fields.pop("dim")
    limit.update({name: options.pop(name) for name in ("theory",) if name in options})
    experiment.update(options)
    if dim is not None and verb == "predict":
        limit["dim"] = dim
    elif dim is not None:
        experiment["dim"] = dim
        limit.pop("dim", None)
    grid = {name: value for name, value in study.grid.items() if name.replace("__", ".") not in fields}
    scenario = study.scenario
    if any(name.endswith(".kind") for name in fields):  # a new part, and perhaps fields of it
        scenario = scenario.replace({name: fields.pop(name) for name in list(fields) if name not in lists})
    tables = {"grid": {**grid, **fields}, "settings": {**study.settings, **own}}
    return dataclasses.replace(study, scenario=scenario, limit=limit, experiment=experiment, **tables)


# -- What stands behind ``--set`` and ``--grid``: ``ridge=0.1`` -------------------------------------------


def assignments(
    option: str, texts: Sequence[str] | None, read: Callable[[str, str], Any] = lambda name, text: single(text)
) -> dict[str, Any]:
    """Return field -> value of the texts given to one option; `read` makes the value."""
    values: dict[str, Any] = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        name = name.strip().replace("__", ".")
        if not equals or not name or not value.strip():
            raise InputError(f"{option} takes FIELD=VALUE, but got {text!r}.")
        if name in values:
            raise InputError(f"Field `{name}` is given twice to {option}.")
        values[name] = read(name, value.strip())
    return values


def single(text: str) -> Any:
    """Return a value as TOML reads it; what is no TOML value is a name or an expression."""
    with contextlib.suppress(tomllib.TOMLDecodeError):
        content = tomllib.loads(f"value = {text}")
        return content["value"] if list(content) == ["value"] else text
    return text


def many(name: str, text: str) -> Any:
    """Return the values of a grid: ``start:stop:num[:log]``, a list with commas, or one value."""
    if ":" in text:
        return _range(name, text)
    value = single(text)
    return value if isinstance(value, list) else [single(word) for word in _split(text)]


def _range(name: str, text: str) -> Any:
    from giantstep.study import expand_range

    table = dict(zip(("start", "stop", "num", "scale", "more"), (single(word.strip()) for word in text.split(":"))))
    try:
        return expand_range(name, table)
    except InputError as error:
        told = f"The range {text!r} is not start:stop:num or start:stop:num:log: {error}"
        missing = f"The range {text!r} of `{name}` has no number of values, as in {name}={text}:20."
        raise InputError(told if "num" in table else missing) from None


def _split(text: str) -> list[str]:
    """Split at the commas outside of brackets."""
    words, depth = [""], 0
    for letter in text:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and not depth:
            words.append("")
        else:
            words[-1] += letter
    return [word.strip() for word in words]

"""Options that several commands share, in groups: a command takes the groups, `expand`
gives it their options.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import json
import os
import tomllib
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

from typer import Argument, Option

import giantstep as gs
from giantstep.core.base.errors import InputError, check_ending

if TYPE_CHECKING:
    import xarray

StudyFile = Argument(
    metavar="S.toml", help="The study; `giantstep new FAMILY` prints one."
)
StudyFiles = Argument(
    metavar="S.toml ...",
    help=(
        "The study; of several files, named by their names, each is a scenario of one"
        " table."
    ),
)


def option(metavar: str, said: str, *names: str) -> Any:
    """Declare an option that may be left out: what stands for its value in the help,
    and what it does.
    """
    return Option(None, *names, metavar=metavar, help=said)


Json = Annotated[bool, Option("--json", help="Print strict JSON.")]


@dataclass(frozen=True)
class Changes:
    """What is asked instead of what the study says."""

    what: str | None = Option(
        None, help="The question asked (see `giantstep describe`)."
    )
    set_: list[str] | None = option(
        "FIELD=VALUE", "Change a field or setting; may be repeated.", "--set"
    )
    grid: list[str] | None = option(
        "FIELD=VALUES",
        "Vary a field: start:stop:num[:log] or a list with commas; may be repeated."
        " FIELD@AXIS=VALUES: fields with one AXIS, any name, vary together.",
    )


@dataclass(frozen=True)
class Theory:
    """Which limit."""

    theory: str | None = Option(
        None, help="Another published theory of the same quantity, by name."
    )


@dataclass(frozen=True)
class Limit(Theory):
    """Settings of the limit."""

    dim: str | None = option(
        "N", "Add the leading finite-size correction at this dimension."
    )


@dataclass(frozen=True)
class Experiment:
    """Settings of the experiment."""

    dim: str | None = option("N", "Dimension of the data; several with commas.")
    trials: int | None = Option(None, help="Independent repetitions.")
    seed: int | None = Option(None, help="Any whole number from 0 on.")
    device: str | None = Option(None, help="cpu or cuda.")
    paired: bool = Option(False, "--paired", help="Give all points the same draws.")


@dataclass(frozen=True)
class Trials(Experiment):
    """Settings of an experiment whose trials may be kept."""

    keep_trials: bool = Option(
        False, "--keep-trials", help="Keep every trial, not just the mean."
    )


@dataclass(frozen=True)
class Output:
    """What becomes of a result."""

    out: list[Path] | None = option(
        "FILE", "Write the result: .csv, .nc, .json, .tex; may be repeated."
    )
    json: Json = False
    plot: list[Path] | None = option(
        "FILE", "Draw the result: .png, .pdf, .svg, .pgf; may be repeated."
    )
    paper: str | None = option(
        "WIDTH", "With --plot: draw for a paper, column or page wide."
    )


@dataclass(frozen=True)
class Shown:
    """Which variables of a result are shown, written and drawn."""

    variables: list[str] | None = option(
        "NAMES",
        "Print, write and draw these variables only; several with commas; may be"
        " repeated.",
    )

    def names(self) -> list[str] | None:
        """Return the names, each once; None where all variables are wanted."""
        return names_in(self.variables)


@dataclass(frozen=True)
class Table:
    """A user's own table in place of a study."""

    data: Path | None = option(
        "FILE",
        "A table in place of a study: .csv, .tsv, .npz, .parquet; rows = samples.",
    )
    label: str | None = option(
        "COLUMN", "With --data: the column that holds the labels."
    )
    drop: list[str] | None = option(
        "COLUMN", "With --data: a column that is no input; may be repeated."
    )
    scale: str | None = option(
        "HOW", "With --data: columns (each to unit variance), global or none."
    )


def names_in(texts: Sequence[str] | None) -> list[str] | None:
    """Return the names of an option that takes several with commas and may be repeated;
    None where none was given.
    """
    names = [name.strip() for text in texts or () for name in text.split(",")]
    return list(dict.fromkeys(names)) or None


def given(*groups: Any) -> dict[str, Any]:
    """Return the options that were given, by name."""
    options = {name: value for group in groups for name, value in vars(group).items()}
    return {
        name: value
        for name, value in options.items()
        if value is not None and value is not False
    }


def expand(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command with an option for every field of the groups that it takes, as
    typer reads a function.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {
        name: hint for name, hint in hints.items() if is_dataclass(hint)
    }
    options: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        group = groups.get(parameter.name)
        if group is None:
            options.append(parameter.replace(annotation=hints[parameter.name]))
            continue
        inside = get_type_hints(group, include_extras=True)
        options += [
            parameter.replace(name=f.name, default=f.default, annotation=inside[f.name])
            for f in fields(group)
        ]

    @functools.wraps(command)
    def expanded(**values: Any) -> None:
        taken = {
            name: group(**{f.name: values.pop(f.name) for f in fields(group)})
            for name, group in groups.items()
        }
        for group in taken.values():
            if isinstance(group, Output):
                check_outputs(group)
        command(**taken, **values)

    expanded.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    expanded.__annotations__ = {option.name: option.annotation for option in options}
    return expanded


# -- Files a command writes: checked before anything is computed -----------------------


PLOTS = (".png", ".pdf", ".svg", ".pgf")


def print_answer(data: Any, text: str, json: bool) -> None:
    """Write an answer on standard output: its data as JSON where that is wanted, else
    its text.
    """
    if json:
        print_json(data)
    else:
        print(text)


def print_json(data: Any) -> None:
    """Print data as strict JSON on one line."""
    from giantstep.core.base.jsondata import json_data

    print(json.dumps(json_data(data), allow_nan=False))


def check_outputs(output: Output) -> None:
    """Refuse what could not be written: unknown suffixes, missing or closed folders,
    one name twice.
    """
    from giantstep.core.result.files import SAVED

    out = output.out or []
    plot = output.plot or []
    for option, paths, suffixes in (("--out", out, SAVED), ("--plot", plot, PLOTS)):
        for path in paths:
            check_ending(path, suffixes, f"{option} writes {{}}")
            check_folder(path.parent)
            if path.is_dir():
                raise InputError(f"{str(path)!r} is a folder, not a file.")
            if path.exists() and not os.access(path, os.W_OK):
                raise InputError(f"{str(path)!r} cannot be written to.")
    if any(path.suffix.lower() == ".pgf" for path in plot):
        from giantstep.tools.figures.plot import (
            checked_path,  # it asks for a TeX system
        )

        checked_path("any.pgf")
    if output.paper not in (None, "column", "page"):
        raise InputError(f"--paper must be column or page, but is {output.paper!r}.")
    if output.paper is not None and not plot:
        raise InputError("--paper is for --plot, which is missing.")
    if len({path.absolute() for path in [*out, *plot]}) < len(out) + len(plot):
        raise InputError("One file is named twice as an output.")


def check_folder(folder: Path) -> None:
    """Refuse a folder that is not there or cannot be written to."""
    if not folder.is_dir():
        raise InputError(f"There is no folder {str(folder)!r} to write into.")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(f"The folder {str(folder)!r} cannot be written to.")


def check_new_folder(folder: Path) -> None:
    """Refuse a folder that is not there and could not be made."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{str(folder)!r} is a file, not a folder.")
    check_folder(
        next(
            parent for parent in [folder, *folder.absolute().parents] if parent.exists()
        )
    )


def write_outputs(
    result: xarray.Dataset, output: Output, variables: Sequence[str] | None = None
) -> list[Path]:
    """Write a result to all its files and return them; where one fails, none is left
    behind or changed.

    `variables` are drawn, those of the family if left out.
    """
    from giantstep.core.base.files import atomic_write

    out = output.out or []
    plot = output.plot or []
    try:
        with ExitStack() as stack:
            for path in out:
                gs.save(result, stack.enter_context(atomic_write(path)))
            for path in plot:
                look: dict[str, Any]
                if output.paper is None:
                    look = {}
                else:
                    look = {"style": "paper", "width": output.paper}
                gs.plot(
                    result, variables, stack.enter_context(atomic_write(path)), **look
                )
    except OSError as error:
        raise InputError(
            f"The output cannot be written: {(error.strerror or str(error)).lower()}."
        ) from None
    return [*out, *plot]


# -- A study changed by the options of a command, checked as if the file had said so ---


_LIMIT_ONLY = ("tolerance", "strict", "finite_size")
"""Settings of the limit that have no option of their own; --set reaches them."""
_OPTIONS = ("what", "theory", "trials", "seed", "device", "paired", "keep_trials")


def edit_study(
    study: gs.Study, verb: str, changes: Changes, *settings: Theory | Experiment
) -> gs.Study:
    """Return the study with the changes made; `verb` decides which engine ``--dim`` is
    for.
    """
    fields = assignments("--set", changes.set_)
    lists = _with_axes(assignments("--grid", changes.grid, many))
    for name in [name for name in lists if name in fields]:
        raise InputError(f"Field `{name}` is given both to --set and to --grid.")
    fields.update(lists)
    options = given(*settings)
    if changes.what not in (
        None,
        study.what,
    ):  # another question: the settings of the old one go
        old = study.question.settings
        tables: dict[str, Any] = {
            table: {
                name: value
                for name, value in getattr(study, table).items()
                if name not in old
            }
            for table in ("settings", "limit", "experiment")
        }
        study = dataclasses.replace(study, what=changes.what, **tables)
    own = {
        name: fields.pop(name)
        for name in list(fields)
        if name in study.question.settings
    }
    limit = {**study.limit}
    experiment = {**study.experiment}
    declared = type(study.scenario).model_fields
    for name in [name for name in fields if name not in declared]:
        if name in _LIMIT_ONLY:
            limit[name] = fields.pop(name)
        elif name in _OPTIONS:
            raise InputError(
                f"`{name}` is no field of the scenario; use the option"
                f" --{name.replace('_', '-')}."
            )
    text = options.pop("dim", None)
    if text is None:
        dim = None
    else:
        dim = [single(word) for word in _split(text)]
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
    grid = {
        name: value
        for name, value in study.grid.items()
        if name.replace("__", ".") not in fields
    }
    scenario = study.scenario
    if any(
        name.endswith(".kind") for name in fields
    ):  # a new part, and perhaps fields of it
        scenario = scenario.replace(
            {name: fields.pop(name) for name in list(fields) if name not in lists}
        )
    tables = {"grid": {**grid, **fields}, "settings": {**study.settings, **own}}
    return dataclasses.replace(
        study, scenario=scenario, limit=limit, experiment=experiment, **tables
    )


# -- What stands behind ``--set`` and ``--grid``: ``ridge=0.1`` ------------------------


def assignments(
    option: str,
    texts: Sequence[str] | None,
    read: Callable[[str, str], Any] = lambda name, text: single(text),
) -> dict[str, Any]:
    """Return field -> value of the texts given to one option; `read` makes the
    value.
    """
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
    """Return a value as TOML reads it; what is no TOML value is a name or an
    expression.
    """
    with contextlib.suppress(tomllib.TOMLDecodeError):
        content = tomllib.loads(f"value = {text}")
        return content["value"] if list(content) == ["value"] else text
    return text


def many(name: str, text: str) -> Any:
    """Return the values of a grid: ``start:stop:num[:log]``, a list with commas, or one
    value.
    """
    if ":" in text:
        return _range(name, text)
    value = single(text)
    if isinstance(value, list):
        return value
    return [single(word) for word in _split(text)]


def _with_axes(lists: dict[str, Any]) -> dict[str, Any]:
    """Return lists of a grid by field; FIELD@AXIS is a DataArray over a dimension of
    that name.
    """
    found: dict[str, Any] = {}
    for name, values in lists.items():
        field, at, axis = (part.strip() for part in name.partition("@"))
        if at and not axis.isidentifier():
            raise InputError(
                "--grid takes FIELD@AXIS=VALUES with a name for the axis, but got"
                f" {name!r}."
            )
        if field in found:
            raise InputError(f"Field `{field}` is given twice to --grid.")
        if at:
            import xarray

            found[field] = xarray.DataArray(values, dims=[axis])
        else:
            found[field] = values
    return found


def _range(name: str, text: str) -> Any:
    from giantstep.core.run.study_file import expand_range

    table = dict(
        zip(
            ("start", "stop", "num", "scale", "more"),
            (single(word.strip()) for word in text.split(":")),
        )
    )
    try:
        return expand_range(name, table)
    except InputError as error:
        told = (
            f"The range {text!r} is not start:stop:num or start:stop:num:log: {error}"
        )
        missing = (
            f"The range {text!r} of `{name}` has no number of values, as in"
            f" {name}={text}:20."
        )
        raise InputError(told if "num" in table else missing) from None


def _split(text: str) -> list[str]:
    """Split at the commas outside of brackets."""
    words = [""]
    depth = 0
    for letter in text:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and not depth:
            words.append("")
        else:
            words[-1] += letter
    return [word.strip() for word in words]

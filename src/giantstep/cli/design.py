"""The commands that ask back: ``optimize``, ``solve-for`` and ``sensitivity`` of a study."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

import giantstep as gs
from giantstep.cli.edit import assignments, edit_study, many, single
from giantstep.cli.options import Changes, Limit, Output, StudyFile, check_outputs
from giantstep.cli.verbs import hand_over
from giantstep.errors import InputError

if TYPE_CHECKING:
    import xarray

Over = Annotated[
    list[str] | None,
    Option(metavar="FIELD=LOW:HIGH", help="Search over a range, or over choices with commas; may be repeated."),
]


def optimize(
    study: Annotated[Path, StudyFile],
    changes: Changes,
    limit: Limit,
    output: Output,
    over: Over = None,
    minimise: Annotated[str | None, Option(metavar="VARIABLE", help="Make it small (test_error).")] = None,
    maximise: Annotated[str | None, Option(metavar="VARIABLE", help="Make it large.")] = None,
    budget: Annotated[
        list[str] | None,
        Option(metavar="RELATION", help='A constraint such as "samples_per_dim + ridge = 4"; may be repeated.'),
    ] = None,
) -> None:
    """Find the fields at which the limit of a study is best."""
    check_outputs(output)
    searched = _over(over)
    if not searched:
        raise InputError("--over is missing: name the fields to search over, as in --over ridge=1e-6:1e3.")
    wanted = {"over": searched, "minimise": minimise, "maximise": maximise, "budget": budget}
    hand_over(_ask(edit_study(gs.Study.read(study), "predict", changes, limit), gs.optimize, searched, wanted), output)


def solve_for(
    study: Annotated[Path, StudyFile],
    field: Annotated[str, Argument(metavar="FIELD", help="The field solved for.")],
    changes: Changes,
    limit: Limit,
    output: Output,
    reach: Annotated[
        list[str] | None, Option(metavar="VARIABLE=VALUE", help="What the limit shall reach, as test_error=0.2.")
    ] = None,
    between: Annotated[str | None, Option(metavar="LOW:HIGH", help="Range of the field.")] = None,
    over: Over = None,
) -> None:
    """Find where the limit of a study reaches a value, along one field."""
    check_outputs(output)
    searched = _over(over)
    wanted: dict[str, Any] = {"over": searched or None, "reach": _values(reach)}
    if between is not None:
        wanted["between"] = _range("--between", field, between)
    edited = edit_study(gs.Study.read(study), "predict", changes, limit)
    name = field.replace("__", ".")
    hand_over(_ask(edited, lambda s, g, **k: gs.solve_for(s, name, g, **k), {*searched, name}, wanted), output)


def sensitivity(
    study: Annotated[Path, StudyFile],
    changes: Changes,
    limit: Limit,
    output: Output,
    of: Annotated[str | None, Option(metavar="VARIABLE", help="What changes (test_error).")] = None,
    to: Annotated[
        list[str] | None, Option(metavar="FIELD", help="With which fields, with commas or repeated; all if none.")
    ] = None,
) -> None:
    """Say how the limit of a study changes with each field: which of them matters most."""
    check_outputs(output)
    fields = [word.strip() for text in to or () for word in text.split(",")]
    edited = edit_study(gs.Study.read(study), "predict", changes, limit)
    hand_over(_ask(edited, gs.sensitivity, (), {"of": of, "to": fields or None}), output)


def _ask(
    study: gs.Study, verb: Callable[..., xarray.Dataset], searched: Collection[str], wanted: dict[str, Any]
) -> xarray.Dataset:
    """Ask a study with a verb; fields that are searched over leave its grid."""
    from giantstep.scenario import dotted_names

    grid = {name: value for name, value in dotted_names(study.grid).items() if name not in searched}
    general = ("theory", "dim", "tolerance", "seed", *study.question.settings)
    settings = {name: value for name, value in {**study.settings, **study.limit}.items() if name in general}
    return verb(study.scenario, grid, what=study.what, **settings, **wanted)


def _over(texts: list[str] | None) -> dict[str, Any]:
    return assignments("--over", texts or (), lambda n, t: _range("--over", n, t) if ":" in t else many(n, t))


def _range(option: str, name: str, text: str) -> tuple[Any, ...]:
    """Return ``LOW:HIGH`` or ``LOW:HIGH:linear`` as a range."""
    words = [single(word.strip()) for word in text.split(":")]
    if not 2 <= len(words) <= 3 or any(isinstance(word, str) for word in words[:2]):
        raise InputError(f"{option} takes {name}=LOW:HIGH, LOW:HIGH:log or LOW:HIGH:linear, but got {text!r}.")
    return tuple(words)


def _values(texts: list[str] | None) -> dict[str, Any]:
    """Return ``test_error=0.2`` or ``test_error[time=2]=0.2,0.1`` as the value or values of an observable."""
    reach = {}
    for text in texts or ():
        name, _, value = map(str.strip, text.rpartition("="))
        if not name or not value:
            raise InputError(f"--reach takes VARIABLE=VALUE, but got {text!r}.")
        values = many(name, value)
        reach[name] = values[0] if len(values) == 1 else values
    return reach

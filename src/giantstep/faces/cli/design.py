"""The commands that ask back: ``optimize``, ``solve-for`` and ``sensitivity`` of a
study.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

import giantstep as gs
from giantstep.core.base.errors import InputError
from giantstep.faces.cli.options import (
    Changes,
    Limit,
    Output,
    StudyFile,
    assignments,
    edit_study,
    many,
    option,
    single,
)
from giantstep.faces.cli.verbs import hand_over

if TYPE_CHECKING:
    import xarray

Over = Annotated[
    list[str] | None,
    Option(
        metavar="FIELD=LOW:HIGH",
        help="Search over a range, or over choices with commas; may be repeated.",
    ),
]


def optimize(
    study: Annotated[Path, StudyFile],
    changes: Changes,
    limit: Limit,
    output: Output,
    over: Over = None,
    minimise: str | None = option("VARIABLE", "Make it small (test_error)."),
    maximise: str | None = option("VARIABLE", "Make it large."),
    budget: list[str] | None = option(
        "RELATION",
        'A constraint such as "samples_per_dim + ridge = 4"; may be repeated.',
    ),
    check: int | None = option(
        "N", "Run N networks at the optimum and beside it (at --dim, or d = 200)."
    ),
) -> None:
    """Find the fields at which the limit of a study is best."""
    searched = _over(over)
    if not searched:
        raise InputError(
            "--over is missing: name the fields to search over, as in --over"
            " ridge=1e-6:1e3."
        )
    wanted = {
        "over": searched,
        "minimise": minimise,
        "maximise": maximise,
        "budget": budget,
        "check": check,
    }
    _ask(study, changes, limit, output, gs.optimize, searched, wanted)


def solve_for(
    study: Annotated[Path, StudyFile],
    field: Annotated[str, Argument(metavar="FIELD", help="The field solved for.")],
    changes: Changes,
    limit: Limit,
    output: Output,
    reach: list[str] | None = option(
        "VARIABLE=VALUE", "What the limit shall reach, as test_error=0.2."
    ),
    between: str | None = option("LOW:HIGH", "Range of the field."),
    over: Over = None,
) -> None:
    """Find where the limit of a study reaches a value, along one field."""
    searched = _over(over)
    name = field.replace("__", ".")
    wanted: dict[str, Any] = {"over": searched or None, "reach": _values(reach)}
    if between is not None:
        wanted["between"] = _range("--between", field, between)
    _ask(
        study,
        changes,
        limit,
        output,
        lambda s, g, **k: gs.solve_for(s, name, g, **k),
        {*searched, name},
        wanted,
    )


def sensitivity(
    study: Annotated[Path, StudyFile],
    changes: Changes,
    limit: Limit,
    output: Output,
    of: str | None = option("VARIABLE", "What changes (test_error)."),
    to: list[str] | None = option(
        "FIELD", "With which fields, with commas or repeated; all if none."
    ),
) -> None:
    """Say how the limit of a study changes with each field: which of them matters
    most.
    """
    fields = [word.strip() for text in to or () for word in text.split(",")]
    _ask(
        study,
        changes,
        limit,
        output,
        gs.sensitivity,
        (),
        {"of": of, "to": fields or None},
    )


def _ask(
    path: Path,
    changes: Changes,
    limit: Limit,
    output: Output,
    verb: Callable[..., xarray.Dataset],
    searched: Collection[str],
    wanted: dict[str, Any],
) -> None:
    """Ask the study of a file with a verb; fields that are searched over leave its
    grid.
    """
    from giantstep.core.scenario.names import dotted_names

    study = edit_study(gs.Study.read(path), "predict", changes, limit)
    grid = {
        name: value
        for name, value in dotted_names(study.grid).items()
        if name not in searched
    }
    general = ("theory", "dim", "tolerance", "seed", *study.question.settings)
    settings = {
        name: value
        for name, value in {**study.settings, **study.limit}.items()
        if name in general
    }
    hand_over(verb(study.scenario, grid, what=study.what, **settings, **wanted), output)


def _over(texts: list[str] | None) -> dict[str, Any]:
    return assignments(
        "--over", texts, lambda n, t: _range("--over", n, t) if ":" in t else many(n, t)
    )


def _range(option: str, name: str, text: str) -> tuple[Any, ...]:
    """Return ``LOW:HIGH`` or ``LOW:HIGH:linear`` as a range."""
    words = [single(word.strip()) for word in text.split(":")]
    if not 2 <= len(words) <= 3 or any(isinstance(word, str) for word in words[:2]):
        raise InputError(
            f"{option} takes {name}=LOW:HIGH, LOW:HIGH:log or LOW:HIGH:linear, but got"
            f" {text!r}."
        )
    return tuple(words)


def _values(texts: list[str] | None) -> dict[str, Any]:
    """Return ``test_error=0.2`` or ``test_error[time=2]=0.2,0.1`` as the value or
    values of an observable.
    """
    reach = {}
    for text in texts or ():
        name, _, value = map(str.strip, text.rpartition("="))
        if not name or not value:
            raise InputError(f"--reach takes VARIABLE=VALUE, but got {text!r}.")
        values = many(name, value)
        reach[name] = values[0] if len(values) == 1 else values
    return reach

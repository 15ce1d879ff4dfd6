"""What the page may ask for: sizes and times, checked on plain JSON before anything is
built from it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from giantstep.core.base.errors import InputError, bad_field

DOTS = 12
BUDGET = 60
"""Points of an experiment along each field, and its seconds, where nobody says another
number.
"""
TABLES = ("scenario", "grid", "settings", "limit", "experiment")


class Refused(Exception):
    """A request that was refused: its HTTP status, and what the page is told."""

    def __init__(self, status: int, message: Mapping[str, Any]) -> None:
        super().__init__(message.get("error", ""))
        self.status = status
        self.message = dict(message)


def refusal(error: Exception) -> dict[str, Any]:
    """Return an error as the page is told of it."""
    return {
        "error": said(error),
        "field": error.field if isinstance(error, InputError) else None,
    }


def said(error: Exception) -> str:
    """Return an error in the words of the page, where a missing theory leaves the
    experiment.

    >>> said(
    ...     InputError(
    ...         "Field `steps` has no limit here: what is missing is luck. `gs.simulate` trains the network."
    ...     )
    ... )
    'No theory here: what is missing is luck. The experiment can still be run.'
    """  # noqa: E501
    text, cut = re.subn(
        r" `gs\.simulate` [^.]*\.$", " The experiment can still be run.", str(error)
    )
    if cut:
        return re.sub(r"^Field `[\w.]+` has no limit here", "No theory here", text)
    return text


@dataclass(frozen=True)
class Bounds:
    """The largest request the server answers."""

    body: int = 64 * 1024  # bytes of a request
    upload: int = 64 * 2**20  # bytes of a table whose learning curve is forecast
    picture: int = (
        4 * 2**20
        # bytes of a figure drawn into a file; one of 8 curves of 100 points has some
        # 60,000
    )
    forecast_seconds: float = 120.0  # computing time of a forecast
    text: int = (
        1000  # characters of one text (an expression has its own, smaller limit)
    )
    entries: int = 2000  # of one list
    depth: int = 8  # lists and tables inside each other
    points: int = 4000  # of the grid of a limit
    dots: int = 200  # of the grid of an experiment
    dim: int = 4000  # of an experiment
    trials: int = 200  # of an experiment
    count: int = 100_000  # any whole-number setting
    limit_seconds: float = 20.0  # computing time of a limit
    budget_seconds: float = 300.0  # computing time of an experiment
    memory: int = 6 * 2**30  # bytes of address space of a worker


def parse_body(
    body: bytes, bounds: Bounds, source: str = "The request"
) -> dict[str, Any]:
    """Return a JSON object that came from outside; NaN, deep nesting, long texts and
    lists are refused.
    """
    if len(body) > bounds.body:
        raise InputError(
            f"{source} has {len(body)} bytes and at most {bounds.body} are allowed."
        )
    try:
        data = json.loads(body.decode("utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise InputError(f"{source} is not valid JSON.") from None
    if not isinstance(data, dict):
        raise InputError(f"{source} must be a JSON object.")
    _check_value("", data, bounds, 0)
    return data


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _check_value(name: str, value: Any, bounds: Bounds, depth: int) -> None:
    if depth > bounds.depth:
        raise InputError(f"`{name}` is nested more than {bounds.depth} levels deep.")
    if isinstance(value, str) and len(value) > bounds.text:
        raise InputError(
            f"`{name}` has {len(value)} characters and at most {bounds.text} are"
            " allowed."
        )
    if isinstance(value, int) and abs(value) > 2**53:
        raise bad_field(name, value, "a number up to 2**53")
    if isinstance(value, float) and not math.isfinite(value):
        raise bad_field(name, value, 'a number (infinity is written "inf")')
    if isinstance(value, list | dict) and len(value) > bounds.entries:
        raise InputError(
            f"`{name}` has {len(value)} entries and at most {bounds.entries} are"
            " allowed."
        )
    if isinstance(value, dict):
        for key, inner in value.items():
            place = key
            if name:
                place = f"{name[:80]}.{key[:80]}"
            _check_value(place, inner, bounds, depth + 1)
    if isinstance(value, list):
        for inner in value:
            _check_value(name, inner, bounds, depth + 1)


def check_study(data: Mapping[str, Any], bounds: Bounds) -> dict[str, Any]:
    """Return the tables of a study from a request, within the bounds of a limit."""
    study = data.get("study")
    if not isinstance(study, dict):
        raise InputError(
            "The request has no `study`, a JSON object with the tables of a study file."
        )
    for name in TABLES:
        if not isinstance(study.get(name, {}), dict):
            raise InputError(
                f"`{name}` must be a table, but is {name}={str(study[name])[:60]}."
            )
    study = {**study, "grid": flat_grid(study.get("grid", {}))}
    for name, value in study["grid"].items():
        if isinstance(value, dict) and "num" in value:
            whole_number(
                {f"{name}.num": value["num"]}, f"{name}.num", 1, 1, bounds.points
            )
    if grid_points(study) > bounds.points:
        raise InputError(
            f"The grid has {grid_points(study)} points and at most {bounds.points} are"
            " allowed here."
        )
    _check_counts(study.get("settings", {}), bounds)
    # a number in formulas, which costs nothing
    _check_counts(study.get("limit", {}), bounds, but="dim")
    return study


def _check_counts(table: Mapping[str, Any], bounds: Bounds, but: str = "") -> None:
    for name, value in table.items():
        if (
            isinstance(value, int)
            and not isinstance(value, bool)
            and value > bounds.count
            and name != but
        ):
            raise bad_field(name, value, f"at most {bounds.count} here")


def check_experiment(
    study: Mapping[str, Any], dots: int, bounds: Bounds
) -> dict[str, Any]:
    """Return a study thinned to so many dots along each field, within the bounds of an
    experiment.
    """
    table = study.get("experiment", {})
    for name, most in (("dim", bounds.dim), ("trials", bounds.trials)):
        values = table.get(name)
        if not isinstance(values, list):
            values = [values]
        for value in values:
            if isinstance(value, int | float) and value > most:
                raise bad_field(
                    name,
                    value,
                    f"at most {most} here; `giantstep compare` has no such bound",
                )
    _check_counts(table, bounds, but="seed")
    if table.get("device", "cpu") != "cpu":
        raise bad_field("device", table["device"], '"cpu" on the page')
    thin = thin_study(study, dots)
    if grid_points(thin) > bounds.dots:
        raise InputError(
            f"The experiment has {grid_points(thin)} points and at most {bounds.dots}"
            " are allowed here."
        )
    return {**thin, "experiment": {**table}}


def whole_number(
    data: Mapping[str, Any], name: str, default: int, least: int, most: int
) -> int:
    """Return a whole number of a request within its bounds."""
    value = data.get(name, default)
    if (
        isinstance(value, bool)
        or not isinstance(value, int)
        or not least <= value <= most
    ):
        raise bad_field(name, value, f"a whole number from {least} to {most}")
    return value


def flat_grid(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return a grid with dotted names, which TOML nests."""
    made: dict[str, Any] = {}
    for name, value in table.items():
        nested = isinstance(value, dict) and not {"start", "stop", "num", "kind"} & set(
            value
        )
        made |= (
            flat_grid(value, f"{prefix}{name}.") if nested else {prefix + name: value}
        )
    return made


def grid_points(study: Mapping[str, Any]) -> int:
    """Return the number of points of a study's grid, from its ranges and lists."""
    dims = [study.get(one, {}).get("dim") for one in ("limit", "experiment")]
    return math.prod(
        length_of(value) for value in (*study.get("grid", {}).values(), *dims)
    )


def length_of(value: Any) -> int:
    """Return how many values a field of a grid has; one where its number of values is
    no whole number.
    """
    if isinstance(value, dict):
        number = value.get("num")
    elif isinstance(value, list):
        number = len(value)
    else:
        number = 1
    return number if isinstance(number, int) and number > 0 else 1


def thin_study(study: Mapping[str, Any], most: int) -> dict[str, Any]:
    """Return a study with at most so many points along each field that varies, ends
    kept.

    >>> thin_study(
    ...     {
    ...         "grid": {
    ...             "ridge": {"start": 0, "stop": 1, "num": 90},
    ...             "noise": [0, 1, 2, 3],
    ...         }
    ...     },
    ...     3,
    ... )["grid"]
    {'ridge': {'start': 0, 'stop': 1, 'num': 3}, 'noise': [0, 2, 3]}
    """
    return {
        **study,
        "grid": {
            name: _thin(value, most) for name, value in study.get("grid", {}).items()
        },
    }


def _thin(value: Any, most: int) -> Any:
    if isinstance(value, dict) and "num" in value:
        return {**value, "num": min(value["num"], most)}
    if isinstance(value, list) and len(value) > most:
        if most == 1:
            places = [0]
        else:
            places = [round(i * (len(value) - 1) / (most - 1)) for i in range(most)]
        return [value[place] for place in places]
    return value

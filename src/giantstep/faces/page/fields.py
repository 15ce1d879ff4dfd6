"""What the declaration of a family says about one scenario: fields in force, ranges,
starts, the studies it opens on.

A scenario is the plain table of a request here, which may be wrong: it is shown as it
is, and the limit says why.

It stands in the file ``page.toml`` beside its scenario; where several families share a
folder each has a file named after its module, ``one_family.page.toml``. ``whole`` names
fields whose sliders stop at whole numbers.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping
from importlib.resources import files
from typing import Any

from giantstep.core.scenario.describe import describe
from giantstep.core.scenario.families import family_class
from giantstep.core.scenario.lists import with_place
from giantstep.core.scenario.toml import read_toml
from giantstep.faces.page.bounds import DOTS, flat_grid, length_of, thin_study
from giantstep.faces.page.markup import Html, escaped, greek, joined, pretty, tag, words

Field = dict[str, Any]
"""A field as `giantstep.core.scenario.describe` tells of it."""

_MOST_SHOWN = 2
"""Variables that a question shows first."""
_CURVE = 100
_MAP = 40
"""Points along a field that varies alone, and along each of two."""
_HALVINGS = 10
"""Halvings of a slider to where it stops being allowed: finer than one sees."""
_DIM = 400
_TRIALS = 20
"""Largest experiment that a preset starts with: seconds, not minutes."""


@functools.lru_cache(maxsize=64)
def _described(cls: type) -> dict[str, Any]:
    family = cls.family  # type: ignore[attr-defined]
    about = describe(family)
    about["page"] = page_of(family)
    about["examples"] = {
        what: cls.example_for(what).content()  # type: ignore[attr-defined]
        for what in about["questions"]
    }
    for what, question in about["questions"].items():
        for variable in question["variables"]:
            variable |= {"called": called(variable), "titles": titles(variable)}
        question["first"] = {
            "study": first_study(about, what),
            "variables": first_variables(question),
        }
    about["first"] = first_state(about)
    return about


def described(family: str) -> dict[str, Any]:
    """Return what a page is told of a family: its description, its declarations for the
    page, what it opens on.
    """
    return _described(family_class(family))


# -- names -----------------------------------------------------------------------------


def called(variable: Mapping[str, Any]) -> Html:
    """Return how a variable is called: by its symbol where that is its name."""
    if variable["symbol"] == variable["name"]:
        return tag("i", pretty(variable["symbol"]), class_="math")
    return joined(words(variable["name"]))


LONGEST_FORMULA = 90
"""Letters of a formula above which the title of a panel is the name alone."""


def titles(variable: Mapping[str, Any]) -> list[Html]:
    """Return what a panel of a variable says: of real labels, then of classes ("E(y -
    f)^2 or P(y f<0)").
    """
    name = variable["name"]
    made = []
    for symbol in variable["symbol"].split(" or ")[:2]:
        formula = tag("i", pretty(symbol))
        if symbol == name:
            made.append(formula)
        elif 0 < len(pretty(symbol)) < LONGEST_FORMULA:
            made.append(joined(tag("b", words(name)), "  ", formula))
        else:
            made.append(tag("b", words(name)))
    return made


def axis_of(about: Mapping[str, Any], what: str, dim: str) -> dict[str, Any]:
    """Return what a figure says of a dimension: along its axis, and before a value in
    the name of a line.
    """
    field = field_named(about, dim)
    if field is not None:
        label = joined(escaped(f"{words(dim)},  "), tag("i", pretty(field["symbol"])))
        return {"label": label, "short": greek(field["symbol"].split(" = ")[0]) + " ="}
    declared = about["questions"][what]["dimensions"].get(dim, {})
    said = declared.get("label") or greek(words(dim))
    symbol = declared.get("symbol")
    label = joined(
        escaped(said), *((",  ", tag("i", pretty(symbol))) if symbol else ())
    )
    # "steps made 1" says more than "time 1"
    few = declared.get("role") == "trajectory" and declared.get("label")
    return {
        "label": label,
        "short": (
            few or words(dim.removesuffix("_2") + ("'" if dim.endswith("_2") else ""))
        ),
    }


# -- fields of one scenario ------------------------------------------------------------


def value_at(table: Any, name: str) -> Any:
    """Return a dotted field of a scenario; None where it has none."""
    for part in name.split("."):
        if isinstance(table, dict):
            table = table.get(part)
        elif isinstance(table, list) and part.isdigit() and int(part) < len(table):
            table = table[int(part)]
        else:
            return None
    return table


def with_value(table: Any, name: str, value: Any) -> Any:
    """Return a scenario with a dotted field changed."""
    first, _, rest = name.partition(".")
    if rest:
        changed = with_value(value_at(table, first) or {}, rest, value)
    else:
        changed = value
    if isinstance(table, list):
        return [*table[: int(first)], changed, *table[int(first) + 1 :]]
    return {**table, first: changed}


def is_list(field: Field) -> bool:
    """Return whether a field holds a list of parts."""
    return bool(field["type"] == "list of choices")


def is_numeric(field: Field) -> bool:
    """Return whether a field may hold one number."""
    return any(
        kind in ("number", "whole number") for kind in field["type"].split(" or ")
    )


def chosen(field: Field, value: Any) -> dict[str, Any] | None:
    """Return which choice of a part a value is."""
    if is_list(field):
        return None
    for choice in field.get("choices", []):
        if "value" in choice:
            if choice["value"] == value:
                return choice
        elif isinstance(value, dict) and choice.get("kind") == value.get(
            "kind", choice.get("kind")
        ):
            return choice
    return None


def entry_of(field: Field, place: int) -> Field:
    """Return the field of one entry of a list of parts: its names and symbols say
    which.
    """

    def placed(inner: Field) -> Field:
        changed = {
            **inner,
            "name": (
                inner["name"].replace(
                    f"{field['name']}.", f"{field['name']}.{place}.", 1
                )
            ),
        }
        if inner["symbol"]:
            changed["symbol"] = with_place(inner["symbol"], place + 1)
        if "choices" in inner:
            changed["choices"] = [choice_of(choice) for choice in inner["choices"]]
        return changed

    def choice_of(choice: dict[str, Any]) -> dict[str, Any]:
        if "fields" in choice:
            return {**choice, "fields": [placed(inner) for inner in choice["fields"]]}
        return choice

    about = {
        "name": f"{field['name']}.{place}",
        "symbol": "",
        "meaning": "",
        "type": "choice",
        "required": True,
    }
    return {**about, "choices": [choice_of(choice) for choice in field["choices"]]}


def open_fields(about: Mapping[str, Any], scenario: Any) -> list[tuple[Field, int]]:
    """Return the fields in force for a scenario with their depth, parts opened."""

    def walk(fields: list[Field], depth: int) -> Iterator[tuple[Field, int]]:
        for field in fields:
            value = value_at(scenario, field["name"])
            if not _matters(about, field, value, scenario):
                continue
            yield field, depth
            choice = chosen(field, value)
            yield from walk((choice or {}).get("fields", []), depth + 1)
            if is_list(field) and isinstance(value, list):
                yield from walk(
                    [entry_of(field, place) for place in range(len(value))], depth + 1
                )

    return list(walk(about["fields"], 0))


def _matters(about: Mapping[str, Any], field: Field, value: Any, scenario: Any) -> bool:
    """Return whether a field can matter; one that was changed is shown even where it
    cannot.
    """
    if value is not None and value != field.get("default"):
        return True
    defaults = {other["name"]: other.get("default") for other in about["fields"]}
    for name, values in field.get("only", {}).items():
        other = value_at(scenario, name)
        if (defaults.get(name) if other is None else other) not in values:
            return False
    return True


def field_named(about: Mapping[str, Any], name: str) -> Field | None:
    """Return a field by its dotted name, whatever is chosen now."""

    def walk(fields: list[Field]) -> Field | None:
        for field in fields:
            if field["name"] == name:
                return field
            if is_list(field):
                place = name.removeprefix(f"{field['name']}.").partition(".")[0]
            else:
                place = ""
            if place.isdigit():
                choices = entry_of(field, int(place))["choices"]
            else:
                choices = field.get("choices", [])
            for choice in choices:
                inner = walk(choice.get("fields", []))
                if inner is not None:
                    return inner
        return None

    return walk(about["fields"])


def groups(about: Mapping[str, Any]) -> list[tuple[str, list[str]]]:
    """Return names of fields by theme, those that matter most first; what the family
    does not place comes last.
    """
    names = [field["name"] for field in about["fields"]]
    page = about["page"]
    made = [("", page.get("main") or names), *page.get("themes", {}).items()]
    placed = {name for _, some in made for name in some}
    rest = [name for name in names if name not in placed]
    return [*made, ("Other fields", rest)] if rest else made


# -- ranges and starts -----------------------------------------------------------------


def start_of(choice: Mapping[str, Any]) -> Any:
    """Return a value that a choice can start from: its defaults, and numbers within
    bounds.
    """
    if "value" in choice:
        return choice["value"]
    table: dict[str, Any]
    if "kind" in choice:
        table = {"kind": choice["kind"]}
    else:
        table = {}
    for field in choice["fields"]:
        name = field["name"].rpartition(".")[2]
        if field["required"]:
            table[name] = _sample(field)
        elif field["default"] not in (None, []):
            table[name] = field["default"]
    return table


def _sample(field: Field) -> Any:
    if "values" in field:
        return field["values"][0]
    if is_list(field):
        return []
    if "choices" in field:
        return start_of(field["choices"][0])
    for kind, value in (("list", [1]), ("array", [[1]]), ("function", "z")):
        if field["type"].startswith(kind):
            return value
    low, high = _ends(field)
    if low is not None and high is not None:
        return low if field["type"] == "whole number" else (low + high) / 2
    return 1 if low is None or low < 1 else low + 1


def _ends(field: Field) -> tuple[float | None, float | None]:
    bounds = field.get("bounds", {})
    return bounds.get("ge", bounds.get("gt")), bounds.get("le", bounds.get("lt"))


def slider_range(field: Field, value: float) -> dict[str, Any]:
    """Return the ends of a slider around a value, within what is allowed.

    It is linear between bounds, logarithmic where only zero bounds it from below. Where
    no bound is declared it keeps the sign of the value; the text beside it takes any.
    """
    low, high = _ends(field)
    # an end that is not allowed
    above, below = (
        "gt" in field.get("bounds", {}),
        "lt" in field.get("bounds", {}),
    )
    if field["type"] == "whole number":
        least = (value - 10 if low is None else low) + above
        if high is None:
            most = max(least + 9, 4 * abs(value))
        else:
            most = high - below
        return {
            "log": False,
            "min": least,
            "max": most,
            "step": max(1, round((most - least) / 1000)),
        }
    if low is not None and high is not None:
        step = (high - low) / 400
        return {
            "log": False,
            "min": low + above * step,
            "max": high - below * step,
            "step": step,
        }
    if low == 0 and value > 0:
        return {
            "log": True,
            "min": _rounded(value / 30),
            "max": _rounded(value * 30),
            "step": 0.005,
        }
    if low is not None:
        return _spread(low + 0.01 * above, low + 4 * max(abs(value - low), 0.25))
    if high is not None:
        return _spread(high - 4 * max(abs(high - value), 0.25), high - 0.01 * below)
    if value == 0:
        return _spread(-3.0, 3.0)
    return _spread(*sorted((_rounded(value / 30), _rounded(value * 3))))


def within(
    ends: Mapping[str, Any], value: float, refusing: Callable[[float], str | None]
) -> tuple[dict[str, Any], str]:
    """Return a slider drawn in to what other fields allow, and why; as it is where its
    value is wrong already.
    """
    whys = {side: refusing(ends[side]) for side in ("min", "max")}
    if not any(whys.values()) or refusing(value):
        return dict(ends), ""
    drawn = {
        side: _farthest(ends, value, ends[side], refusing) if why else ends[side]
        for side, why in whys.items()
    }
    return {**ends, **drawn}, whys["max"] or whys["min"] or ""


def _farthest(
    ends: Mapping[str, Any],
    inside: float,
    outside: float,
    refusing: Callable[[float], str | None],
) -> float:
    """Return the last place of a slider, from one that is allowed to one that is not,
    by bisection.
    """
    for _ in range(_HALVINGS):
        if ends["log"]:
            middle = math.sqrt(inside * outside)
        else:
            middle = (inside + outside) / 2
        if isinstance(ends["step"], int):
            middle = round(middle)
        if refusing(middle):
            inside, outside = (inside, middle)
        else:
            inside, outside = (middle, outside)
    return inside


def _spread(low: float, high: float) -> dict[str, Any]:
    return {"log": False, "min": low, "max": high, "step": (high - low) / 400}


def _rounded(value: float) -> float:
    return float(f"{value:.1g}")


def is_number(value: Any) -> bool:
    """Return whether a value of a request is a finite number."""
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and math.isfinite(value)
    )


def grid_fields(about: Mapping[str, Any], scenario: Any) -> list[Field]:
    """Return the fields a grid can have now: those that hold one number."""

    def holds_number(field: Field) -> bool:
        value = value_at(scenario, field["name"])
        return is_number(value) or value == "inf"

    return [
        field
        for field, _ in open_fields(about, scenario)
        if is_numeric(field) and holds_number(field)
    ]


def grid_range(field: Field, value: Any) -> Any:
    """Return a range of a field to draw a curve over."""
    low, high = _ends(field)
    if field["type"] == "whole number":
        least = low or 0
        most = min(
            high or math.inf, max(least + 9, 2 * value if is_number(value) else 0)
        )
        return list(range(int(least), int(least + min(most - least + 1, _MAP))))
    if low is not None and high is not None:
        margin = (high - low) / 100
        bounds = field["bounds"]
        # an end that the field must not reach
        if "gt" in bounds:
            low += margin
        if "lt" in bounds:
            high -= margin
        return {"start": low, "stop": high, "num": _CURVE}
    size = value if is_number(value) and value else 1.0
    if low == 0 and size > 0:
        return {
            "start": _rounded(size / 8),
            "stop": float(f"{2.5 * size:.2g}"),
            "num": _CURVE,
        }
    if low is not None:
        return {"start": low, "stop": low + 2 * max(abs(size - low), 1), "num": _CURVE}
    return {"start": -2 * abs(size), "stop": 2 * abs(size), "num": _CURVE}


def with_axis(
    study: Mapping[str, Any], number: int, field: Field | None
) -> dict[str, Any]:
    """Return the grid of a study with another field along one of its axes, or none."""
    entries = list(study.get("grid", {}).items())
    if field is None:
        return dict(entries[:number] + entries[number + 1 :])
    name = field["name"]
    entries[number : number + 1] = [
        (name, grid_range(field, value_at(study["scenario"], name)))
    ]
    grid = dict(entries)
    # fewer points along each side
    is_map = sum(length_of(value) > 8 for value in grid.values()) > 1
    return thin_study({"grid": grid}, _MAP)["grid"] if is_map else grid


# -- what a page opens on --------------------------------------------------------------


def first_variables(question: Mapping[str, Any]) -> list[str]:
    """Return the variables a question shows first; one that the limit answers is among
    them where there is any.
    """
    known = [variable["name"] for variable in question["variables"]]
    shown = [name for name in question["plot"] if name in known][:_MOST_SHOWN] or known[
        :1
    ]
    answered = [
        variable["name"]
        for variable in question["variables"]
        if "limit" in variable["engines"]
    ]
    if not answered or set(shown) & set(answered):
        return shown
    return [shown[0], answered[0]]


def first_study(about: Mapping[str, Any], what: str) -> dict[str, Any]:
    """Return the study that a question of a family starts with."""
    grid = about["page"].get("grids", {}).get(what, {})
    return complete(
        about, {"scenario": about["examples"][what], "what": what, "grid": grid}
    )


def complete(about: Mapping[str, Any], study: Mapping[str, Any]) -> dict[str, Any]:
    """Return a study with all its tables: an axis where its question needs one, an
    experiment of a moderate size.
    """
    what = study.get("what") or next(iter(about["questions"]))
    question = about["questions"][what]
    needed = {
        name: setting["example"]
        for name, setting in question["settings"].items()
        if "example" in setting
    }
    experiment = {"dim": 200, "trials": 10, "seed": 0, **study.get("experiment", {})}
    for name, most in (("dim", _DIM), ("trials", _TRIALS)):
        if is_number(experiment[name]):
            experiment[name] = min(experiment[name], most)
    # a scenario that has a dimension says it itself
    own = {field["name"] for field in about["fields"]} & {"dim"}
    made = {
        **study,
        "what": what,
        "grid": flat_grid(study.get("grid", {})),
        "settings": {**needed, **study.get("settings", {})},
        "limit": study.get("limit", {}),
        "experiment": {
            name: value
            for name, value in experiment.items()
            if name not in own and name != "device"
        },
    }
    first = next(
        one
        for one in question["variables"]
        if one["name"] == first_variables(question)[0]
    )
    if (
        not made["grid"]
        and what not in about["page"].get("grids", {})
        and not own_axis(question, first["dims"])
    ):
        fields = grid_fields(about, made["scenario"])
        shared = [field for field in fields if field["name"] in about["shared_fields"]]
        for field in (shared or fields)[:1]:
            made["grid"] = {
                field["name"]: grid_range(
                    field, value_at(made["scenario"], field["name"])
                )
            }
    return made


def own_axis(question: Mapping[str, Any], dims: list[str]) -> bool:
    """Return whether one of the dimensions is an axis of numbers: one to run along, or
    one that a setting gives.
    """
    roles = {
        name: declared["role"] for name, declared in question["dimensions"].items()
    }
    return any(
        roles.get(dim) in ("spectrum", "trajectory") or dim in question["settings"]
        for dim in dims
    )


def first_state(about: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state that the page of a family opens on, as it declares."""
    first = about["page"].get("first", {})
    what = next(iter(about["questions"]))
    study = first_study(about, what)
    study["scenario"] = {**study["scenario"], **first.get("scenario", {})}
    study["grid"] = first.get("grid", study["grid"])
    study["experiment"] |= {
        name: value
        for name, value in first.get("experiment", {}).items()
        if name in study["experiment"]
    }
    variables = first.get("variables") or first_variables(about["questions"][what])
    shown = {"study": study, "variables": variables, "dots": first.get("dots", DOTS)}
    return {"preset": f"example:{about['family']}", **shown}


# -- What a family declares for the page: what it opens on -----------------------------


FILE = "page.toml"


def page_of(family: str) -> dict[str, Any]:
    """Return the declaration of a family; an empty one where it has none, as a family
    from elsewhere may.
    """
    package, _, module = family_class(family).__module__.rpartition(".")
    if not package:
        return {}
    for name in (f"{module}.{FILE}", FILE):
        file = files(package).joinpath(name)
        if file.is_file():
            return read_toml(file.read_text("utf-8"), f"{package}/{name}")
    return {}

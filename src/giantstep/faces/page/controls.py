"""The controls of the page as HTML: what a study holds, every field with a control that
says where its value goes.

What is typed goes to ``data-path``, a path into the state of the page; what is picked
sets all of ``data-set``, a list of paths with their values. So the page knows no
family, and what it shows is made in one place.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from giantstep.faces.page.fields import (
    Field,
    chosen,
    grid_fields,
    groups,
    is_list,
    is_number,
    is_numeric,
    open_fields,
    slider_range,
    start_of,
    value_at,
    with_axis,
    within,
)
from giantstep.faces.page.markup import (
    Html,
    greek,
    joined,
    last_name,
    pretty,
    short,
    tag,
    words,
)

_FINITE = 10
"""What a field starts with that was infinite."""
_NAMES = (
    "relu",
    "erf",
    "tanh",
    "sin(z)",
    "z",
    "h2(z)",
    "z + h2(z)",
    "sign(z)",
    "softplus(z)",
)
_SAFE = 2**53 - 1
"""Largest seed: whole numbers of JavaScript are exact up to here."""

Forbidding = Callable[[str, Any], str | None]
"""Says of a field and a value why the other fields do not allow it."""


def controls_html(
    about: Mapping[str, Any],
    study: Mapping[str, Any],
    view: Mapping[str, Any],
    most: Mapping[str, int],
    forbidding: Forbidding,
) -> Html:
    """Return all controls of a study.

    Parameters
    ----------
    about : what `fields.described` says of its family.
    study : the tables of a study file.
    view : ``variables``, ``log``, ``dots`` and ``budget`` of the page.
    most : the largest ``dim``, ``trials``, ``dots`` and ``budget``.
    forbidding : what keeps sliders within what is allowed.
    """
    (_, main), *themes = groups(about)
    folds = [
        _fold(
            f"theme-{re.sub(r'[^a-z0-9]+', '-', title.lower())}",
            title,
            *_fields(about, study, names, forbidding),
        )
        for title, names in themes
    ]
    scenario = tag(
        "fieldset",
        tag("legend", "Scenario"),
        *_fields(about, study, main, forbidding),
        class_="main-fields",
    )
    names = tag("datalist", *(tag("option", value=name) for name in _NAMES), id="names")
    return joined(
        scenario,
        _axes(about, study, view),
        _shown(about, study, view),
        *folds,
        _experiment(about, study, view, most),
        _more(about, study),
        names,
    )


def sets(*changes: tuple[Sequence[str], Any]) -> str:
    """Return what a control sets: paths into the state of the page, with their values;
    None removes an entry.
    """
    return json.dumps(changes)


def _entry(at: Sequence[str], value: Any, kind: str, **attributes: Any) -> Html:
    """Return a line to type in: where its value goes, and how it is read (`take` of
    controls.js).
    """
    return tag(
        "input", value=value, data_path=json.dumps(at), data_kind=kind, **attributes
    )


def _fold(name: str, title: str, *inside: Html) -> Html:
    return tag("details", tag("summary", title), *inside, id=name)


def _row(*inside: Html) -> Html:
    return tag("div", *inside, class_="row")


def _labelled(name: str, title: str, control: Html, help_: str = "") -> Html:
    head = tag("div", tag("label", title, for_=name), class_="head")
    return tag(
        "div",
        head,
        control,
        *([tag("p", help_, class_="help")] if help_ else []),
        class_="field",
    )


def _select(
    options: Sequence[tuple[str, Any, bool, str]], at: Sequence[str], **attributes: Any
) -> Html:
    """Return a list of options: what each says, its value, whether it is chosen, its
    meaning.
    """
    made = [
        tag(
            "option",
            text,
            value=text,
            selected=is_now,
            title=meaning or None,
            data_set=sets((at, value)),
        )
        for text, value, is_now, meaning in options
    ]
    return tag("select", *made, **attributes)


# -- fields of the scenario ------------------------------------------------------------


def _fields(
    about: Mapping[str, Any],
    study: Mapping[str, Any],
    names: Sequence[str],
    forbidding: Forbidding,
) -> list[Html]:
    fields = open_fields(about, study["scenario"])
    return [
        _field(about, study, field, depth, forbidding)
        for name in names
        for field, depth in fields
        if field["name"].split(".")[0] == name
    ]


def _field(
    about: Mapping[str, Any],
    study: Mapping[str, Any],
    field: Field,
    depth: int,
    forbidding: Forbidding,
) -> Html:
    name = field["name"]
    head = tag(
        "div",
        tag("label", _label(name), for_=f"f-{name}"),
        tag("i", pretty(field["symbol"])),
        class_="head",
    )
    if {name, re.sub(r"\.\d+(?=\.)", "", name)} & set(study.get("grid", {})):
        inside = tag("p", "varies: see Axes below", class_="help", id=f"f-{name}")
    else:
        value = value_at(study["scenario"], name)
        control = _control(
            about, field, field.get("default") if value is None else value, forbidding
        )
        inside = joined(
            control,
            tag("p", greek(field["meaning"]), class_="help", id=f"f-{name}-help"),
        )
    return tag("div", head, inside, class_="field inner" if depth else "field")


def _label(name: str) -> str:
    """Return how a control is called: without what its field lies in, an entry of a
    list by its place (``step 1``).
    """
    entries, _, place = last_name(name).rpartition(".")
    if entries:
        return f"{words(entries).removesuffix('s')} {int(place) + 1}"
    return words(place)


def _control(
    about: Mapping[str, Any], field: Field, value: Any, forbidding: Forbidding
) -> Html:
    name = field["name"]
    common = {
        "id": f"f-{name}",
        "data_field": name,
        "aria_describedby": f"f-{name}-help",
    }
    at = ("study", "scenario", *name.split("."))
    if is_list(field):
        return _list(field, value if isinstance(value, list) else [], at, common)
    if "choices" in field:
        now = chosen(field, value)
        options = [
            (choice_name(one), start_of(one), one is now, one.get("meaning", ""))
            for one in field["choices"]
        ]
        return _select(options, at, **common)
    if "values" in field:
        return _select(
            [(str(one), one, one == value, "") for one in field["values"]], at, **common
        )
    if is_numeric(field) and (is_number(value) or value == "inf"):
        return _number(about, field, value, at, common, forbidding)
    return _text(field, value, at, common)


def choice_name(choice: Mapping[str, Any]) -> str:
    """Return how a choice of a part is called."""
    return str(choice.get("value", choice.get("kind", words(choice.get("name", "")))))


def _list(
    field: Field, value: list[Any], at: Sequence[str], common: Mapping[str, Any]
) -> Html:
    """Return how many entries a list of parts has; a new one is like the last."""
    new = value[-1] if value else start_of(field["choices"][0])
    longer = sets(((*at, str(len(value))), new))
    shorter = sets(((*at, str(len(value) - 1)), None))
    more = tag("button", "add one", type="button", data_set=longer, **common)
    fewer = tag(
        "button", "remove the last", type="button", disabled=not value, data_set=shorter
    )
    return _row(tag("output", len(value), for_=common["id"]), more, fewer)


def _number(
    about: Mapping[str, Any],
    field: Field,
    value: Any,
    at: Sequence[str],
    common: Mapping[str, Any],
    forbidding: Forbidding,
) -> Html:
    is_whole = field["type"] == "whole number" or field["name"] in about["page"].get(
        "whole", ()
    )
    known = _FINITE
    if is_number(value):
        known = value
    if is_whole:
        field = {**field, "type": "whole number"}
    ends = slider_range(field, known)
    scale = "linear"
    if ends["log"]:
        scale = "log"
    elif is_whole:
        scale = "whole"
    why = ""
    if is_number(value):
        ends, why = within(ends, value, lambda other: forbidding(field["name"], other))
    slider = tag(
        "input",
        type="range",
        id=f"{common['id']}-slider",
        data_path=json.dumps(at),
        data_scale=scale,
        **slider_places(ends, known),
        aria_valuetext=short(value),
        aria_label=f"{words(field['name'])}, slider",
        title=why or None,
        disabled=value == "inf" or ends["min"] == ends["max"],
    )
    kind = "number or list" if "list" in field["type"] else "number"
    look = {
        "class_": "number",
        "type": "text",
        "inputmode": "decimal",
        "data_allowed": field["allowed"],
    }
    number = _entry(at, short(value, 6), kind, **look, **common)
    if not field.get("infinite"):
        return _row(slider, number)
    other = known if value == "inf" else "inf"
    tick = tag(
        "input",
        type="checkbox",
        id=f"{common['id']}-inf",
        checked=value == "inf",
        data_set=sets((at, other)),
    )
    return _row(slider, number, tag("label", tick, "∞", class_="tick"))


def slider_places(ends: Mapping[str, Any], value: float) -> dict[str, str]:
    """Return the ends, the step and the place of a slider; those of a logarithmic one
    are powers of ten.
    """

    def place(number: float) -> str:
        return f"{math.log10(number) if ends['log'] else number:.12g}"

    return {
        "min": place(ends["min"]),
        "max": place(ends["max"]),
        "step": f"{ends['step']:.12g}",
        "value": place(value),
    }


def _text(
    field: Field, value: Any, at: Sequence[str], common: Mapping[str, Any]
) -> Html:
    if field["type"] in ("function", "text", "name"):
        kind = "text"
    else:
        kind = "value"
    listed = "names" if field["type"] == "function" else None
    return _row(
        _entry(
            at,
            _written(value),
            kind,
            class_="wide",
            type="text",
            spellcheck="false",
            list=listed,
            **common,
        )
    )


def _written(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list):
        nested = any(isinstance(entry, list | dict) for entry in value)
        if nested:
            return json.dumps(value)
        return ", ".join(short(entry, 6) for entry in value)
    return json.dumps(value) if isinstance(value, dict) else str(value)


# -- axes and what is shown ------------------------------------------------------------


def _axes(
    about: Mapping[str, Any], study: Mapping[str, Any], view: Mapping[str, Any]
) -> Html:
    names = list(study.get("grid", {}))
    titles = [
        "Field that varies",
        "Second field that varies",
        *("Another field" for _ in names[2:]),
    ]
    offered = [
        field
        for field in grid_fields(about, study["scenario"])
        if field["name"] not in names
    ]
    axes = [
        _axis(offered, study, view, number, title)
        for number, title in enumerate(titles)
    ]
    ticks = []
    for side, said in (("x", "log horizontal axis"), ("y", "log vertical axis")):
        box = tag(
            "input",
            type="checkbox",
            id=f"log-{side}",
            data_log=side,
            checked=side in view["log"],
        )
        ticks.append(tag("label", box, said, class_="tick"))
    return tag("fieldset", tag("legend", "Axes"), *axes, _row(*ticks))


def _axis(
    offered: Sequence[Field],
    study: Mapping[str, Any],
    view: Mapping[str, Any],
    number: int,
    title: str,
) -> Html:
    grid = study.get("grid", {})
    name = next(iter(list(grid)[number:]), "")
    options = [("none", with_axis(study, number, None), not name, "")]
    options += [(words(name), grid, True, "")] if name else []
    options += [
        (words(field["name"]), with_axis(study, number, field), False, "")
        for field in offered
    ]
    control = _select(options, ("study", "grid"), id=f"axis-{number}")
    return _labelled(
        f"axis-{number}",
        title,
        joined(control, _range(study, view, number, name) if name else ""),
    )


def _range(
    study: Mapping[str, Any], view: Mapping[str, Any], number: int, name: str
) -> Html:
    """Return the values of a field that varies: a list, or a range with its ends, its
    points and their spacing.
    """
    value = study["grid"][name]
    at = ("study", "grid", name)
    said = words(name)
    if not isinstance(value, dict):
        given = {
            "id": f"axis-{number}-list",
            "data_field": name,
            "aria_label": f"values of {said}",
        }
        return _row(_entry(at, _written(value), "values", class_="wide", **given))
    row = []
    for key, title in (("start", "from"), ("stop", "to"), ("num", "points")):
        given = {
            "id": f"axis-{number}-{key}",
            "data_field": f"{name}.{key}",
            "aria_label": f"{said}: {title}",
        }
        look = {"class_": "short", "inputmode": "decimal", "title": title}
        row.append(
            _entry((*at, key), short(value.get(key), 6), "value", **given, **look)
        )
    options = []
    start = value.get("start", 0)
    stop = value.get("stop", 0)
    for spacing in ("linear", "log"):
        after = {**value, "scale": spacing}
        if (
            spacing == "log"
            and is_number(start)
            and is_number(stop)
            and start <= 0 < stop
        ):
            after["start"] = float(f"{stop / 1000:.1g}")
        changes: list[tuple[Any, Any]] = [(at, after)]
        if number == 0:
            # the axis of the figure is that of the first field
            log = view["log"].replace("x", "")
            if spacing == "log":
                log = f"x{log}"
            changes.append((("log",), log))
        is_now = value.get("scale", "linear") == spacing
        options.append(
            tag(
                "option",
                spacing,
                value=spacing,
                selected=is_now,
                data_set=sets(*changes),
            )
        )
    row.append(
        tag(
            "select",
            *options,
            class_="short",
            id=f"axis-{number}-scale",
            aria_label=f"spacing of {said}",
        )
    )
    return _row(*row)


def _shown(
    about: Mapping[str, Any], study: Mapping[str, Any], view: Mapping[str, Any]
) -> Html:
    """Return a tick for each variable: those a question is about, and those drawn; the
    others are folded away.
    """
    question = about["questions"][study["what"]]

    def ticks(variables: Sequence[Mapping[str, Any]]) -> Html:
        return tag("div", *(tick(variable) for variable in variables), class_="checks")

    def tick(variable: Mapping[str, Any]) -> Html:
        name = variable["name"]
        box = tag(
            "input",
            type="checkbox",
            id=f"v-{name}",
            data_variable=name,
            checked=name in view["variables"],
        )
        return tag("label", box, variable["called"], title=variable["meaning"])

    first = [
        one
        for one in question["variables"]
        if one["name"] in (*question["plot"], *view["variables"])
    ]
    others = [one for one in question["variables"] if one not in first]
    if others:
        fold = [_fold("more-shown", f"{len(others)} more variables", ticks(others))]
    else:
        fold = []
    return tag("fieldset", tag("legend", "Shown"), ticks(first), *fold)


# -- experiment and settings -----------------------------------------------------------


def _experiment(
    about: Mapping[str, Any],
    study: Mapping[str, Any],
    view: Mapping[str, Any],
    most: Mapping[str, int],
) -> Html:
    table = study.get("experiment", {})
    at = ("study", "experiment")
    if _has_dimension(about):
        rows = []
    else:
        rows = [_whole((*at, "dim"), table.get("dim"), 2, most["dim"], "dimension d")]
    rows += [
        _whole((*at, "trials"), table.get("trials"), 1, most["trials"], "trials"),
        _whole((*at, "seed"), table.get("seed"), 0, _SAFE, "seed"),
        _whole(
            ("dots",),
            view["dots"],
            1,
            most["dots"],
            "dots along each field that varies",
        ),
        _whole(
            ("budget",),
            view["budget"],
            1,
            most["budget"],
            "seconds until it is stopped",
        ),
    ]
    return _fold("theme-experiment", "Experiment", *rows)


def _has_dimension(about: Mapping[str, Any]) -> bool:
    """Return whether the scenario says the dimension itself."""
    return any(field["name"] == "dim" for field in about["fields"])


def _whole(at: Sequence[str], value: Any, least: int, most: int, title: str) -> Html:
    """Return a line for a whole number within bounds, and a place to say what is wrong
    with it.
    """
    name = f"e-{at[-1]}"
    bounds = {
        "data_own": True,
        "data_least": least,
        "data_most": most,
        "aria_errormessage": f"{name}-wrong",
    }
    look = {
        "class_": "number",
        "inputmode": "numeric",
        "id": name,
        "data_field": at[-1],
    }
    row = tag(
        "div",
        tag("label", title, for_=name),
        _entry(at, _written(value), "whole", **look, **bounds),
        class_="row whole",
    )
    return tag(
        "div",
        row,
        tag("p", class_="wrong own", id=f"{name}-wrong", hidden=True),
        class_="field",
    )


def _more(about: Mapping[str, Any], study: Mapping[str, Any]) -> Html:
    fields = []
    limit = study.get("limit", {})
    theories = about["theories"]
    if len(theories) > 1:
        options = [("chosen by the family", None, "theory" not in limit, "")]
        options += [
            (name, name, limit.get("theory") == name, meaning)
            for name, meaning in theories.items()
        ]
        control = _select(options, ("study", "limit", "theory"), id="s-theory")
        said = "; ".join(f"{name}: {meaning}" for name, meaning in theories.items())
        fields.append(_labelled("s-theory", "theory", control, said))
    if not _has_dimension(about):
        at = ("study", "limit", "dim")
        control = _entry(
            at,
            _written(limit.get("dim")),
            "value",
            id="s-dim",
            class_="number",
            placeholder="∞",
        )
        said = (
            "adds the leading correction to the curve, where it is known; empty: the"
            " limit"
        )
        fields.append(_labelled("s-dim", "finite-size correction at d", control, said))
    settings = study.get("settings", {})
    for name, setting in about["questions"][study["what"]]["settings"].items():
        control = _setting_control(
            name, setting, settings.get(name, setting["default"])
        )
        fields.append(_labelled(f"s-{name}", words(name), control, setting["meaning"]))
    return _fold("more", "Theory and settings", *fields)


def _setting_control(name: str, setting: Mapping[str, Any], value: Any) -> Html:
    at = ("study", "settings", name)
    given = {"id": f"s-{name}", "data_field": name}
    choices = setting.get("choices") or (
        [True, False] if isinstance(setting["default"], bool) else None
    )
    if choices:
        return _select(
            [(short(one), one, one == value, "") for one in choices], at, **given
        )
    return _row(
        _entry(
            at, _written(value), "value", class_="wide", placeholder="chosen", **given
        )
    )

"""The controls that the server writes: one for every field, values within bounds,
nothing that breaks out of HTML.
"""

from __future__ import annotations

import json
import math
import random
from html.parser import HTMLParser
from typing import Any

import pytest

from giantstep.core.base.errors import InputError
from giantstep.core.scenario.families import SHIPPED
from giantstep.faces.page.bounds import grid_points
from giantstep.faces.page.fields import (
    complete,
    described,
    field_named,
    open_fields,
    with_axis,
)
from giantstep.faces.page.studies import read_study
from giantstep.faces.page.tasks import controls, why_refused

from .conftest import SCENARIO, Server, study

QUESTIONS = [
    (family, what)
    for family in sorted(SHIPPED)
    for what in described(family)["questions"]
]
VIEW = {"variables": [], "log": "", "paper": "", "dots": 12, "budget": 60}
MOST = {"dim": 4000, "trials": 200, "dots": 200, "budget": 300}


class Elements(HTMLParser):
    """Collects the elements of a text with their attributes; every one that is opened
    must be closed.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[dict[str, Any]] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append({"tag": tag, **dict(attrs)})
        if tag != "input":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def asked(server: Server, tables: dict[str, Any], **more: Any) -> dict[str, Any]:
    answer = server.client.post("/api/controls", json={"study": tables, **more})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


@pytest.mark.parametrize(("family", "what"), QUESTIONS)
def test_every_field_has_a_control_that_sets_it(
    server: Server, family: str, what: str
) -> None:
    """What a control sets is a study, or is refused in one sentence where fields do not
    go together.
    """
    about = described(family)
    first = about["questions"][what]["first"]
    made = asked(server, first["study"], variables=first["variables"])
    elements = [*Elements(made["controls"]).found, *Elements(made["pipeline"]).found]
    fields = [
        field["name"] for field, _ in open_fields(about, first["study"]["scenario"])
    ]
    assert {f"f-{name}" for name in fields} <= {
        element.get("id") for element in elements
    }
    assert {
        element["data-variable"]
        for element in elements
        if "checked" in element and "data-variable" in element
    } == set(first["variables"])
    good = 0
    for changes in (
        json.loads(element["data-set"]) for element in elements if "data-set" in element
    ):
        tables = changed({"study": first["study"]}, changes)["study"]
        try:
            read_study(
                {
                    name: tables[name]
                    for name in ("scenario", "what", "grid", "settings", "limit")
                }
            )
            good += 1
        except InputError:
            pass
    assert good > 2
    for slider in (element for element in elements if element.get("type") == "range"):
        assert float(slider["min"]) <= float(slider["value"]) <= float(slider["max"])
        for end in (
            float(slider[side]) for side in ("min", "max") if "disabled" not in slider
        ):
            if slider["data-scale"] == "log":
                value = 10**end
            elif slider["data-scale"] == "whole":
                value = int(end)
            else:
                value = end
            moved = changed(
                {"study": first["study"]}, [(json.loads(slider["data-path"]), value)]
            )["study"]
            assert why_refused({"scenario": moved["scenario"], "what": what}) is None


def changed(state: dict[str, Any], changes: list[Any]) -> dict[str, Any]:
    """Return a state as the page changes it."""
    copy = json.loads(json.dumps(state))
    for (*before, last), value in changes:
        inner: Any = copy
        for name in before:
            inner = inner[int(name)] if isinstance(inner, list) else inner[name]
        if isinstance(inner, list):
            inner[int(last) : int(last) + 1] = [] if value is None else [value]
        elif value is None:
            inner.pop(last, None)
        else:
            inner[last] = value
    return dict(copy)


def test_hostile_texts_stay_texts(server: Server) -> None:
    nasty = '"><script>alert(1)</script>'
    for tables in (
        study(target=nasty),
        study(step=nasty),
        study(ridge=nasty),
        {**study(), "settings": {nasty: nasty}},
    ):
        made = asked(server, tables, variables=[nasty], log=nasty, paper=nasty)
        assert not any(
            element["tag"] == "script"
            for html in made.values()
            for element in Elements(html).found
        )


@pytest.mark.parametrize(
    "tables",
    [
        {},
        {"scenario": {}},
        {"scenario": {"family": "x"}},
        {"scenario": {"family": [1]}},
        {**study(), "what": "all"},
        {**study(), "what": [1]},
        {**study(), "what": None},
    ],
)
def test_a_study_of_nothing_is_refused(server: Server, tables: dict[str, Any]) -> None:
    assert (
        server.client.post("/api/controls", json={"study": tables}).status_code == 400
    )


def test_broken_scenarios_have_controls_all_the_same(server: Server) -> None:
    """The limit says what is wrong with them; with their controls they can be
    mended.
    """
    rng = random.Random(1)
    junk: list[Any] = [
        None,
        "inf",
        "",
        -1,
        1e300,
        [],
        [1, "x"],
        [[1], {}],
        {},
        {"kind": "x"},
        {"kind": 3},
        True,
        {"npz": 3},
    ]
    for number in range(60):
        family, what = QUESTIONS[number % len(QUESTIONS)]
        tables = json.loads(
            json.dumps(described(family)["questions"][what]["first"]["study"])
        )
        for name in rng.sample(
            sorted(tables["scenario"]), min(2, len(tables["scenario"]))
        ):
            if name != "family":
                tables["scenario"][name] = rng.choice(junk)
        tables["grid"] = rng.choice(
            [
                {},
                {"ridge": {}},
                {"x": 3},
                {"noise": {"start": "a", "stop": None}},
                tables["grid"],
            ]
        )
        answer = server.client.post(
            "/api/controls", json={"study": tables, "log": 3, "paper": []}
        )
        assert answer.status_code == 200, (tables, answer.text)


def test_a_study_gets_an_axis_where_its_question_needs_one() -> None:
    about = described("one-step")
    whole = complete(
        about,
        {
            "scenario": SCENARIO,
            "what": "errors",
            "experiment": {"dim": 9000, "device": "gpu"},
        },
    )
    assert list(whole["grid"]) == ["samples_per_dim"] and whole["experiment"] == {
        "dim": 400,
        "trials": 10,
        "seed": 0,
    }
    both = with_axis(whole, 1, field_named(about, "ridge"))
    # a map has fewer points along each side
    assert [values["num"] for values in both.values()] == [
        40,
        40,
    ]
    assert with_axis({**whole, "grid": both}, 0, None) == {"ridge": both["ridge"]}


def test_a_slider_ends_where_other_fields_end_it() -> None:
    """Of two labels fewer than half are flipped, and none where there is noise: its
    slider does not move then.
    """
    first = described("bayes-limit")["first"]["study"]
    made: list[dict[str, Any]] = []
    for fields in ({"flip": 0.05, "noise": 0.0}, {"flip": 0.0, "noise": 0.1}):
        tables = {**first, "scenario": {**first["scenario"], **fields}}
        controls(lambda kind, text: made.append(json.loads(text)), tables, VIEW, MOST)
    few, none = (
        next(
            element
            for element in Elements(one["controls"]).found
            if element.get("id") == "f-flip-slider"
        )
        for one in made
    )
    assert 0.49 < float(few["max"]) < 0.5 and "disabled" not in few
    assert "disabled" in none and "0 where there is noise" in none["title"]


def test_a_network_of_many_steps_has_controls_of_moderate_size() -> None:
    """They grew with the square of the number of steps, and took seconds."""
    first = described("network")["first"]["study"]
    step = {"kind": "maximal", "rate": 1.0}
    made: list[str] = []
    for count in (8, 64):
        tables = {**first, "scenario": {**first["scenario"], "steps": [step] * count}}
        controls(lambda kind, text: made.append(text), tables, VIEW, MOST)
    assert len(made[1]) < 10 * len(made[0])


@pytest.mark.parametrize("number", ["abc", None, [1], math.inf, True])
def test_a_count_that_is_no_whole_number_is_no_crash(number):
    """A `dim` is refused later, in a sentence; counting the points of a grid must get
    that far.
    """
    assert (
        grid_points(
            {"scenario": {"family": "one-step"}, "limit": {"dim": {"num": number}}}
        )
        == 1
    )

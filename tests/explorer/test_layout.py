"""The figure stays in view whatever is moved; the page opens on a story."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest

from giantstep.core.scenario.describe import describe
from giantstep.core.scenario.families import SHIPPED
from giantstep.faces.page.app import PAGE
from giantstep.faces.page.fields import described, page_of
from giantstep.faces.page.theory import theory_html

from .conftest import study
from .test_browser import STATE, Page

STORIES = json.loads((PAGE / "stories.json").read_text("utf-8"))
SIZES = [(360, 740), (640, 900), (844, 390), (900, 1000), (1400, 800)]

SEEN = """(element) => {
    element.scrollIntoView({block: "nearest"});
    const figure = document.getElementById("chart").getBoundingClientRect();
    const box = element.getBoundingClientRect();
    const top = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
    return {figure: figure.top >= 0 && figure.bottom <= innerHeight && figure.height > 150,
            control: top === element, sideways: document.documentElement.scrollWidth - innerWidth};
}"""


@pytest.mark.parametrize("family", sorted(SHIPPED))
def test_a_family_places_every_field_once(family: str) -> None:
    page = page_of(family)
    placed = [
        *page["main"],
        *(name for names in page.get("themes", {}).values() for name in names),
    ]
    assert sorted(placed) == sorted(
        field["name"] for field in describe(family)["fields"]
    )


@pytest.mark.parametrize("family", sorted(SHIPPED))
def test_equations_break_only_outside_of_braces(family: str) -> None:
    """Pieces of an equation are typeset one by one, so that they lie below each other
    where there is no room.
    """
    about = described(family)
    study = about["first"]["study"]
    pieces = re.findall(
        'data-latex="([^"]*)"', theory_html(about, study, about["first"]["variables"])
    )
    assert pieces and all(piece.count("{") == piece.count("}") for piece in pieces)
    assert set(about["page"].get("grids", {})) <= set(about["questions"])


def test_figure_and_control_are_on_the_screen_together(page: Page) -> None:
    page.open({**STATE, "variables": ["test_error", "train_error"]})
    for width, height in SIZES:
        page.resize(width, height)
        for name in ("#f-ridge-slider", "#f-step\\.rate-slider", "#axis-1", "#log-y"):
            seen = page.page.eval_on_selector(name, SEEN)
            assert seen == {"figure": True, "control": True, "sideways": 0}, (
                width,
                height,
                name,
            )


def test_the_page_opens_on_a_story_and_the_figure_follows_its_slider(
    page: Page,
) -> None:
    page.open(None, curves=2)
    assert page.text("#story h2") == STORIES[0]["title"]
    assert [len(trace["x"]) for trace in page.traces()] == [60, 60]
    before = page.traces()
    page.page.focus("[data-drag]")
    page.page.keyboard.press("Home")
    page.settle()
    after = page.traces()
    assert after[0]["y"] != before[0]["y"] and after[1]["y"] == before[1]["y"]
    page.reload()  # the address holds the story and what was dragged
    page.page.wait_for_selector("#story h2")
    assert float(page.page.input_value("[data-drag]")) == pytest.approx(
        np.log10(0.003), abs=1e-3
    )
    page.page.click("#story-skip")
    assert page.page.is_visible("#f-ridge") and not page.page.is_visible("#story h2")
    page.page.goto("about:blank")
    page.open(None)
    # who skipped once is not told again
    assert page.page.is_visible("#f-width_per_dim")
    page.page.click("#stories")
    assert page.text("#story h2") == STORIES[0]["title"]


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(STORIES)))
def test_every_story_is_drawn_and_dragged_at_every_width(
    page: Page, number: int
) -> None:
    page.open(None, curves=1)
    story = STORIES[number]
    page.page.click(f"#story .steps li:nth-child({number + 1}) button")
    page.until(lambda: page.text("#story h2") == story["title"])
    page.settle()
    assert page.traces() and page.text("#status").startswith("limit, ")
    for width, height in ((360, 740), (900, 1000), (1400, 800)):
        page.resize(width, height)
        assert page.page.eval_on_selector("[data-drag]", SEEN) == {
            "figure": True,
            "control": True,
            "sideways": 0,
        }
    before = page.traces()[0]["y"]
    page.page.focus("[data-drag]")
    page.page.keyboard.press("End")
    page.until(lambda: page.traces()[0]["y"] != before)


@pytest.mark.parametrize("late", [False, True])
def test_a_variable_that_is_absent_gets_no_panel(page: Page, late: bool) -> None:
    """Real outputs are no labels that can be wrong; controls that come after the curve
    say so, too.
    """
    held: list[Any] = []
    if late:
        page.page.route("**/api/controls", lambda route: held.append(route))
    scenario = {
        "family": "bayes-limit",
        "target": "tanh(z)",
        "noise": 0.1,
        "samples_per_dim": 1.0,
    }
    asked = {
        "scenario": scenario,
        "what": "errors",
        "grid": {"samples_per_dim": [0.5, 1.0, 2.0]},
    }
    state = {**STATE, "study": asked, "variables": ["mse", "error"]}
    if late:
        page.open(state, curves=0)
        page.until(
            lambda: (
                len(page.traces()) >= 3 and held and "limit, " in page.text("#status")
            )
        )
        held[-1].continue_()
        page.settle()
    else:
        page.open(state, curves=3)
    assert [panel["name"] for panel in page.panels()] == ["mse"]
    label = (
        "(e) => [e.closest('label').title,"
        " e.closest('label').classList.contains('absent')]"
    )
    told, is_absent = page.page.eval_on_selector("#v-error", label)
    assert is_absent and "not labels that can be wrong" in told


def test_long_names_fit_on_a_phone(page: Page) -> None:
    names = [
        "a read-out that is regularised more strongly than the others",
        "hardly any ridge, so that a peak is seen",
    ]
    kept = [
        {**study(ridge=ridge), "name": name} for ridge, name in zip((1.0, 0.001), names)
    ]
    page.page.set_viewport_size({"width": 390, "height": 844})
    page.open({**STATE, "kept": kept}, curves=3)
    assert page.page.locator("#named li").all_inner_texts() == ["ridge 0.1", *names]
    seen = """() => { const box = (id) => document.querySelector(id).getBoundingClientRect();
        const names = document.getElementById("named");
        return { scrolls: names.scrollHeight > names.clientHeight, below: box("#named").top >= box("#chart").bottom - 1,
            inside: box("#named").bottom <= box(".stage").bottom, stage: box(".stage").height < 0.5 * innerHeight,
            sideways: document.documentElement.scrollWidth - innerWidth }; }"""
    fits = {
        "scrolls": False,
        "below": True,
        "inside": True,
        "sideways": 0,
        "stage": True,
    }
    assert page.page.evaluate(seen) == fits
    page.enter("#f-ridge", "0.3")  # the name of the curve under the sliders follows
    page.until(
        lambda: page.page.locator("#named li").all_inner_texts()[0] == "ridge 0.3"
    )
    page.settle()

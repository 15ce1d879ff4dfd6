"""The workbench: equations tied to controls, undo, names of curves, short links, what is drawn beside the dots."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from giantstep.describe import describe
from giantstep.explorer.declared import page_of
from giantstep.families import SHIPPED

from .conftest import Server, study
from .test_browser import STATE, Page

THEORY = Path(__file__).parents[2] / "docs" / "theory"


def field_names(fields: list[dict[str, Any]]) -> set[str]:
    inner = [choice.get("fields") or [] for field in fields for choice in field.get("choices", [])]
    return {field["name"] for field in fields}.union(*map(field_names, inner))


@pytest.mark.parametrize("family", sorted(SHIPPED))
def test_symbols_of_the_equations_are_fields_and_citations_exist(family: str) -> None:
    equations = page_of(family)["equations"]
    names = {name for equation in equations for name in re.findall(r"\\field\{([^}]+)\}", equation["latex"])}
    assert names and names <= field_names(describe(family)["fields"])
    for cite in (equation["cite"] for equation in equations if "cite" in equation):
        name, number = cite.split()
        assert number in (THEORY / f"{name}.md").read_text("utf-8")


def test_equations_are_typeset_and_light_their_controls(page: Page) -> None:
    page.open()
    page.page.wait_for_selector('.formula [data-field="ridge"]')
    page.page.hover('.formula [data-field="ridge"]')
    assert page.page.eval_on_selector("#f-ridge", "(e) => e.closest('.field').classList.contains('lit')")
    page.page.click('.formula [data-field="noise"]')  # its control lies in a fold
    assert page.page.evaluate("() => document.activeElement.id").startswith("f-noise")
    texts = [equation["latex"] for family in sorted(SHIPPED) for equation in page_of(family)["equations"]]
    script = """(texts) => texts.map((text) => { try {
        katex.renderToString(text, {strict: false, trust: true, macros: {"\\\\field": "\\\\htmlData{field=#1}{#2}"}});
        return ""; } catch (error) { return error.message; } })"""
    assert set(page.page.evaluate(script, texts)) == {""}
    # undo and redo, from the keyboard and by button
    page.enter("#f-ridge", "0.7")
    page.page.wait_for_timeout(800)
    page.enter("#f-ridge", "0.9")
    page.page.focus("#f-ridge-slider")
    page.page.keyboard.press("Control+z")
    page.until(lambda: page.page.input_value("#f-ridge") == "0.7")
    page.page.click("#undo")
    page.until(lambda: page.page.input_value("#f-ridge") == "0.1")
    page.page.click("#redo")
    page.until(lambda: page.page.input_value("#f-ridge") == "0.7")
    # a curve is kept, named, and put under the sliders again; a short link restores all of it
    page.settle()
    page.page.click("#pin")
    page.page.click("#pinned .name")
    page.page.fill("#pinned input", "seven tenths")
    page.page.keyboard.press("Enter")
    page.enter("#f-ridge", "2")
    page.until(lambda: len(page.traces()) == 2 and page.traces()[1]["label"] == "seven tenths")
    page.settle()
    link = page.page.evaluate("() => location.hash")
    long = len(json.dumps(STATE)) + len(json.dumps(study()))
    assert link.startswith("#~") and len(link) < 0.7 * long
    page.reload()
    assert page.traces()[1]["label"] == "seven tenths"
    # two scenarios side by side: A, B and their difference
    page.page.click("#sides")
    gap = "() => [...document.querySelectorAll('#ab [role=img]')].map((side) => side.panels?.[0]?.series[0]?.y ?? null)"
    a, b, difference = page.until(lambda: all(page.page.evaluate(gap)) and page.page.evaluate(gap))
    assert difference == [right - left for left, right in zip(a, b)] and not page.page.is_visible("#chart")
    page.page.click("#sides")
    page.until(lambda: page.page.is_visible("#chart"))
    page.page.click("#pinned [aria-label^=Restore]")
    page.until(lambda: page.page.input_value("#f-ridge") == "0.7")


def test_a_change_right_after_another_family_was_chosen_is_undone_alone(page: Page) -> None:
    page.open()
    page.page.select_option("#family", "few-steps")
    page.page.wait_for_selector("#f-steps")
    before = page.page.input_value("#f-ridge")
    page.enter("#f-ridge", "0.7")
    page.page.click("#undo")
    page.until(lambda: page.page.input_value("#f-ridge") == before)
    assert page.page.input_value("#family") == "few-steps"


@pytest.mark.slow
def test_one_time_is_picked_out_of_many(page: Page) -> None:
    page.page.goto(f"{page.server.address}/page/forecast.html")
    result = {"dims": {"density": ["time", "x"], "time": ["time"], "x": ["x"]}, "coords": ["time", "x"]}
    result |= {"density": [[1, 2], [3, 4], [5, 6]], "time": [0, 1, 2], "x": [0.5, 1.5]}
    dimensions = {"time": {"role": "trajectory"}, "x": {"role": "spectrum"}}
    question = {"variables": [{"name": "density", "dims": ["time", "x"]}], "settings": {}, "dimensions": dimensions}
    script = """async ([question, result]) => { const { atTime, timesOf } = await import('/page/views.js');
        const { dim, times } = timesOf(question, result, ['density']);
        return [dim, times, atTime(result, dim, 1).density, atTime(result, dim, 1).dims.density]; }"""
    assert page.page.evaluate(script, [question, result]) == ["time", [0, 1, 2], [3, 4], ["x"]]


@pytest.mark.slow
def test_a_broken_short_link_is_said_to_be_broken(browser: Any, server: Server) -> None:
    context = browser.new_context()
    page = Page(context.new_page(), server)
    page.open("~notalink", curves=0)
    page.until(lambda: "The link is broken" in page.text("#problem"))
    context.close()

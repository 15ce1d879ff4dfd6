"""The workbench: equations that lead to controls, going back, names of curves, short
links, times.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from giantstep.core.scenario.describe import describe
from giantstep.core.scenario.families import SHIPPED
from giantstep.faces.page.fields import page_of

from .conftest import Server, study
from .test_browser import STATE, Page

THEORY = Path(__file__).parents[2] / "docs" / "theory"


def field_names(fields: list[dict[str, Any]]) -> set[str]:
    inner = [
        choice.get("fields") or []
        for field in fields
        for choice in field.get("choices", [])
    ]
    return {field["name"] for field in fields}.union(*map(field_names, inner))


@pytest.mark.parametrize("family", sorted(SHIPPED))
def test_symbols_of_the_equations_are_fields_and_citations_exist(family: str) -> None:
    equations = page_of(family)["equations"]
    names = {
        name
        for equation in equations
        for name in re.findall(r"\\field\{([^}]+)\}", equation["latex"])
    }
    assert names and names <= field_names(describe(family)["fields"])
    for cite in (equation["cite"] for equation in equations if "cite" in equation):
        name, number = cite.split()
        assert number in (THEORY / f"{name}.md").read_text("utf-8")


def test_equations_are_typeset_and_lead_to_their_controls(page: Page) -> None:
    page.open()
    page.page.wait_for_selector('.formula [data-field="noise"]')
    page.page.click('.formula [data-field="noise"]')  # its control lies in a fold
    assert page.page.evaluate("() => document.activeElement.id").startswith("f-noise")
    texts = [
        equation["latex"]
        for family in sorted(SHIPPED)
        for equation in page_of(family)["equations"]
    ]
    script = """(texts) => texts.map((text) => { try {
        katex.renderToString(text, {strict: false, trust: true, macros: {"\\\\field": "\\\\htmlData{field=#1}{#2}"}});
        return ""; } catch (error) { return error.message; } })"""
    assert set(page.page.evaluate(script, texts)) == {""}


def test_back_goes_to_what_was_shown_before(page: Page) -> None:
    """What one drag goes through is one step; a change right after another family was
    chosen is a step of its own.
    """
    page.open()
    page.page.select_option("#family", "few-steps")
    page.page.wait_for_selector("#f-steps")
    before = page.page.input_value("#f-ridge")
    page.enter("#f-ridge", "0.7")
    page.settle()
    page.page.wait_for_timeout(800)
    page.page.focus("#f-ridge-slider")
    for _ in range(5):
        page.page.keyboard.press("ArrowRight")
    page.settle()
    for expected in ("0.7", before):
        page.page.go_back()
        page.until(
            lambda: page.page.input_value("#f-ridge") == expected
        )  # asked within its turn
    assert page.page.input_value("#family") == "few-steps"
    page.page.go_back()
    page.until(lambda: page.page.input_value("#family") == "one-step")
    page.page.go_forward()
    page.until(lambda: page.page.input_value("#family") == "few-steps")
    page.settle()


def test_a_curve_is_kept_named_and_put_back_and_a_short_link_restores_it(
    page: Page,
) -> None:
    page.open()
    page.enter("#f-ridge", "0.7")
    page.settle()
    page.page.click("#pin")
    page.page.fill("#pinned input", "seven tenths")
    page.page.keyboard.press("Enter")
    page.enter("#f-ridge", "2")
    page.until(
        lambda: len(page.traces()) == 2 and page.traces()[1]["label"] == "seven tenths"
    )
    page.settle()
    link = page.page.evaluate("() => location.hash")
    long = len(json.dumps(STATE)) + len(json.dumps(study()))
    assert link.startswith("#~") and len(link) < 0.7 * long
    page.reload()
    assert page.traces()[1]["label"] == "seven tenths"
    page.page.click("#pinned [aria-label^=Restore]")
    page.until(lambda: page.page.input_value("#f-ridge") == "0.7")


def test_one_time_is_picked_out_of_many(page: Page) -> None:
    """A few times along a long field are curves of their own; a slider leaves one of
    them.
    """
    scenario = {
        "family": "few-steps",
        "target": "tanh(z1)",
        "rate": 1.0,
        "steps": 2,
        "width_per_dim": 1.0,
        "ridge": 0.1,
    }
    grid = {"samples_per_dim": {"start": 0.5, "stop": 4.0, "num": 12}}
    tables = {
        "scenario": {**scenario, "samples_per_dim": 2.0},
        "what": "errors",
        "grid": grid,
    }
    page.open({**STATE, "study": tables}, curves=3)
    assert [trace["label"] for trace in page.traces()] == [
        "steps made 0",
        "steps made 1",
        "steps made 2",
    ]
    last = page.traces()[2]["y"]
    page.page.fill("#time", "2")
    page.until(lambda: [trace["y"] for trace in page.traces()] == [last])
    assert page.text("#time-shown") == "2" and page.text("#time-name") == "steps made"
    page.reload()
    assert [trace["y"] for trace in page.traces()] == [last]


@pytest.mark.slow
def test_a_broken_short_link_is_said_to_be_broken(browser: Any, server: Server) -> None:
    context = browser.new_context()
    page = Page(context.new_page(), server)
    page.open("~notalink", curves=0)
    page.until(lambda: "The link is broken" in page.text("#problem"))
    context.close()

"""Faults the page once had, each in a real browser: none of them comes back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from giantstep.core.scenario.families import family_class

from .conftest import Server, study
from .test_browser import STATE, Page, expected, new_page
from .test_follow import INK


@pytest.fixture(scope="module")
def page(browser: Any, server: Server) -> Iterator[Page]:
    """One page for all of this file; refused requests are logged by Chromium itself,
    nothing else may be.
    """
    with new_page(browser, server, allowed="Failed to load resource") as made:
        made.open()
        yield made


def test_the_vertical_axis_follows_after_a_constant_curve(page: Page) -> None:
    page.enter("#f-activation", "-1")
    page.until(
        lambda: (
            page.traces()[0]["y"][0]
            == pytest.approx(page.traces()[0]["y"][-1], rel=1e-9)
        )
    )
    page.enter("#f-activation", "relu(z)")
    page.until(lambda: page.traces()[0]["y"] == expected())
    rows = [height for _, height in page.page.evaluate(INK)]
    whole = page.page.evaluate("() => document.querySelector('#chart canvas').height")
    # a curve on the axis of the constant would be flat
    assert max(rows) - min(rows) > 0.4 * whole


def test_lines_that_coincide_are_all_seen(page: Page) -> None:
    """What lies below shows between the dashes of what lies over it."""
    page.open()
    page.page.click("#pin")
    page.until(
        lambda: (
            len(page.traces()) == 2 and page.traces()[0]["y"] == page.traces()[1]["y"]
        )
    )
    assert sorted(bool(trace["dash"]) for trace in page.traces()) == [False, True]


def test_ticks_of_whole_numbers_are_whole(page: Page) -> None:
    script = (
        "async ([low, high, whole]) => (await import('/page/axes.js')).ticksOver(low,"
        " high, { whole }, 6)"
    )
    assert page.page.evaluate(script, [0, 3, True]) == [0, 1, 2, 3]
    assert page.page.evaluate(script, [0, 1, False])[1] < 1


def test_fields_of_the_experiment_are_checked_as_they_are_typed(page: Page) -> None:
    for value in ("banana", "-1", "", "1e9", "2.5"):
        page.enter("#e-dim", value)
        assert "whole number from 2 to 500" in page.text("#e-dim-wrong"), value
        page.page.click("#run")
        assert page.page.is_enabled("#run") and not page.text("#experiment-status")
    page.enter("#e-dim", "50")
    assert not page.page.is_visible("#e-dim-wrong")


def test_a_number_too_large_is_said_beside_its_field(page: Page) -> None:
    page.enter("#f-ridge", "1e400")
    assert "must be a number at least 0" in page.text(".field:has(#f-ridge) .wrong")
    page.enter("#axis-0-start", "1e400")
    page.until(lambda: "1e400" in page.text("#problem"))
    assert page.page.get_attribute("#axis-0-start", "aria-invalid") == "true"
    page.enter("#axis-0-start", "0.5")
    page.enter("#axis-0-num", "2.5")
    page.until(lambda: "from 1 to 700" in page.text("#problem"))
    assert page.page.get_attribute("#axis-0-num", "aria-invalid") == "true"
    page.enter("#axis-0-num", "20")


def test_a_refusal_of_the_controls_marks_the_field_before_the_limit_is_there(
    page: Page,
) -> None:
    """Whichever of the two answers came first, its sentence stood there while the field
    was unmarked.
    """
    held: list[Any] = []
    page.settle()
    page.page.route("**/api/limit", lambda route: held.append(route))
    page.enter("#axis-0-num", "2.5")
    page.until(lambda: "from 1 to 700" in page.text("#problem"))
    assert page.page.get_attribute("#axis-0-num", "aria-invalid") == "true"
    for route in held:
        route.continue_()
    page.page.unroute("**/api/limit")
    page.enter("#axis-0-num", "20")
    page.until(lambda: page.page.get_attribute("#axis-0-num", "aria-invalid") is None)


@pytest.fixture(scope="module")
def family(server: Server) -> str:
    return next(
        json.dumps(one)
        for one in server.client.get("/api/families").json()
        if one["family"] == "one-step"
    )


def read_link(page: Page, family: str, state: dict[str, Any]) -> Any:
    """Return the state of a link, or what is said of it."""
    script = """async ([link, family]) => {
        const { fromLink } = await import('/page/state.js');
        try { return fromLink(link, { 'one-step': JSON.parse(family) }); } catch (error) { return error.message; } }"""
    return page.page.evaluate(script, [f"#{quote(json.dumps(state))}", family])


def test_links_with_names_that_every_object_has(page: Page, family: str) -> None:
    foreign = {**STATE, "study": {"scenario": {"family": "constructor"}}}
    assert (
        read_link(page, family, foreign)
        == 'The link is broken: there is no family "constructor".'
    )
    assert "does not answer" in read_link(
        page, family, {**STATE, "study": {**study(), "what": "toString"}}
    )
    assert read_link(page, family, {**STATE, "variables": ["constructor"]})[
        "variables"
    ] == [
        "test_error",
        "train_error",
    ]
    assert read_link(
        page, family, {**STATE, "kept": [{"scenario": {"family": "valueOf"}}]}
    )["kept"]


def test_the_slice_of_a_map_is_restored_from_a_link(page: Page, family: str) -> None:
    state = {**STATE, "slices": {"class": 1, "bad": -1, "worse": "x"}}
    assert read_link(page, family, state)["slices"] == {"class": 1}


def test_a_field_that_cannot_matter_is_not_shown(page: Page) -> None:
    assert not page.page.query_selector("#f-flip") and page.page.query_selector(
        "#f-noise"
    )
    page.unfold("#f-loss")
    page.page.select_option("#f-loss", "logistic")
    page.page.wait_for_selector("#f-flip")
    assert not page.page.query_selector("#f-noise")


def test_a_preset_that_fails_takes_the_former_figure_away(page: Page) -> None:
    broken = {
        "name": "worse",
        "title": "Worse",
        "family": "one-step",
        "studies": [study(ridge=-1.0)],
    }
    page.page.route(
        "**/api/presets", lambda route: route.fulfill(body=json.dumps([broken]))
    )
    page.open()
    page.page.unroute("**/api/presets")
    page.page.select_option("#preset", "worse")
    page.until(lambda: "at least 0" in page.text("#problem"))
    assert page.traces() == [] and "No theory answers this" in page.text("#chart")
    page.enter("#f-ridge", "0.1")
    page.until(lambda: page.traces() and page.traces()[0]["y"] == expected())


@pytest.mark.slow
def test_whole_ticks_of_a_short_curve_do_not_crowd_a_long_one(page: Page) -> None:
    """A thousand ticks kept the browser busy for minutes."""
    short, long = (
        {
            "scenario": {
                **family_class("online-sgd").example().content(),
                "steps": steps,
            },
            "what": "trajectory",
        }
        for steps in (12, 900)
    )
    for kept, count in (([long], 2), ([], 1)):
        page.open(
            {**STATE, "study": short, "kept": kept, "variables": ["mse"]}, curves=count
        )
        (panel,) = page.panels()
        last = max(at for series in panel["series"] for at in series["x"])
        script = (
            "async ([high, axis]) => (await import('/page/axes.js')).ticksOver(0, high,"
            " axis, 6)"
        )
        assert len(page.page.evaluate(script, [last, panel["x"]])) <= 13

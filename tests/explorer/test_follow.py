"""Lines follow the hand: new values go into the plots there are, and what the reader
has zoomed stays.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from .conftest import Server
from .test_browser import STATE, Page, expected, new_page

INK = """() => { const canvas = document.querySelector('#chart canvas'), c = canvas.getContext('2d');
    const { data, width, height } = c.getImageData(0, 0, canvas.width, canvas.height);
    const found = [];
    for (let x = 0; x < width; x += 1) { let sum = 0, count = 0;
        for (let y = 0; y < height; y += 1) { const i = 4 * (y * width + x);
            if (data[i] < 40 && data[i + 2] > 140 && data[i + 3] > 200) { sum += y; count += 1; } }
        if (count) found.push([x, sum / count]); }
    return found; }"""
"""Where the blue line lies on the canvas: a height in pixels for each column."""


@pytest.fixture(scope="module")
def page(browser: Any, server: Server) -> Iterator[Page]:
    """One page for all of this file."""
    with new_page(browser, server) as made:
        made.open()
        yield made


@pytest.mark.parametrize("is_log", [False, True])
def test_a_line_lies_where_its_values_are(page: Page, is_log: bool) -> None:
    """Along both axes pixels follow the values: a line that is shifted, or on a wrong
    scale, is caught.
    """
    page.open({**STATE, "log": "y" if is_log else ""})
    columns, rows = np.array(page.page.evaluate(INK)).T
    right = np.interp(
        np.linspace(0, 1, len(columns)), np.linspace(0, 1, 20), expected()
    )
    seen = np.log10(right) if is_log else right
    fit = np.polyfit(seen, rows, 1)
    assert fit[0] < 0 and np.abs(np.polyval(fit, seen) - rows).max() < 3.0


def test_a_slider_moves_the_line_and_not_the_plot(page: Page) -> None:
    page.open({**STATE, "variables": ["test_error", "train_error"]}, curves=2)
    page.page.evaluate(
        "() => { window.canvas = document.querySelector('#chart canvas'); }"
    )
    before = page.page.evaluate(INK)
    page.page.focus("#f-ridge-slider")
    page.page.keyboard.press("End")  # a large ridge: a larger error
    page.settle()
    ridge = float(page.page.input_value("#f-ridge"))
    assert (
        ridge > 0.1
        and page.traces()[0]["y"] == expected(ridge=ridge)
        and page.page.evaluate(INK) != before
    )
    assert page.page.evaluate(
        "() => window.canvas === document.querySelector('#chart canvas')"
    )
    assert f"lowest {min(expected(ridge=ridge)):.4g}" in (
        page.page.get_attribute("#chart", "aria-label") or ""
    )


def test_what_is_zoomed_stays_so_until_a_double_click(page: Page) -> None:
    page.open()
    box = page.page.locator("#chart .u-over").bounding_box()
    middle = box["y"] + box["height"] / 2
    page.page.mouse.move(box["x"] + 0.5 * box["width"], middle)
    page.page.mouse.down()
    page.page.mouse.move(box["x"] + 0.9 * box["width"], middle, steps=4)
    page.page.mouse.up()
    zoomed = page.until(
        lambda: len(page.page.evaluate(INK)) and page.page.evaluate(INK)
    )
    page.enter("#f-ridge", "0.11")
    page.settle()
    assert page.traces()[0]["y"] == expected(ridge=0.11)
    again = page.page.evaluate(INK)
    page.page.mouse.dblclick(box["x"] + 0.5 * box["width"], middle)
    page.until(lambda: page.page.evaluate(INK) != again)
    whole = page.page.evaluate(INK)
    slope = [
        abs(np.polyfit(*np.array(line).T, 1)[0]) for line in (zoomed, again, whole)
    ]
    assert slope[0] == pytest.approx(slope[1], rel=0.3) and len(whole) >= len(again) - 2


@pytest.mark.parametrize(
    ("values", "log", "ends"),
    [
        ([0.02, 0.98], False, [0, 1]),
        ([5.0, 5.0], False, [4.5, 5.5]),
        ([1e-3, 1.0], True, None),
    ],
)
def test_ranges_have_round_ends_and_magnify_no_rounding_errors(
    page: Page, values: Any, log: bool, ends: Any
) -> None:
    script = (
        "async ([low, high, log]) => (await import('/page/axes.js')).rangeOver(low,"
        " high, log)"
    )
    low, high = page.page.evaluate(script, [*values, log])
    assert (
        low < values[0]
        and high > values[1]
        and (ends is None or [low, high] == pytest.approx(ends, abs=0.11))
    )

"""Lines follow the hand without Plotly, on the very pixels where Plotly would draw them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from .conftest import Server
from .test_browser import STATE, Page, expected, new_page

PATHS = "() => [...document.querySelectorAll('#chart .js-line')].map((line) => line.getAttribute('d'))"
RETRACE = """async (change) => {
    const { retrace } = await import('/page/follow.js');
    const chart = document.getElementById('chart');
    const altered = (values) => (change.scale ? values.map((value) => change.scale * value) : values);
    const holed = (values) => values.map((value, i) => (i === change.hole ? null : value));
    const traces = chart.data.map((trace) => ({ ...trace, y: holed(altered(trace.y)) }));
    return retrace(chart, traces, change.left ?? ['xaxis', 'yaxis']);
}"""


@pytest.fixture(scope="module")
def page(browser: Any, server: Server) -> Iterator[Page]:
    """One page for all of this file."""
    with new_page(browser, server) as made:
        made.open()
        yield made


def pixels(path: str) -> np.ndarray:
    return np.array(re.findall(r"-?[\d.]+", path), float)


@pytest.mark.parametrize("is_log", [False, True])
def test_a_line_lies_where_plotly_draws_it(page: Page, is_log: bool) -> None:
    page.page.set_checked("#log-y", is_log)
    page.until(lambda: page.layout()["yaxis"]["type"] == ("log" if is_log else "linear"))
    page.settle()
    (drawn,) = page.page.evaluate(PATHS)
    assert page.page.evaluate(RETRACE, {}) == "drawn"
    (again,) = page.page.evaluate(PATHS)
    assert len(pixels(again)) == 2 * len(expected())
    np.testing.assert_allclose(pixels(again), pixels(drawn), atol=0.011)  # both are rounded to 0.01 px
    assert page.page.evaluate(RETRACE, {"hole": 7}) == "drawn"
    (broken,) = page.page.evaluate(PATHS)
    assert broken.count("M") == 2 and len(pixels(broken)) == 2 * len(expected()) - 2


def test_an_axis_that_a_line_leaves_grows_unless_the_reader_has_zoomed(page: Page) -> None:
    page.page.set_checked("#log-y", False)
    page.until(lambda: page.layout()["yaxis"]["type"] == "linear")
    page.settle()
    low, high = page.layout()["yaxis"]["range"]
    grown = page.page.evaluate(RETRACE, {"scale": 2.0})
    assert grown["yaxis"][0] == pytest.approx(low) and grown["yaxis"][1] > max(2 * max(expected()), high)
    page.page.evaluate("() => Plotly.relayout('chart', {'yaxis.range': [0, 0.1]})")
    assert page.page.evaluate(RETRACE, {"scale": 2.0}) == "drawn"
    assert page.page.evaluate(RETRACE, {"scale": 2.0, "left": []}) != "drawn"  # a range that the page itself had given


def test_plotly_draws_when_the_hand_rests(page: Page) -> None:
    """While the slider moves, Plotly draws nothing; then all of the figure is that of the last value."""
    page.open({**STATE, "variables": ["test_error", "train_error"]}, curves=2)
    (before, _) = page.page.evaluate(PATHS)
    count = """() => { window.drawings = []; for (const name of ['react', 'newPlot']) {
        const draw = Plotly[name];
        Plotly[name] = (...given) => { window.drawings.push(name); return draw(...given); }; }
        window.first = new Promise((resolve) => new MutationObserver(() => resolve([...window.drawings]))
            .observe(document.querySelector('#chart .js-line'), { attributes: true, attributeFilter: ['d'] })); }"""
    page.page.evaluate(count)
    page.page.focus("#f-ridge-slider")
    page.page.keyboard.press("ArrowRight")
    assert page.page.evaluate("() => window.first") == []
    page.settle()
    ridge = float(page.page.input_value("#f-ridge"))
    assert ridge > 0.1 and page.page.evaluate("() => window.drawings.length") > 0
    assert page.traces()[0]["y"] == expected(ridge=ridge) and page.page.evaluate(PATHS)[0] != before
    assert f"lowest {min(expected(ridge=ridge)):.4g}" in (page.page.get_attribute("#chart", "aria-label") or "")
    low, high = page.layout()["yaxis"]["range"]
    assert page.layout()["yaxis"]["autorange"] is True and low < min(expected(ridge=ridge)) < high


def test_a_scale_that_grew_for_the_hand_fits_again_when_it_rests(page: Page) -> None:
    page.open()
    _, high = page.layout()["yaxis"]["range"]
    page.page.focus("#f-ridge-slider")
    page.page.keyboard.press("End")  # a large ridge: a larger error
    page.settle()
    largest = max(page.traces()[0]["y"])
    assert largest > high
    low, high = page.layout()["yaxis"]["range"]
    assert largest < high < largest + 0.1 * (high - low)

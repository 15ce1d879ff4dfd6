"""The first curve is on the screen before Plotly is read, drawn without it; Plotly then takes its place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from .conftest import Server
from .test_browser import STATE, Page, expected, new_page

LINES = "() => [...document.querySelectorAll('.first-picture .js-line')].map((line) => line.getAttribute('d'))"
TEXTS = "() => [...document.querySelectorAll('.first-picture > div')].map((text) => text.textContent)"


class Gate:
    """Holds requests back until it is opened."""

    def __init__(self) -> None:
        self.waiting: list[Any] = []
        self.is_open = False

    def __call__(self, route: Any) -> None:
        if self.is_open:
            route.continue_()
        else:
            self.waiting.append(route)

    def open(self) -> None:
        self.is_open = True
        for route in self.waiting:
            route.continue_()


@pytest.fixture
def held(browser: Any, server: Server) -> Iterator[tuple[Page, Gate]]:
    """A page to which Plotly is not sent before the gate is opened."""
    gate = Gate()
    with new_page(browser, server) as made:
        made.page.route("**/plotly-cartesian.min.js", lambda route: gate(route))
        yield made, gate


def fine_lines(page: Page, count: int) -> list[np.ndarray]:
    """Wait for the fine curves of the first picture, and return their pixels (points, 2)."""
    page.until(lambda: "limit, 20 points" in page.text("#status") and len(page.page.evaluate(LINES)) == count)
    page.until(lambda: all(line.count(",") == 20 for line in page.page.evaluate(LINES)))
    return [np.array(re.findall(r"-?[\d.]+", line), float).reshape(-1, 2) for line in page.page.evaluate(LINES)]


@pytest.mark.parametrize("log", ["", pytest.param("y", marks=pytest.mark.slow)])
def test_a_first_picture_shows_the_curve_until_plotly_is_there(held: tuple[Page, Gate], log: str) -> None:
    page, gate = held
    page.open({**STATE, "log": log, "variables": ["test_error", "train_error"]}, curves=0)
    line, _ = fine_lines(page, 2)
    values = np.array(expected()) if not log else np.log10(expected())
    for pixels, right in ((line[:, 0], np.linspace(0.5, 4.0, 20)), (line[:, 1], values)):
        fit = np.polyfit(right, pixels, 1)  # along an axis pixels follow the values
        np.testing.assert_allclose(np.polyval(fit, right), pixels, atol=0.02)
    texts = page.page.evaluate(TEXTS)
    assert {"1", "2", "3", "4"} <= set(texts) and sum("samples per dim" in text for text in texts) == 2
    assert page.page.get_attribute("#chart", "aria-busy") == "true"  # Plotly is to come
    assert f"lowest {min(expected()):.4g}" in (page.page.get_attribute("#chart", "aria-label") or "")
    gate.open()
    page.until(lambda: page.traces())
    page.settle()
    assert page.traces()[0]["y"] == expected() and page.page.evaluate(LINES) == []


@pytest.mark.slow
def test_what_needs_plotly_waits_for_it(held: tuple[Page, Gate]) -> None:
    page, gate = held
    grid = {"ridge": {"start": 0.1, "stop": 1.0, "num": 10}, "samples_per_dim": {"start": 0.5, "stop": 4.0, "num": 10}}
    page.open({**STATE, "study": {**STATE["study"], "grid": grid}}, curves=0)
    page.until(lambda: "limit, 100 points" in page.text("#status"))
    assert page.page.evaluate(LINES) == []
    gate.open()
    page.until(lambda: [trace["type"] for trace in page.traces()] == ["heatmap"])

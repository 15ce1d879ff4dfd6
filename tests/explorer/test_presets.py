"""Every published figure opens on the page within its bounds, or is listed with the
command that makes it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from giantstep.core.scenario.families import SHIPPED
from giantstep.faces.page.presets import TERMINAL
from giantstep.papers import recipes

from .conftest import Server
from .test_browser import Page, new_page


@pytest.fixture(scope="module")
def presets(server: Server) -> dict[str, dict[str, Any]]:
    return {
        preset["name"]: preset
        for preset in server.client.get("/api/presets", timeout=200).json()
    }


def test_figures_say_how_they_are_made_in_the_terminal(
    presets: dict[str, dict[str, Any]],
) -> None:
    assert TERMINAL <= set(recipes())
    for name in recipes():
        assert presets[name]["command"] == f"giantstep reproduce {name}"
        assert presets[name]["terminal"] == (
            name in TERMINAL or not presets[name]["studies"]
        )
    assert presets["digits"]["terminal"]  # its data are a large array


def check_opens(server: Server, preset: dict[str, Any]) -> None:
    """Ask for the first curve of a preset as the page does, and hold it to an
    answer.
    """
    response = server.limit(preset["studies"][0], client=preset["name"])
    assert response.status_code == 200, response.text
    last = json.loads(response.text.splitlines()[-1])
    assert last["stage"] == "fine", last.get("error") or last.get("note")


CHEAP = ("feature-spikes", "small-step", "sgd-phases")
"""Among them one whose limit exists only at the dimension of its experiment."""


@pytest.mark.parametrize("name", CHEAP)
def test_a_figure_opens(
    server: Server, presets: dict[str, dict[str, Any]], name: str
) -> None:
    check_opens(server, presets[name])


def test_a_limit_at_a_huge_dimension_costs_nothing(
    server: Server, presets: dict[str, dict[str, Any]]
) -> None:
    tables = next(
        study
        for study in presets["stairs"]["studies"]
        if study.get("limit", {}).get("dim", 0) > 1e9
    )
    assert server.limit({**tables, "grid": {}}).status_code == 200


PRESETS = sorted(
    {*recipes(), *(f"example:{name}" for name in SHIPPED)} - TERMINAL - {"digits"}
)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in PRESETS if name not in CHEAP])
def test_every_preset_opens(
    server: Server, presets: dict[str, dict[str, Any]], name: str
) -> None:
    check_opens(server, presets[name])


@pytest.fixture(scope="module")
def page(browser: Any, server: Server) -> Iterator[Page]:
    """One page that knows all presets."""
    with new_page(browser, server) as made:
        made.open()
        made.until(
            lambda: made.page.inner_text('#preset option[value=""]') != "loading …"
        )
        yield made


def pick(page: Page, name: str) -> str:
    """Choose a preset from the list, wait until everything of it is drawn, and return
    what the page complains of.
    """
    page.page.select_option("#preset", name)
    page.settle()
    return page.text("#problem")


@pytest.mark.slow
@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_opens_in_the_browser(page: Page, name: str) -> None:
    assert pick(page, name) == ""
    assert page.page.input_value("#preset") == name
    status = page.text("#status")
    assert status.startswith("limit, ") or (
        "coarse" in status and "being computed" not in status
    ), status
    assert page.panels()


@pytest.mark.slow
def test_a_figure_that_takes_too_long_is_listed_with_its_command(page: Page) -> None:
    for name in sorted(TERMINAL):
        assert page.page.inner_text(f'#preset option[value="{name}"]').endswith(
            "(runs in the terminal)"
        )
        assert pick(page, name).endswith(
            f"It runs in the terminal: giantstep reproduce {name}"
        )

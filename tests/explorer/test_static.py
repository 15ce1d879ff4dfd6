"""The page without a server: exported, opened from a file with the network off, its sliders on stored limits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from giantstep.cli.app import app
from giantstep.errors import InputError
from giantstep.explorer.bundle import bundle
from giantstep.explorer.static import export_page, stored_limits
from giantstep.explorer.tasks import read_study

from .test_layout import STORIES


def test_modules_become_one_script_in_order() -> None:
    sources = {
        "a.js": 'import { two } from "./b.js";\nconsole.log(two);\n',
        "b.js": "const one = 1;\n\nexport const two = 2 * one;\nexport function three() {\n  return 3;\n}\n",
    }
    script = bundle(sources, "a.js")
    assert script.index('modules["b.js"]') < script.index('modules["a.js"]')
    assert "return { two, three };" in script and 'const { two } = modules["b.js"];' in script
    with pytest.raises(ValueError, match="import each other"):
        bundle({**sources, "b.js": 'import { x } from "./a.js";\n'}, "a.js")
    with pytest.raises(ValueError, match="cannot be bundled"):
        bundle({"a.js": "export default 3;\n"}, "a.js")


@pytest.mark.slow
def test_stored_limits_are_those_of_predict() -> None:
    story = {**STORIES[0], "variables": ["test_error"]}
    stored = stored_limits(story)
    (axis,) = stored["axes"]
    scenario = {**story["study"]["scenario"], "step": {"kind": "maximal", "rate": axis["values"][7]}}
    expected = read_study({**story["study"], "scenario": scenario}).predict()["test_error"].values
    np.testing.assert_allclose(stored["states"][7]["test_error"], expected, rtol=1e-5)
    assert len(stored["states"]) == len(axis["values"]) and len(stored["kept"]) == 1


def offline_page(browser: Any, folder: Path) -> tuple[Any, list[str]]:
    context = browser.new_context(viewport={"width": 1300, "height": 900}, offline=True)
    page = context.new_page()
    page.set_default_timeout(150_000)
    errors: list[str] = []
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on(
        "request",
        lambda request: errors.append(request.url) if not request.url.startswith(("file:", "data:", "blob:")) else None,
    )
    page.goto((folder / "index.html").as_uri())
    page.wait_for_function("() => document.getElementById('chart').panels?.length")
    return page, errors


CURVE = "() => document.getElementById('chart').panels[0].series[0].y"


def settle(page: Any, status: str = "") -> None:
    """Wait until all is drawn and the page says something."""
    script = """(text) => document.getElementById('chart').getAttribute('aria-busy') === 'false'
        && document.getElementById('status').textContent.includes(text)"""
    page.wait_for_function(script, arg=status)


def test_the_exported_page_works_from_a_file_with_the_network_off(browser: Any, tmp_path: Path) -> None:
    export_page(tmp_path, stories=[STORIES[0]["name"]])
    page, errors = offline_page(browser, tmp_path)
    assert page.inner_text("#story h2") == STORIES[0]["title"]
    page.focus("[data-drag]")
    page.keyboard.press("Home")
    settle(page, "as computed")
    stored = json.loads((tmp_path / "page" / "data.js").read_text().partition(" = ")[2].rstrip(";\n"))
    states = [state["test_error"] for state in stored["limits"][STORIES[0]["name"]]["states"]]
    assert page.evaluate(CURVE) == states[0]
    for place in (1, 2):  # the slider stops where limits are stored
        page.keyboard.press("ArrowRight")
        page.wait_for_function(f"(y) => JSON.stringify(({CURVE})()) === JSON.stringify(y)", arg=states[place])
    page.wait_for_selector(".formula .katex")
    assert not page.is_visible("#run") and not page.is_visible("#story-skip")
    assert errors == []
    page.context.close()


def test_a_story_that_does_not_exist_is_not_exported(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no story nothing"):
        export_page(tmp_path, stories=["nothing"])


@pytest.mark.slow
def test_every_story_is_exported_and_dragged_offline(browser: Any, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["explore", "--export", str(tmp_path / "site")])
    assert done.exit_code == 0, done.output
    page, errors = offline_page(browser, tmp_path / "site")
    for number, story in enumerate(STORIES):
        page.click(f"#story .steps li:nth-child({number + 1}) button")
        page.wait_for_function(
            "(title) => document.querySelector('#story h2').textContent === title", arg=story["title"]
        )
        settle(page)
        before = page.evaluate(CURVE)
        page.focus("[data-drag]")
        page.keyboard.press("End")
        settle(page)
        assert page.evaluate(CURVE) != before
    assert errors == []
    page.context.close()

"""A network stage by stage: steps are added, moved, removed and changed; what no theory
answers is run all the same.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

import giantstep as gs
from giantstep.faces.page.reopen import state_of_file

from .test_browser import Page

SCENARIO: dict[str, Any] = {
    "family": "network",
    "target": "z1 + z1*z2",
    "width_per_dim": 1.0,
    "samples_per_dim": 2.0,
    "steps": [{"kind": "maximal", "rate": 2.0}, {"kind": "maximal", "rate": 1.0}],
}
STATE = {
    "version": 1,
    "study": {
        "scenario": SCENARIO,
        "what": "errors",
        "experiment": {"dim": 30, "trials": 2, "seed": 0},
    },
    "variables": ["test_error"],
    "title": "Two <steps>",
}


def expected(*steps: gs.MaximalStep) -> list[float]:
    network = gs.Network(
        target="z1 + z1*z2", width_per_dim=1.0, samples_per_dim=2.0, steps=list(steps)
    )
    return [float(value) for value in np.ravel(gs.predict(network)["test_error"])]


def test_steps_are_moved_added_and_removed(page: Page) -> None:
    page.open(STATE)
    first = gs.MaximalStep(2.0)
    second = gs.MaximalStep(1.0)
    swapped, longer = expected(second, first), expected(second, first, first)
    assert page.traces()[0]["y"] == expected(first, second)
    page.page.click('#pipeline [aria-label="Move later: step 1"]')
    page.until(lambda: page.traces()[0]["y"] == swapped)
    page.page.click("#add-step")  # like the last
    page.until(lambda: page.traces()[0]["y"] == longer)
    page.page.click('#pipeline [aria-label="Remove: step 2"]')
    page.until(lambda: page.traces()[0]["y"] == swapped)
    page.page.check('[data-batch="steps.0.batch_per_dim"]')
    page.until(lambda: page.page.input_value('[id="f-steps.0.batch_per_dim"]') == "2")
    page.settle()
    assert page.text("#pipeline li:first-child").startswith(
        "Data"
    ) and "z1 + z1*z2" in page.text("#pipeline")


def test_what_was_written_for_the_list_before_does_not_undo_the_last_change(
    page: Page,
) -> None:
    """The button that adds a step holds the whole new list: pressed again at once it
    brought the former order back.
    """
    page.open(STATE)
    first, second = gs.MaximalStep(2.0), gs.MaximalStep(1.0)
    swapped, held = expected(second, first), list[Any]()
    page.page.route("**/api/controls", lambda route: held.append(route))
    page.page.click('#pipeline [aria-label="Move later: step 1"]')
    page.until(lambda: page.traces()[0]["y"] == swapped)
    page.page.dispatch_event("#add-step", "click")
    for route in held:
        route.continue_()
    page.page.unroute("**/api/controls")
    page.settle()
    assert page.traces()[0]["y"] == swapped
    page.page.click("#add-step")
    page.until(lambda: page.traces()[0]["y"] == expected(second, first, first))


def test_a_step_without_a_theory_is_greyed_with_its_sentence_and_its_experiment_runs(
    page: Page,
) -> None:
    page.open(STATE)
    page.page.wait_for_selector(
        '[id="stage-steps.0"] option.refused[value="small"]', state="attached"
    )
    page.page.select_option('[id="stage-steps.0"]', value="small")
    page.until(lambda: page.page.locator("#pipeline li.refused").count())
    assert "a theory of a SmallStep" in page.text("#pipeline li.refused")
    page.page.click("#run")
    page.until(lambda: [trace["kind"] for trace in page.traces()][-1:] == ["dots"])
    page.until(lambda: "finished" in page.text("#experiment-status"))
    assert not page.page.is_visible("#agreement-box")
    page.page.select_option('[id="stage-steps.0"]', "maximal")
    page.until(lambda: not page.page.locator("#pipeline li.refused").count())
    page.settle()
    page.errors = [
        error for error in page.errors if "Failed to load resource" not in error
    ]


def test_one_html_file_holds_everything_and_is_opened_again(
    page: Page, tmp_path: Path
) -> None:
    page.open(STATE)
    file = page.saved("html", tmp_path)
    state = state_of_file(file)
    assert (
        state["title"] == "Two <steps>"
        and state["study"]["scenario"]["steps"] == SCENARIO["steps"]
    )
    text = file.read_text()
    assert (
        "<svg" in text
        and "<title>Two &lt;steps&gt;</title>" in text
        and "import giantstep" in text
    )
    block = text.partition('id="giantstep-state">')[2].partition("</script>")[0]
    (panel,) = json.loads(block)["results"]
    assert panel["series"][0]["y"] == page.traces()[0]["y"]
    page.page.set_content(text)
    assert (
        page.page.locator("figure svg path").count() >= 3
        and page.text("h1") == "Two <steps>"
    )

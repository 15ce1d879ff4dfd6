"""What the page opens on, a family or a story, is declared, and its experiment ends
with "agrees" within seconds.
"""

from __future__ import annotations

from typing import Any

import pytest

from giantstep.core.result.agreement import agreement
from giantstep.core.scenario.families import SHIPPED
from giantstep.faces.page.bounds import DOTS, Bounds, check_experiment
from giantstep.faces.page.fields import described
from giantstep.faces.page.studies import read_study

from .test_layout import STORIES


def first_study(family: str) -> tuple[dict[str, Any], list[str]]:
    """Return the study that a page opens on, as its experiment runs, and the variables
    drawn.
    """
    first = described(family)["first"]
    return check_experiment(first["study"], first["dots"], Bounds()), first["variables"]


@pytest.mark.parametrize("family", sorted(SHIPPED))
def test_what_a_page_opens_on_is_there(family: str) -> None:
    tables, shown = first_study(family)
    study = read_study(tables)
    known = {
        variable.name
        for variable in study.question.variables
        if "limit" in variable.engines
    }
    assert shown and set(shown) <= known
    assert set(study.experiment) <= {"dim", "trials", "seed"}


@pytest.mark.slow
@pytest.mark.parametrize("family", sorted(SHIPPED))
def test_the_first_experiment_agrees(family: str) -> None:
    """A first experiment that "cannot tell" looks as if the theory had failed."""
    assert_agrees(*first_study(family))


@pytest.mark.slow
@pytest.mark.parametrize("story", STORIES, ids=[story["name"] for story in STORIES])
def test_the_experiment_of_a_story_agrees(story: dict[str, Any]) -> None:
    tables = {name: table for name, table in story["study"].items() if name != "name"}
    assert_agrees(
        check_experiment(tables, story.get("dots", DOTS), Bounds()), story["variables"]
    )


def assert_agrees(tables: dict[str, Any], shown: list[str]) -> None:
    rows = agreement(read_study(tables).compare(progress=False)).to_dict()["variables"]
    verdicts = {
        row["variable"]: row["verdict"] for row in rows if row["variable"] in shown
    }
    assert verdicts == dict.fromkeys(shown, "agrees")

"""Design questions on the page: the optimum marked, what matters, and what is said when
there is none.
"""

from __future__ import annotations

from typing import Any

import pytest

import giantstep as gs
from giantstep.core.scenario.model import from_content

from .conftest import SCENARIO, Server, study
from .test_browser import STATE, Page

PLANTED = {"step": {"kind": "planted", "strength": 1.0, "alignment": 0.5}, "noise": 0.2}
RIDGES = {"grid": {"ridge": {"start": 0.01, "stop": 10.0, "num": 20, "scale": "log"}}}


def ask(server: Server, what: str, tables: dict[str, Any], **more: Any) -> Any:
    return server.client.post(
        f"/api/{what}", json={"study": tables, "variable": "test_error", **more}
    )


def test_the_optimum_is_that_of_python(server: Server) -> None:
    answer = ask(server, "optimum", {**study(**PLANTED), **RIDGES}).json()
    best = gs.optimize(
        from_content({**SCENARIO, **PLANTED}), over={"ridge": (0.01, 10.0)}
    )
    assert answer["fields"]["ridge"] == [pytest.approx(float(best.ridge))]
    assert (
        answer["values"] == [pytest.approx(float(best.test_error))]
        and "Smallest" in answer["text"]
    )
    most = ask(server, "optimum", {**study(**PLANTED), **RIDGES}, largest=True).json()
    assert most["values"][0] > answer["values"][0]


def test_names_that_vary_have_an_optimum_each(server: Server) -> None:
    grid = {"activation": ["relu", "tanh"], **RIDGES["grid"]}
    answer = ask(server, "optimum", {**study(**PLANTED), "grid": grid}).json()
    assert len(answer["values"]) == len(answer["fields"]["ridge"]) == 2


def test_sensitivities_are_those_of_python(server: Server) -> None:
    answer = ask(server, "sensitivities", study(**PLANTED)).json()
    result = gs.sensitivity(from_content({**SCENARIO, **PLANTED}))
    assert answer["field"] == result.field.values.tolist()
    assert answer["elasticity"][0] == pytest.approx(float(result.elasticity[0]))


def test_of_several_lines_the_first_is_meant(server: Server) -> None:
    assert (
        ask(server, "sensitivities", study(), variable="Q2").json()["variable"] == "Q2"
    )


@pytest.mark.parametrize(
    ("what", "tables", "more", "sentence"),
    [
        ("optimum", {**study(), "grid": {}}, {}, "Let a field vary"),
        ("optimum", study(), {"variable": "tset_error"}, "did you mean `test_error`"),
        ("optimum", study(), {"variable": 3}, "the name of a variable"),
    ],
)
def test_what_cannot_be_answered_is_said(
    server: Server, what: str, tables: Any, more: Any, sentence: str
) -> None:
    response = ask(server, what, tables, **more)
    assert response.status_code == 400 and sentence in response.json()["error"]


def test_the_page_marks_the_optimum_and_says_what_matters(page: Page) -> None:
    page.open({**STATE, "study": {**study(**PLANTED), **RIDGES}})
    page.unfold("#smallest")
    page.page.click("#smallest")
    (star,) = page.until(lambda: page.panels()[0]["marks"])
    best = gs.optimize(
        from_content({**SCENARIO, **PLANTED}), over={"ridge": (0.01, 10.0)}
    )
    assert star == {
        "x": pytest.approx(float(best.ridge)),
        "y": pytest.approx(float(best.test_error)),
    }
    assert "smallest" in page.text("#design-status")
    page.unfold("#matters")
    page.page.click("#matters")
    page.until(lambda: page.page.is_visible("#matters-box"))
    assert "alignment" in page.text("#matters-table")


def test_the_page_marks_the_optimum_of_a_map(page: Page) -> None:
    grid = {**RIDGES["grid"], "samples_per_dim": {"start": 0.5, "stop": 4.0, "num": 10}}
    page.open({**STATE, "study": {**study(**PLANTED), "grid": grid}}, curves=0)
    page.until(lambda: page.panels())
    page.unfold("#smallest")
    page.page.click("#smallest")
    (star,) = page.until(lambda: page.panels()[0]["marks"])
    assert max(star.values()) == pytest.approx(4.0)  # the most samples are best

"""The figure of the page as a file: drawn by matplotlib from what the page sends,
whoever sends it.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from matplotlib.figure import Figure
from matplotlib.mathtext import MathTextParser

from giantstep.core.scenario.families import SHIPPED
from giantstep.faces.page.app import KINDS
from giantstep.faces.page.fields import axis_of, described
from giantstep.faces.page.picture import _draw_series, _text

from .conftest import Server, study

LINE = {
    "kind": "line",
    "key": "0",
    "label": "a $",
    "x": [1, 2, 3],
    "y": [0.1, None, 0.3],
    "colour": "#0072B2",
}
LINE |= {"width": 2, "dash": [9, 6], "points": True}
DOTS = {
    **LINE,
    "kind": "dots",
    "key": "1",
    "label": "b",
    "errors": [0.1, None, 0.1],
    "marker": "square",
}
PANEL: dict[str, Any] = {
    "name": "test_error",
    "kind": "lines",
    "title": "<b>test error</b>  <i>E<sub>t</sub></i>",
    "x": {"label": "samples,  <i>&alpha;</i>", "log": True},
    "y": {"log": False},
    "series": [LINE, DOTS],
    "scores": [],
    "marks": [{"x": 2, "y": 0.2}],
    "bands": [{"from": 1, "to": 2, "label": "hard"}],
    "areas": [{"x": [1, 2], "low": [0, 0], "high": [1, 1], "colour": "#0072B2"}],
}
MAP = {
    **PANEL,
    "kind": "map",
    "series": [],
    "map": {"x": [1, 2], "y": [3, 4, 5], "z": [[1, 2], [3, None], [5, 6]]},
}
NAMED = {
    **MAP,
    "map": {
        **MAP["map"],
        "names": ["easy", "hard"],
        "colours": ["#0072B2", "#D55E00"],
        "z": [[0, 1]] * 3,
    },
}
TEXT = {**PANEL, "kind": "text", "series": [], "text": [{"label": "a", "value": "0.5"}]}


def drawn(server: Server, **body: Any) -> Any:
    headers = {"Content-Type": "application/octet-stream"}
    return server.client.post("/api/picture", content=json.dumps(body), headers=headers)


@pytest.mark.parametrize(
    ("kind", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")]
)
def test_every_kind_of_panel_is_drawn(server: Server, kind: str, start: bytes) -> None:
    answer = drawn(
        server, kind=kind, panels=[PANEL, MAP, NAMED, TEXT], title="One & two"
    )
    assert answer.status_code == 200, answer.text
    assert answer.content.startswith(start) and answer.headers[
        "content-type"
    ].startswith(KINDS[kind])


def test_a_page_is_written_with_everything_escaped(server: Server) -> None:
    about = {
        "title": "<b>x",
        "sentence": "</p><script>",
        "studies": [study()],
        "state": {"version": 1, "title": "</script>"},
    }
    about |= {
        "verdicts": [{"verdict": 'x" onclick=', "sentence": "<i>"}, 3],
        "dots": study()["grid"],
    }
    text = drawn(server, kind="html", panels=[PANEL], about=about).text
    assert (
        "<title>&lt;b&gt;x</title>" in text
        and text.count("<script") == text.count("</script>") == 1
    )
    assert "onclick" not in text and "family = " in text and "compare()" in text


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"kind": "exe", "panels": [PANEL]},
        {"kind": "png", "panels": []},
        {"kind": "png", "panels": [PANEL] * 5},
        {"kind": "png", "panels": [{}]},
        {"kind": "png", "panels": [3]},
        {"kind": "png", "panels": [{**PANEL, "series": [{**LINE, "y": ["x"]}]}]},
        {"kind": "png", "panels": [{**PANEL, "series": [{**LINE, "y": [1]}]}]},
        {"kind": "png", "panels": [{**PANEL, "series": 7}]},
        {"kind": "png", "panels": [{**PANEL, "x": None}]},
        {"kind": "png", "panels": [{**MAP, "map": {"x": [], "y": [], "z": []}}]},
        {"kind": "html", "panels": [PANEL]},
        {"kind": "html", "panels": [PANEL], "about": {"studies": []}},
        {
            "kind": "html",
            "panels": [PANEL],
            "about": {"studies": [{"scenario": {"family": "x"}}]},
        },
        {"kind": "png", "panels": [PANEL], "about": {}},
    ],
)
def test_what_is_no_figure_is_refused(server: Server, body: dict[str, Any]) -> None:
    answer = drawn(server, **body)
    assert answer.status_code == 400 and answer.json()["error"]


@pytest.mark.parametrize("family", sorted(SHIPPED))
def test_titles_and_axes_are_texts_that_matplotlib_can_write(family: str) -> None:
    about = described(family)
    parser = MathTextParser("path")
    for what, question in about["questions"].items():
        texts = [
            title for variable in question["variables"] for title in variable["titles"]
        ]
        texts += [
            axis_of(about, what, name)["label"]
            for name in (*question["dimensions"], "samples_per_dim")
        ]
        for text in map(_text, texts):
            parser.parse(text)
            assert "<" not in text or "&lt;" in "".join(texts)


def test_a_jump_is_drawn_upright() -> None:
    axes = Figure().subplots()
    line = {
        "kind": "line",
        "x": [0, 1, 2, 3],
        "y": [0.0, 0.0, 0.9, 1.0],
        "colour": "#D55E00",
        "width": 2,
    }
    _draw_series({**line, "jumps": [1]}, axes)
    (drawn,) = axes.lines
    assert drawn.get_xdata().tolist() == [0, 1, 1.5, 1.5, 2, 3]
    assert drawn.get_ydata().tolist() == [0.0, 0.0, 0.0, 0.9, 0.9, 1.0]

"""A table dropped on the page: its learning curve, and what is refused."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import giantstep as gs

from .conftest import BOUNDS, Server
from .test_browser import Page

RNG = np.random.default_rng(0)
FEATURES = RNG.standard_normal((80, 5))
LABELS = FEATURES[:, 0] + 0.5 * RNG.standard_normal(80)


def as_csv() -> bytes:
    text = io.StringIO()
    np.savetxt(
        text,
        np.column_stack([FEATURES, LABELS]),
        delimiter=",",
        header="a,b,c,d,e,price",
        comments="",
        fmt="%.17g",
    )
    return text.getvalue().encode()


def ask(server: Server, content: bytes, **query: str) -> Any:
    headers = {"Content-Type": "application/octet-stream"}
    return server.client.post(
        "/api/forecast", content=content, headers=headers, params=query
    )


def test_a_table_is_answered_with_its_forecast(server: Server) -> None:
    answer = ask(server, as_csv(), file="houses.csv", label="price").json()
    expected = gs.forecast(FEATURES, LABELS)
    np.testing.assert_allclose(
        answer["result"]["mse"][0], expected["mse"].sel(source="limit"), rtol=1e-9
    )
    known, _, _ = expected.attrs["trust"].partition(" (se_total)")
    assert answer["trust"].startswith(known) and not {"(se_total)", "`groups`"} & set(
        answer["trust"].split()
    )
    assert answer["csv"].startswith("samples,ridge,source")
    held = io.BytesIO()
    np.savez(held, phi=FEATURES, y=LABELS > 0)
    assert (
        ask(server, held.getvalue(), file="f.npz", label="y").json()["result"]["attrs"][
            "task"
        ]
        == "classes"
    )


@pytest.mark.parametrize(
    ("content", "query", "status", "words"),
    [
        (as_csv(), {"file": "f.csv", "label": "prize"}, 400, "did you mean `price`"),
        (as_csv(), {"file": "f.exe", "label": "price"}, 400, "Data are read from"),
        (
            as_csv(),
            {"file": "../../etc/passwd", "label": "price"},
            400,
            "Data are read from",
        ),
        (b"", {"file": "f.csv", "label": "price"}, 400, "not a table"),
        (b"\x00\xff" * 50, {"file": "f.npz", "label": "y"}, 400, "not an .npz file"),
        (as_csv(), {"file": "f.csv", "label": "price", "task": "rank"}, 400, "`task`"),
        (as_csv(), {}, 400, "Data are read from"),
    ],
)
def test_refusals(
    server: Server, content: bytes, query: dict[str, str], status: int, words: str
) -> None:
    response = ask(server, content, **query)
    assert response.status_code == status and words in response.json()["error"]


def test_a_table_is_no_json_and_has_a_largest_size(server: Server) -> None:
    assert server.client.post("/api/forecast", json={}).status_code == 415
    response = ask(server, b" " * (BOUNDS.upload + 1), file="f.csv", label="y")
    assert (
        response.status_code == 413 and str(BOUNDS.upload) in response.json()["error"]
    )


def test_a_file_becomes_curves_and_a_statement(
    page: Page, server: Server, tmp_path: Path
) -> None:
    (tmp_path / "houses.csv").write_bytes(as_csv())
    page.page.goto(f"{server.address}/page/forecast.html")
    page.page.set_input_files("#file", tmp_path / "houses.csv")
    # the last column is offered
    page.until(lambda: page.page.input_value("#label") == "price")
    page.page.click("#ask")
    page.until(lambda: "80 rows, 5 features" in page.text("#status"))
    expected = gs.forecast(FEATURES, LABELS)
    lines = [trace for trace in page.traces() if trace["kind"] == "line"]
    assert len(lines) == 5
    np.testing.assert_allclose(
        lines[0]["y"], expected["mse"].sel(source="limit").values[:, 0], rtol=1e-9
    )
    assert "trained on these rows" in page.text("#trust")
    with page.page.expect_download() as waiting:
        page.page.click("#csv")
    waiting.value.save_as(tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_text().startswith("samples,ridge,source")

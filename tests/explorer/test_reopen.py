"""Files that were sent are opened again, whoever wrote them: the state of the page
comes back, or one sentence.
"""

from __future__ import annotations

import base64
import json
import zlib
from pathlib import Path
from typing import Any

import httpx
import pytest

import giantstep as gs
from giantstep.core.base.errors import InputError
from giantstep.faces.page import reopen
from giantstep.faces.page.app import Explorer
from giantstep.faces.page.reopen import link_of, state_of_file
from giantstep.faces.page.studies import read_study

from .conftest import Server, study
from .test_browser import Page

STATE = {
    "version": 1,
    "title": "One <step>",
    "sentence": "What a step does.",
    "study": study(),
    "kept": [{**study(ridge=1.0), "name": "more ridge"}],
    "variables": ["test_error"],
}


def html(state: Any, block: str = "giantstep-state") -> str:
    """Return a file as the page writes it."""
    text = (state if isinstance(state, str) else json.dumps(state)).replace(
        "<", "\\u003c"
    )
    return (
        '<!doctype html><h1>T</h1><script type="application/json"'
        f' id="{block}">{text}</script>'
    )


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "sent.html"


def test_the_state_of_a_page_comes_back_without_its_numbers(file: Path) -> None:
    file.write_text(
        html({**STATE, "results": [{"name": "test_error", "series": [[1.0] * 50_000]}]})
    )
    assert state_of_file(file) == STATE


def test_a_link_is_what_the_page_reads() -> None:
    link = link_of(STATE)
    assert link[0] == "~" and not set("+/=#%") & set(link)
    packed = base64.urlsafe_b64decode(link[1:] + "=" * (-len(link[1:]) % 4))
    assert json.loads(zlib.decompress(packed, -15)) == STATE


def test_a_study_file_opens_too(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(read_study(study()).to_toml())
    tables = state_of_file(tmp_path / "s.toml")["study"]
    assert read_study(tables) == gs.Study.read(tmp_path / "s.toml")


def test_the_page_opens_on_the_file(file: Path) -> None:
    import asyncio

    file.write_text(html(STATE))
    link = link_of(state_of_file(file))

    async def ask(explorer: Explorer) -> httpx.Response:
        transport = httpx.ASGITransport(explorer.app)  # type: ignore[arg-type]
        async with httpx.AsyncClient(
            transport=transport, base_url="http://127.0.0.1:1"
        ) as client:
            return await client.get("/opened")

    answer = asyncio.run(ask(Explorer(1, link=link)))
    assert (answer.status_code, answer.headers["location"]) == (307, f"/#{link}")
    assert asyncio.run(ask(Explorer(1))).headers["location"] == "/"


def test_a_file_that_the_page_wrote_opens_again(
    page: Page, server: Server, tmp_path: Path
) -> None:
    page.open(STATE, curves=2)
    with page.page.expect_download() as waiting:
        page.page.evaluate("() => document.querySelector('[data-file=html]').click()")
    waiting.value.save_as(tmp_path / "sent.html")
    server.explorer.link = link_of(state_of_file(tmp_path / "sent.html"))
    page.page.goto(f"{server.address}/opened")
    page.until(lambda: len(page.traces()) >= 2)
    page.settle()
    assert page.page.input_value("#share-title") == STATE["title"]
    assert page.page.input_value("#share-sentence") == STATE["sentence"]


BAD = {
    "no block": ("<!doctype html>", "it has 0 blocks"),
    "two blocks": (html(STATE) * 2, "it has 2 blocks"),
    "no JSON": (html("{,}"), "is not valid JSON"),
    "nested": (html("[" * 100_000), "is not valid JSON"),
    "a list": (html([1]), "version 1, but has version=None"),
    "another version": (html({**STATE, "version": 2}), "version=2"),
    "no study": (html({"version": 1}), "has no `study`"),
    "no scenario": (html({"version": 1, "study": {}}), "no table [scenario]"),
    "a field": (
        html({**STATE, "study": study(ridge=-1.0)}),
        "Field `ridge` must be a number at least 0",
    ),
    "a family": (html({**STATE, "study": study(family="x")}), "`family`"),
    "a file": (html({**STATE, "study": study(target={"npz": "secret.npz"})}), "target"),
    "many points": (
        html(
            {
                **STATE,
                "study": {
                    **study(),
                    "grid": {"ridge": {"start": 1, "stop": 2, "num": 10**9}},
                },
            }
        ),
        "ridge.num",
    ),
    "kept": (html({**STATE, "kept": [study()] * 8}), "at most 7"),
    "kept field": (html({**STATE, "kept": [study(noise=-1.0)]}), "Field `noise`"),
    "long text": (html({**STATE, "sentence": "a" * 2000}), "characters"),
    "large state": (html({**STATE, "more": ["a" * 900] * 90}), "bytes"),
    "infinity": (
        html('{"version": 1, "study": 1e999}'),
        "cannot be opened: its state is not valid JSON",
    ),
}


@pytest.mark.parametrize("how", BAD)
def test_broken_files_are_one_sentence(file: Path, how: str) -> None:
    text, words = BAD[how]
    file.write_text(text)
    with pytest.raises(InputError) as problem:
        state_of_file(file)
    said = str(problem.value)
    assert words in said and said.startswith(str(file)) and "\n" not in said


def test_files_that_cannot_be_read_are_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in (tmp_path, tmp_path / "nothing.html"):
        with pytest.raises(InputError, match=str(path)):
            state_of_file(path)
    (tmp_path / "binary.html").write_bytes(b"\xff\xfe" * 100)
    with pytest.raises(InputError, match="it has 0 blocks"):
        state_of_file(tmp_path / "binary.html")
    monkeypatch.setattr(reopen, "LARGEST", 100)
    (tmp_path / "large.html").write_text(html(STATE))
    with pytest.raises(InputError, match="more than 100 bytes"):
        state_of_file(tmp_path / "large.html")


def test_the_command_says_what_is_wrong_with_a_file_before_it_serves(
    tmp_path: Path,
) -> None:
    from typer.testing import CliRunner

    from giantstep.faces.cli.app import app

    (tmp_path / "other.html").write_text("<!doctype html>")
    done = CliRunner().invoke(
        app, ["explore", str(tmp_path / "other.html"), "--no-browser"]
    )
    assert done.exit_code == 2 and "is no page of giantstep" in done.output.replace(
        "\n", " "
    )

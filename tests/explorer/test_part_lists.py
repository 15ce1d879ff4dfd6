"""A family with a list of parts on the page: a control for every field of every
entry.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .conftest import Server
from .test_browser import Page, new_page

TOY = Path(__file__).parents[1] / "spine" / "toy.py"
MOVES = [
    {"kind": "grow", "rate": 2.0},
    {"kind": "rest"},
    {"kind": "shift", "by": [[1.0, 2.0]], "rate": 0.5},
]
STATE = {
    "version": 1,
    "study": {
        "scenario": {"family": "toy-chain", "start": 1.0, "moves": MOVES},
        "what": "end",
        "grid": {"moves.0.rate": {"start": 0.5, "stop": 4.0, "num": 8}},
    },
    "variables": ["mean"],
}


@pytest.fixture
def chains(
    browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Page]:
    """A page of a server that knows the toy family, which lies in its folder."""
    shutil.copy(TOY, tmp_path / "toychain.py")
    (tmp_path / "giantstep.toml").write_text('[families]\ntoy-chain = "toychain.py"\n')
    monkeypatch.chdir(tmp_path)
    server = Server()
    with new_page(browser, server) as page:
        yield page
    server.close()


def fields(page: Page) -> list[str]:
    script = (
        "() => [...document.querySelectorAll('.main-fields [data-field]')].map((e) =>"
        " e.dataset.field)"
    )
    found: list[str] = page.page.evaluate(script)
    return found


def test_every_entry_of_a_list_has_its_controls(chains: Page) -> None:
    chains.open(STATE)
    # its rate is on the axis
    grow = [
        "moves.0",
        "moves.0.power",
        "moves.0.loss",
        "moves.0.times",
    ]
    shift = ["moves.2", "moves.2.by", "moves.2.rate"]
    assert fields(chains) == ["start", "moves", *grow, "moves.1", *shift, "last"]
    assert chains.axis_title() == "moves.0 rate,  <i>η<sub>1</sub></i>"
    assert chains.traces()[0]["y"][-1] == 5.5  # 4 + 0.5 (1 + 2)

    chains.enter('[id="f-moves.2.rate"]', "2")
    chains.until(lambda: chains.traces()[0]["y"][-1] == 10)  # 4 + 2 (1 + 2)

    chains.page.click('[data-field="moves"]')  # one more, like the last
    chains.until(lambda: chains.traces()[0]["y"][-1] == 16)
    # a request of its own
    chains.until(
        lambda: fields(chains)[-4:] == ["moves.3", "moves.3.by", "moves.3.rate", "last"]
    )

    chains.page.select_option('[id="f-moves.3"]', "grow")
    chains.until(
        lambda: "moves.3.power" in fields(chains) and chains.traces()[0]["y"][-1] == 10
    )
    chains.settle()
    assert not chains.errors

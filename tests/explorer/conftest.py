"""A server in this process with small bounds, and a browser where there is one."""

from __future__ import annotations

import os
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import uvicorn

from giantstep.faces.page.app import Explorer
from giantstep.faces.page.bounds import Bounds
from giantstep.faces.page.guard import PatientProtocol

FLAGS = (
    "--headless --no-sandbox --disable-gpu --no-first-run"
    " --disable-background-networking --disable-component-update --disable-sync"
).split()
BOUNDS = Bounds(
    upload=2**20,
    points=700,
    dots=60,
    dim=500,
    trials=100,
    limit_seconds=30.0,
    budget_seconds=60.0,
)

SCENARIO: dict[str, Any] = {
    "family": "one-step",
    "activation": "relu",
    "target": "tanh(z)",
    "width_per_dim": 1.5,
    "samples_per_dim": 2.0,
    "ridge": 0.1,
    "second_layer": {"values": [1.0], "probabilities": [1.0]},
    "step": {"kind": "maximal", "rate": 0.5},
}


def study(**changes: Any) -> dict[str, Any]:
    """Return the tables of a small study, with fields of the scenario changed."""
    grid = {"samples_per_dim": {"start": 0.5, "stop": 4.0, "num": 20}}
    return {"scenario": {**SCENARIO, **changes}, "what": "errors", "grid": grid}


class Server:
    """An explorer in a thread."""

    def __init__(self, bounds: Bounds = BOUNDS) -> None:
        listening = socket.socket()
        listening.bind(("127.0.0.1", 0))
        listening.listen(64)
        self.port = listening.getsockname()[1]
        self.address = f"http://127.0.0.1:{self.port}"
        self.explorer = Explorer(self.port, bounds)
        config = uvicorn.Config(
            self.explorer.app,
            http=PatientProtocol,
            log_level="critical",
            timeout_graceful_shutdown=1,
        )
        self.uvicorn = uvicorn.Server(config)
        self.thread = threading.Thread(
            target=self.uvicorn.run, kwargs={"sockets": [listening]}, daemon=True
        )
        self.thread.start()
        self.client = httpx.Client(base_url=self.address, timeout=300)
        deadline = time.monotonic() + 60
        while not self.uvicorn.started:
            assert time.monotonic() < deadline, "the server did not start"
            time.sleep(0.05)

    def limit(self, tables: dict[str, Any], **more: Any) -> httpx.Response:
        return self.client.post("/api/limit", json={"study": tables, **more})

    def close(self) -> None:
        self.client.close()
        self.uvicorn.should_exit = True
        self.thread.join(20)


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.close()


@pytest.fixture(
    scope="module"
)  # while it lives, its event loop keeps this thread from running another
def browser() -> Iterator[Any]:
    """Debian's chromium through playwright; skipped where there is none, unless
    GIANTSTEP_REQUIRE_BROWSER is set.
    """
    path = os.environ.get("GIANTSTEP_CHROMIUM") or shutil.which("chromium")
    if path is None:
        if os.environ.get("GIANTSTEP_REQUIRE_BROWSER"):
            pytest.fail("GIANTSTEP_REQUIRE_BROWSER is set, but there is no chromium")
        pytest.skip("there is no chromium (on Debian: apt-get install chromium)")
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield launched
        launched.close()


@pytest.fixture
def page(browser: Any, server: Server) -> Iterator[Any]:
    """A page that must not log an error."""
    from .test_browser import new_page

    with new_page(browser, server, accept_downloads=True) as made:
        yield made

"""Starting the explorer, its presets, and workers that outlive their tasks or not."""

from __future__ import annotations

import asyncio
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psutil
import pytest
import xarray

import giantstep as gs
from giantstep.core.base.errors import InputError
from giantstep.core.scenario.families import SHIPPED, family_class
from giantstep.faces.page import presets, server
from giantstep.faces.page.bounds import Refused
from giantstep.faces.page.lanes import Lane
from giantstep.papers.recipe import Recipe, Results, Size, Studies, comparison, limit

from .conftest import SCENARIO, study

FAMILIES = sorted(SHIPPED)
"""What the server knows; other tests register families of their own in this process."""


def test_a_missing_extra_is_said_in_one_sentence() -> None:
    code = (
        "import sys; sys.modules['uvicorn'] = None; from giantstep.faces.cli import main;"
        " main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "explore"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert (
        "pip install 'giantstep[explorer]'" in done.stderr
        and done.stderr.count("\n") == 1
    )


def test_the_socket_is_on_loopback_and_a_taken_port_is_said() -> None:
    with server.bind_socket(None) as listening:
        address, port = listening.getsockname()
        assert address == "127.0.0.1"
        # else asyncio holds small answers back
        assert listening.proto == socket.IPPROTO_TCP
        with pytest.raises(InputError, match=f"port {port} .* cannot be used"):
            server.bind_socket(port)
        with server.bind_socket(
            None
        ) as other:  # the usual port is taken perhaps, another one is found
            assert other.getsockname()[1] != port


def test_the_command_serves_and_ends() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        sys.executable,
        "-m",
        "giantstep",
        "explore",
        "--no-browser",
        "--port",
        str(port),
    ]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert running.stdout is not None
        # the address ends its line: a terminal takes what follows along
        said = running.stdout.readline()
        assert said.endswith(f" http://127.0.0.1:{port}/\n")
        with socket.create_connection(("127.0.0.1", port), 20) as connection:
            connection.sendall(
                f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n".encode()
            )
            assert connection.recv(100).startswith(b"HTTP/1.1 200")
    finally:
        running.terminate()
        running.communicate(timeout=20)


# -- presets ---------------------------------------------------------------------------


def preset_of(studies: Any) -> dict[str, Any]:
    def draw(results: Results) -> Any:
        raise AssertionError("a preset draws nothing")

    return presets.figure_preset(
        Recipe("name", "Title", "what", studies, draw, paper="mei2022generalization")
    )


def base() -> gs.OneStep:
    return gs.OneStep(
        **{name: value for name, value in SCENARIO.items() if name != "family"}
    )


def test_a_preset_is_what_its_recipe_declares() -> None:
    def declared(size: Size) -> Studies:
        few = {"ridge": np.array([0.1, 0.2])}
        fine = {"ridge": np.linspace(0.1, 0.2, 9)}
        return {
            "a": comparison(
                base(),
                few,
                judged=("test_error",),
                dim=size(100, 300),
                trials=3,
                seed=1,
            ),
            "b": limit(base(), fine),
            "c": limit(base(), fine, theory="isotropic"),
        }

    preset = preset_of(declared)
    assert preset["family"] == "one-step" and "error" not in preset
    assert "d = 300; 3 trials; seed 1." in preset["parameters"]
    first, second = preset["studies"]
    assert first["grid"]["ridge"]["num"] == 9 and first["experiment"] == {
        "dim": 100,
        "trials": 3,
        "seed": 1,
    }
    assert second["limit"] == {"theory": "isotropic"}


def test_fields_that_vary_together_are_left_to_the_terminal() -> None:
    def declared(size: Size) -> Studies:
        together = {
            name: xarray.DataArray(values, dims="case")
            for name, values in {
                "ridge": [0.1, 0.2, 0.3],
                "noise": [0.0, 1.0, 2.0],
            }.items()
        }
        return {"a": limit(base(), together)}

    preset = preset_of(declared)
    assert preset["terminal"] and "error" not in preset and preset["studies"] == []


def broken(size: Size) -> Studies:
    raise KeyError("lost")


def silent(size: Size) -> Studies:
    return {}


@pytest.mark.parametrize(
    ("declared", "words"), [(broken, "lost"), (silent, "no study")]
)
def test_a_broken_recipe_says_why(declared: Any, words: str) -> None:
    preset = preset_of(declared)
    assert words in preset["error"] and preset["studies"] == []


# -- notation --------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
def test_the_notation_of_papers_speaks_of_things_that_are_there(family: str) -> None:
    cls = family_class(family)
    names = {
        variable.name
        for question in cls.questions.values()
        for variable in question.variables
    }

    def fields(about: list[dict[str, Any]]) -> set[str]:
        inner = [
            fields(choice["fields"])
            for one in about
            for choice in one.get("choices", [])
            if "fields" in choice
        ]
        return {one["name"] for one in about}.union(*inner)

    from giantstep.core.scenario.describe import describe

    about = describe(family)
    for paper, symbols in about["notation"].items():
        assert paper in cls.papers
        # steps.0.rate: the first of a list
        placeless = {re.sub(r"\.\d+\.", ".", name) for name in symbols}
        assert placeless <= names | fields(about["fields"])


async def warmed(lane: Lane) -> Any:
    """Return the worker of a lane of one, once it is there."""
    lane.warm()
    async with asyncio.timeout(60):
        while not lane._free:
            await asyncio.sleep(0.01)
    return lane._free[0]


# -- workers ---------------------------------------------------------------------------


def test_a_task_past_its_deadline_is_killed_and_the_lane_goes_on() -> None:
    async def drive() -> None:
        lane = Lane(1, memory=6 * 2**30, queue=1)
        try:
            first = await warmed(lane)
            slow = {
                "tables": {**study(), "experiment": {"dim": 400, "trials": 100}},
                "shown": [],
            }
            with pytest.raises(Refused, match="took longer than 0.3 s") as stopped:
                await lane.answer("experiment", slow, 0.3)
            assert stopped.value.status == 504
            first.process.join(10)
            assert not first.process.is_alive()
            text = await lane.answer(
                "limit", {"tables": study(), "variables": ["test_error"]}, 30.0
            )
            assert '"test_error"' in text
            with pytest.raises(Refused) as failed:
                await lane.answer(
                    "limit", {"tables": {"scenario": {}}, "variables": None}, 30.0
                )
            assert failed.value.status == 400
        finally:
            await lane.close()

    asyncio.run(drive())


def test_a_worker_that_dies_names_its_task_and_is_replaced() -> None:
    async def drive() -> None:
        lane = Lane(1, memory=6 * 2**30, queue=1)
        limit = {"tables": study(), "variables": ["test_error"]}
        slow = {
            "tables": {**study(), "experiment": {"dim": 400, "trials": 100}},
            "shown": [],
        }
        try:
            idle = await warmed(lane)
            idle.process.kill()
            while idle.alive:
                await asyncio.sleep(0.01)
            # another one answers
            assert '"test_error"' in await lane.answer("limit", limit, 60.0)
            asking = asyncio.ensure_future(lane.answer("experiment", slow, 60.0))
            while not lane._busy:
                await asyncio.sleep(0.01)
            waiting = asyncio.ensure_future(lane.answer("limit", limit, 60.0))
            await asyncio.sleep(0.5)
            with pytest.raises(Refused, match="busy") as full:
                await lane.answer("limit", limit, 60.0)
            assert full.value.status == 503
            (worker,) = lane._busy
            worker.process.kill()
            with pytest.raises(Refused, match="ended unexpectedly"):
                await asking
            assert '"test_error"' in await waiting
        finally:
            await lane.close()

    asyncio.run(drive())


def test_no_worker_outlives_a_server_that_is_killed() -> None:
    command = [sys.executable, "-m", "giantstep", "explore", "--no-browser"]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert running.stdout is not None
        address = running.stdout.readline().split()[-1]
        slow = {**study(), "experiment": {"dim": 500, "trials": 100}}
        posted = httpx.post(
            f"{address}api/experiment", json={"study": slow}, timeout=60
        )
        assert posted.status_code == 202
        with httpx.stream(
            "GET", f"{address}api/experiment/{posted.json()['name']}", timeout=60
        ) as told:
            next(line for line in told.iter_lines() if line == "event: progress")
            workers = psutil.Process(running.pid).children(recursive=True)
            running.kill()
    finally:
        running.kill()
        running.communicate(timeout=20)
    assert len(workers) > 3
    assert not psutil.wait_procs(workers, timeout=20)[1]


@pytest.mark.skipif(
    not Path("/proc/self/limits").exists(),
    reason="there is no /proc to read the bound from",
)
def test_the_memory_of_a_worker_is_bounded() -> None:
    async def drive() -> str:
        lane = Lane(1, memory=6 * 2**30)
        try:
            await lane.answer(
                "limit", {"tables": study(), "variables": ["test_error"]}, 30.0
            )
            (worker,) = lane._free
            return Path(f"/proc/{worker.process.pid}/limits").read_text()
        finally:
            await lane.close()

    assert f"Max address space         {6 * 2**30} " in asyncio.run(drive())

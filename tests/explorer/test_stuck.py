"""Nothing waits for ever: for a worker, a process that does not start, a client that is
gone, a wish that is old.
"""

from __future__ import annotations

import asyncio
import errno
import http.client
import json
import multiprocessing.forkserver
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from giantstep.faces.page import lanes
from giantstep.faces.page.bounds import Bounds, Refused
from giantstep.faces.page.experiments import Experiment, Experiments
from giantstep.faces.page.lanes import Lane

from .conftest import BOUNDS, Server, study

SLEEPY = Path(__file__).parent / "sleepy.py"
PROMISE = 3.0
"""Seconds of a limit on the server of these tests."""
SLACK = 4.0
"""Seconds that a busy machine may add to a promise."""


def until(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    """Wait for something that must come."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.005)


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that promises an answer within 3 s, and knows a family that sleeps."""
    folder = tmp_path_factory.mktemp("sleepy")
    shutil.copy(SLEEPY, folder / "sleepy.py")
    (folder / "giantstep.toml").write_text('[families]\nsleepy = "sleepy.py"\n')
    before = Path.cwd()
    os.chdir(folder)
    try:
        running = Server(Bounds(limit_seconds=PROMISE, upload=2**20))
        running.limit(sleep(0.0))
        yield running
        running.close()
    finally:
        os.chdir(before)


def sleep(coarse: float, fine: float = 0.0, points: int = 40) -> dict[str, Any]:
    scenario = {"family": "sleepy", "coarse": coarse, "fine": fine}
    return {
        "scenario": scenario,
        "what": "level",
        "grid": {"level": {"start": 0.0, "stop": 1.0, "num": points}},
    }


def lines(response: httpx.Response) -> list[dict[str, Any]]:
    assert response.status_code == 200, response.text
    return [json.loads(line) for line in response.text.splitlines()]


# -- wishes ----------------------------------------------------------------------------


def test_the_newest_wish_counts_whichever_came_first(server: Server) -> None:
    assert (
        lines(server.limit(study(), client="w", curve=1, wish=7))[-1]["stage"] == "fine"
    )
    late = server.limit(study(), client="w", curve=1, wish=6)
    assert late.status_code == 409 and late.json()["stale"] is True
    for other in (
        {"client": "w", "curve": 2},
        {"client": "v", "curve": 1},
    ):  # other curves count by themselves
        assert server.limit(study(), **other, wish=1).status_code == 200
    for newer in ({"wish": 7}, {}, {"wish": 8}):
        assert server.limit(study(), client="w", curve=1, **newer).status_code == 200
    assert server.limit(study(), client="w", curve=1, wish=7).status_code == 409


def test_an_old_wish_that_comes_late_leaves_the_newer_one_alone(
    patient: Server,
) -> None:
    with ThreadPoolExecutor(1) as pool:
        newer = pool.submit(patient.limit, sleep(1.0), client="late", wish=2)
        until(lambda: "late 0" in patient.explorer.limits._current)
        begun = time.monotonic()
        assert patient.limit(sleep(1.0), client="late", wish=1).status_code == 409
        assert time.monotonic() - begun < 0.9  # at once
        assert lines(newer.result())[-1]["stage"] == "fine"


@pytest.mark.parametrize("wish", [-1, 2.5, "3", None, True, 2**60])
def test_a_wish_is_a_whole_number(server: Server, wish: Any) -> None:
    assert "wish" in server.limit(study(), wish=wish).json()["error"]


def test_wishes_of_few_curves_are_remembered(server: Server) -> None:
    from giantstep.faces.page import limits

    newest = server.explorer.limits._newest
    newest.clear()
    newest.update((f"old {number}", 3) for number in range(limits._REMEMBERED))
    assert server.limit(study(), client="last", wish=4).status_code == 200
    assert newest["last 0"] == 4 and len(newest) == limits._REMEMBERED


# -- deadlines -------------------------------------------------------------------------


def timed(
    server: Server, tables: dict[str, Any], client: str
) -> tuple[float, httpx.Response]:
    begun = time.monotonic()
    answer = server.client.post("/api/limit", json={"study": tables, "client": client})
    return time.monotonic() - begun, answer


def test_fifty_dear_requests_at_once_are_answered_in_time_and_a_cheap_one_among_them(
    patient: Server,
) -> None:
    """Waiting for a worker counts: 50 times 2 s on a few workers would take 25 s and
    more.
    """
    with (
        ThreadPoolExecutor(51) as pool,
        httpx.Client(base_url=patient.address, timeout=60) as client,
    ):
        dear = [
            pool.submit(timed, patient, sleep(2.0), f"dear {number}")
            for number in range(50)
        ]
        until(lambda: len(patient.explorer.quick._waiting) > 20)
        begun = time.monotonic()
        cheap = client.post("/api/limit", json={"study": sleep(0.0), "client": "cheap"})
        cheap_seconds = time.monotonic() - begun
        answers = [future.result() for future in dear]
    assert max(seconds for seconds, _ in answers) < PROMISE + SLACK
    told = [answer for _, answer in answers]
    assert {answer.status_code for answer in told} <= {200, 503, 504}
    refused = next(answer for answer in told if answer.status_code == 503)
    assert (
        refused.json()["error"]
        == "No worker process was free within 3 s; try again in a moment."
    )
    assert lines(cheap)[-1]["stage"] == "fine"
    assert cheap_seconds < PROMISE  # the last who came is the first to get a worker


@pytest.mark.slow
def test_fifty_dear_requests_keep_the_promise_of_the_page() -> None:
    running = Server(Bounds())
    dear = study(
        step={"kind": "maximal", "rate": 0.5, "batch_per_dim": 2.0},
        second_layer="gaussian",
    )
    dear["grid"] = {"samples_per_dim": {"start": 0.5, "stop": 4.0, "num": 3000}}
    try:
        running.limit(study())
        with ThreadPoolExecutor(50) as pool:
            answers = list(
                pool.map(
                    lambda number: timed(running, dear, f"dear {number}"), range(50)
                )
            )
        assert max(seconds for seconds, _ in answers) < 20.0 + SLACK
        assert {answer.status_code for _, answer in answers} <= {200, 503, 504}
        assert lines(running.limit(study()))[-1]["stage"] == "fine"
    finally:
        running.close()


def test_both_stages_share_one_deadline_and_the_coarse_curve_stays(
    patient: Server,
) -> None:
    with ThreadPoolExecutor(2) as pool:
        asked = [
            pool.submit(timed, patient, sleep(*times), f"both {times}")
            for times in ((1.0, 30.0), (30.0,))
        ]
    (seconds, answer), (late_seconds, late) = (one.result() for one in asked)
    coarse, again = lines(answer)
    assert max(seconds, late_seconds) < PROMISE + SLACK
    assert (coarse["stage"], coarse["last"], again["stage"], again["last"]) == (
        "coarse",
        False,
        "coarse",
        True,
    )
    assert again["note"].startswith(
        "The curve of 40 points is not there: This took longer than 3 s"
    )
    assert again["result"] == coarse["result"] and again["points"] == 25
    assert (late.status_code, late.json()["error"]) == (
        504,
        "This took longer than 3 s and was stopped.",
    )


def test_what_is_slow_never_keeps_the_quick_lane(patient: Server) -> None:
    with ThreadPoolExecutor(8) as pool:
        dear = [
            pool.submit(timed, patient, sleep(2.9), f"slow {number}")
            for number in range(8)
        ]
        until(lambda: len(patient.explorer.slow._busy) == 2)
        seconds, answer = timed(patient, sleep(0.0), "quick")
        assert [line["stage"] for line in lines(answer)] == ["coarse", "fine"]
        assert seconds < 2.9  # less than a single one of the others
        for future in dear:
            future.result()


# -- clients that are gone -------------------------------------------------------------


def test_nobody_computes_for_a_client_that_has_gone(patient: Server) -> None:
    body = json.dumps({"study": sleep(2.5), "client": "gone"}).encode()
    head = (
        f"POST /api/limit HTTP/1.1\r\nHost: 127.0.0.1:{patient.port}\r\nContent-Type:"
        " application/json\r\n"
    )
    with socket.create_connection(("127.0.0.1", patient.port), 20) as client:
        client.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        until(lambda: bool(patient.explorer.slow._busy))
        left = time.monotonic()
    until(
        lambda: (
            not patient.explorer.slow._busy
            and "gone 0" not in patient.explorer.limits._current
        )
    )
    assert time.monotonic() - left < 1.5  # its limit would have taken 2 s more


def test_late_listeners_are_told_everything_in_one_piece() -> None:
    """A piece for each line is written to a closed socket again and again, and asyncio
    complains in the log.
    """

    async def drive() -> list[Any]:
        experiment = Experiment("")
        for number in range(9):
            experiment.tell(f"event {number % 3}", str(number), over=number == 8)
        return [news async for news in experiment.listen()]

    assert asyncio.run(drive()) == [
        [("event 0", "6"), ("event 1", "7"), ("event 2", "8")]
    ]


# -- refused uploads -------------------------------------------------------------------


@pytest.mark.parametrize("length_is_said", [True, False])
def test_a_refused_upload_is_read_and_answered(
    server: Server, length_is_said: bool
) -> None:
    """A client that sends everything before it listens was reset before it could hear
    why.
    """
    for _ in range(5):
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
        part = b" " * 2**18
        # 8 MiB where 1 MiB is allowed
        body: Any = part * 33 if length_is_said else iter([part] * 33)
        headers = {"Content-Type": "application/octet-stream"}
        connection.request(
            "POST",
            "/api/forecast?file=f.csv",
            body,
            headers,
            encode_chunked=not length_is_said,
        )
        answer = connection.getresponse()
        assert answer.status == 413
        assert f"at most {BOUNDS.upload} bytes" in json.loads(answer.read())["error"]
        connection.close()


# -- processes -------------------------------------------------------------------------


class Fake:
    """A worker without a process: every task is answered at once."""

    made: list[Fake]
    problems: list[Exception]
    gate: threading.Event

    def __init__(self, plan: Any, loop: asyncio.AbstractEventLoop) -> None:
        self.gate.wait(20)
        if self.problems:
            raise self.problems.pop()
        self.alive = True
        self.events = asyncio.Queue[tuple[str, str]]()
        self.made.append(self)

    def send(self, task: Any) -> None:
        if task[0] == "echo":
            self.events.put_nowait(("echo", "hello"))
            self.events.put_nowait(("end", ""))

    def kill(self) -> None:
        self.alive = False


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> type[Fake]:
    made = type(
        "MadeHere", (Fake,), {"made": [], "problems": [], "gate": threading.Event()}
    )
    made.gate.set()
    monkeypatch.setattr(lanes, "_LaneWorker", made)
    return made


FULL = OSError(errno.EMFILE, "Too many open files")


def test_a_worker_that_cannot_be_made_is_said_and_the_lane_lives_on(
    fake: type[Fake], caplog: pytest.LogCaptureFixture
) -> None:
    fake.problems += [FULL] * 5

    async def drive() -> None:
        lane = Lane(2, memory=2**30)
        lane.warm()
        async with asyncio.timeout(10.0):
            while lane._starting:
                await asyncio.sleep(0.001)
        assert not lane._free and len(caplog.records) == 2
        for _ in range(3):
            with pytest.raises(
                Refused, match="could not be started .Too many open files.; try again"
            ) as refused:
                await lane.answer("echo", {}, 10.0)
            assert refused.value.status == 503
        answers = [await lane.answer("echo", {}, 10.0) for _ in range(3)]
        assert answers == ["hello"] * 3
        together = await asyncio.gather(
            *(lane.answer("echo", {}, 10.0) for _ in range(9))
        )
        assert together == ["hello"] * 9 and len(fake.made) <= 2
        await lane.close()

    asyncio.run(drive())


def test_a_start_that_stands_still_stops_nothing_else(fake: type[Fake]) -> None:
    async def drive() -> None:
        lane = Lane(2, memory=2**30)
        fake.gate.clear()
        for _ in range(4):  # and no more threads than workers wait for it
            with pytest.raises(
                Refused, match="No worker process was free within 0.1 s"
            ) as refused:
                await lane.answer("echo", {}, 0.1)
            assert refused.value.status == 503
        assert lane._starting <= 2
        fake.gate.set()
        assert await lane.answer("echo", {}, 10.0) == "hello"
        await lane.close()
        assert not any(worker.alive for worker in fake.made)

    asyncio.run(drive())


def test_who_is_cancelled_while_a_worker_comes_gives_it_back(fake: type[Fake]) -> None:
    async def drive() -> None:
        for steps in range(8):
            lane = Lane(1, memory=2**30)
            fake.gate.clear()
            asking = asyncio.ensure_future(lane.answer("echo", {}, 10.0))
            await asyncio.sleep(0.01)
            fake.gate.set()
            for _ in range(steps):
                await asyncio.sleep(0)
            asking.cancel()
            assert await lane.answer("echo", {}, 10.0) == "hello"
            await lane.close()

    asyncio.run(drive())


@pytest.mark.parametrize("steps", range(6))
def test_stop_is_never_lost(fake: type[Fake], steps: int) -> None:
    """A cancellation in the same moment as an event was swallowed by `wait_for`, and
    the task went on.
    """

    async def drive() -> None:
        lane = Lane(1, memory=2**30)
        asking = asyncio.ensure_future(lane.answer("silence", {}, 30.0))
        while not lane._busy:
            await asyncio.sleep(0.001)
        for _ in range(10):
            await asyncio.sleep(0)
        fake.made[-1].events.put_nowait(("progress", "{}"))
        for _ in range(steps):
            await asyncio.sleep(0)
        asking.cancel()
        done, _ = await asyncio.wait([asking], timeout=5.0)
        assert done and asking.cancelled()
        await lane.close()

    asyncio.run(drive())


def test_an_experiment_that_is_stopped_before_its_first_step_says_so(
    fake: type[Fake],
) -> None:
    async def drive() -> list[Any]:
        lane = Lane(1, memory=2**30)
        experiment = Experiments(lane).start("a", {}, 5.0)
        experiment.stop("cancelled")
        async with asyncio.timeout(5.0):
            told = [event async for news in experiment.listen() for event in news]
        await lane.close()
        return told

    assert asyncio.run(drive()) == [("stopped", '{"reason": "cancelled"}')]


def test_lists_that_could_not_be_made_end_and_are_made_again(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*arguments: Any) -> Any:
        raise Refused(503, {"error": "no reason"})

    server.explorer._lists.pop("families", None)
    with monkeypatch.context() as patch:
        patch.setattr(server.explorer.slow, "events", broken)
        response = server.client.get("/api/families", timeout=20)
    assert (response.status_code, response.json()) == (503, {"error": "no reason"})
    assert len(server.client.get("/api/families").json()) > 1


def test_the_page_is_served_while_the_fork_server_stands_still(patient: Server) -> None:
    def kill_workers() -> list[Any]:
        explorer = patient.explorer
        idle = [
            worker for lane in (explorer.quick, explorer.slow) for worker in lane._free
        ]
        for worker in idle:
            worker.process.kill()
        until(lambda: not any(worker.alive for worker in idle))
        return idle

    assert lines(patient.limit(sleep(0.0)))[-1]["stage"] == "fine"
    pid = multiprocessing.forkserver._forkserver._forkserver_pid  # type: ignore[attr-defined]
    os.kill(pid, signal.SIGSTOP)
    try:
        assert kill_workers()
        with ThreadPoolExecutor(1) as pool:
            asking = pool.submit(timed, patient, sleep(0.0), "still")
            until(lambda: bool(patient.explorer.quick._starting))
            begun = time.monotonic()
            assert httpx.get(patient.address, timeout=20).status_code == 200
            assert time.monotonic() - begun < 2.0
            seconds, answer = asking.result()
        assert (answer.status_code, seconds < PROMISE + SLACK) == (503, True)
    finally:
        os.kill(pid, signal.SIGCONT)
    # the lane has opened by itself
    assert lines(patient.limit(sleep(0.0)))[-1]["stage"] == "fine"


def test_workers_are_made_without_the_fork_server_where_its_socket_is_gone(
    patient: Server,
) -> None:
    """A cleaned folder for temporary files took all workers away for good."""
    address = Path(multiprocessing.forkserver._forkserver._forkserver_address)  # type: ignore[attr-defined]
    hidden = address.with_suffix(".hidden")
    address.rename(hidden)
    try:
        for lane in (patient.explorer.quick, patient.explorer.slow):
            for worker in lane._free:
                worker.kill()
        assert (
            '"level"'
            in patient.client.post(
                "/api/export/toml", json={"studies": [sleep(0.0)]}
            ).text
        )
    finally:
        hidden.rename(address)


@pytest.mark.parametrize(
    "how", [signal.SIGINT, signal.SIGTERM], ids=["interrupted", "terminated"]
)
def test_ending_while_everything_is_loaded_ends_everything(
    tmp_path: Path, how: signal.Signals
) -> None:
    (tmp_path / "giantstep.toml").write_text('[families]\nheavy = "heavy.py"\n')
    (tmp_path / "heavy.py").write_text(
        "import pathlib, time\npathlib.Path('loading').touch()\nwhile True:\n   "
        " time.sleep(1)\n"
    )
    command = [sys.executable, "-m", "giantstep", "explore", "--no-browser"]
    running = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        start_new_session=True,
    )
    try:
        until((tmp_path / "loading").exists, 60.0)
        below = psutil.Process(running.pid).children(recursive=True)
        begun = time.monotonic()
        # as a terminal does
        (
            os.killpg(running.pid, how)
            if how == signal.SIGINT
            else running.send_signal(how)
        )
        _, said = running.communicate(timeout=20)  # the end of its output, too
        assert time.monotonic() - begun < 5.0
        assert not psutil.wait_procs(below, timeout=5)[1]
        assert "Traceback" not in said
    finally:
        running.kill()

"""Worker processes: each does one task at a time, has a deadline, and is killed when nobody wants its answer.

A `Lane` is a few workers with a queue. Short limits, long limits and experiments have a lane each, so that none of
them waits for another kind.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import multiprocessing
import os
import sys
import threading
import traceback
from collections.abc import AsyncGenerator, Iterator, Mapping
from multiprocessing.connection import Connection
from typing import Any

from giantstep.errors import GiantstepError

_log = logging.getLogger("giantstep")

_PRELOAD = ["giantstep.explorer.preload"]
_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
_GRACE = 0.25
"""Seconds a task nobody wants any more may go on before its process is killed; starting a new one costs more."""


class Refused(Exception):
    """A task that was refused, with what the page is told."""

    def __init__(self, status: int, said: Mapping[str, Any]) -> None:
        super().__init__(said.get("error", ""))
        self.status, self.said = status, dict(said)


def context() -> Any:
    """Return how processes are made: from a server that has everything loaded, where the system has fork."""
    methods = multiprocessing.get_all_start_methods()
    made = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
    if "forkserver" in methods:
        made.set_forkserver_preload(_PRELOAD)
    return made


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Let what is started inside see one BLAS thread: several workers share the cores already."""
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def load_everything() -> None:
    """Start the process that workers are forked from, and wait until it has loaded everything (a few seconds)."""
    with one_thread():
        first = context().Process(target=int, daemon=True)
        first.start()
    first.join()


def work(connection: Connection, memory: int, niceness: int) -> None:
    """Do tasks until the other side is gone: the main function of a worker process."""
    from giantstep.explorer.tasks import TASKS, refused

    _confine(memory, niceness)

    def emit(kind: str, text: str) -> None:
        connection.send((kind, text))

    while True:
        try:
            task, arguments = connection.recv()
        except (EOFError, OSError):
            return
        try:
            TASKS[task](emit, **arguments)
            emit("end", "")
        except GiantstepError as error:
            emit("refused", json.dumps(refused(error)))
        except (MemoryError, OverflowError, RecursionError) as error:
            said = "This does not fit into the memory or the numbers of a worker; take smaller sizes."
            emit("refused", json.dumps({"error": said, "field": None}))
            _log.debug("%s: %s", type(error).__name__, error)
        except (BrokenPipeError, EOFError):
            return
        except Exception as error:
            traceback.print_exc(file=sys.stderr)
            said = f"giantstep failed on this ({type(error).__name__}: {str(error)[:200]}); the server log has more."
            emit("failed", json.dumps({"error": said, "field": None}))


def _confine(memory: int, niceness: int) -> None:
    """Bound the memory of this process and let the server go first."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server ends its workers itself
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    with contextlib.suppress(AttributeError, OSError):
        os.nice(niceness)


class Worker:
    """One process and the thread that listens to it."""

    def __init__(self, memory: int, niceness: int) -> None:
        self._events: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()
        made = context()
        self._connection, other = made.Pipe()
        self.process = made.Process(target=work, args=(other, memory, niceness), daemon=True)
        with one_thread():
            self.process.start()
        other.close()
        self.alive = True
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while True:
            try:
                event = self._connection.recv()
            except (EOFError, OSError):
                event = ("gone", "")
            try:
                self._loop.call_soon_threadsafe(self._events.put_nowait, event)
            except RuntimeError:  # the loop is closed
                self._connection.close()
                return
            if event[0] == "gone":
                self._connection.close()
                return

    async def events(
        self, task: str, arguments: Mapping[str, Any], seconds: float
    ) -> AsyncGenerator[tuple[str, str], None]:
        """Yield what a task tells, up to its end; past the deadline the process is killed."""
        deadline = self._loop.time() + seconds
        try:
            self._connection.send((task, dict(arguments)))
            while True:
                kind, text = await asyncio.wait_for(self._events.get(), max(deadline - self._loop.time(), 0.0))
                if kind == "end":
                    return
                if kind in ("refused", "failed"):
                    raise Refused(400 if kind == "refused" else 500, json.loads(text))
                if kind == "gone":
                    self.kill()
                    raise Refused(500, {"error": "The worker process ended unexpectedly (out of memory?)."})
                yield kind, text
        except TimeoutError:
            self.kill()
            raise Refused(504, {"error": f"This took longer than {seconds:g} s and was stopped."}) from None
        except OSError:
            self.kill()
            raise Refused(500, {"error": "The worker process is gone; try again."}) from None

    async def drain(self) -> None:
        """Let a task nobody wants end within a short grace, or kill it."""
        try:
            async with asyncio.timeout(_GRACE):
                while (await self._events.get())[0] not in ("end", "refused", "failed", "gone"):
                    pass
        except TimeoutError:
            self.kill()

    def kill(self) -> None:
        """End the process now, whatever it does."""
        self.alive = False
        self.process.kill()


class Lane:
    """A few workers; tasks wait in order, and at most `room` of them."""

    def __init__(self, name: str, size: int, *, memory: int, niceness: int = 0, room: int = 64) -> None:
        self.name, self.size, self.room = name, size, room
        self._memory, self._niceness = memory, niceness
        self._free: list[Worker] = []
        self._busy: set[Worker] = set()
        self._turn = asyncio.Semaphore(size)
        self._waiting = 0
        self._draining: set[asyncio.Task[None]] = set()
        self._ready = asyncio.Event()

    def start(self, count: int) -> None:
        """Open the lane, with so many of its workers made already."""
        self._free += [self._made() for _ in range(count)]
        self._ready.set()

    def _made(self) -> Worker:
        return Worker(self._memory, self._niceness)

    async def events(
        self, task: str, arguments: Mapping[str, Any], seconds: float
    ) -> AsyncGenerator[tuple[str, str], None]:
        """Yield what a task tells; closing or cancelling this ends it."""
        if self._waiting >= self.room:
            raise Refused(503, {"error": "The server is busy; try again in a moment."})
        self._waiting += 1
        try:
            await self._ready.wait()
            await self._turn.acquire()
        finally:
            self._waiting -= 1
        worker = self._free.pop() if self._free else self._made()
        self._busy.add(worker)
        finished = False
        try:
            async with contextlib.aclosing(worker.events(task, arguments, seconds)) as events:
                async for event in events:
                    yield event
            finished = True
        except Refused:
            finished = True
            raise
        finally:
            if finished:
                self._give_back(worker)
            else:
                draining = asyncio.ensure_future(self._drained(worker))
                self._draining.add(draining)
                draining.add_done_callback(self._draining.discard)

    async def answer(self, task: str, arguments: Mapping[str, Any], seconds: float) -> str:
        """Return the one thing a task tells."""
        async with contextlib.aclosing(self.events(task, arguments, seconds)) as events:
            told = [text async for _, text in events]
        return told[0]

    async def _drained(self, worker: Worker) -> None:
        try:
            await worker.drain()
        finally:
            self._give_back(worker)

    def _give_back(self, worker: Worker) -> None:
        self._busy.discard(worker)
        if worker.alive and worker.process.is_alive():
            self._free.append(worker)
        self._turn.release()

    async def close(self) -> None:
        """Kill every worker, and wait until nothing of theirs is left."""
        for worker in [*self._free, *self._busy]:
            worker.kill()
        self._free.clear()
        await asyncio.gather(*self._draining, return_exceptions=True)

"""Lanes: a few worker processes each with a queue; tasks have a deadline and end when nobody wants their answer.

Short limits, long limits and experiments have a lane each, so that none of them waits for another kind.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncGenerator, Mapping
from functools import partial
from typing import Any

from giantstep.explorer.tasks import do_task
from giantstep.workers import Plan, Sign, Worker

_PRELOAD = ("giantstep.explorer.preload",)
_GRACE = 0.25
"""Seconds a task nobody wants any more may go on before its process is killed; starting a new one costs more."""
_LAST = ("end", "refused", "failed")
"""Events after which a task tells nothing more."""


class Refused(Exception):
    """A task that was refused, with what the page is told."""

    def __init__(self, status: int, message: Mapping[str, Any]) -> None:
        super().__init__(message.get("error", ""))
        self.status, self.message = status, dict(message)


def load_everything() -> None:
    """Start the process that workers are forked from, and wait until it has loaded everything (a few seconds)."""
    Plan(do_task, int, threads=1, preload=_PRELOAD).process(int).join()


def _confine(memory: int, niceness: int) -> None:
    """Bound the memory of this process and let the server go first."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    with contextlib.suppress(AttributeError, OSError):
        os.nice(niceness)


class _LaneWorker(Worker):
    """A worker whose events wait in the loop of the server."""

    def __init__(self, plan: Plan) -> None:
        self.alive = True
        self.events: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
        loop = asyncio.get_running_loop()

        def tell(message: Any) -> None:
            if message is Sign.READY:
                return
            if message is Sign.GONE:
                self.alive = False
                message = "failed", json.dumps({"error": "The worker process ended unexpectedly (out of memory?)."})
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self.events.put_nowait, message)

        super().__init__(plan, tell)

    def kill(self) -> None:
        """End the process; it gets no more tasks."""
        self.alive = False
        super().kill()


class Lane:
    """A few workers; tasks wait in order, and at most `queue` of them."""

    def __init__(self, size: int, *, memory: int, niceness: int = 0, queue: int = 64) -> None:
        self.size, self._queue = size, queue
        self._plan = Plan(do_task, partial(_confine, memory, niceness), threads=1, preload=_PRELOAD)
        self._free: list[_LaneWorker] = []
        self._busy: set[_LaneWorker] = set()
        self._turn = asyncio.Semaphore(size)
        self._waiting = 0
        self._draining: set[asyncio.Task[None]] = set()
        self._ready = asyncio.Event()

    def start(self, count: int) -> None:
        """Open the lane, with so many of its workers made already."""
        self._free += [_LaneWorker(self._plan) for _ in range(count)]
        self._ready.set()

    async def events(
        self, task: str, arguments: Mapping[str, Any], seconds: float
    ) -> AsyncGenerator[tuple[str, str], None]:
        """Yield what a task tells; past its deadline the process is killed, closing or cancelling this ends it."""
        worker = await self._take_worker()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        kind = text = ""
        try:
            worker.send((task, dict(arguments)))
            while kind not in _LAST:
                if kind:
                    yield kind, text
                kind, text = await asyncio.wait_for(worker.events.get(), max(deadline - loop.time(), 0.0))
        except TimeoutError:
            worker.kill()
            raise Refused(504, {"error": f"This took longer than {seconds:g} s and was stopped."}) from None
        except OSError:
            worker.kill()
            raise Refused(500, {"error": "The worker process is gone; try again."}) from None
        finally:
            if kind in _LAST or not worker.alive:
                self._give_back(worker)
            else:
                draining = asyncio.ensure_future(self._drain(worker))
                self._draining.add(draining)
                draining.add_done_callback(self._draining.discard)
        if kind != "end":
            raise Refused(400 if kind == "refused" else 500, json.loads(text))

    async def answer(self, task: str, arguments: Mapping[str, Any], seconds: float) -> str:
        """Return the first thing a task tells."""
        async with contextlib.aclosing(self.events(task, arguments, seconds)) as events:
            return [text async for _, text in events][0]

    async def _take_worker(self) -> _LaneWorker:
        """Wait for a worker; where too many wait already, refuse."""
        if self._waiting >= self._queue:
            raise Refused(503, {"error": "The server is busy; try again in a moment."})
        self._waiting += 1
        try:
            await self._ready.wait()
            await self._turn.acquire()
        finally:
            self._waiting -= 1
        self._free = [worker for worker in self._free if worker.alive]
        worker = self._free.pop() if self._free else _LaneWorker(self._plan)
        self._busy.add(worker)
        return worker

    async def _drain(self, worker: _LaneWorker) -> None:
        """Let a task nobody wants end within a short grace, or kill it."""
        try:
            async with asyncio.timeout(_GRACE):
                while (await worker.events.get())[0] not in _LAST:
                    pass
        except TimeoutError:
            worker.kill()
        finally:
            self._give_back(worker)

    def _give_back(self, worker: _LaneWorker) -> None:
        self._busy.discard(worker)
        if worker.alive:
            self._free.append(worker)
        self._turn.release()

    async def close(self) -> None:
        """Kill every worker, and wait until nothing of theirs is left."""
        for worker in [*self._free, *self._busy]:
            worker.kill()
        self._free.clear()
        await asyncio.gather(*self._draining, return_exceptions=True)

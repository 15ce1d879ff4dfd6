"""Lanes: a few worker processes each; tasks have a deadline and end when nobody wants
their answer.

Short limits, long limits and experiments have a lane each, so that none of them waits
for another kind. Processes are started by threads, because a start may take seconds or
stand still, and the server must go on meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import threading
import traceback
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from giantstep.core.base.errors import GiantstepError
from giantstep.faces.page.bounds import Refused, refusal
from giantstep.tools.sweeps.workers import Plan, Sign, Worker

_log = logging.getLogger("giantstep")
_Result = TypeVar("_Result")

_PRELOAD = ("giantstep.faces.page.preload",)
_GRACE = 0.25
"""Seconds a task nobody wants any more may go on before its process is killed; starting
a new one costs more.
"""
_LAST = ("end", "refused", "failed")
"""Events after which a task tells nothing more."""


def _do_task(
    task: tuple[str, Mapping[str, Any]], tell: Callable[[tuple[str, str]], object]
) -> None:
    """Do a task by its name and arguments; the last event is ``end``, ``refused``, or
    ``failed`` where it is a bug.
    """
    from giantstep.faces.page.tasks import (
        TASKS,
    )  # workers have it, the server itself computes nothing

    name, arguments = task
    kind = "end"
    said = {}
    try:
        TASKS[name](lambda kind, text: tell((kind, text)), **arguments)
    except GiantstepError as error:
        kind, said = "refused", refusal(error)
    except (MemoryError, OverflowError, RecursionError) as error:
        sentence = (
            "This does not fit into the memory or the numbers of a worker; take smaller"
            " sizes."
        )
        kind = "refused"
        said = {"error": sentence, "field": None}
        _log.debug("%s: %s", type(error).__name__, error)
    except BrokenPipeError:  # nobody listens any more
        return
    except Exception as error:
        traceback.print_exc()
        sentence = (
            f"giantstep failed on this ({type(error).__name__}: {str(error)[:200]});"
            " the server log has more."
        )
        kind = "failed"
        said = {"error": sentence, "field": None}
    with contextlib.suppress(BrokenPipeError):
        tell((kind, json.dumps(said)))


def _confine(memory: int, niceness: int) -> None:
    """Bound the memory of this process and let the server go first."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    with contextlib.suppress(AttributeError, OSError):
        os.nice(niceness)


class _LaneWorker(Worker):
    """A worker whose events wait in the loop of the server."""

    def __init__(self, plan: Plan, loop: asyncio.AbstractEventLoop) -> None:
        self.alive = True
        self.events: asyncio.Queue[tuple[str, str]] = asyncio.Queue()

        def tell(message: Any) -> None:
            if message is Sign.READY:
                return
            if message is Sign.GONE:
                self.alive = False
                message = (
                    "failed",
                    json.dumps(
                        {
                            "error": (
                                "The worker process ended unexpectedly (out of"
                                " memory?)."
                            )
                        }
                    ),
                )
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self.events.put_nowait, message)

        super().__init__(plan, tell)

    def kill(self) -> None:
        """End the process; it gets no more tasks."""
        self.alive = False
        super().kill()


async def unless(
    answer: Awaitable[_Result], other: Awaitable[Any], error: Exception
) -> _Result:
    """Return an answer; where something else happens before it is there, end the work
    and raise an error.
    """
    both = asyncio.ensure_future(answer), asyncio.ensure_future(other)
    try:
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if not both[0].done():
            raise error
        return both[0].result()
    finally:
        for task in both:
            task.cancel()
        await asyncio.wait(both)


class Lane:
    """A few workers, made when they are needed; each may have so many bytes, and stands
    back by its niceness.

    At most `queue` tasks wait for one; `newest_first` gives it to the last who came:
    its hand still moves.
    """

    def __init__(
        self,
        size: int,
        *,
        memory: int,
        niceness: int = 0,
        queue: int = 64,
        newest_first: bool = False,
    ) -> None:
        self.size = size
        self._queue = queue
        self._newest_first = newest_first
        self._plan = Plan(
            _do_task, partial(_confine, memory, niceness), threads=1, preload=_PRELOAD
        )
        self._starting = 0
        self._free: list[_LaneWorker] = []
        self._busy: set[_LaneWorker] = set()
        self._waiting: list[asyncio.Future[_LaneWorker]] = []
        self._draining: set[asyncio.Task[None]] = set()
        self._closed = False

    def warm(self) -> None:
        """Begin to make all workers; what fails is logged, and tried again when a task
        needs it.
        """
        self._share(self.size)

    async def events(
        self,
        task: str,
        arguments: Mapping[str, Any],
        seconds: float,
        *,
        most: float | None = None,
        since: float | None = None,
        heir: Lane | None = None,
    ) -> AsyncGenerator[tuple[str, str], None]:
        """Yield what a task tells; past its deadline the process is killed, closing or
        cancelling this ends it.

        The `seconds` count `since` a time of the loop (now, if not given), waiting for
        a worker included; `most` of them it may compute. An `heir` is a lane that takes
        the worker over then, where it has room.
        """
        loop = asyncio.get_running_loop()
        lane = self
        deadline = (loop.time() if since is None else since) + seconds
        worker = await self._take_worker(deadline - (most or 0.0), seconds)
        until = deadline if most is None else loop.time() + most
        kind = text = ""
        try:
            worker.send((task, dict(arguments)))
            while kind not in _LAST:
                if kind:
                    yield kind, text
                try:
                    async with asyncio.timeout_at(
                        until
                    ):  # `wait_for` would swallow a cancellation now and then
                        kind, text = await worker.events.get()
                except TimeoutError:
                    if heir is None or lane is heir or not heir._adopt(worker):
                        raise
                    self._busy.discard(worker)
                    self._share(1)
                    lane = heir
                    until = deadline
                    kind = ""
        except TimeoutError:
            worker.kill()
            allowed = seconds if most is None or lane is heir else most
            raise Refused(
                504,
                {"error": f"This took longer than {allowed:.3g} s and was stopped."},
            ) from None
        except OSError:
            worker.kill()
            raise Refused(
                500, {"error": "The worker process is gone; try again."}
            ) from None
        finally:
            if kind in _LAST or not worker.alive:
                lane._give_back(worker)
            else:
                draining = asyncio.ensure_future(lane._drain(worker))
                lane._draining.add(draining)
                draining.add_done_callback(lane._draining.discard)
        if kind != "end":
            raise Refused(400 if kind == "refused" else 500, json.loads(text))

    async def answer(
        self, task: str, arguments: Mapping[str, Any], seconds: float, **more: Any
    ) -> str:
        """Return the first thing a task tells."""
        async with contextlib.aclosing(
            self.events(task, arguments, seconds, **more)
        ) as events:
            return [text async for _, text in events][0]

    async def _take_worker(self, deadline: float, seconds: float) -> _LaneWorker:
        """Return a worker that is free before a deadline, which was so many seconds
        away, or refuse.
        """
        if len(self._waiting) >= self._queue:
            raise Refused(503, {"error": "The server is busy; try again in a moment."})
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        self._share()
        try:
            async with asyncio.timeout_at(deadline):
                return await waiter
        except BaseException as problem:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
            elif (
                waiter.done() and not waiter.cancelled() and waiter.exception() is None
            ):  # it came at the same time
                self._give_back(waiter.result())
            if isinstance(problem, TimeoutError):
                sentence = (
                    f"No worker process was free within {seconds:.3g} s; try again in a"
                    " moment."
                )
                raise Refused(503, {"error": sentence}) from None
            raise

    def _share(self, wanted: int = 0) -> None:
        """Hand free workers to those who wait; start as many as they wait for, or as
        are wanted, within the size.
        """
        self._free = [worker for worker in self._free if worker.alive]
        while self._free and (waiter := self._next_waiting()) is not None:
            self._busy.add(self._free[-1])
            waiter.set_result(self._free.pop())
        room = self.size - len(self._busy) - len(self._free) - self._starting
        for _ in range(min(room, max(wanted, len(self._waiting) - self._starting))):
            self._start_worker()

    def _start_worker(self) -> None:
        """Let a thread start a process; nothing waits for the thread, not even the end
        of the server.
        """
        loop = asyncio.get_running_loop()

        def work() -> None:
            made: _LaneWorker | Exception
            try:
                made = _LaneWorker(self._plan, loop)
            except Exception as problem:
                made = problem
            try:
                loop.call_soon_threadsafe(self._started, made)
            except RuntimeError:  # the loop is closed
                if isinstance(made, _LaneWorker):
                    made.kill()

        self._starting += 1
        try:
            threading.Thread(target=work, daemon=True).start()
        except RuntimeError as problem:  # no more threads
            loop.call_soon(self._started, problem)

    def _started(self, made: _LaneWorker | Exception) -> None:
        """Take a new worker in; where there is none, one of those who wait is told
        so.
        """
        self._starting -= 1
        if not isinstance(made, Exception):
            return self._give_back(made)
        _log.warning("A worker process could not be started: %s", made)
        if (waiter := self._next_waiting()) is not None:
            why = getattr(made, "strerror", None) or type(made).__name__
            sentence = (
                f"A worker process could not be started ({why}); try again in a moment."
            )
            waiter.set_exception(Refused(503, {"error": sentence}))
        return self._share()

    def _adopt(self, worker: _LaneWorker) -> bool:
        """Take over a worker that is busy elsewhere, in place of a free one; tell
        whether there was room.
        """
        if self._closed or len(self._busy) + self._starting >= self.size:
            return False
        if self._free:
            self._free.pop().kill()
        self._busy.add(worker)
        return True

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
        """Hand a worker to who waits; where it is dead, another takes its place."""
        self._busy.discard(worker)
        if self._closed:
            worker.kill()
            return
        self._free.append(worker)
        self._share(wanted=not worker.alive)

    def _next_waiting(self) -> asyncio.Future[_LaneWorker] | None:
        """Take whose turn it is from those who wait; who was cancelled a moment ago is
        passed over.
        """
        while self._waiting:
            waiter = self._waiting.pop(-1 if self._newest_first else 0)
            if not waiter.done():
                return waiter
        return None

    async def close(self) -> None:
        """Kill every worker, also those to come, and wait until nothing of theirs is
        left.
        """
        self._closed = True
        for worker in [*self._free, *self._busy]:
            worker.kill()
        self._free.clear()
        await asyncio.gather(*self._draining, return_exceptions=True)

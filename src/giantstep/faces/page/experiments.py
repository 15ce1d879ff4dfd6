"""Running experiments: each in a process of its own, with a budget, told to whoever
listens, killed on request.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
from collections.abc import AsyncGenerator, Mapping
from typing import Any

from giantstep.faces.page.bounds import Refused
from giantstep.faces.page.lanes import Lane

KEPT = 16
"""Experiments remembered at a time, running or not."""
_UNHEARD = 15.0
"""Seconds after which an experiment nobody listens to is stopped."""
_JUDGING = 30.0
"""Seconds after its budget that an experiment has for its last trial and for its
judgement.
"""
_WAIT = 300.0 + _JUDGING
"""Seconds that an experiment waits for a worker: the longest budget of another one, and
its judgement.
"""


class Experiment:
    """One experiment: who asked for it, and the last event of each kind; who listens
    late hears all of them.
    """

    def __init__(self, client: str) -> None:
        self.client = client
        self.name = secrets.token_urlsafe(12)
        self.reason = "stopped"
        self.task: asyncio.Task[None] | None = None
        self.last: dict[str, tuple[int, str]] = {}
        self.over = False
        self.listeners = 0
        self._count = 0
        self._bell = asyncio.Event()

    def tell(self, kind: str, text: str, *, over: bool = False) -> None:
        """Keep an event and wake the listeners; they stop where it is the last."""
        self._count += 1
        self.last[kind] = (self._count, text)
        self.over = over
        self._bell.set()
        self._bell = asyncio.Event()

    async def listen(self) -> AsyncGenerator[list[tuple[str, str]], None]:
        """Yield what was told, then what is new, up to the end; events nobody had time
        for are skipped.
        """
        heard = 0
        self.listeners += 1
        try:
            while True:
                if self._count == heard and not self.over:
                    await self._bell.wait()
                news = sorted(
                    (number, kind, text)
                    for kind, (number, text) in self.last.items()
                    if number > heard
                )
                heard = self._count
                over = self.over
                if news:
                    yield [(kind, text) for _, kind, text in news]
                if over:
                    return
        finally:
            self.listeners -= 1

    def file(self) -> str:
        """Return the comparison as CSV, once it is finished."""
        if "file" not in self.last:
            raise Refused(
                404, {"error": "The experiment has not finished; there is no file yet."}
            )
        return str(json.loads(self.last["file"][1])["text"])

    def stop(self, reason: str) -> None:
        """Kill it; what it told stays."""
        if self.task is not None and not self.over:
            self.reason = reason
            self.task.cancel()

    def ended(self, task: asyncio.Task[None]) -> None:
        """Tell how it was stopped, also where that was before its first step."""
        if not self.over:
            self.tell("stopped", json.dumps({"reason": self.reason}), over=True)


class Experiments:
    """All experiments of a server."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self._known: dict[str, Experiment] = {}

    def start(
        self, client: str, arguments: Mapping[str, Any], budget: float
    ) -> Experiment:
        """Start one; the client's earlier one is stopped."""
        running = [
            experiment for experiment in self._known.values() if not experiment.over
        ]
        for earlier in running:
            if earlier.client == client:
                earlier.stop("replaced by a newer one")
        if len(running) >= KEPT:
            raise Refused(
                503, {"error": "Too many experiments are running; stop one first."}
            )
        ended = [name for name, experiment in self._known.items() if experiment.over]
        for name in ended[: max(0, len(self._known) - KEPT + 1)]:
            del self._known[name]
        experiment = Experiment(client)
        self._known[experiment.name] = experiment
        experiment.task = asyncio.ensure_future(
            self._run(experiment, arguments, budget)
        )
        experiment.task.add_done_callback(experiment.ended)
        return experiment

    def find(self, name: str) -> Experiment:
        """Return an experiment by its name."""
        if name not in self._known:
            raise Refused(
                404,
                {"error": "There is no such experiment; it may have been forgotten."},
            )
        return self._known[name]

    async def _run(
        self, experiment: Experiment, arguments: Mapping[str, Any], budget: float
    ) -> None:
        async def stop_unheard() -> None:
            while True:
                await asyncio.sleep(_UNHEARD)
                if not experiment.listeners:
                    experiment.stop("nobody listens any more")

        watcher = asyncio.ensure_future(stop_unheard())
        spent: Mapping[str, Any] = {"reason": f"the budget of {budget:g} s is spent"}
        try:
            experiment.tell("waiting", "{}")
            most = budget + _JUDGING
            running = self._lane.events(
                "experiment", {**arguments, "seconds": budget}, _WAIT + most, most=most
            )
            async with contextlib.aclosing(running) as events:
                async for kind, text in events:
                    experiment.tell(kind, text)
            if "spent" in experiment.last:
                kind = "stopped"
                told = spent
            else:
                kind = "finished"
                told = {}
        except Refused as refused:
            if refused.status == 504:
                kind = "stopped"
                told = spent
            else:
                kind = "refused"
                told = refused.message
        finally:
            watcher.cancel()
        experiment.tell(kind, json.dumps(told), over=True)

    def close(self) -> list[asyncio.Task[None]]:
        """Stop all of them, and return what has to end."""
        for experiment in self._known.values():
            experiment.stop("the server is closing")
        return [
            experiment.task
            for experiment in self._known.values()
            if experiment.task is not None
        ]

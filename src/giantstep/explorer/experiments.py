"""Running experiments: each in a process of its own, with a budget, told to whoever listens, killed on request."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Any

from giantstep.explorer.lanes import Lane, Refused

KEPT = 16
"""Experiments remembered at a time, running or not."""
_UNHEARD = 15.0
"""Seconds after which an experiment nobody listens to is stopped."""


@dataclass
class Experiment:
    """One experiment: the last event of each kind, and a bell for new ones."""

    client: str
    total: float
    name: str = field(default_factory=lambda: secrets.token_urlsafe(12))
    last: dict[str, tuple[int, str]] = field(default_factory=dict)
    count: int = 0
    over: bool = False
    listeners: int = 0
    bell: asyncio.Condition = field(default_factory=asyncio.Condition)
    task: asyncio.Task[None] | None = None
    reason: str = "stopped"

    async def tell(self, kind: str, text: str, *, over: bool = False) -> None:
        """Keep an event and wake the listeners."""
        async with self.bell:
            self.count += 1
            self.last[kind] = (self.count, text)
            self.over = self.over or over
            self.bell.notify_all()

    def file(self) -> str:
        """Return the comparison as CSV, once it is finished."""
        if "file" not in self.last:
            raise Refused(404, {"error": "The experiment has not finished; there is no file yet."})
        text: str = json.loads(self.last["file"][1])["text"]
        return text

    async def listen(self) -> AsyncGenerator[tuple[str, str], None]:
        """Yield the latest event of each kind, then new ones, up to the end; events nobody had time for are skipped."""
        heard = 0
        self.listeners += 1
        try:
            while True:
                async with self.bell:
                    while self.count == heard and not self.over:
                        await self.bell.wait()
                    news = sorted((n, kind, text) for kind, (n, text) in self.last.items() if n > heard)
                    heard, over = self.count, self.over
                for _, kind, text in news:
                    if kind != "file":
                        yield kind, text
                if over:
                    return
        finally:
            self.listeners -= 1


class Experiments:
    """All experiments of a server."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self._known: dict[str, Experiment] = {}

    def start(self, client: str, arguments: Mapping[str, Any], budget: float) -> Experiment:
        """Start one; the client's earlier one is stopped."""
        for one in self._known.values():
            if one.client == client and not one.over:
                self.stop(one, "replaced by a newer one")
        if sum(not one.over for one in self._known.values()) >= KEPT:
            raise Refused(503, {"error": "Too many experiments are running; stop one first."})
        for name in [name for name, one in self._known.items() if one.over][: max(0, len(self._known) - KEPT + 1)]:
            del self._known[name]
        experiment = Experiment(client, budget)
        self._known[experiment.name] = experiment
        experiment.task = asyncio.ensure_future(self._run(experiment, arguments, budget))
        return experiment

    def find(self, name: str) -> Experiment:
        """Return an experiment by its name."""
        if name not in self._known:
            raise Refused(404, {"error": "There is no such experiment; it may have been forgotten."})
        return self._known[name]

    def stop(self, experiment: Experiment, reason: str = "cancelled") -> None:
        """Kill an experiment; what it told stays."""
        if experiment.task is not None and not experiment.over:
            experiment.reason = reason
            experiment.task.cancel()

    async def _run(self, experiment: Experiment, arguments: Mapping[str, Any], budget: float) -> None:
        watcher = asyncio.ensure_future(self._stop_unheard(experiment))
        try:
            await experiment.tell("waiting", "{}")
            async with contextlib.aclosing(self._lane.events("experiment", arguments, budget)) as events:
                async for kind, text in events:
                    await experiment.tell(kind, text)
            await experiment.tell("finished", "{}", over=True)
        except Refused as refused:
            kind = "stopped" if refused.status == 504 else "refused"
            said = {"reason": f"the budget of {budget:g} s is spent"} if kind == "stopped" else refused.said
            await experiment.tell(kind, json.dumps(said), over=True)
        except asyncio.CancelledError:
            await experiment.tell("stopped", json.dumps({"reason": experiment.reason}), over=True)
        finally:
            watcher.cancel()

    async def _stop_unheard(self, experiment: Experiment) -> None:
        while True:
            await asyncio.sleep(_UNHEARD)
            if not experiment.listeners:
                self.stop(experiment, "nobody listens any more")

    def close(self) -> list[asyncio.Task[None]]:
        """Stop all of them, and return what has to end."""
        for experiment in self._known.values():
            self.stop(experiment, "the server is closing")
        return [experiment.task for experiment in self._known.values() if experiment.task is not None]

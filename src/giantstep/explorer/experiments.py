"""Running experiments: each in a process of its own, with a budget, told to whoever listens, killed on request."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
from collections.abc import Mapping
from typing import Any

from giantstep.explorer.feeds import Feed
from giantstep.explorer.lanes import Lane, Refused

KEPT = 16
"""Experiments remembered at a time, running or not."""
_UNHEARD = 15.0
"""Seconds after which an experiment nobody listens to is stopped."""


class Experiment(Feed):
    """One experiment: who asked for it, and the last event of each kind."""

    def __init__(self, client: str) -> None:
        super().__init__()
        self.client = client
        self.name = secrets.token_urlsafe(12)
        self.task: asyncio.Task[None] | None = None
        self.reason = "stopped"

    def file(self) -> str:
        """Return the comparison as CSV, once it is finished."""
        if "file" not in self.last:
            raise Refused(404, {"error": "The experiment has not finished; there is no file yet."})
        text: str = json.loads(self.last["file"][2])["text"]
        return text


class Experiments:
    """All experiments of a server."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self._known: dict[str, Experiment] = {}

    def start(self, client: str, arguments: Mapping[str, Any], budget: float) -> Experiment:
        """Start one; the client's earlier one is stopped."""
        running = [experiment for experiment in self._known.values() if not experiment.over]
        for earlier in running:
            if earlier.client == client:
                self.stop(earlier, "replaced by a newer one")
        if len(running) >= KEPT:
            raise Refused(503, {"error": "Too many experiments are running; stop one first."})
        ended = [name for name, experiment in self._known.items() if experiment.over]
        for name in ended[: max(0, len(self._known) - KEPT + 1)]:
            del self._known[name]
        experiment = Experiment(client)
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
            spent = {"reason": f"the budget of {budget:g} s is spent"}
            await experiment.tell(kind, json.dumps(spent if kind == "stopped" else refused.message), over=True)
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

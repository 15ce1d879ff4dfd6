"""Limits as the hand moves: stale requests dropped, slow ones coarse first, then fine."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from typing import Any

from giantstep.explorer.bounds import Bounds, grid_points, shape_of, thin_study
from giantstep.explorer.lanes import Lane, Refused

QUICK = 0.15
"""CPU seconds of an answer on the quick lane; dearer ones come coarse first, on the other lane."""
COARSE = 13
"""Points along each field of a coarse answer."""
_REMEMBERED = 1000


class Limits:
    """Answers limits in two lanes, by what a point of the same shape cost before."""

    def __init__(self, quick: Lane, slow: Lane, bounds: Bounds) -> None:
        self._quick, self._slow, self._bounds = quick, slow, bounds
        self._cost: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._current: dict[str, asyncio.Event] = {}

    async def answers(
        self, study: Mapping[str, Any], variables: Sequence[str] | None, curve: str
    ) -> AsyncGenerator[str, None]:
        """Yield one answer, or a coarse one and a fine one, as JSON texts.

        Parameters
        ----------
        study : the tables of a study file, within bounds.
        variables : those to send; None sends all.
        curve : whose request this is (client and curve); an older one for the same curve is dropped.
        """
        newer = asyncio.Event()
        if curve in self._current:
            self._current[curve].set()
        self._current[curve] = newer
        try:
            async for text in self._stages(study, variables, newer):
                yield text
        finally:
            if self._current.get(curve) is newer:
                del self._current[curve]

    async def _stages(
        self, study: Mapping[str, Any], variables: Sequence[str] | None, newer: asyncio.Event
    ) -> AsyncIterator[str]:
        shape, points = shape_of(study), grid_points(study)
        expected = self._expected(shape, points)
        if expected is not None and expected < QUICK:
            text = await self._unless(newer, self._compute(self._quick, study, variables, shape))
            yield _stage("fine", text, points, points)
            return
        coarse = thin_study(study, COARSE if len(study.get("grid", {})) < 2 else 9)
        few = grid_points(coarse)
        if few < points:
            text = await self._unless(newer, self._compute(self._slow, coarse, variables, shape))
            expected = self._expected(shape, points) or 0.0
            most = self._bounds.limit_seconds
            if expected > most:
                note = f"All {points} points need about {expected:.0f} s and {most:g} s are allowed: {few} are shown."
                yield _stage("coarse", text, few, points, last=True, note=note)
                return
            yield _stage("coarse", text, few, points)
        text = await self._unless(newer, self._compute(self._slow, study, variables, shape))
        yield _stage("fine", text, points, points)

    async def _compute(self, lane: Lane, study: Mapping[str, Any], variables: Sequence[str] | None, shape: str) -> str:
        arguments = {"tables": study, "variables": variables}
        text = await lane.answer("limit", arguments, self._bounds.limit_seconds)
        seconds = json.loads(text[: text.index(",")] + "}")["seconds"]
        self._cost[shape] = (seconds, grid_points(study))
        self._cost.move_to_end(shape)
        while len(self._cost) > _REMEMBERED:
            self._cost.popitem(last=False)
        return text

    def _expected(self, shape: str, points: int) -> float | None:
        """Return the CPU seconds so many points will cost, at most proportional to what fewer did."""
        if shape not in self._cost:
            return None
        seconds, count = self._cost[shape]
        return seconds * max(1.0, points / max(count, 1))

    @staticmethod
    async def _unless(newer: asyncio.Event, work: Any) -> str:
        """Return what a coroutine gives, unless a newer request for the same curve comes first."""
        task, bell = asyncio.ensure_future(work), asyncio.ensure_future(newer.wait())
        try:
            await asyncio.wait([task, bell], return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise Refused(409, {"error": "A newer request took the place of this one.", "stale": True})
            text: str = task.result()
            return text
        finally:
            for pending in (task, bell):
                if not pending.done():
                    pending.cancel()
                    with contextlib.suppress(asyncio.CancelledError):
                        await pending


def _stage(stage: str, text: str, points: int, of: int, *, last: bool | None = None, note: str = "") -> str:
    about = {"stage": stage, "points": points, "of": of, "last": stage == "fine" if last is None else last}
    if note:
        about["note"] = note
    return f"{json.dumps(about)[:-1]}, {text[1:]}"

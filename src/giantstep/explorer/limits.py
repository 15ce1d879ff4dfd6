"""Limits as the hand moves: stale requests dropped, slow ones coarse first, then fine."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from typing import Any

from giantstep.explorer.bounds import Bounds, grid_points, shape_of, thin_study
from giantstep.explorer.lanes import Lane, Refused

QUICK = 0.02
"""CPU seconds of an answer that comes at once; dearer ones come coarse first."""
DEAR = 0.5
"""CPU seconds of a coarse answer that is worked on beside the quick ones."""
COARSE = 13
"""Points along each field of a coarse answer, where nothing is known of its cost."""
FEWEST, MOST = 5, 25
"""Points along a field alone, where the cost is known: as many as `QUICK` is enough for, within these."""
REST = 0.12
"""Seconds without a newer request after which the fine answer is begun: the hand rests."""
_REMEMBERED = 1000


class Costs:
    """CPU seconds of limits by their shape and number of points, as measured: a constant and so much for a point."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, dict[int, float]] = OrderedDict()

    def remember(self, shape: str, points: int, seconds: float) -> None:
        """Keep a measurement; the two last numbers of points stand for a shape."""
        measured = self._known.setdefault(shape, {})
        measured.pop(points, None)
        measured[points] = seconds
        if len(measured) > 2:
            del measured[next(iter(measured))]
        self._known.move_to_end(shape)
        while len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)

    def expected(self, shape: str, points: int) -> float | None:
        """Return the CPU seconds of so many points; from one measurement, at most proportional to it."""
        measured = self._known.get(shape)
        if not measured:
            return None
        if len(measured) == 1:
            ((count, seconds),) = measured.items()
            return seconds * max(1.0, points / max(count, 1))
        (few, low), (many, high) = sorted(measured.items())
        slope = max(0.0, (high - low) / (many - few))
        return max(low + slope * (points - few), 0.0)

    def affordable(self, shape: str, seconds: float) -> int | None:
        """Return how many points so many seconds are enough for; from one measurement only where it took longer."""
        measured = self._known.get(shape, {})
        if len(measured) < 2:
            dear = ((count, cost) for count, cost in measured.items() if cost > seconds)
            return next((int(count * seconds / cost) for count, cost in dear), None)
        (few, low), (many, high) = sorted(measured.items())
        slope = max(1e-9, (high - low) / (many - few))
        return few + int((seconds - low) / slope)


class Limits:
    """Answers limits in two lanes, by what a point of the same shape cost before."""

    def __init__(self, quick: Lane, slow: Lane, bounds: Bounds) -> None:
        self._quick, self._slow, self._bounds = quick, slow, bounds
        self._costs = Costs()
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
        expected = self._costs.expected(shape, points)
        if expected is not None and expected < QUICK:
            text = await self._unless(newer, self._compute(self._quick, study, variables, shape))
            yield _stage("fine", text, points, points)
            return
        coarse = self._thinned(study, shape)
        few = grid_points(coarse)
        dear = self._costs.expected(_first(shape), few)
        lane = self._slow if dear is None or dear > DEAR else self._quick
        text = await self._unless(newer, self._compute(lane, coarse, variables, shape, coarse=True))
        if few == points and '"simplified": false' in text[:80]:
            yield _stage("fine", text, points, points)
            return
        expected = self._costs.expected(shape, points) or 0.0
        most = self._bounds.limit_seconds
        if expected > most:
            note = f"All {points} points need about {expected:.0f} s and {most:g} s are allowed: {few} are shown."
            yield _stage("coarse", text, few, points, last=True, note=note)
            return
        yield _stage("coarse", text, few, points)
        await self._unless(newer, asyncio.sleep(REST))
        text = await self._unless(newer, self._compute(self._slow, study, variables, shape))
        yield _stage("fine", text, points, points)

    def _thinned(self, study: Mapping[str, Any], shape: str) -> dict[str, Any]:
        """Return the study of a coarse answer: along one field as many points as are quick, where that is known."""
        if len(study.get("grid", {})) > 1:
            return thin_study(study, 9)
        affordable = self._costs.affordable(_first(shape), QUICK)
        return thin_study(study, COARSE if affordable is None else min(MOST, max(FEWEST, affordable)))

    async def _compute(
        self, lane: Lane, study: Mapping[str, Any], variables: Sequence[str] | None, shape: str, *, coarse: bool = False
    ) -> str:
        arguments = {"tables": study, "variables": variables, "coarse": coarse}
        text = await lane.answer("limit", arguments, self._bounds.limit_seconds)
        seconds, simplified = re.match(_HEAD, text).groups()  # type: ignore[union-attr]  # the worker writes it first
        points = grid_points(study)
        if coarse:
            self._costs.remember(_first(shape), points, float(seconds))
        if simplified == "false":
            self._costs.remember(shape, points, float(seconds))
        return text

    @staticmethod
    async def _unless(newer: asyncio.Event, work: Any) -> Any:
        """Return what a coroutine gives, unless a newer request for the same curve comes first."""
        task, bell = asyncio.ensure_future(work), asyncio.ensure_future(newer.wait())
        try:
            await asyncio.wait([task, bell], return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise Refused(409, {"error": "A newer request took the place of this one.", "stale": True})
            return task.result()
        finally:
            for pending in (task, bell):
                if not pending.done():
                    pending.cancel()
                    with contextlib.suppress(asyncio.CancelledError):
                        await pending


_HEAD = r'{"seconds": ([^,]+), "simplified": (true|false)'


def _first(shape: str) -> str:
    """Return the shape under which coarse answers are known: their settings may be simplified."""
    return f"coarse {shape}"


def _stage(stage: str, text: str, points: int, of: int, *, last: bool | None = None, note: str = "") -> str:
    about = {"stage": stage, "points": points, "of": of, "last": stage == "fine" if last is None else last}
    if note:
        about["note"] = note
    return f"{json.dumps(about)[:-1]}, {text[1:]}"

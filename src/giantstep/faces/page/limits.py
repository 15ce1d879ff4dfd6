"""Limits as the hand moves: the newest wish counts, coarse first, then fine."""

from __future__ import annotations

import asyncio
import json
import re
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Mapping, Sequence
from typing import Any

from giantstep.faces.page.bounds import Bounds, Refused, grid_points, thin_study
from giantstep.faces.page.lanes import Lane, unless

COARSE = (25, 9)
"""Points of a coarse answer along a field that varies alone, and along each of several.

Up to 25 points cost hardly more than one: in every shipped family what is done once
takes most of the time.
"""
QUICK = 0.5
"""Seconds that an answer may take in the quick lane; the slow one takes over what is
not done by then.
"""
REST = 0.12
"""Seconds without a newer wish after which the fine answer is begun: the hand rests."""
_REMEMBERED = 1000
"""Curves whose newest wish is known; those asked for last."""
_HEAD = re.compile(r'{"seconds": ([^,]+), "simplified": (true|false)')
"""How the answer of a worker begins."""


class Limits:
    """Answers limits in two lanes: what is quick never waits for what is slow."""

    def __init__(self, quick: Lane, slow: Lane, bounds: Bounds) -> None:
        self._quick = quick
        self._slow = slow
        self._bounds = bounds
        self._newest: OrderedDict[str, int] = OrderedDict()
        self._current: dict[str, asyncio.Event] = {}
        """The newest wish for each curve: set, it is dropped, and whatever is done for
        it ends.
        """

    async def answers(
        self,
        study: Mapping[str, Any],
        variables: Sequence[str] | None,
        curve: str,
        number: int | None = None,
    ) -> AsyncGenerator[str, None]:
        """Yield one answer, or a coarse one and a fine one, as JSON texts, all within
        the seconds of a limit.

        No variables are all of them. The wish of the largest number counts for a curve,
        whichever came first; None is the newest.
        """
        stale = Refused(
            409, {"error": "A newer request took the place of this one.", "stale": True}
        )
        newest = self._newest.pop(curve, 0)
        self._newest[curve] = max(newest, number or 0)
        if len(self._newest) > _REMEMBERED:
            self._newest.popitem(last=False)
        if number is not None and number < newest:
            raise stale
        if curve in self._current:
            self._current[curve].set()
        self._current[curve] = dropped = asyncio.Event()

        async def held(work: Awaitable[Any]) -> Any:
            return await unless(work, dropped.wait(), stale)

        begun = asyncio.get_running_loop().time()
        coarse = thin_study(study, COARSE[len(study.get("grid", {})) > 1])
        few = grid_points(coarse)
        points = grid_points(study)
        arguments: dict[str, Any] = {
            "tables": coarse,
            "variables": variables,
            "coarse": True,
        }
        try:
            text = await held(self._compute(arguments, begun, quick=True))
            seconds, simplified = _HEAD.match(text).groups()  # type: ignore[union-attr]  # the worker writes it first
            if few == points and simplified == "false":
                yield _stage("fine", text, points, points)
                return
            yield _stage("coarse", text, few, points)
            await held(asyncio.sleep(REST))
            arguments = {"tables": study, "variables": variables}
            is_quick = float(seconds) * points / few < QUICK
            try:
                yield _stage(
                    "fine",
                    await held(self._compute(arguments, begun, quick=is_quick)),
                    points,
                    points,
                )
            except Refused as problem:
                if problem.status not in (503, 504):
                    raise
                note = (
                    f"The curve of {points} points is not there:"
                    f" {problem.message['error']} {few} points are shown."
                )
                yield _stage("coarse", text, few, points, last=True, note=note)
        finally:
            if self._current.get(curve) is dropped:
                del self._current[curve]

    async def _compute(
        self, arguments: Mapping[str, Any], begun: float, *, quick: bool
    ) -> str:
        """Return the answer of a worker; the quick lane is for what does not keep it
        long.
        """
        seconds = self._bounds.limit_seconds
        loop = asyncio.get_running_loop()
        if quick:
            try:
                return await self._quick.answer(
                    "limit",
                    arguments,
                    seconds,
                    since=begun,
                    most=QUICK,
                    heir=self._slow,
                )
            except Refused as problem:
                if problem.status != 504 or loop.time() >= begun + seconds:
                    raise
        return await self._slow.answer("limit", arguments, seconds, since=begun)


def _stage(stage: str, text: str, points: int, of: int, **more: Any) -> str:
    """Return an answer of a worker with what the page is told of it beside it.

    The worker's text goes on as it is: to read and write a long curve again, at every
    move of a slider, would keep the server busy.
    """
    about = {
        "stage": stage,
        "points": points,
        "of": of,
        "last": stage == "fine",
        **more,
    }
    return f"{json.dumps(about)[:-1]}, {text[1:]}"

"""What a worker tells while it works, for all who listen: those who come late hear it from the beginning."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Hashable


class Feed:
    """Events with a kind and a text. Of several events under one key only the last is kept."""

    def __init__(self) -> None:
        self.last: dict[Hashable, tuple[int, str, str]] = {}
        self.over = False
        self.listeners = 0
        self._count = 0
        self._bell = asyncio.Condition()

    async def tell(self, kind: str, text: str, *, key: Hashable = None, over: bool = False) -> None:
        """Keep an event (under its kind where it has no key) and wake the listeners."""
        async with self._bell:
            self._count += 1
            self.last[kind if key is None else key] = (self._count, kind, text)
            self.over = self.over or over
            self._bell.notify_all()

    async def end(self) -> None:
        """Let those who listen go."""
        async with self._bell:
            self.over = True
            self._bell.notify_all()

    async def listen(self) -> AsyncGenerator[tuple[str, str], None]:
        """Yield what was told, then what is new, up to the end; events nobody had time for are skipped."""
        heard = 0
        self.listeners += 1
        try:
            while True:
                async with self._bell:
                    while self._count == heard and not self.over:
                        await self._bell.wait()
                    news = sorted(event for event in self.last.values() if event[0] > heard)
                    heard, over = self._count, self.over
                for _, kind, text in news:
                    yield kind, text
                if over:
                    return
        finally:
            self.listeners -= 1

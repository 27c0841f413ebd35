"""Wakes the relay when another process has committed records. The poll stays the truth."""

import asyncio
import logging
from collections.abc import Callable

from sqlalchemy.ext.asyncio import AsyncEngine

from postroom.errors import error_text
from postroom.store.listen import listen
from postroom.store.open import with_own_pool

logger = logging.getLogger("postroom.relay")

FIRST_PAUSE = 0.5
LONGEST_PAUSE = 30.0


class Listener:
    """Listens for as long as the relay runs; a connection that is lost is made again."""

    def __init__(self, engine: AsyncEngine, channel: str, wake: Callable[[], None]) -> None:
        self._engine = engine
        self._channel = channel
        self._wake = wake
        self._pause = 0.0
        self.tried = asyncio.Event()
        """Whether it listens, or has found that it cannot."""

    async def run(self) -> None:
        """Listen until cancelled."""
        engine = with_own_pool(self._engine)
        try:
            while True:
                await self._listen(engine)
                await asyncio.sleep(self._pause)
        finally:
            await engine.dispose()

    async def _listen(self, engine: AsyncEngine) -> None:
        reason = "the connection was lost"
        try:
            await listen(engine, self._channel, self._told)
        except Exception as error:
            reason = error_text(error)
        if not self._pause:
            logger.warning("postroom: cannot hear of commits, only poll for them: %s", reason)
        self.tried.set()
        self._pause = min(LONGEST_PAUSE, max(FIRST_PAUSE, 2 * self._pause))

    def _told(self) -> None:
        self._pause = 0.0
        self.tried.set()
        self._wake()

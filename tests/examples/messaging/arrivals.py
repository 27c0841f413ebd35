"""What comes to a queue, sorted by what it is about: other tests' messages come there too."""

import json
from typing import Any

from tests.support.broker import Broker, Received
from tests.support.waiting import eventually


class Arrivals:
    """All that has come to a queue since somebody began to look."""

    def __init__(self, broker: Broker, queue: str) -> None:
        self._broker = broker
        self._queue = queue
        self._all: list[Received] = []

    def look(self) -> list[Received]:
        """Give all that has come until now."""
        self._all += self._broker.take(self._queue)
        return self._all

    def now(self, aggregate_id: str) -> list[Received]:
        """Give what has come about one message until now."""
        return [each for each in self.look() if each.headers["aggregate_id"] == aggregate_id]

    async def of(self, aggregate_id: str, count: int) -> list[Received]:
        """Wait until so much has come about one message, and give it."""
        await eventually(lambda: len(self.now(aggregate_id)) >= count)
        return self.now(aggregate_id)

    async def types(self, aggregate_id: str, count: int) -> list[str]:
        """Wait until so much has come about one message, and give what happened to it."""
        return [each.routing_key for each in await self.of(aggregate_id, count)]

    async def payload(self, aggregate_id: str) -> dict[str, Any]:
        """Wait for the first that comes about one message, and give what it says."""
        return dict(json.loads((await self.of(aggregate_id, 1))[0].body))

"""A consumer of the family hub's events."""

import json
from typing import Any

from tests.support.broker import Broker, Received
from tests.support.waiting import eventually

EXCHANGE = "family-hub.events"
INVITED = "family.domain.events.FamilyMemberInvitedEvent"
JOINED = "family.domain.events.FamilyMemberJoinedEvent"


class Mailbox:
    """Waits for the events of one family, in a queue where those of others come too."""

    def __init__(self, broker: Broker, queue: str) -> None:
        self._broker, self._queue = broker, queue
        self._received: list[Received] = []

    async def messages(self, family: str, count: int = 1) -> list[Received]:
        """Wait for so many, or more, and give all that have come."""
        await eventually(lambda: len(self._look(family)) >= count)
        return self._look(family)

    async def payloads(self, family: str, count: int = 1) -> list[dict[str, Any]]:
        return [json.loads(each.body) for each in await self.messages(family, count)]

    def _look(self, family: str) -> list[Received]:
        self._received += self._broker.take(self._queue)
        return [each for each in self._received if family.encode() in each.body]


async def mailbox(broker: Broker) -> Mailbox:
    """Bind a queue of one's own to all events."""
    await eventually(lambda: broker.exists(exchange=EXCHANGE))
    queue = broker.queue(broker.name("family"), "#", exchange=EXCHANGE)
    return Mailbox(broker, queue)

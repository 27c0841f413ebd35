"""A publisher whose deliveries a test holds back, refuses or lets through, by event type."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from postroom import OutboxRelay, UntypedEvent
from postroom.publishers.base import DELIVERED, Outcome, Refused
from postroom.record import ClaimedRecord


class GatedPublisher:
    """Delivers one record at a time; the slow event types wait until `gate` is set."""

    max_batch = 1

    def __init__(self, *slow: str, max_in_flight: int = 100) -> None:
        self.max_in_flight = max_in_flight
        self.started: list[str] = []
        self.arrived: list[str] = []
        self.opened = 0
        self.away: Exception | None = None
        """What a delivery raises when it starts."""
        self.shut: Exception | None = None
        """What opening raises."""
        self.refused: set[str] = set()
        """The event types that it refuses."""
        self.gate = asyncio.Event()
        self._slow = slow

    def __str__(self) -> str:
        return "the gated publisher"

    async def open(self) -> None:
        self.opened += 1
        if self.shut is not None:
            raise self.shut

    async def publish(self, records: Sequence[ClaimedRecord]) -> Sequence[Outcome]:
        return [await self.take(record) for record in records]

    async def close(self) -> None: ...

    async def take(self, record: ClaimedRecord) -> Outcome:
        self.started.append(record.event_type)
        if self.away is not None:
            raise self.away
        if record.event_type in self._slow:
            await self.gate.wait()
        if record.event_type in self.refused:
            return Refused("not now")
        self.arrived.append(record.event_type)
        return DELIVERED


@asynccontextmanager
async def running(relay: OutboxRelay, publisher: GatedPublisher) -> AsyncIterator[None]:
    """Run a relay for as long as the block lasts; its publisher keeps it from nothing then."""
    async with relay.running():
        try:
            yield
        finally:
            publisher.away = publisher.shut = None
            publisher.gate.set()


def happened(name: str, key: str | None = None) -> UntypedEvent:
    """Make an event; each name is a key of its own unless told otherwise."""
    return UntypedEvent(
        event_type=name, aggregate_type="note", aggregate_id=key or name, payload={}
    )

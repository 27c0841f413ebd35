"""Every publisher, through the one suite."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from postroom import EventRegistry
from postroom.errors import Outage
from postroom.events.payload import encode_event
from postroom.publishers.handlers import HandlersPublisher
from postroom.publishers.memory import MemoryPublisher
from postroom.record import ClaimedRecord
from tests.conformance.publisher_suite import (
    Arrival,
    LetterLost,
    ParcelSent,
    PublisherHarness,
    PublisherSuite,
)

EVERYTHING = frozenset(Arrival.__slots__) - {"id", "payload"}


class MemoryHarness(PublisherHarness):
    """A queue that takes parcels."""

    shows = EVERYTHING
    refuses_unwanted = True

    def __init__(self) -> None:
        self.publisher: MemoryPublisher = MemoryPublisher()
        self._parcels = self.publisher.queue("parcels", "parcel.#")

    async def arrived(self, *_: ClaimedRecord) -> Sequence[Arrival]:
        return [
            Arrival(**{part: getattr(message, part) for part in Arrival.__slots__})
            for message in self._parcels.messages
        ]

    @asynccontextmanager
    async def outage(self) -> AsyncIterator[None]:
        self.publisher.outage = "the post office is closed"
        yield
        self.publisher.outage = None


class TestMemoryPublisher(PublisherSuite):
    @pytest.fixture
    def harness(self) -> PublisherHarness:
        return MemoryHarness()


class HandlersHarness(PublisherHarness):
    """A handler that keeps what it is given: the event, and nothing of the record around it."""

    shows = frozenset()
    refuses_unwanted = False

    def __init__(self) -> None:
        registry = EventRegistry()
        registry.register(LetterLost)
        registry.handles(ParcelSent, name="keep")(ParcelKeeper)
        self._keeper = ParcelKeeper()
        self.publisher: HandlersPublisher = HandlersPublisher(
            factory=lambda _: self._keeper, registry=registry
        )

    async def arrived(self, *_: ClaimedRecord) -> Sequence[Arrival]:
        return [
            Arrival(id=event.event_id, payload=encode_event(event)) for event in self._keeper.kept
        ]

    @asynccontextmanager
    async def outage(self) -> AsyncIterator[None]:
        self._keeper.is_away = True
        yield
        self._keeper.is_away = False


class ParcelKeeper:
    """Handles parcels, unless it is away."""

    def __init__(self) -> None:
        self.kept: list[ParcelSent] = []
        self.is_away = False

    async def handle(self, event: ParcelSent) -> None:
        if self.is_away:
            raise Outage("the keeper is away")
        self.kept.append(event)


class TestHandlersPublisher(PublisherSuite):
    @pytest.fixture
    def harness(self) -> PublisherHarness:
        return HandlersHarness()

"""Every publisher, through the one suite."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from uuid import UUID, uuid4

import pytest

from postroom import EventRegistry
from postroom.errors import OutageError
from postroom.events.payload import encode_event
from postroom.publishers.handlers.publisher import HandlersPublisher
from postroom.publishers.memory import MemoryPublisher
from postroom.publishers.rabbitmq import Binding, Exchange, Queue, RabbitMQPublisher, Topology
from postroom.record import ClaimedRecord
from tests.conformance.publisher_suite import (
    Arrival,
    LetterLost,
    ParcelSent,
    PublisherHarness,
    PublisherSuite,
)
from tests.support.broker import Broker, Received
from tests.support.rabbitmq import temporary_vhost
from tests.support.waiting import eventually

EVERYTHING = frozenset(Arrival.__slots__) - {"id", "payload"}


class MemoryHarness(PublisherHarness):
    """A queue that takes parcels."""

    shows = EVERYTHING
    postpones_unwanted = True

    def __init__(self) -> None:
        self.publisher: MemoryPublisher = MemoryPublisher()
        self._parcels = self.publisher.queue("parcels", "parcel.#")

    def receive_letters(self) -> None:
        self.publisher.queue("parcels", "letter.#")

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
    postpones_unwanted = True

    def __init__(self) -> None:
        self._registry = registry = EventRegistry()
        registry.handles(ParcelSent, name="keep")(ParcelKeeper)
        self._keeper = ParcelKeeper()
        self.publisher: HandlersPublisher = HandlersPublisher(
            factory=lambda _: self._keeper, registry=registry
        )

    def receive_letters(self) -> None:
        self._registry.handles(LetterLost, name="keep")(ParcelKeeper)

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
        self.kept: list[ParcelSent | LetterLost] = []
        self.is_away = False

    async def handle(self, event: ParcelSent | LetterLost) -> None:
        if self.is_away:
            raise OutageError("the keeper is away")
        self.kept.append(event)


class TestHandlersPublisher(PublisherSuite):
    @pytest.fixture
    def harness(self) -> PublisherHarness:
        return HandlersHarness()


class RabbitMQHarness(PublisherHarness):
    """A queue of a real broker that takes parcels; without its exchange there is an outage."""

    shows = EVERYTHING
    postpones_unwanted = True

    def __init__(self, url: str) -> None:
        self.broker = Broker(url)
        self._name = name = f"suite.{uuid4()}"
        topology = Topology(
            exchanges=[Exchange(name)], queues=[Queue(name, [Binding(name, "parcel.#")])]
        )
        self.publisher: RabbitMQPublisher = RabbitMQPublisher(url, exchange=name, topology=topology)
        self._arrivals: list[Arrival] = []

    def receive_letters(self) -> None:
        self.broker.bind(self._name, self._name, "letter.#")

    async def arrived(self, *records: ClaimedRecord) -> Sequence[Arrival]:
        wanted = {record.id for record in records}
        await eventually(lambda: wanted <= {each.id for each in self._look()})
        return self._look()

    @asynccontextmanager
    async def outage(self) -> AsyncIterator[None]:
        self.broker.delete_exchange(self._name)
        yield  # opening declares it again

    def _look(self) -> list[Arrival]:
        self._arrivals += map(_arrival, self.broker.take(self._name))
        return self._arrivals


def _arrival(message: Received) -> Arrival:
    headers = dict(message.headers)
    headers.pop("created_at")
    return Arrival(
        id=UUID(message.message_id),
        payload=json.loads(message.body),
        event_type=headers.pop("event_type"),
        event_version=headers.pop("event_version"),
        aggregate_type=headers.pop("aggregate_type"),
        aggregate_id=headers.pop("aggregate_id"),
        position=headers.pop("position"),
        headers=headers,
    )


@pytest.fixture(scope="module")
def _vhost() -> Iterator[str]:
    """A vhost of the module's: each test has names of its own in it."""
    with temporary_vhost() as url:
        yield url


class TestRabbitMQPublisher(PublisherSuite):
    @pytest.fixture
    def harness(self, _vhost: str) -> Iterator[PublisherHarness]:
        harness = RabbitMQHarness(_vhost)
        yield harness
        harness.broker.close()


@pytest.mark.skipif(sys.platform == "win32", reason="uvloop does not run on Windows")
@pytest.mark.extended
class TestRabbitMQPublisherOnUvloop(TestRabbitMQPublisher):
    """Many servers run applications on uvloop, which is not quite asyncio. See conftest."""

    async def test_it_runs_on_uvloop(self) -> None:
        assert type(asyncio.get_running_loop()).__module__.startswith("uvloop")

"""What every publisher has to do. A harness tells the suite how to reach one, and what it is like.

A new publisher joins with a harness, and a class of tests that gives it:

    class TestMine(PublisherSuite):
        @pytest.fixture
        def harness(self) -> PublisherHarness:
            return MyHarness()
"""

import asyncio
import shutil
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar
from uuid import UUID

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from postroom import DomainEvent
from postroom.errors import OutageError
from postroom.identity import uuid7
from postroom.publishers.base import (
    DELIVERED,
    Outage,
    Outcome,
    Postponed,
    Publisher,
    ReportsWaitingRoutes,
    UsesOutbox,
)
from postroom.record import ClaimedRecord
from tests.support.claims import claimed
from tests.support.shop import outbox


@dataclass(frozen=True, kw_only=True)
class ParcelSent(DomainEvent, name="parcel.sent", aggregate="parcel", key="parcel_id", version=2):
    """What a harness has a receiver for."""

    parcel_id: UUID = field(default_factory=uuid7)
    note: str = ""
    contents: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class LetterLost(DomainEvent, name="letter.lost"):
    """What nobody receives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A record as it was received; None stands for what the receiver does not get to see."""

    id: UUID
    payload: Any
    event_type: str | None = None
    event_version: int | None = None
    headers: dict[str, Any] | None = None
    aggregate_type: str | None = None
    aggregate_id: str | None = None
    position: int | None = None


class PublisherHarness(ABC):
    """A publisher with somebody at its other end, who receives every ParcelSent.

    - `shows`: the parts of an Arrival that the receiver gets to see, beyond id and payload
    - `postpones_unwanted`: whether a record that nobody receives waits until somebody does, or is
      as good as delivered
    """

    shows: ClassVar[frozenset[str]]
    postpones_unwanted: ClassVar[bool]
    publisher: Publisher

    @abstractmethod
    async def arrived(self, *records: ClaimedRecord) -> Sequence[Arrival]:
        """Wait, not for ever, until these have arrived; give all that have."""

    def receive_letters(self) -> None:
        """Have somebody receive LetterLost from now on; needed if the unwanted is postponed."""
        raise NotImplementedError

    @abstractmethod
    def outage(self) -> AbstractAsyncContextManager[None]:
        """Have nobody there to deliver to, for a while."""


async def deliver(publisher: Publisher, records: Sequence[ClaimedRecord]) -> list[Outcome | Outage]:
    """Publish in calls as large as they may be; an outage may be raised or returned."""
    size = publisher.max_batch
    batches = [records[start : start + size] for start in range(0, len(records), size)]
    return [answer for batch in batches for answer in await _answers(publisher, batch)]


async def _answers(
    publisher: Publisher, records: Sequence[ClaimedRecord]
) -> Sequence[Outcome | Outage]:
    try:
        return await publisher.publish(records)
    except OutageError as error:
        return [Outage.of(error)] * len(records)


def parcels(count: int) -> list[ClaimedRecord]:
    return [claimed(ParcelSent(note=f"no. {n}"), position=n) for n in range(1, count + 1)]


def ids(arrivals: Sequence[Arrival]) -> list[UUID]:
    return sorted(arrival.id for arrival in arrivals)


def ids_of(records: Sequence[ClaimedRecord]) -> list[UUID]:
    return sorted(record.id for record in records)


class PublisherSuite:
    """The tests; a subclass gives the harness."""

    @pytest.fixture
    def harness(self) -> PublisherHarness:
        raise NotImplementedError

    @pytest.fixture
    async def database(self, tmp_path: Path, empty_file: Path) -> AsyncIterator[AsyncEngine]:
        file = shutil.copy(empty_file, tmp_path / "shop.db")
        engine = create_async_engine(f"sqlite+aiosqlite:///{file}")
        yield engine
        await engine.dispose()

    @pytest.fixture
    async def publisher(
        self, harness: PublisherHarness, database: AsyncEngine
    ) -> AsyncIterator[Publisher]:
        if isinstance(harness.publisher, UsesOutbox):
            harness.publisher.use(outbox, database)
        await harness.publisher.open()
        yield harness.publisher
        await harness.publisher.close()

    def test_its_limits_make_sense(self, harness: PublisherHarness) -> None:
        assert 1 <= harness.publisher.max_batch <= harness.publisher.max_in_flight

    def test_the_harness_says_what_its_receiver_sees(self, harness: PublisherHarness) -> None:
        assert harness.shows <= set(Arrival.__slots__) - {"id", "payload"}

    async def test_opening_it_twice_is_fine(
        self, harness: PublisherHarness, publisher: Publisher, database: AsyncEngine
    ) -> None:
        await publisher.open()
        [record] = parcels(1)
        assert await publisher.publish([record]) == [DELIVERED]
        assert ids(await harness.arrived(record)) == [record.id]

    async def test_closing_it_unopened_or_twice_is_fine(self, harness: PublisherHarness) -> None:
        await harness.publisher.close()
        await harness.publisher.close()

    async def test_it_can_be_opened_again(
        self, harness: PublisherHarness, publisher: Publisher, database: AsyncEngine
    ) -> None:
        await publisher.close()
        await publisher.open()
        [record] = parcels(1)
        assert await publisher.publish([record]) == [DELIVERED]
        assert ids(await harness.arrived(record)) == [record.id]

    async def test_a_record_arrives_exactly(
        self, harness: PublisherHarness, publisher: Publisher
    ) -> None:
        contents = {"ü": "💌", "deep": [1, None, {"x": 1.5, "y": []}], "big": 2**53, "no": False}
        headers = {"traceparent": "00-1", "nested": {"user": "Ünal"}}
        event = ParcelSent(note="a 'quoted' \\ note", contents=contents)
        record = claimed(event, position=2**40, headers=headers)
        assert await publisher.publish([record]) == [DELIVERED]
        [arrival] = await harness.arrived(record)
        assert (arrival.id, arrival.payload) == (event.event_id, record.payload)
        for part in sorted(harness.shows):
            assert getattr(arrival, part) == getattr(record, part), part

    async def test_a_record_is_left_as_it_was(self, publisher: Publisher) -> None:
        record = claimed(ParcelSent(), headers={"nested": {"a": [1]}})
        before = deepcopy(record)
        await publisher.publish([record])
        assert record == before

    async def test_no_records_give_no_outcomes(self, publisher: Publisher) -> None:
        assert list(await publisher.publish([])) == []

    async def test_a_full_batch_arrives_whole(
        self, harness: PublisherHarness, publisher: Publisher
    ) -> None:
        records = parcels(publisher.max_batch)
        assert list(await publisher.publish(records)) == [DELIVERED] * len(records)
        assert ids(await harness.arrived(*records)) == sorted(one.id for one in records)

    async def test_outcomes_are_in_the_order_of_the_records(
        self, harness: PublisherHarness, publisher: Publisher
    ) -> None:
        wanted = [number % 3 != 1 for number in range(10)]
        records = [claimed(ParcelSent() if one else LetterLost()) for one in wanted]
        outcomes = await deliver(publisher, records)
        postponed = [isinstance(outcome, Postponed) for outcome in outcomes]
        assert postponed == [harness.postpones_unwanted and not one for one in wanted]
        expected = [one for one in records if one.event_type == "parcel.sent"]
        assert ids(await harness.arrived(*expected)) == sorted(one.id for one in expected)

    async def test_what_nobody_receives_waits_until_somebody_does_or_is_done(
        self, harness: PublisherHarness, publisher: Publisher
    ) -> None:
        letters = [claimed(LetterLost()) for _ in range(min(5, publisher.max_batch))]
        for _ in range(3):
            outcomes = await publisher.publish(letters)
            if not harness.postpones_unwanted:
                assert outcomes == [DELIVERED] * len(letters)
                return
            for outcome in outcomes:
                assert isinstance(outcome, Postponed)
                assert "letter.lost" in outcome.reason
                assert timedelta() < outcome.delay <= timedelta(seconds=30)
        harness.receive_letters()
        assert await publisher.publish(letters) == [DELIVERED] * len(letters)
        assert ids(await harness.arrived(*letters)) == ids_of(letters)

    async def test_it_reports_the_route_that_records_wait_for_until_they_have_arrived(
        self, harness: PublisherHarness, publisher: Publisher
    ) -> None:
        if not harness.postpones_unwanted:
            assert not isinstance(publisher, ReportsWaitingRoutes)
            return
        assert isinstance(publisher, ReportsWaitingRoutes)
        letters = [claimed(LetterLost()) for _ in range(3)]
        for _ in range(2):
            await publisher.publish([*letters, *parcels(2)])
        [waiting] = publisher.waiting_routes()
        assert waiting.records == 3
        assert "letter.lost" in waiting.route
        assert "letter.lost" in waiting.reason
        harness.receive_letters()
        await publisher.publish(letters)
        assert list(publisher.waiting_routes()) == []

    async def test_a_record_that_waits_does_not_disturb_what_comes_after(
        self, harness: PublisherHarness, publisher: Publisher
    ) -> None:
        await publisher.publish([claimed(LetterLost())])
        [record] = parcels(1)
        assert await publisher.publish([record]) == [DELIVERED]
        assert ids(await harness.arrived(record)) == [record.id]

    async def test_a_large_record_arrives_whole(
        self, harness: PublisherHarness, publisher: Publisher
    ) -> None:
        record = claimed(ParcelSent(note="0123456789ä" * 100_000))
        assert await publisher.publish([record]) == [DELIVERED]
        [arrival] = await harness.arrived(record)
        assert arrival.payload == record.payload

    async def test_a_record_that_comes_again_is_delivered_again(self, publisher: Publisher) -> None:
        [record] = parcels(1)
        for _ in range(3):  # as after a crash before it was settled
            assert await publisher.publish([record]) == [DELIVERED]

    async def test_calls_overlap(self, harness: PublisherHarness, publisher: Publisher) -> None:
        size = min(publisher.max_batch, 5)
        calls = min(publisher.max_in_flight // size, 10)
        records = parcels(size * calls)
        batches = [records[start : start + size] for start in range(0, len(records), size)]
        outcomes = await asyncio.gather(*map(publisher.publish, batches))
        assert [list(each) for each in outcomes] == [[DELIVERED] * size] * calls
        assert ids(await harness.arrived(*records)) == sorted(one.id for one in records)

    async def test_a_record_that_waits_does_not_disturb_calls_beside_it(
        self, harness: PublisherHarness, publisher: Publisher
    ) -> None:
        records = [claimed(ParcelSent() if n % 2 else LetterLost()) for n in range(8)]
        await asyncio.gather(*(publisher.publish([record]) for record in records))
        expected = [one for one in records if one.event_type == "parcel.sent"]
        assert ids(await harness.arrived(*expected)) == sorted(one.id for one in expected)

    @pytest.mark.parametrize("steps", [0, 1, 2, 3, 5])
    async def test_a_record_whose_call_was_cancelled_can_be_sent_again(
        self, harness: PublisherHarness, publisher: Publisher, steps: int
    ) -> None:
        [record] = parcels(1)
        call = asyncio.ensure_future(publisher.publish([record]))
        for _ in range(steps):
            await asyncio.sleep(0)
        call.cancel()
        await asyncio.wait([call])
        assert await publisher.publish([record]) == [DELIVERED]
        assert record.id in ids(await harness.arrived(record))

    @pytest.mark.parametrize("steps", [0, 1, 3])
    async def test_a_call_that_is_cancelled_leaves_it_usable(
        self, harness: PublisherHarness, publisher: Publisher, steps: int
    ) -> None:
        [cancelled, record] = parcels(2)
        call = asyncio.ensure_future(publisher.publish([cancelled]))
        for _ in range(steps):
            await asyncio.sleep(0)
        call.cancel()
        await asyncio.wait([call])
        assert await publisher.publish([record]) == [DELIVERED]
        assert record.id in ids(await harness.arrived(record))

    async def test_an_outage_counts_nobody(
        self, harness: PublisherHarness, publisher: Publisher, database: AsyncEngine
    ) -> None:
        records = parcels(min(publisher.max_batch, 3))
        async with harness.outage():
            answers = await deliver(publisher, records)
        assert [type(answer) for answer in answers] == [Outage] * len(records)
        await publisher.open()
        assert list(await publisher.publish(records)) == [DELIVERED] * len(records)
        assert set(ids(await harness.arrived(*records))) == {one.id for one in records}

    async def test_an_outage_is_told_to_every_call_that_overlaps(
        self, harness: PublisherHarness, publisher: Publisher, database: AsyncEngine
    ) -> None:
        records = parcels(min(publisher.max_in_flight, 3))
        async with harness.outage():
            calls = (deliver(publisher, [record]) for record in records)
            answers = await asyncio.gather(*calls)
        assert [type(answer) for [answer] in answers] == [Outage] * len(records)
        await publisher.open()
        assert await deliver(publisher, records) == [DELIVERED] * len(records)

    async def test_it_can_be_closed_during_an_outage(
        self, harness: PublisherHarness, publisher: Publisher
    ) -> None:
        async with harness.outage():
            await publisher.close()

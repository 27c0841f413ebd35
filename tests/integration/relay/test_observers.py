"""What a relay tells its observers, on both databases."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine, async_sessionmaker

from postroom import (
    ClaimedRecord,
    Delivered,
    MemoryPublisher,
    Outage,
    OutboxRelay,
    Outcome,
    Refused,
    RelayObserver,
    RetrySchedule,
    UntypedEvent,
    Verdict,
)
from postroom.testing import RecordingPublisher
from tests.support.shop import outbox
from tests.support.waiting import eventually

call = ContextVar("call", default="none")
LATER = RetrySchedule.seconds(3600)


class Notes(RelayObserver):
    """Notes all that it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[object, ...]] = []
        self.statements: set[str] = set()

    def of(self, kind: str) -> list[tuple[object, ...]]:
        return [each[1:] for each in self.told if each[0] == kind]

    @asynccontextmanager
    async def running(self, relay: OutboxRelay) -> AsyncIterator[None]:
        self.told.append(("started", relay.outbox))
        try:
            yield
        finally:
            self.told.append(("ended", relay.outbox))

    def claimed(self, records: int, seconds: float) -> None:
        if records:
            self.told.append(("claimed", records))

    @contextmanager
    def publishing(self, records: Sequence[ClaimedRecord]) -> Iterator[None]:
        token = call.set("observed")
        try:
            yield
        except asyncio.CancelledError:
            self.told.append(("cancelled", len(records)))
            raise
        finally:
            call.reset(token)

    def published(
        self, records: Sequence[ClaimedRecord], answers: Sequence[Outcome | Outage], seconds: float
    ) -> None:
        assert seconds >= 0
        kinds = sorted(type(each).__name__ for each in answers)
        self.told.append(("published", len(records), *kinds, call.get()))

    def delivered(self, records: Sequence[ClaimedRecord]) -> None:
        self.told.append(("delivered", *sorted(each.event_type for each in records)))

    def not_delivered(self, record: ClaimedRecord, verdict: Verdict, reason: str | None) -> None:
        self.told.append(("not delivered", record.event_type, verdict, reason))

    def breaker_changed(self, name: str, state: str) -> None:
        self.told.append(("breaker", name, state))

    def listener_changed(self, *, connected: bool) -> None:
        self.told.append(("listener", connected))

    def statement_run(self, name: str, seconds: float) -> None:
        self.statements.add(name)


class Faulty(RelayObserver):
    """Raises whatever it is told, in `publishing` at the end of the call."""

    def _fail(self, *args: object, **options: object) -> None:
        raise RuntimeError("no room for one more series")

    running = claimed = published = delivered = not_delivered = _fail
    breaker_changed = listener_changed = statement_run = _fail

    @contextmanager
    def publishing(self, records: Sequence[ClaimedRecord]) -> Iterator[None]:
        yield
        raise RuntimeError("the span is lost")


class AskingPublisher(MemoryPublisher):
    """Notes in which context it is called."""

    def __init__(self) -> None:
        super().__init__()
        self.context: set[str] = set()

    async def publish(self, records: Sequence[ClaimedRecord]) -> Sequence[Outcome]:
        self.context.add(call.get())
        return await super().publish(records)


async def save(engine: AsyncEngine, *names: str) -> None:
    async with async_sessionmaker(engine).begin() as session:
        events = [UntypedEvent(event_type=each, payload={}, aggregate_id=each) for each in names]
        await outbox.dispatcher(session).dispatch(events)


@pytest.mark.requirement("E8")
async def test_an_observer_is_told_of_claims_deliveries_and_refusals(database: AsyncEngine) -> None:
    notes, publisher = Notes(), RecordingPublisher()
    publisher.refuse("refused", "no")
    publisher.refuse("failed", "never", permanent=True)
    await save(database, "one", "two", "refused", "failed")
    await OutboxRelay(outbox, database, publisher, retry=LATER, observers=[notes]).run_once()
    assert [notes.told[0], notes.told[-1]] == [("started", outbox), ("ended", outbox)]
    assert notes.of("claimed") == [(4,)]
    [(count, *answers, context)] = notes.of("published")
    assert (count, context) == (4, "observed")
    assert answers == [Delivered.__name__] * 2 + [Refused.__name__] * 2
    assert notes.of("delivered") == [("one", "two")]
    assert sorted(notes.of("not delivered")) == [
        ("failed", Verdict.FAILED, "never"),
        ("refused", Verdict.RETRY, "no"),
    ]


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
async def test_the_publisher_is_called_within_the_context_of_an_observer(
    database: AsyncEngine,
) -> None:
    publisher = AskingPublisher()
    await save(database, "one")
    await OutboxRelay(outbox, database, publisher, observers=[Notes()]).run_once()
    assert publisher.context == {"observed"}


async def test_every_statement_of_a_relay_has_a_name(database: AsyncEngine) -> None:
    notes, publisher = Notes(), RecordingPublisher()
    publisher.refuse("refused", "no")
    await save(database, "one", "refused")
    relay = OutboxRelay(outbox, database, publisher, observers=[notes])
    async with relay.running():
        await eventually(lambda: relay.idle and notes.of("delivered"))
    assert {"claims.ready_and_due", "settlement.delivered_free", "leases.look"} <= notes.statements
    assert "commit" in notes.statements
    assert "other" not in notes.statements


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
async def test_an_observer_that_raises_is_logged_once_and_disturbs_nothing(
    database: AsyncEngine, caplog: pytest.LogCaptureFixture
) -> None:
    publisher, notes = RecordingPublisher(), Notes()
    publisher.refuse("refused", "no")
    await save(database, *map(str, range(50)), "refused")
    relay = OutboxRelay(outbox, database, publisher, retry=LATER, observers=[Faulty(), notes])
    with caplog.at_level(logging.ERROR, "postroom.relay"):
        assert (await relay.run_once()).delivered == 50
    about = [each for each in caplog.messages if "observer" in each]
    assert about == ["postroom: the observer Faulty failed; deliveries go on"]
    assert len(notes.of("delivered")[0]) == 50


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
async def test_an_outage_is_a_change_of_the_breaker(database: AsyncEngine) -> None:
    notes, publisher = Notes(), RecordingPublisher()
    relay = OutboxRelay(outbox, database, publisher, observers=[notes])
    publisher.outage = "the broker is away"
    async with relay.running():
        await save(database, "one")
        await eventually(lambda: ("the publisher", "open") in notes.of("breaker"))
        publisher.outage = None
        await eventually(lambda: notes.of("delivered"))
    assert notes.of("breaker")[-1] == ("the publisher", "closed")


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
async def test_a_call_that_is_cancelled_ends_its_context_with_the_error(
    database: AsyncEngine,
) -> None:
    class Stuck(MemoryPublisher):
        async def publish(self, records: Sequence[ClaimedRecord]) -> Sequence[Outcome]:
            begun.set()
            await asyncio.Event().wait()
            return []

    begun, notes = asyncio.Event(), Notes()
    await save(database, "one")
    task = asyncio.create_task(OutboxRelay(outbox, database, Stuck(), observers=[notes]).run_once())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert notes.of("cancelled") == [(1,)]
    assert notes.of("published") == []


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
async def test_a_relay_that_is_cancelled_while_it_starts_ends_what_it_has_begun(
    database: AsyncEngine,
) -> None:
    class Slow(RelayObserver):
        @asynccontextmanager
        async def running(self, relay: OutboxRelay) -> AsyncIterator[None]:
            begun.set()
            await asyncio.Event().wait()
            yield

    begun, notes = asyncio.Event(), Notes()
    relay = OutboxRelay(outbox, database, MemoryPublisher(), observers=[notes, Slow()])
    task = asyncio.create_task(relay.run())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert notes.told == [("started", outbox), ("ended", outbox)]


async def test_a_lost_connection_of_the_listener_is_told_and_the_next_one(
    engine: AsyncEngine,
) -> None:
    notes = Notes()
    relay = OutboxRelay(outbox, engine, MemoryPublisher(), observers=[notes])
    async with relay.running():
        await eventually(lambda: notes.of("listener") == [(True,)])
        async with engine.begin() as connection:
            await connection.execute(
                text("""SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                    WHERE query LIKE 'LISTEN%' AND datname = current_database()""")
            )
        await eventually(lambda: notes.of("listener") == [(True,), (False,), (True,)])

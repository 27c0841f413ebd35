"""The page of states says what really becomes of a record: each row of its tables is tried."""

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import pytest
import pytest_asyncio
from sqlalchemy import MetaData, select, update
from sqlalchemy.ext.asyncio import create_async_engine

from postroom import Delayed, OutageError, Outbox, OutboxRelay, RetrySchedule, UntypedEvent
from postroom.actions import ACTIONS
from postroom.errors import RecordNotFoundError
from postroom.inspection import Inspector, RecordState
from postroom.operations import Operations
from postroom.testing import FakeClock, RecordingPublisher
from tests.docs.pages import ROOT

pytestmark = pytest.mark.extended
PAGE = ROOT / "docs/reference/states.md"
DELAY = timedelta(minutes=1)
ROW = re.compile(r"^\| (.+) \| (.+) \| (.+) \|$", re.MULTILINE)
CODE = re.compile(r"`(\w+)`")
STATES, CHANGES, OF_OPERATORS = [ROW.findall(part)[1:] for part in PAGE.read_text().split("\n## ")]
COMMANDS = [
    (command.strip("`"), state, next_state)
    for command, states, next_state in OF_OPERATORS
    for state in CODE.findall(states)
]


class World:
    """An outbox on SQLite, whose records all have one type and one key."""

    def __init__(self, path: Path) -> None:
        self.clock, self.publisher = FakeClock(), RecordingPublisher()
        self.outbox = Outbox(MetaData(), max_retries=3)
        self.engine = create_async_engine(f"sqlite+aiosqlite:///{path}")
        shift = self.clock.shift
        self.inspector = Inspector(self.outbox, self.engine, shift=shift)
        self.operations = Operations(self.outbox, self.engine, shift=shift)
        schedule = RetrySchedule.seconds(DELAY.total_seconds(), forever=True)
        self.relay = OutboxRelay(
            self.outbox, self.engine, self.publisher, retry=schedule, clock=self.clock
        )

    async def save(self, *, delayed: bool = False) -> UUID:
        event = UntypedEvent(
            event_type="order.paid", aggregate_type="order", aggregate_id=7, payload={}
        )
        later = Delayed(event, datetime.now(UTC) + DELAY)
        async with self.engine.begin() as connection:
            await self.outbox.save(connection, [later if delayed else event])
        return event.event_id

    async def refuse(self, *, permanent: bool = False) -> None:
        self.publisher.refuse("order.paid", permanent=permanent)
        await self.relay.run_once()

    async def state(self, record: UUID) -> str:
        try:
            return str((await self.inspector.record(str(record))).record.state)
        except RecordNotFoundError:
            return "deleted"

    # -- a record in each state

    async def ready(self) -> UUID:
        return await self.save()

    async def waiting(self) -> UUID:
        record = await self.save()
        await self.refuse()
        return record

    async def parked(self) -> UUID:
        self.blocker = await self.failed()
        record = await self.save()
        await self.relay.run_once()
        return record

    async def paused(self) -> UUID:
        record = await self.save()
        await self.operations.pause()
        await self.relay.run_once()
        return record

    async def failed(self) -> UUID:
        record = await self.save()
        await self.refuse(permanent=True)
        return record

    async def published(self) -> UUID:
        record = await self.save()
        await self.relay.run_once()
        return record

    # -- what happens to it

    async def postponed(self) -> None:
        self.publisher.queue("another", "another.type")
        await self.relay.run_once()

    async def quarantined(self) -> None:
        """Deliver it after four workers have died while they did."""
        await self.relay.store.open()
        records, leases = self.outbox.tables.records, self.outbox.tables.leases
        suspect = select(records.c.id).scalar_subquery()
        async with self.engine.begin() as connection:
            await connection.execute(update(leases).values(suspect=suspect, suspect_crashes=4))
        await self.relay.run_once()

    async def outage(self) -> None:
        self.publisher.outage = "the broker is down"
        with pytest.raises(OutageError):
            await self.relay.run_once()

    async def due(self) -> None:
        self.clock.advance(2 * DELAY)
        await self.relay.run_once()

    async def due_and_refused(self, times: int = 1) -> None:
        for _ in range(times):
            self.publisher.refuse("order.paid")
            await self.due()

    async def retention_ends(self) -> None:
        self.clock.advance(timedelta(days=8))
        await self.relay.clean()


@pytest_asyncio.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    world = World(tmp_path / "outbox.db")
    async with world.engine.begin() as connection:
        await connection.run_sync(world.outbox.create_tables)
    yield world
    await world.engine.dispose()


QUARANTINE = (
    "it is quarantined: [workers died](../explanation/delivery.md#when-a-worker-dies) while they"
    " delivered it"
)
Event = Callable[[World], Awaitable[object]]
EVENTS: dict[str, Event] = {
    "it is delivered": lambda it: it.relay.run_once(),
    "it is refused, and has retries left": lambda it: it.refuse(),
    "it is postponed: its route cannot be used, or no handler of the worker knows its type or"
    " version": lambda it: it.postponed(),
    QUARANTINE: lambda it: it.quarantined(),
    "it is refused for the last time, or permanently": lambda it: it.refuse(permanent=True),
    "an outage begins, or its worker is killed": lambda it: it.outage(),
    "its time comes, and it is delivered": lambda it: it.due(),
    "its time comes, and it is refused": lambda it: it.due_and_refused(),
    "its time comes, and it is refused for the last time": lambda it: it.due_and_refused(times=2),
    "the record that blocks its key is delivered, skipped or discarded": lambda it: (
        it.operations.skip([it.blocker])
    ),
    "its retention ends": lambda it: it.retention_ends(),
}


async def first_event(world: World, event: str) -> UUID:
    """Bring about the events that a record does not begin in the state of their row for."""
    match event:
        case "its transaction commits":
            return await world.save()
        case "its transaction commits, and the event is `Delayed`":
            return await world.save(delayed=True)
        case "an earlier record of its key is refused, postponed or fails":
            await world.save()
            record = await world.save()
            await world.refuse()
            return record
        case "its time comes, and an earlier record of its key waits or has failed":
            await world.failed()
            record = await world.save(delayed=True)
            await world.due()
            return record
    pytest.fail(f"no test knows how to bring about: {event}")


@pytest.mark.parametrize(("state", "event", "next_state"), CHANGES)
async def test_a_change_is_what_the_page_says(
    world: World, state: str, event: str, next_state: str
) -> None:
    if event in EVENTS:
        record = await getattr(world, state.strip("`"))()
        assert await world.state(record) == state.strip("`")
        await EVENTS[event](world)
    else:
        record = await first_event(world, event)
    assert await world.state(record) == next_state.strip("`")


@pytest.mark.parametrize(("command", "state", "next_state"), COMMANDS)
async def test_a_command_does_what_the_page_says(
    world: World, command: str, state: str, next_state: str
) -> None:
    record = await getattr(world, state)()
    assert await world.state(record) == state
    match command:
        case "pause" | "resume":
            await getattr(world.operations, command)()
        case "purge":
            await world.operations.purge(older_than=timedelta())
        case _:
            assert await getattr(world.operations, command)([record]) == 1
    expected = "deleted" if next_state.startswith("deleted") else CODE.findall(next_state)[0]
    assert await world.state(record) == expected
    if "due at once" in next_state:
        assert (await world.inspector.record(str(record))).record.retry_count == 0
        await world.relay.run_once()
        assert await world.state(record) == "published"


def test_the_states_are_those_of_the_code() -> None:
    assert [row[0].strip("`") for row in STATES] == [str(each) for each in RecordState]


def test_the_commands_are_for_the_states_that_the_code_says() -> None:
    for name, action in ACTIONS.items():
        states = [state for command, state, _ in COMMANDS if command == name]
        assert states == [str(each) for each in action.changes]

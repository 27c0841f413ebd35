"""The dispatcher on real databases: events are saved with the data, or not at all."""

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine, event, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker
from sqlalchemy.orm import Session

from postroom import (
    CaptureError,
    DomainEvent,
    EventDispatcher,
    OutboxRecord,
    UntypedEvent,
    deserialize_event,
)
from tests.support.shop import Account, AccountOpened, AccountRenamed, Note, outbox
from tests.support.story import story

pytestmark = pytest.mark.no_cover  # others cover the same, for less time


IN_ORDER = select(OutboxRecord).order_by(outbox.tables.records.c.position)
bounded = settings(
    max_examples=10,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


class Kind(StrEnum):
    TICKED = "clock.ticked"


@dataclass(frozen=True, kw_only=True)
class FullNameTold(DomainEvent, naming="qualified", version=2, aggregate="Teller", key="teller"):
    teller: UUID


@dataclass(frozen=True, kw_only=True)
class ClockTicked(DomainEvent):
    number: int


def account() -> Account:
    """A row without events of its own: the use case dispatches them."""
    return Account(id=uuid4(), name="Ann", email="a@b.com")


def opened(account: Account) -> AccountOpened:
    return AccountOpened(account_id=account.id, email=account.email)


def saved(session: Session) -> list[OutboxRecord]:
    return list(session.scalars(IN_ORDER))


@pytest.mark.requirement("A3", "B1")
async def test_it_is_an_event_dispatcher(engine: AsyncEngine) -> None:
    async with AsyncSession(engine) as session:
        dispatcher: EventDispatcher = outbox.dispatcher(session)  # mypy proves the protocol
        await dispatcher.dispatch([ClockTicked(number=1)])
        assert len(session.new) == 1
        session.expunge_all()


@pytest.mark.requirement("A3")
async def test_dispatching_never_flushes_or_commits(engine: AsyncEngine) -> None:
    calls: list[str] = []
    async with AsyncSession(engine) as session:
        for name in ("before_flush", "before_commit", "after_begin", "after_commit"):
            event.listen(session.sync_session, name, lambda *_, name=name: calls.append(name))
        await outbox.dispatcher(session).dispatch([ClockTicked(number=n) for n in range(3)])
        assert calls == []
        assert len(session.new) == 3
        assert not session.in_transaction() or session.new
        async with AsyncSession(engine) as other:
            assert (await other.scalars(IN_ORDER)).all() == []
        await session.commit()
    assert calls[-1] == "after_commit"


@pytest.mark.requirement("A3", "A4", "E4")
@story
def test_one_event_gives_one_record(session: Session) -> None:
    row = account()
    one = opened(row)
    outbox.dispatcher(session).dispatch_sync([one])
    session.commit()
    [record] = saved(session)
    assert record.id == one.event_id
    assert record.event_type == "AccountOpened"
    assert (record.aggregate_type, record.aggregate_id) == ("account", str(row.id))
    assert record.occurred_at == one.occurred_at
    assert (record.status, record.retry_count, record.delivered) == ("pending", 0, False)
    assert record.payload["email"] == "a@b.com"
    assert deserialize_event(record.event_type, record.payload) == one


@pytest.mark.requirement("A4", "E4")
@story
def test_several_events_give_several_records_in_order(session: Session) -> None:
    """Some with a key, some without: SQLAlchemy groups the rows of an insert by their columns."""

    events: list[Any] = []
    for number in range(500):
        key = number % 7 if number % 3 else None
        payload = {"number": number}
        events.append(UntypedEvent(event_type="tick", payload=payload, aggregate_id=key))
    outbox.dispatcher(session).dispatch_sync(events)
    session.commit()
    assert [record.payload["number"] for record in saved(session)] == list(range(500))
    assert [record.id for record in saved(session)] == [one.event_id for one in events]


@pytest.mark.requirement("A4")
@story
def test_several_dispatches_of_a_transaction_keep_their_order(session: Session) -> None:
    for number in range(10):
        outbox.dispatcher(session).dispatch_sync([ClockTicked(number=number)])
        if number % 4 == 0:
            session.flush()
    session.commit()
    assert [record.payload["number"] for record in saved(session)] == list(range(10))


@pytest.mark.requirement("A5")
@story
def test_record_and_aggregate_commit_together(session: Session) -> None:
    row = account()
    session.add(row)
    outbox.dispatcher(session).dispatch_sync([opened(row)])
    session.commit()
    assert session.scalars(select(Account.id)).all() == [row.id]
    assert [record.aggregate_id for record in saved(session)] == [str(row.id)]


@pytest.mark.requirement("A5")
@pytest.mark.parametrize("flushed", [True, False])
@story
def test_a_rollback_leaves_neither(session: Session, flushed: bool) -> None:
    row = account()
    session.add(row)
    outbox.dispatcher(session).dispatch_sync([opened(row)])
    if flushed:
        session.flush()
        assert len(saved(session)) == 1
    session.rollback()
    assert session.scalars(select(Account)).all() == []
    assert saved(session) == []


@pytest.mark.requirement("A5")
async def test_an_aggregate_that_cannot_be_saved_takes_the_record_with_it(
    sync_engine: Engine,
) -> None:
    with Session(sync_engine) as session:
        row = account()
        one = opened(row)
        session.add(row)
        session.commit()
        session.expunge_all()
        session.add(Account(id=one.account_id, name="Bob", email="b@c.com"))
        outbox.dispatcher(session).dispatch_sync([one])
        with pytest.raises(IntegrityError):
            session.commit()
        session.rollback()
        assert saved(session) == []


@pytest.mark.requirement("A5")
async def test_a_commit_that_fails_leaves_neither(engine: AsyncEngine) -> None:
    async with AsyncSession(engine) as session:
        row = account()
        row.referrer_id = uuid4()  # nobody: only the COMMIT notices
        session.add(row)
        await outbox.dispatcher(session).dispatch([opened(row)])
        with pytest.raises(IntegrityError):
            await session.commit()
        await session.rollback()
        assert (await session.scalars(IN_ORDER)).all() == []
        assert (await session.scalars(select(Account))).all() == []


@pytest.mark.requirement("A5")
async def test_a_use_case_dispatches_what_its_aggregate_collected(engine: AsyncEngine) -> None:
    class UnitOfWork:
        def __init__(self, session: AsyncSession) -> None:
            self.session = session

        async def commit(self) -> None:
            await self.session.commit()

    async def sign_up(unit_of_work: UnitOfWork, dispatcher: EventDispatcher) -> None:
        account = Account.open("Ann")
        account.rename("Anna")
        unit_of_work.session.add(account)
        await dispatcher.dispatch(account.collect_events())
        await unit_of_work.commit()

    async with AsyncSession(engine) as session:
        await sign_up(UnitOfWork(session), outbox.dispatcher(session))
        types = [record.event_type for record in await session.scalars(IN_ORDER)]
        assert types == [AccountOpened.__name__, AccountRenamed.__name__]


@story
def test_a_savepoint_that_is_rolled_back_takes_its_records_along(session: Session) -> None:
    dispatcher = outbox.dispatcher(session)
    dispatcher.dispatch_sync([ClockTicked(number=1)])
    with session.begin_nested() as savepoint:
        dispatcher.dispatch_sync([ClockTicked(number=2)])
        savepoint.rollback()
    dispatcher.dispatch_sync([ClockTicked(number=3)])
    session.commit()
    assert [record.payload["number"] for record in saved(session)] == [1, 3]


@pytest.mark.requirement("D4")
@story
def test_a_record_can_have_the_full_name_of_its_class(session: Session) -> None:
    teller = uuid4()
    outbox.dispatcher(session).dispatch_sync([FullNameTold(teller=teller)])
    session.commit()
    [record] = saved(session)
    assert record.event_type == f"{__name__}.FullNameTold"
    assert record.event_version == 2
    assert (record.aggregate_type, record.aggregate_id) == ("Teller", str(teller))
    assert record.status == "pending"
    assert record.payload["event_version"] == 2


@pytest.mark.requirement("C1")
@story
def test_an_event_without_a_class_is_saved(session: Session) -> None:
    when = datetime(2026, 2, 8, tzinfo=UTC)
    message = uuid4()
    outbox.dispatcher(session).dispatch_sync(
        [
            UntypedEvent(
                event_type="group_message.created",
                aggregate_type="group_message",
                aggregate_id=message,
                payload={"id": str(message), "groups": [1, 2], "at": None},
                occurred_at=when,
            )
        ]
    )
    session.commit()
    [record] = saved(session)
    assert record.event_type == "group_message.created"
    assert (record.aggregate_type, record.aggregate_id) == ("group_message", str(message))
    assert record.payload == {"id": str(message), "groups": [1, 2], "at": None}
    assert record.occurred_at == when


@story
def test_an_event_type_may_be_a_member_of_an_enum(session: Session) -> None:
    tick = UntypedEvent(event_type=Kind.TICKED, payload={}, aggregate_type=Kind.TICKED)
    outbox.dispatcher(session).dispatch_sync([tick])
    session.commit()
    [record] = saved(session)
    assert (record.event_type, record.aggregate_type) == ("clock.ticked", "clock.ticked")


@story
def test_an_event_may_take_its_values_from_what_the_database_gave(session: Session) -> None:
    """Drivers have types of their own: asyncpg's UUID is a subclass of Python's."""

    session.add(account())
    session.commit()
    session.expunge_all()
    [row] = session.scalars(select(Account))
    event = opened(row)
    outbox.dispatcher(session).dispatch_sync([event])
    session.commit()
    [record] = saved(session)
    assert record.aggregate_id == str(event.account_id)
    assert deserialize_event(record.event_type, record.payload) == event


@story
def test_a_refused_event_leaves_the_transaction_usable(session: Session) -> None:
    session.add(Note(text="before"))
    dispatcher = outbox.dispatcher(session)
    bad = UntypedEvent(event_type="bad", payload={"x": float("nan")})
    with pytest.raises(CaptureError):
        dispatcher.dispatch_sync([ClockTicked(number=1), bad])
    dispatcher.dispatch_sync([ClockTicked(number=2)])
    session.commit()
    assert [record.payload["number"] for record in saved(session)] == [2]
    assert session.scalars(select(Note.text)).all() == ["before"]


@story
def test_the_same_event_saved_again_is_refused_by_the_database(session: Session) -> None:
    """The commit was answered by a broken connection; the use case runs again."""

    one = ClockTicked(number=1)
    outbox.dispatcher(session).dispatch_sync([one])
    session.commit()
    session.expunge_all()
    session.add(Note(text="again"))
    outbox.dispatcher(session).dispatch_sync([one])
    with pytest.raises(IntegrityError):
        session.commit()
    session.rollback()
    assert len(saved(session)) == 1
    assert session.scalars(select(Note)).all() == []


@bounded
@given(st.lists(st.datetimes(timezones=st.timezones(), min_value=datetime(1900, 1, 1)), max_size=5))  # noqa: DTZ001  hypothesis adds the zone
def test_the_moment_is_the_same_in_any_zone(sync_database: Engine, moments: list[datetime]) -> None:
    moments = [moment for moment in moments if moment.year < 9999]
    with Session(sync_database) as session:
        outbox.dispatcher(session).dispatch_sync(
            [UntypedEvent(event_type="x", payload={}, occurred_at=moment) for moment in moments]
        )
        session.flush()
        session.expunge_all()
        stored = [record.occurred_at for record in saved(session)]
        assert [moment.astimezone(UTC) for moment in moments] == stored
        assert all(moment.utcoffset() == timedelta(0) for moment in stored)
        session.rollback()


async def test_sessions_that_capture_at_once_do_not_disturb_each_other(engine: AsyncEngine) -> None:
    sessions = async_sessionmaker(engine)
    barrier = asyncio.Barrier(8)

    async def write(writer: int) -> None:
        async with sessions() as session:
            for number in range(25):
                await outbox.dispatcher(session).dispatch(
                    [
                        UntypedEvent(
                            event_type="written",
                            aggregate_type="writer",
                            aggregate_id=writer,
                            payload={"writer": writer, "number": number},
                        )
                    ]
                )
            await barrier.wait()  # all have captured, none has flushed
            await session.commit()

    await asyncio.gather(*(write(writer) for writer in range(8)))
    async with sessions() as session:
        records = (await session.scalars(IN_ORDER)).all()
        by_writer = {
            writer: [r.payload["number"] for r in records if r.payload["writer"] == writer]
            for writer in range(8)
        }
        partitions = {record.aggregate_id: record.partition for record in records}
        assert all(record.partition == partitions[record.aggregate_id] for record in records)
    assert by_writer == {writer: list(range(25)) for writer in range(8)}

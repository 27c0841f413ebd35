"""Two outboxes in one process: each with a record class, a table and rules of its own."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, MetaData, select, text
from sqlalchemy.event import listen
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from postroom import (
    CaptureError,
    ConfigurationError,
    DomainEvent,
    EventBus,
    EventRegistry,
    Outbox,
    OutboxRecord,
    UntypedEvent,
    deserialize_event,
)
from tests.support.program import run_program
from tests.support.shop import Account
from tests.support.shop import outbox as first


class AuditRecord(OutboxRecord):
    pass


class WatchRecord(OutboxRecord):
    pass


second = Outbox(
    MetaData(),
    table="audit",
    record=AuditRecord,
    events=EventRegistry(),
    max_retries=3,
    max_payload_bytes=300,
    headers=lambda: {"audit": True},
)

third = Outbox(MetaData(), table="watch", record=WatchRecord)

# The subclass first, the class itself after it: the order of imports must not matter.
OTHER_WAY_ROUND = """
from sqlalchemy import MetaData, create_engine, select
from sqlalchemy.orm import Session
from postroom import Outbox, OutboxRecord, UntypedEvent

class Audit(OutboxRecord):
    pass

metadata = MetaData()
{definitions}
engine = create_engine("sqlite://")
metadata.create_all(engine)
with Session(engine) as session:
    one.dispatcher(session).dispatch_sync([UntypedEvent(event_type="one", payload={{}})])
    two.dispatcher(session).dispatch_sync([UntypedEvent(event_type="two", payload={{}})])
    session.commit()
    session.expunge_all()
    assert [record.event_type for record in session.scalars(select(OutboxRecord))] == ["one"]
    assert [record.event_type for record in session.scalars(select(Audit))] == ["two"]
    assert [record.event_type for record in session.scalars(select(Audit).where(~Audit.delivered))]
    for record in session.scalars(select(Audit)):
        record.retry_count = 5
    session.commit()
    assert [record.retry_count for record in session.scalars(select(OutboxRecord))] == [0]
engine.dispose()
"""
DEFINITIONS = [
    "one = Outbox(metadata, record=OutboxRecord)",
    'two = Outbox(metadata, table="audit", record=Audit)',
]


@dataclass(frozen=True, kw_only=True)
class AccountOpened(DomainEvent):
    """Another class under the name of one of the shop's."""

    note: str = ""


@pytest.fixture(scope="session")
def _audit(_shop_tables: Engine) -> None:
    with _shop_tables.begin() as connection:
        second.create_tables(connection)
        third.create_tables(connection)


@pytest.fixture
def database(sync_engine: Engine, _audit: None) -> Engine:
    """PostgreSQL with both outboxes, empty."""
    with sync_engine.begin() as connection:
        connection.execute(text("TRUNCATE audit, watch"))
    return sync_engine


def event(name: str = "seen", **values: Any) -> UntypedEvent:
    return UntypedEvent(**{"event_type": name, "payload": {}} | values)


def names(session: Session, record: type[OutboxRecord]) -> list[str]:
    session.expire_all()
    return sorted(one.event_type for one in session.scalars(select(record)))


def test_one_event_can_go_into_both(database: Engine) -> None:
    with Session(database) as session:
        both = event("both")
        first.dispatcher(session).dispatch_sync([both])
        second.dispatcher(session).dispatch_sync([both])
        session.commit()
        assert names(session, OutboxRecord) == names(session, AuditRecord) == ["both"]
        assert session.get_one(AuditRecord, both.event_id).id == both.event_id


@pytest.mark.requirement("E4")
async def test_an_async_session_reaches_the_second_too(
    database: Engine, engine: AsyncEngine
) -> None:
    async with AsyncSession(engine) as session:
        bus = EventBus()
        bus.emit(event("by bus"))
        await second.middleware().flush(session, bus, user_id=1)
        await second.dispatcher(session).dispatch([event("by dispatcher")])
        await session.commit()
    with Session(database) as session:
        assert names(session, AuditRecord) == ["by bus", "by dispatcher"]
        assert names(session, OutboxRecord) == []


def test_each_outbox_has_rules_of_its_own(database: Engine) -> None:
    with Session(database) as session:
        large = event(payload={"text": "x" * 400})
        first.dispatcher(session).dispatch_sync([large])
        with pytest.raises(CaptureError, match=r"300"):
            second.dispatcher(session).dispatch_sync([large])
        second.dispatcher(session).dispatch_sync([event()])
        session.commit()
        [one], [other] = session.scalars(select(OutboxRecord)), session.scalars(select(AuditRecord))
        assert (one.max_retries, one.headers) == (10, {})
        assert (other.max_retries, other.headers) == (3, {"audit": True})


def test_each_outbox_knows_its_own_classes(database: Engine) -> None:
    with Session(database) as session:
        account = Account.open("Ann")
        first.dispatcher(session).dispatch_sync(account.collect_events())
        opened = AccountOpened(note="mine")
        second.dispatcher(session).dispatch_sync([opened])  # the name is taken, but not here
        session.commit()
        [record] = session.scalars(select(AuditRecord))
        registry = second.settings.registry
        assert deserialize_event(record.event_type, record.payload, registry=registry) == opened


def test_each_outbox_captures_its_own_sessions(database: Engine) -> None:
    ours, watched = sessionmaker(database), sessionmaker(database)
    first.capture(ours)
    third.capture(watched)
    with ours() as session:
        session.add(Account.open("Ann"))
        session.commit()
        assert names(session, OutboxRecord) == ["AccountOpened"]
        assert names(session, WatchRecord) == []
    with watched() as session:
        session.add(Account.open("Bob"))
        session.commit()
        assert names(session, OutboxRecord) == ["AccountOpened"]
        assert names(session, WatchRecord) == ["AccountOpened"]


def test_two_outboxes_cannot_capture_one_maker() -> None:
    maker, async_maker = sessionmaker(), async_sessionmaker()
    for sessions in (maker, async_maker, scoped_session(maker)):
        first.capture(sessions)
        with pytest.raises(ConfigurationError, match=r"another outbox.*sessionmaker of its own"):
            third.capture(sessions)


def test_two_outboxes_cannot_capture_one_class_of_sessions() -> None:
    class Base(Session):
        pass

    class Derived(Base):
        pass

    class Other(Session):
        pass

    first.capture(Derived)
    third.capture(Other)
    for sessions in (Base, Derived, sessionmaker(class_=Derived)):
        with pytest.raises(ConfigurationError, match=r"another outbox"):
            third.capture(sessions)


def test_a_class_that_is_captured_after_a_subclass_settles_once(database: Engine) -> None:
    class Own(Session):
        pass

    sessions = sessionmaker(database, class_=Own)
    first.capture(sessions)
    first.capture(Own)  # its listeners hear the sessions of the maker too
    with sessions() as session:
        account = Account.open("Ann")
        session.add(account)
        session.commit()
        listen(session, "after_commit", lambda _: account.close(), once=True)
        with session.begin_nested():
            account.name = "Anna"
        session.commit()
        assert names(session, OutboxRecord) == ["AccountClosed", "AccountOpened"]


@pytest.mark.parametrize("definitions", [DEFINITIONS, DEFINITIONS[::-1]])
def test_the_order_of_definition_does_not_matter(definitions: list[str], tmp_path: Path) -> None:
    file = tmp_path / "script.py"
    file.write_text(OTHER_WAY_ROUND.format(definitions="\n".join(definitions)))
    done = run_program(["-W", "error", file], folder=tmp_path, environment={})
    assert done.code == 0, done.err

"""Any number of outboxes in a process, and which one is meant where none is given."""

import gc
import textwrap
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, MetaData, create_engine, select
from sqlalchemy.orm import Session, registry, sessionmaker

from postroom import (
    EventBus,
    Outbox,
    OutboxEventDispatcher,
    OutboxMiddleware,
    OutboxRecord,
    UntypedEvent,
)
from postroom.capture.interceptor import DomainEventOutboxInterceptor
from postroom.integrations.fastapi import outbox_middleware
from tests.support.program import run_program
from tests.support.shop import Account, Base

pytestmark = pytest.mark.requirement("E13")

Run = Callable[[str], None]


def event(name: str = "seen") -> UntypedEvent:
    return UntypedEvent(event_type=name, payload={})


@pytest.fixture
def outbox() -> Outbox:
    return Outbox(MetaData())


@pytest.fixture
def engine(outbox: Outbox) -> Iterator[Engine]:
    engine = create_engine("sqlite://")
    outbox.metadata.create_all(engine)
    Base.metadata.tables["accounts"].create(engine)
    yield engine
    engine.dispose()


def names(session: Session, outbox: Outbox) -> list[str]:
    return sorted(record.event_type for record in session.scalars(select(outbox.record)))


@pytest.mark.parametrize("number", [1, 2])
def test_each_test_makes_its_own_outbox(number: int, outbox: Outbox, engine: Engine) -> None:
    sessions = sessionmaker(engine)
    outbox.capture(sessions)
    with sessions() as session:
        session.add(Account.open("Ann"))
        session.commit()
        assert names(session, outbox) == ["AccountOpened"]


def test_two_outboxes_on_one_metadata_do_not_meet() -> None:
    metadata = MetaData()
    orders, audit = Outbox(metadata), Outbox(metadata, table="audit", schema=None)
    engine = create_engine("sqlite://")
    metadata.create_all(engine)
    with Session(engine) as session:
        orders.dispatcher(session).dispatch_sync([event("one")])
        audit.dispatcher(session).dispatch_sync([event("two")])
        session.commit()
        assert (names(session, orders), names(session, audit)) == (["one"], ["two"])
    engine.dispose()


def test_the_record_of_an_outbox_is_an_outbox_record(outbox: Outbox, engine: Engine) -> None:
    record = outbox.record
    assert issubclass(record, OutboxRecord)
    assert record is not OutboxRecord
    assert record.__name__ == "OutboxRecord"
    in_schema = Outbox(MetaData(), table="outbox_events", schema="auth")
    assert in_schema.record.__name__ == "AuthOutboxEventsRecord"
    with Session(engine) as session:
        session.add(record(event_type="x", payload={}, status="published"))
        session.add(record(event_type="y", payload={}))
        session.commit()
        [done] = session.scalars(select(record).where(record.delivered))
        assert (done.event_type, done.delivered, done.delivered_at) == ("x", True, None)


def test_two_outboxes_are_mapped_in_one_registry() -> None:
    mapping = registry()
    first = Outbox(mapping.metadata, mapper_registry=mapping)
    second = Outbox(mapping.metadata, mapper_registry=mapping, table="audit")
    assert {mapper.class_ for mapper in mapping.mappers} == {first.record, second.record}


@pytest.mark.no_cover
def test_twenty_outboxes_come_and_go() -> None:
    outboxes = weakref.WeakSet[Outbox]()
    classes = weakref.WeakSet[type]()
    for _ in range(20):
        outbox = Outbox(MetaData())
        session = Session()
        outbox.dispatcher(session).dispatch_sync([event()])
        outbox.capture(sessionmaker())
        outboxes.add(outbox)
        classes.add(outbox.record)
    del outbox, session
    gc.collect()
    gc.collect()  # the first one frees the classes of sessions
    assert (len(outboxes), len(classes)) == (0, 0)


async def test_each_way_in_can_be_given_its_outbox(outbox: Outbox, engine: Engine) -> None:
    other = Outbox(MetaData(), table="other")  # so that there are two at least
    sessions = sessionmaker(engine)
    DomainEventOutboxInterceptor(outbox=outbox).install(sessions)
    with sessions() as session:
        await OutboxEventDispatcher(session, outbox=outbox).dispatch([event("dispatched")])
        dependency = await outbox_middleware(outbox)()
        for number, middleware in enumerate([OutboxMiddleware(outbox=outbox), dependency]):
            bus = EventBus()
            bus.emit(event(f"emitted {number}"))
            await middleware.flush(session, bus)
        session.add(Account.open("Ann"))
        session.commit()
        assert names(session, outbox) == [
            "AccountOpened",
            "dispatched",
            "emitted 0",
            "emitted 1",
        ]
    assert other.record is not outbox.record


SCRIPT = """
import asyncio
import gc
from dataclasses import dataclass

import pytest
from sqlalchemy import MetaData, create_engine, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, sessionmaker

from postroom import *
from postroom.integrations.fastapi import get_outbox_middleware

class Base(DeclarativeBase):
    pass

class Thing(AggregateRoot, Base):
    __tablename__ = "things"
    id: Mapped[int] = mapped_column(primary_key=True)

def event(name):
    return UntypedEvent(event_type=name, payload={})

def dispatch(session):
    OutboxEventDispatcher(session).dispatch_sync([event("dispatched")])

def emit(session):
    bus = EventBus()
    bus.emit(event("emitted"))
    asyncio.run(asyncio.run(get_outbox_middleware()).flush(session, bus))

def save(session):
    thing = Thing(id=1)
    thing.raise_event(event("raised"))
    session.add(thing)
    session.flush()

ways = [dispatch, emit, save]
engine = create_engine("sqlite://")
sessions = sessionmaker(engine)
DomainEventOutboxInterceptor().install(sessions)
"""


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs a script in a process of its own, which has no outbox yet."""

    def execute(script: str) -> None:
        file = tmp_path / "script.py"
        file.write_text(SCRIPT + textwrap.dedent(script))
        done = run_program(["-W", "error", file], folder=tmp_path, environment={})
        assert done.code == 0, done.err

    return execute


@pytest.mark.parametrize(
    "made",
    [
        pytest.param("Outbox(Base.metadata)", marks=pytest.mark.extended),
        "map_outbox_table(Base.registry)",
    ],
)
def test_the_only_outbox_is_found_by_itself(run: Run, made: str) -> None:
    run(f"""
        outbox = {made}
        Base.metadata.create_all(engine)
        with sessions() as session:
            for way in ways:
                way(session)
            session.commit()
            found = sorted(record.event_type for record in session.scalars(select(outbox.record)))
            assert found == ["dispatched", "emitted", "raised"], found
        engine.dispose()
    """)


@pytest.mark.parametrize(
    "second",
    [
        "Outbox(MetaData())",
        pytest.param("map_outbox_table(Base.registry)", marks=pytest.mark.extended),
    ],
)
def test_of_several_outboxes_none_is_chosen(run: Run, second: str) -> None:
    run(f"""
        audit, other = Outbox(MetaData(), table="audit", schema="log"), {second}
        Base.metadata.create_all(engine)
        for way in ways:
            with sessions() as session:
                problem = r"2 outboxes .*`log.audit`, `outbox`.*none was given.*outbox=outbox"
                with pytest.raises(ConfigurationError, match=problem):
                    way(session)
                assert not [each for each in session.new if isinstance(each, OutboxRecord)]
        engine.dispose()
    """)


def test_without_an_outbox_the_error_says_how_to_make_one(run: Run) -> None:
    run("""
        Base.metadata.create_all(engine)
        class Unmapped(OutboxRecord):
            pass
        for way in ways:
            with sessions() as session:
                with pytest.raises(ConfigurationError, match=r"no outbox yet.*Outbox\\("):
                    way(session)
        engine.dispose()
    """)


def test_an_outbox_of_a_test_that_has_ended_does_not_count(run: Run) -> None:
    run("""
        gc.disable()
        def test(number):
            outbox = Outbox(MetaData())
            sessions = sessionmaker()
            outbox.capture(sessions)
            session = sessions()
            dispatch(session)
            assert [type(record) for record in session.new] == [outbox.record]
        for number in range(3):
            test(number)
        engine.dispose()
    """)

"""Sessions with several databases: a record goes where its aggregate goes, or is refused."""

import gc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import ref

import pytest
from sqlalchemy import Engine, MetaData, create_engine, insert, inspect, select
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.ext.horizontal_shard import ShardedSession
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, sessionmaker

from postroom import AggregateRoot, CaptureError, DomainEvent, Outbox, UntypedEvent

pytestmark = pytest.mark.requirement("D3")


class Base(DeclarativeBase):
    metadata = MetaData()


class OrderBase(DeclarativeBase):
    metadata = MetaData()


outbox = Outbox(Base.metadata)
records = outbox.tables.records


@dataclass(frozen=True, kw_only=True)
class Happened(DomainEvent):
    pass


class Account(AggregateRoot, Base):
    __tablename__ = "accounts"

    id: Mapped[int] = mapped_column(primary_key=True)


class Order(AggregateRoot, OrderBase):
    __tablename__ = "orders"

    id: Mapped[int] = mapped_column(primary_key=True)


class Note(OrderBase):
    __tablename__ = "notes"

    id: Mapped[int] = mapped_column(primary_key=True)


Make = Callable[..., Any]


def happened(aggregate: type[Account | Order], number: int | None = None) -> Any:
    made = aggregate(id=number)
    made.raise_event(Happened())
    return made


def captured(**options: Any) -> sessionmaker[Session]:
    sessions = sessionmaker(**options)
    outbox.capture(sessions)
    return sessions


def keys(engine: Engine) -> list[str]:
    with engine.connect() as connection:
        rows = connection.execute(
            select(records.c.aggregate_type, records.c.aggregate_id).order_by(records.c.position)
        )
        return ["/".join(row) for row in rows]


def rows(engine: Engine, table: str) -> int:
    metadata = Base.metadata if table == "accounts" else OrderBase.metadata
    with engine.connect() as connection:
        return len(connection.execute(select(metadata.tables[table])).all())


@pytest.fixture
def main(tmp_path: Path) -> Iterator[Engine]:
    """The application's database, with the outbox."""
    engine = create_engine(f"sqlite:///{tmp_path / 'main.db'}")
    Base.metadata.create_all(engine)
    OrderBase.metadata.create_all(engine)
    yield engine
    engine.dispose()


@pytest.fixture
def bare(tmp_path: Path) -> Iterator[Engine]:
    """A second database, without an outbox."""
    engine = create_engine(f"sqlite:///{tmp_path / 'orders.db'}")
    OrderBase.metadata.create_all(engine)
    yield engine
    engine.dispose()


@pytest.fixture
def other(bare: Engine) -> Engine:
    """A second database, with an outbox."""
    with bare.begin() as connection:
        outbox.create_tables(connection)
    return bare


def test_each_record_goes_where_its_aggregate_goes(main: Engine, other: Engine) -> None:
    with captured(bind=main, binds={OrderBase: other})() as session:
        session.add_all([happened(Account, 1), happened(Order, 2), happened(Account, 3)])
        session.commit()
        session.add(happened(Order, 4))
        session.commit()
    assert keys(main) == ["Account/1", "Account/3"]
    assert keys(other) == ["Order/2", "Order/4"]


def test_so_does_one_that_waited_for_its_id_or_was_raised_late(main: Engine, other: Engine) -> None:
    with captured(bind=main, binds={OrderBase: other})() as session:
        order = happened(Order)
        with session.begin_nested():
            session.add(order)
        session.flush()
        order.raise_event(Happened())
        session.commit()
        order.raise_event(Happened())
        session.commit()
    assert keys(other) == ["Order/1"] * 3
    assert keys(main) == []


def test_an_aggregate_is_freed_after_the_commit(main: Engine, other: Engine) -> None:
    with captured(bind=main, binds={OrderBase: other})() as session:
        order = happened(Order, 1)
        session.add(order)
        session.commit()
        left = ref(order)
        del order
        gc.collect()
        assert left() is None


def test_a_captured_class_of_sessions_does_the_same(main: Engine, other: Engine) -> None:
    class Own(Session):
        pass

    outbox.capture(Own)
    with Own(main, binds={OrderBase: other}) as session:
        session.add_all([happened(Account, 1), happened(Order, 2)])
        session.commit()
    assert (keys(main), keys(other)) == (["Account/1"], ["Order/2"])


async def test_async_sessions_do_the_same(main: Engine, other: Engine) -> None:
    one = create_async_engine(main.url.set(drivername="sqlite+aiosqlite"))
    two = create_async_engine(other.url.set(drivername="sqlite+aiosqlite"))
    sessions = async_sessionmaker(one, binds={OrderBase: two})
    outbox.capture(sessions)
    async with sessions.begin() as session:
        session.add_all([happened(Account, 1), happened(Order, 2)])
    await one.dispose()
    await two.dispose()
    assert (keys(main), keys(other)) == (["Account/1"], ["Order/2"])


def test_a_rollback_takes_both_along(main: Engine, other: Engine) -> None:
    with captured(bind=main, binds={OrderBase: other})() as session:
        order = happened(Order, 1)
        session.add(order)
        session.flush()
        session.rollback()
        assert keys(other) == []
        session.add(order)
        session.commit()
    assert keys(other) == ["Order/1"]


def test_an_aggregate_in_a_database_without_the_outbox_is_refused_by_name(
    main: Engine, bare: Engine
) -> None:
    sessions = captured(bind=main, binds={OrderBase: bare})
    with sessions() as session:
        session.add_all([happened(Account, 1), happened(Order, 2)])
        with pytest.raises(CaptureError) as refused:
            session.commit()
    text = str(refused.value)
    assert text.startswith("cannot capture Happened: Order is saved in sqlite:///")
    assert "orders.db" in text
    assert "main.db" in text
    assert "`outbox`" in text
    assert (rows(main, "accounts"), rows(bare, "orders")) == (0, 0)


def test_the_remedies_for_that_work(main: Engine, bare: Engine) -> None:
    with captured(bind=main, binds={OrderBase: bare, Order: main})() as session:
        session.add(happened(Order, 1))
        session.commit()
    assert keys(main) == ["Order/1"]
    sessions = captured(bind=main, binds={OrderBase: bare})
    with sessions() as session:
        session.add(happened(Order, 1))
        with pytest.raises(CaptureError):
            session.commit()
    with bare.begin() as connection:
        outbox.create_tables(connection)
    with sessions() as session:
        session.add(happened(Order, 1))
        session.commit()
    assert keys(bare) == ["Order/1"]


def test_binds_alone_are_enough_for_aggregates(main: Engine) -> None:
    with captured(binds={Base: main})() as session:
        session.add(happened(Account, 1))
        session.commit()
    assert keys(main) == ["Account/1"]


def test_a_dispatcher_without_a_database_for_its_records_is_refused(main: Engine) -> None:
    event = UntypedEvent(event_type="seen", payload={})
    with Session(binds={Base: main}) as session:
        with pytest.raises(CaptureError, match=r"seen.*binds=\{…, outbox\.record: engine\}"):
            outbox.dispatcher(session).dispatch_sync([event])
        assert not session.new
        with pytest.raises(CaptureError, match=r"`outbox`"):
            outbox.save_sync(session, [event])
    with Session(binds={Base: main, outbox.record: main}) as session:
        outbox.dispatcher(session).dispatch_sync([event])
        session.commit()
        assert [record.event_type for record in session.scalars(select(outbox.record))] == ["seen"]


def test_a_session_that_chooses_its_databases_itself_is_followed(
    main: Engine, other: Engine
) -> None:
    """As SQLAlchemy's documentation has it: reads elsewhere than writes."""
    reader = other.execution_options(isolation_level="AUTOCOMMIT")

    class Routing(Session):
        def get_bind(self, mapper: Any = None, **more: Any) -> Any:
            if mapper is not None and issubclass(mapper.class_, Order) and self._flushing:
                return other
            return main if self._flushing else reader

    outbox.capture(Routing)
    with Routing() as session:
        account = happened(Account, 1)
        session.add_all([account, happened(Order, 2)])
        session.commit()
        account.raise_event(Happened())
        outbox.dispatcher(session).dispatch_sync([UntypedEvent(event_type="x", payload={})])
    assert (keys(main), keys(other)) == (["Account/1"], ["Order/2"])


def test_a_sharded_session_that_puts_the_record_elsewhere_is_refused(
    main: Engine, other: Engine
) -> None:
    wrong = True

    def choose(_: Any, instance: Any, *__: Any) -> str:
        if isinstance(instance, outbox.record) and wrong:
            return "other"
        return "main"

    sessions = captured(
        class_=ShardedSession,
        shards={"main": main, "other": other},
        shard_chooser=choose,
        identity_chooser=lambda *_, **__: ["main"],
        execute_chooser=lambda _: ["main"],
    )
    with sessions() as session:
        session.add(happened(Account, 1))
        with pytest.raises(CaptureError, match=r"Account is saved in .*main\.db.*orders\.db"):
            session.commit()
    assert (keys(main), keys(other), rows(main, "accounts")) == ([], [], 0)
    wrong = False
    with sessions() as session:
        session.add(happened(Account, 1))
        session.commit()
    assert keys(main) == ["Account/1"]


def test_bulk_inserts_work_as_before_in_such_a_session(main: Engine, other: Engine) -> None:
    with captured(bind=main, binds={OrderBase: other})() as session:
        session.add(happened(Order, 1))
        session.flush()
        session.execute(insert(Note), [{"id": 1}, {"id": 2}])
        session.bulk_insert_mappings(inspect(Note), [{"id": 3}])
        session.commit()
    assert rows(other, "notes") == 3


def test_aggregates_on_postgresql_and_on_sqlite_have_their_records_there(
    sync_engine: Engine, other: Engine
) -> None:
    """The outbox's table has another name on the test's PostgreSQL, by a schema that is mapped."""
    schema = "here"
    with sync_engine.begin() as connection:
        connection.exec_driver_sql(f'CREATE SCHEMA "{schema}"')
    postgres = sync_engine.execution_options(schema_translate_map={None: schema})
    try:
        Base.metadata.create_all(postgres)
        with captured(bind=other, binds={Account: postgres})() as session:
            session.add_all([happened(Account, 1), happened(Order, 2)])
            session.commit()
        assert (keys(postgres), keys(other)) == (["Account/1"], ["Order/2"])
    finally:
        with sync_engine.begin() as connection:
            connection.exec_driver_sql(f'DROP SCHEMA "{schema}" CASCADE')

"""A relay uses the options of its engine, and its listeners: schema, role, search path."""

from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import Connection, Engine, NullPool, create_engine, event, text
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.schema import CreateSchema, DropSchema

from postroom import OutboxRelay, RetrySchedule, SchemaError, Status
from postroom.cli.worker import description
from postroom.inspection import Inspector
from postroom.operations import Operations
from postroom.testing import FakeClock, RecordingPublisher
from tests.support.rows import all_delivered, rows, save, until
from tests.support.shop import AccountClosed, AccountOpened, Base, outbox
from tests.support.waiting import eventually

TENANTS = ("tenant_a", "tenant b")
"""Schemas, the second with a name that has to be quoted."""
MakeEngine = Callable[..., AsyncEngine]


@pytest.fixture(scope="module")
def schemas(postgres_sync_url: str) -> Iterator[None]:
    """The shop's tables in the default schema, and in one schema for each tenant."""
    engine = create_engine(postgres_sync_url, poolclass=NullPool)
    with engine.begin() as connection:
        Base.metadata.create_all(connection)
        for tenant in TENANTS:
            connection.execute(CreateSchema(tenant))
            Base.metadata.create_all(translated(connection, tenant))
    yield
    with engine.begin() as connection:
        for tenant in TENANTS:
            connection.execute(DropSchema(tenant, cascade=True))


@pytest.fixture(params=["asyncpg", pytest.param("psycopg", marks=pytest.mark.extended)])
async def make_engine(
    schemas: None, request: pytest.FixtureRequest, engine: AsyncEngine
) -> AsyncIterator[MakeEngine]:
    """Make engines on that database, which has no records; dispose of them at the end."""
    async with engine.begin() as connection:
        for tenant in TENANTS:
            await connection.execute(text(f'DELETE FROM "{tenant}".outbox'))
    url = engine.url.set(drivername=f"postgresql+{request.param}")
    made: list[AsyncEngine] = []

    def make(**options: Any) -> AsyncEngine:
        made.append(create_async_engine(url, **options))
        return made[-1]

    yield make
    for each in made:
        await each.dispose()


def translated(connection: Connection, tenant: str) -> Connection:
    return connection.execution_options(schema_translate_map={None: tenant})


def of(tenant: str) -> AccountOpened:
    return AccountOpened(account_id=uuid4(), email=tenant)


def relay_on(engine: AsyncEngine, publisher: RecordingPublisher, **options: Any) -> OutboxRelay:
    chosen: dict[str, Any] = {
        "poll_interval": timedelta(seconds=0.2),
        "retry": RetrySchedule.seconds(0.05, forever=True),
        **options,
    }
    return OutboxRelay(outbox, engine, publisher, **chosen)


def emails(publisher: RecordingPublisher) -> list[str]:
    return [message.payload["email"] for message in publisher.published("AccountOpened")]


# -- schema_translate_map


@pytest.mark.requirement("D10")
@pytest.mark.parametrize("how", ["execution_options", "create_engine"])
async def test_a_relay_delivers_from_the_schema_that_its_engine_translates_to(
    make_engine: MakeEngine, how: str
) -> None:
    plain = make_engine()
    options = [{"schema_translate_map": {None: tenant}} for tenant in TENANTS]
    if how == "execution_options":
        engines = [plain.execution_options(**each) for each in options]
    else:
        engines = [make_engine(execution_options=each) for each in options]
    publishers = [RecordingPublisher() for _ in engines]
    relays = [relay_on(*each) for each in zip(engines, publishers, strict=True)]

    async with relays[0].running(), relays[1].running():
        await save(plain, of("nobody"))
        for engine, tenant in zip(engines, TENANTS, strict=True):
            await save(engine, of(tenant))
            await until(engine, all_delivered)

    assert [emails(each) for each in publishers] == [[tenant] for tenant in TENANTS]
    [untouched] = await rows(plain)
    assert untouched.status == Status.PENDING


@pytest.mark.requirement("D10")
async def test_an_operator_acts_on_the_schema_that_the_engine_translates_to(
    make_engine: MakeEngine,
) -> None:
    plain = make_engine()
    engine = plain.execution_options(schema_translate_map={None: TENANTS[1]})
    publisher = RecordingPublisher()
    publisher.refuse("AccountClosed", times=2, permanent=True)
    relay = relay_on(engine, publisher, retention=timedelta())
    closed = [AccountClosed(account_id=uuid4()) for _ in range(2)]
    await save(engine, *closed)
    await save(plain, of("nobody"))

    await relay.run_once()
    assert (await Inspector(outbox, relay.engine).overview()).failed == 2
    assert await Operations(outbox, relay.engine).retry([closed[0].event_id]) == 1
    assert await Operations(outbox, relay.engine).discard([closed[1].event_id]) == 1
    await relay.run_once()
    await relay.clean()
    assert await rows(engine) == []
    assert len(await rows(plain)) == 1


async def test_the_check_at_start_names_the_schema_that_it_looked_in(
    make_engine: MakeEngine,
) -> None:
    engine = make_engine(execution_options={"schema_translate_map": {None: "information_schema"}})
    relay = relay_on(engine, RecordingPublisher())
    with pytest.raises(SchemaError) as raised:
        await relay.run()
    assert "`information_schema.outbox`" in raised.value.drift[0]


async def test_a_worker_says_which_schema_it_delivers_from(make_engine: MakeEngine) -> None:
    engine = make_engine(execution_options={"schema_translate_map": {None: "tenant_a"}})
    said = description(relay_on(engine, RecordingPublisher()), once=True)
    assert "`tenant_a.outbox`" in said


async def test_on_sqlite_a_relay_follows_the_translation_too(tmp_path: Path) -> None:
    engine = create_async_engine(
        f"sqlite+aiosqlite:///{tmp_path / 'shop.db'}",
        execution_options={"schema_translate_map": {None: "tenant"}},
    )

    @event.listens_for(engine.sync_engine, "connect")
    def attach(connection: Any, _: Any) -> None:
        connection.cursor().execute(f"ATTACH DATABASE '{tmp_path / 'tenant.db'}' AS tenant")

    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
    await save(engine, of("tenant"))
    publisher = RecordingPublisher()
    await relay_on(engine, publisher).run_once()
    await engine.dispose()
    assert emails(publisher) == ["tenant"]


# -- listeners


def by_begin(engine: AsyncEngine) -> None:
    @event.listens_for(engine.sync_engine, "begin")
    def set_path(connection: Connection) -> None:
        connection.exec_driver_sql("SET LOCAL search_path TO tenant_a")


def by_begin_with_an_option(engine: AsyncEngine) -> None:
    @event.listens_for(engine.sync_engine, "begin")
    def set_path(connection: Connection) -> None:
        tenant = connection.get_execution_options()["tenant"]
        connection.exec_driver_sql(f"SET LOCAL search_path TO {tenant}")


def by_connect(engine: AsyncEngine) -> None:
    @event.listens_for(engine.sync_engine, "connect")
    def set_path(connection: Any, _: Any) -> None:
        connection.cursor().execute("SET search_path TO tenant_a")
        connection.commit()


def by_checkout(engine: AsyncEngine) -> None:
    @event.listens_for(engine.sync_engine, "checkout")
    def set_path(connection: Any, _: Any, __: Any) -> None:
        connection.cursor().execute("SET search_path TO tenant_a")
        connection.commit()


@pytest.mark.parametrize(
    ("listen", "late"),
    [(by_begin, True), (by_begin_with_an_option, False), (by_connect, False), (by_checkout, True)],
)
async def test_a_relay_s_own_connections_call_the_listeners_of_its_engine(
    make_engine: MakeEngine, listen: Callable[[AsyncEngine], None], late: bool
) -> None:
    plain, engine = make_engine(), make_engine(execution_options={"tenant": "tenant_a"})
    publisher = RecordingPublisher()
    publisher.refuse("AccountClosed", times=1, permanent=True)
    if not late:
        listen(engine)
    relay = relay_on(engine, publisher)
    if late:
        listen(engine)
    closed = AccountClosed(account_id=uuid4())

    async with relay.running():
        await save(plain, of("nobody"))
        await save(engine, of("tenant_a"), closed)
        await until(engine, lambda found: {each.status for each in found} == SETTLED)
        assert (await Inspector(outbox, relay.engine).overview()).failed == 1
        assert await Operations(outbox, relay.engine).retry([closed.event_id]) == 1
        await until(engine, all_delivered)

    assert emails(publisher) == ["tenant_a"]
    [untouched] = await rows(plain)
    assert untouched.status == Status.PENDING


SETTLED = {Status.PUBLISHED, Status.FAILED}


async def test_a_listener_on_every_engine_is_called_once_for_each_transaction(
    make_engine: MakeEngine,
) -> None:
    engine = make_engine()
    seen: list[Connection] = []

    def note(connection: Connection) -> None:
        seen.append(connection)

    event.listen(Engine, "begin", note)
    try:
        await save(engine, of("default"))
        publisher = RecordingPublisher()
        await relay_on(engine, publisher).run_once()
    finally:
        event.remove(Engine, "begin", note)
    assert emails(publisher) == ["default"]
    assert len(seen) == len({id(each) for each in seen})


# -- options that are for the application's own statements


@pytest.mark.parametrize(
    "options",
    [
        {"isolation_level": "AUTOCOMMIT"},
        {"isolation_level": "SERIALIZABLE"},
        {"postgresql_readonly": True},
        {"stream_results": True, "max_row_buffer": 1},
        {"yield_per": 1},
    ],
    ids=lambda options: "-".join(options),
)
async def test_a_relay_delivers_whatever_the_engine_s_options_for_statements(
    make_engine: MakeEngine, options: dict[str, Any]
) -> None:
    plain = make_engine()
    await save(plain, *[of("default") for _ in range(3)])
    publisher = RecordingPublisher()
    relay = relay_on(plain.execution_options(**options), publisher)
    await relay.run_once()
    assert emails(publisher) == ["default"] * 3


# -- connections


async def test_a_relay_has_four_connections(make_engine: MakeEngine, engine: AsyncEngine) -> None:
    """Those of the loop, the heartbeat, the clean-up and the listener; the clean-up keeps one."""
    opened: list[object] = []
    own, publisher = make_engine(), RecordingPublisher()
    event.listen(own.sync_engine, "connect", lambda connection, _: opened.append(connection))
    old = "INSERT INTO outbox_inbox VALUES ('message', 'mails', now() - interval '90 days')"
    async with engine.begin() as connection:
        await connection.execute(text(old))

    async def is_busy() -> bool:
        """Whether the heartbeat has reported, and the clean-up has deleted the receipt."""
        reported = "SELECT 1 FROM outbox_workers WHERE reported_at IS NOT NULL"
        query = f"SELECT EXISTS ({reported}) AND NOT EXISTS (SELECT 1 FROM outbox_inbox)"
        async with engine.connect() as connection:
            return bool((await connection.execute(text(query))).scalar_one())

    clock = FakeClock()  # with a short lease, a frozen process would lose a connection
    relay = relay_on(own, publisher, clock=clock)
    async with relay.running():
        await save(engine, of("nobody"))
        await until(engine, all_delivered)
        clock.advance(timedelta(seconds=10))  # until the heartbeat
        await eventually(is_busy)
        assert len(opened) == 4

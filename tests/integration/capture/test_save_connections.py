"""`outbox.save` over connections that an application has set up in its own way."""

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any
from uuid import UUID

import asyncpg
import psycopg
import pytest
from psycopg.rows import dict_row
from sqlalchemy import Engine, MetaData, func, select, text
from sqlalchemy.ext.asyncio import AsyncEngine

from postroom import MemoryPublisher, Outbox, OutboxRecord, OutboxRelay, UntypedEvent
from tests.integration.capture.connections import WITHOUT_ORM, as_parameters, plain
from tests.support.rows import rows
from tests.support.shop import outbox

pytestmark = pytest.mark.requirement("E13")


class OddRecord(OutboxRecord):
    pass


odd = Outbox(MetaData(), table='odd "name" 100%', schema="it's 100 %s", record=OddRecord)


@pytest.fixture
def odd_tables(sync_engine: Engine) -> Iterator[Engine]:
    with sync_engine.begin() as connection:
        odd.create_tables(connection)
    yield sync_engine
    with sync_engine.begin() as connection:
        connection.execute(text("""DROP SCHEMA "it's 100 %s" CASCADE"""))


def event(name: str = "x") -> UntypedEvent:
    return UntypedEvent(event_type="x", aggregate_id=1, payload={"name": name})


async def names(engine: AsyncEngine) -> list[str]:
    return [record.payload["name"] for record in await rows(engine)]


async def test_codecs_of_an_asyncpg_connection_change_nothing(
    engine: AsyncEngine, postgres_url: str
) -> None:
    """Most applications give theirs one for JSON."""
    connection = await asyncpg.connect(plain(postgres_url))
    for kind in ("json", "jsonb"):
        await connection.set_type_codec(
            kind, encoder=json.dumps, decoder=json.loads, schema="pg_catalog"
        )
    await connection.set_type_codec("uuid", encoder=fail, decoder=UUID, schema="pg_catalog")
    async with connection.transaction():
        await outbox.save(connection, [event("ä")])
    await connection.close()
    assert await names(engine) == ["ä"]


def fail(value: Any) -> str:
    raise AssertionError(value)


async def test_asyncpg_without_prepared_statements(engine: AsyncEngine, postgres_url: str) -> None:
    connection = await asyncpg.connect(plain(postgres_url), statement_cache_size=0)
    async with connection.transaction():
        await outbox.save(connection, [event("1")])
        await outbox.save(connection, [event("2")])
    await connection.close()
    assert await names(engine) == ["1", "2"]


@pytest.mark.parametrize("cursors", [psycopg.Cursor, psycopg.ClientCursor, psycopg.RawCursor])
async def test_psycopg_with_another_class_of_cursors_and_rows(
    engine: AsyncEngine, postgres_url: str, cursors: Any
) -> None:
    url = plain(postgres_url)
    with psycopg.connect(url, cursor_factory=cursors, row_factory=dict_row) as connection:
        outbox.save_sync(connection, [event("100 %s")])
    assert await names(engine) == ["100 %s"]


async def test_psycopg_with_another_client_encoding(engine: AsyncEngine, postgres_url: str) -> None:
    with psycopg.connect(plain(postgres_url), client_encoding="LATIN1") as connection:
        outbox.save_sync(connection, [event("€ 𝄞")])
    assert await names(engine) == ["€ 𝄞"]


async def test_psycopg_in_a_pipeline(engine: AsyncEngine, postgres_url: str) -> None:
    url = plain(postgres_url)
    async with await psycopg.AsyncConnection.connect(url) as connection, connection.pipeline():
        for number in range(3):
            await outbox.save(connection, [event(str(number))])
    with psycopg.connect(url, autocommit=True) as sync, sync.pipeline(), sync.transaction():
        outbox.save_sync(sync, [event("3")])
    assert await names(engine) == ["0", "1", "2", "3"]


async def test_a_subclass_of_a_connection_is_one(engine: AsyncEngine, postgres_url: str) -> None:
    class Own(asyncpg.Connection):
        pass

    connection = await asyncpg.connect(plain(postgres_url), connection_class=Own)
    async with connection.transaction():
        await outbox.save(connection, [event("own")])
    await connection.close()
    assert await names(engine) == ["own"]


async def test_the_drivers_connection_below_sqlalchemy(engine: AsyncEngine) -> None:
    async with engine.begin() as connection:
        await connection.execute(text("SELECT 1"))
        raw = await connection.get_raw_connection()
        await outbox.save(raw.driver_connection, [event("below")])
        assert await names(engine) == []
    assert await names(engine) == ["below"]


@pytest.mark.parametrize("kind", as_parameters(WITHOUT_ORM))
async def test_a_table_in_a_schema_with_names_to_be_quoted(
    odd_tables: Engine, postgres_url: str, kind: str
) -> None:
    async with WITHOUT_ORM[kind](postgres_url) as transaction:
        await transaction.save(event(), into=odd)
    with odd_tables.connect() as connection:
        assert connection.scalar(select(func.count()).select_from(odd.tables.records)) == 1


@pytest.fixture
async def tenant(engine: AsyncEngine) -> AsyncIterator[AsyncEngine]:
    """An engine that finds the shop's outbox in a schema of a tenant."""
    translated = engine.execution_options(schema_translate_map={None: "Tenant 1"})
    async with translated.begin() as connection:
        await connection.run_sync(outbox.create_tables)
    yield translated
    async with engine.begin() as connection:
        await connection.execute(text('DROP SCHEMA "Tenant 1" CASCADE'))


async def test_the_schema_translate_map_of_a_connection_is_followed(
    engine: AsyncEngine, tenant: AsyncEngine
) -> None:
    async with engine.begin() as connection:
        await outbox.save(connection, [event("plain")])
    async with tenant.begin() as connection:
        await outbox.save(connection, [event("tenant")])
    assert await names(engine) == ["plain"]
    assert await names(tenant) == ["tenant"]
    assert [record.position for record in await rows(tenant)] == [1]
    publisher = MemoryPublisher()
    await OutboxRelay(outbox, tenant, publisher).run_once()
    assert [message.payload["name"] for message in publisher.messages] == ["tenant"]

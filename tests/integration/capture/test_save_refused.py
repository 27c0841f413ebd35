"""What `outbox.save` refuses, and that the remedy in the error works. Nothing has been saved."""

from typing import Any

import asyncpg
import psycopg
import pytest
from sqlalchemy import Engine, create_engine
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool

from postroom import CaptureError, UntypedEvent
from tests.integration.capture.connections import WITHOUT_ORM, as_parameters, plain
from tests.support.rows import rows
from tests.support.shop import outbox

pytestmark = pytest.mark.requirement("E13")


def event(**values: Any) -> UntypedEvent:
    return UntypedEvent(**{"event_type": "x", "payload": {}} | values)


async def test_asyncpg_outside_of_a_transaction(engine: AsyncEngine, postgres_url: str) -> None:
    connection = await asyncpg.connect(plain(postgres_url))
    with pytest.raises(
        CaptureError,
        match=r"asyncpg\.Connection that is not in a transaction.*`async with connection\.tran",
    ):
        await outbox.save(connection, [event()])
    assert await rows(engine) == []
    async with connection.transaction():
        await outbox.save(connection, [event()])
    assert len(await rows(engine)) == 1
    await connection.close()


async def test_a_pooled_asyncpg_connection_outside_of_a_transaction(postgres_url: str) -> None:
    async with asyncpg.create_pool(plain(postgres_url), min_size=1) as pool:
        with pytest.raises(CaptureError, match=r"asyncpg\.Pool\. Give a connection"):
            await outbox.save(pool, [event()])
        async with pool.acquire() as connection:
            with pytest.raises(CaptureError, match="not in a transaction"):
                await outbox.save(connection, [event()])


async def test_psycopg_in_autocommit_outside_of_a_transaction(
    engine: AsyncEngine, postgres_url: str
) -> None:
    with psycopg.connect(plain(postgres_url), autocommit=True) as connection:
        with pytest.raises(CaptureError, match=r"psycopg\.Connection .* `with connection\."):
            outbox.save_sync(connection, [event()])
        assert await rows(engine) == []
        with connection.transaction():
            outbox.save_sync(connection, [event()])
        assert len(await rows(engine)) == 1


async def test_async_psycopg_in_autocommit_outside_of_a_transaction(
    engine: AsyncEngine, postgres_url: str
) -> None:
    async with await psycopg.AsyncConnection.connect(
        plain(postgres_url), autocommit=True
    ) as connection:
        with pytest.raises(CaptureError, match=r"`async with connection\.transaction\(\):`"):
            await outbox.save(connection, [event()])
        assert await rows(engine) == []
        async with connection.transaction():
            await outbox.save(connection, [event()])
        assert len(await rows(engine)) == 1


@pytest.mark.parametrize("database", ["postgresql", "sqlite"], indirect=True)
async def test_an_engine_in_autocommit(database: AsyncEngine) -> None:
    chosen = database.execution_options(isolation_level="AUTOCOMMIT")
    made = create_async_engine(database.url, isolation_level="AUTOCOMMIT", poolclass=NullPool)
    for engine in (chosen, made):
        async with engine.begin() as connection:
            with pytest.raises(
                CaptureError, match=r"isolation level AUTOCOMMIT.*another isolation"
            ):
                await outbox.save(connection, [event()])
            assert await rows(database) == []
    async with made.execution_options(isolation_level="SERIALIZABLE").begin() as connection:
        await outbox.save(connection, [event()])
    assert len(await rows(database)) == 1


async def test_an_engine_whose_driver_commits_each_statement(
    engine: AsyncEngine, postgres_sync_url: str
) -> None:
    autocommitting = create_engine(
        postgres_sync_url, connect_args={"autocommit": True}, poolclass=NullPool
    )
    with autocommitting.begin() as connection, pytest.raises(CaptureError, match="AUTOCOMMIT"):
        outbox.save_sync(connection, [event()])
    assert await rows(engine) == []


async def test_a_sync_connection_for_save(sync_engine: Engine, postgres_url: str) -> None:
    with sync_engine.begin() as connection, psycopg.connect(plain(postgres_url)) as raw:
        for each in (connection, raw):
            with pytest.raises(
                CaptureError,
                match=r"Connection, which is not async.*save_sync\(connection, events\)",
            ):
                await outbox.save(each, [event()])


async def test_an_async_connection_for_save_sync(engine: AsyncEngine, postgres_url: str) -> None:
    raw = await asyncpg.connect(plain(postgres_url))
    async with engine.begin() as connection, raw.transaction():
        for each in (connection, raw):
            with pytest.raises(
                CaptureError, match=r"Connection, which is async.*`await outbox.save"
            ):
                outbox.save_sync(each, [event()])
    await raw.close()


async def test_an_event_that_cannot_be_saved_takes_the_others_along(engine: AsyncEngine) -> None:
    async with engine.begin() as connection:
        with pytest.raises(CaptureError):
            await outbox.save(connection, [event(), event(payload={"x": float("nan")})])
    assert await rows(engine) == []


@pytest.mark.parametrize("kind", as_parameters(WITHOUT_ORM))
async def test_an_event_that_comes_twice(engine: AsyncEngine, postgres_url: str, kind: str) -> None:
    happened = event()
    async with WITHOUT_ORM[kind](postgres_url) as transaction:
        with pytest.raises(CaptureError, match=f"captured the event {happened.event_id} already"):
            await transaction.save(event(), happened, happened)
        await transaction.save(happened)  # the transaction goes on
    assert [record.id for record in await rows(engine)] == [happened.event_id]


@pytest.mark.parametrize("kind", as_parameters(WITHOUT_ORM))
async def test_an_event_that_comes_twice_in_two_calls_is_refused_by_the_database(
    engine: AsyncEngine, postgres_url: str, kind: str
) -> None:
    happened = event()

    async def save_twice() -> None:
        async with WITHOUT_ORM[kind](postgres_url) as transaction:
            await transaction.save(happened)
            await transaction.save(happened)

    with pytest.raises(Exception, match="duplicate key"):
        await save_twice()
    assert await rows(engine) == []

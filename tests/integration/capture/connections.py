"""Transactions over every kind of connection that events can be saved over."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    asynccontextmanager,
)
from dataclasses import dataclass
from typing import Any

import asyncpg
import psycopg
import pytest
from _pytest.mark import ParameterSet
from sqlalchemy import Connection, create_engine, make_url, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, create_async_engine
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

from postroom import Event, Outbox
from tests.support.shop import outbox

Kind = Callable[[str], AbstractAsyncContextManager["Open"]]
"""Opens a connection of this kind to a database, and a transaction that is committed at the end."""


@dataclass
class Open:
    """An open transaction, whatever its connection."""

    connection: Any

    @property
    def is_sync(self) -> bool:
        return isinstance(self.connection, Connection | Session | psycopg.Connection)

    async def save(self, *events: Event, into: Outbox = outbox) -> None:
        await self.save_all(events, into)

    async def save_all(self, events: Iterable[Event], into: Outbox = outbox) -> None:
        """Save events; a session is flushed, so that the records are there as with the others."""
        if self.is_sync:
            await asyncio.to_thread(into.save_sync, self.connection, events)
        else:
            await into.save(self.connection, events)
        match self.connection:
            case AsyncSession():
                await self.connection.flush()
            case Session():
                await asyncio.to_thread(self.connection.flush)

    async def execute(self, sql: str) -> Any:
        """Execute a statement; give the value of its only row, if it has one."""
        match self.connection:
            case AsyncConnection() | AsyncSession():
                return _value(await self.connection.execute(text(sql)))
            case Connection() | Session():
                return _value(await asyncio.to_thread(self.connection.execute, text(sql)))
            case psycopg.Connection():
                return await asyncio.to_thread(_psycopg_value, self.connection, sql)
            case psycopg.AsyncConnection():
                cursor = await self.connection.execute(sql)
                return (await cursor.fetchone() or [None])[0] if cursor.description else None
            case _:
                return await self.connection.fetchval(sql)

    def savepoint(self) -> AbstractAsyncContextManager[Any]:
        """Begin a savepoint in the way that the library has."""
        match self.connection:
            case AsyncConnection() | AsyncSession():
                return self.connection.begin_nested()
            case Connection() | Session():
                return in_threads(self.connection.begin_nested())
            case psycopg.Connection():
                return in_threads(self.connection.transaction())
            case _:
                transaction: AbstractAsyncContextManager[Any] = self.connection.transaction()
                return transaction


def _value(result: Any) -> Any:
    return result.scalar() if result.returns_rows else None


def _psycopg_value(connection: psycopg.Connection[Any], sql: Any) -> Any:
    cursor = connection.execute(sql)
    return (cursor.fetchone() or [None])[0] if cursor.description else None


@asynccontextmanager
async def in_threads(manager: AbstractContextManager[Any]) -> AsyncIterator[Any]:
    """Enter and leave a sync context manager without blocking the event loop."""
    entered = await asyncio.to_thread(manager.__enter__)
    try:
        yield entered
    except BaseException as error:
        await asyncio.to_thread(manager.__exit__, type(error), error, error.__traceback__)
        raise
    await asyncio.to_thread(manager.__exit__, None, None, None)


def plain(url: str) -> str:
    """Give a URL as drivers take it."""
    return make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)


@asynccontextmanager
async def core(url: str) -> AsyncIterator[Open]:
    engine = create_engine(url.replace("asyncpg", "psycopg"), poolclass=NullPool)
    async with in_threads(engine.begin()) as connection:
        yield Open(connection)


@asynccontextmanager
async def async_core(url: str) -> AsyncIterator[Open]:
    engine = create_async_engine(url, poolclass=NullPool)
    async with engine.begin() as connection:
        yield Open(connection)


@asynccontextmanager
async def async_core_psycopg(url: str) -> AsyncIterator[Open]:
    async with async_core(url.replace("asyncpg", "psycopg")) as transaction:
        yield transaction


@asynccontextmanager
async def orm(url: str) -> AsyncIterator[Open]:
    engine = create_engine(url.replace("asyncpg", "psycopg"), poolclass=NullPool)
    async with in_threads(Session(engine)) as session, in_threads(session.begin()):
        yield Open(session)


@asynccontextmanager
async def async_orm(url: str) -> AsyncIterator[Open]:
    engine = create_async_engine(url, poolclass=NullPool)
    async with AsyncSession(engine) as session, session.begin():
        yield Open(session)


@asynccontextmanager
async def raw_asyncpg(url: str) -> AsyncIterator[Open]:
    connection = await asyncpg.connect(plain(url))
    try:
        async with connection.transaction():
            yield Open(connection)
    finally:
        await connection.close()


@asynccontextmanager
async def pooled_asyncpg(url: str) -> AsyncIterator[Open]:
    async with AsyncExitStack() as stack:
        pool = await stack.enter_async_context(asyncpg.create_pool(plain(url), min_size=1))
        connection = await stack.enter_async_context(pool.acquire())
        await stack.enter_async_context(connection.transaction())
        yield Open(connection)


@asynccontextmanager
async def raw_psycopg(url: str) -> AsyncIterator[Open]:
    with psycopg.connect(plain(url)) as connection:  # commits, and closes
        yield Open(connection)


@asynccontextmanager
async def autocommitting_psycopg(url: str) -> AsyncIterator[Open]:
    with psycopg.connect(plain(url), autocommit=True) as connection, connection.transaction():
        yield Open(connection)


@asynccontextmanager
async def async_psycopg(url: str) -> AsyncIterator[Open]:
    async with await psycopg.AsyncConnection.connect(plain(url)) as connection:
        yield Open(connection)


WITHOUT_ORM: dict[str, Kind] = {
    "Connection": core,
    "AsyncConnection": async_core,
    "AsyncConnection-psycopg": async_core_psycopg,
    "asyncpg": raw_asyncpg,
    "asyncpg-pool": pooled_asyncpg,
    "psycopg": raw_psycopg,
    "psycopg-autocommit": autocommitting_psycopg,
    "psycopg-async": async_psycopg,
}
KINDS: dict[str, Kind] = WITHOUT_ORM | {"Session": orm, "AsyncSession": async_orm}
MAIN = ("AsyncConnection", "AsyncSession", "asyncpg", "psycopg", "psycopg-async", "Session")


def as_parameters(kinds: Iterable[str]) -> list[ParameterSet]:
    """Give kinds of connections as parameters of a test; in make test there are the main ones."""
    extended = pytest.mark.extended
    return [pytest.param(kind, marks=() if kind in MAIN else extended) for kind in kinds]

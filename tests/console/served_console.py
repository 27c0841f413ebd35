"""An outbox with failed records on PostgreSQL, a relay that runs, and its console."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from typing import Any
from uuid import uuid4

from sqlalchemy import MetaData, select
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from starlette.types import ASGIApp

from postroom import (
    Key,
    Outbox,
    OutboxRelay,
    RetrySchedule,
    UntypedEvent,
)
from postroom.console import console
from postroom.inspection import Inspector, RecordState
from tests.support.dropping import drop_tables
from tests.support.serving import serving_app
from tests.support.shop_with_failures import EVENTS, FAILED, DecliningPublisher
from tests.support.waiting import eventually

NUMBERS = count(1)


@dataclass
class Shop:
    """What a test works with."""

    outbox: Outbox
    engine: AsyncEngine
    relay: OutboxRelay
    publisher: DecliningPublisher
    address: str = ""

    @property
    def inspector(self) -> Inspector:
        return Inspector(self.outbox, self.engine)

    async def save(self, *events: UntypedEvent) -> None:
        async with self.engine.begin() as connection:
            await self.outbox.save(connection, events)

    async def state(self, position: int) -> RecordState:
        return (await self.inspector.record(str(position))).record.state

    async def until(self, position: int, state: RecordState) -> None:
        async def is_so() -> bool:
            return await self.state(position) is state

        await eventually(is_so, f"record {position} is {state}")

    async def count(self, status: str) -> int:
        records = self.outbox.tables.records
        query = select(records.c.position).where(records.c.status == status)
        async with self.engine.connect() as connection:
            return len((await connection.execute(query)).all())

    async def audited(self) -> list[tuple[str, str, int]]:
        """Give what operators have changed, in order."""
        changes = await self.inspector.audit()
        return [(each.action, each.target, each.records) for each in reversed(changes)]

    async def is_blocked(self, key: Key) -> bool:
        return (await self.inspector.key(key)).blocked is not None


@asynccontextmanager
async def opened(url: str, around: Any = None, **options: Any) -> AsyncIterator[Shop]:
    """Make an outbox with failed records, run a relay, and serve the console.

    `around` takes the console and returns the application that it is mounted in.
    """
    metadata, publisher = MetaData(), DecliningPublisher()
    table = f"console_{next(NUMBERS)}_{uuid4().hex[:6]}"
    outbox = Outbox(metadata, table=table, max_retries=2)
    engine = create_async_engine(url)
    async with engine.begin() as connection:
        await connection.run_sync(outbox.create_tables)
    relay = OutboxRelay(
        outbox,
        engine,
        publisher,
        retry=RetrySchedule.seconds(0),
        poll_interval=timedelta(milliseconds=200),
    )
    shop = Shop(outbox, engine, relay, publisher)
    await shop.save(*EVENTS)
    running = asyncio.create_task(relay.run())
    made: ASGIApp = console(outbox, engine, relay=relay, **options)
    try:
        for position in FAILED:
            await shop.until(position, RecordState.FAILED)
        await shop.until(7, RecordState.PUBLISHED)
        async with serving_app(made if around is None else around(made)) as shop.address:
            yield shop
    finally:
        await relay.stop()
        await running
        await drop_tables(engine, metadata)
        await engine.dispose()

"""An outbox in trouble on PostgreSQL, a worker that delivers from it, and its console."""

import asyncio
from collections.abc import AsyncIterator, Sequence
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
    ClaimedRecord,
    Delivered,
    Key,
    Outbox,
    OutboxRelay,
    Outcome,
    Refused,
    RetrySchedule,
    UntypedEvent,
)
from postroom.console import console
from postroom.inspection import Inspector, RecordState
from tests.support.dropping import drop_tables
from tests.support.serving import serving_app
from tests.support.waiting import eventually

CANARY = "canary-4111-1111"
DECLINED = "PaymentDeclined: card expired"
HOSTILE = "<img src=x onerror=alert(1)>"
NUMBERS = count(1)


class Till:
    """Refuses what was paid for order/7, and every mail, for as long as it `declines`."""

    max_batch = max_in_flight = 100

    def __init__(self) -> None:
        self.declines = True
        self.delivered: list[ClaimedRecord] = []

    async def open(self) -> None:
        pass

    async def close(self) -> None:
        pass

    async def publish(self, records: Sequence[ClaimedRecord]) -> Sequence[Outcome]:
        return [self._answer(each) for each in records]

    def _answer(self, record: ClaimedRecord) -> Outcome:
        if self.declines and record.event_type == "order.paid" and record.aggregate_id == "7":
            return Refused(DECLINED)
        if self.declines and record.event_type == "mail.sent":
            return Refused(f"mailbox {record.payload['to']} is full", permanent=True)
        self.delivered.append(record)
        return Delivered()


def order(number: int | str, name: str, **payload: Any) -> UntypedEvent:
    return UntypedEvent(
        event_type=f"order.{name}",
        aggregate_type="order",
        aggregate_id=str(number),
        payload={"total": 99, "password": CANARY, **payload},
    )


def mail(to: int) -> UntypedEvent:
    return UntypedEvent(event_type="mail.sent", payload={"to": to})


EVENTS = (
    order(7, "placed"),
    order(7, "paid"),
    *(order(7, "shipped") for _ in range(3)),
    order(8, "placed", note=HOSTILE),
    order(8, "paid"),
    *(mail(to) for to in (17, 23)),
)
"""Position 1 and on. 2, 8 and 9 fail, 3 to 5 wait behind 2, the rest is delivered."""
FAILED = (2, 8, 9)


@dataclass
class Shop:
    """What a test works with."""

    outbox: Outbox
    engine: AsyncEngine
    relay: OutboxRelay
    till: Till
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
    """Make an outbox with troubles, a relay that runs, and serve its console.

    `around` takes the console and returns the application that it is mounted in.
    """
    metadata, till = MetaData(), Till()
    table = f"console_{next(NUMBERS)}_{uuid4().hex[:6]}"
    outbox = Outbox(metadata, table=table, max_retries=2)
    engine = create_async_engine(url)
    async with engine.begin() as connection:
        await connection.run_sync(outbox.create_tables)
    relay = OutboxRelay(
        outbox,
        engine,
        till,
        retry=RetrySchedule.seconds(0),
        poll_interval=timedelta(milliseconds=200),
    )
    shop = Shop(outbox, engine, relay, till)
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

"""The shop's outbox as rows: save into it, look at it, wait for it."""

from collections.abc import Callable
from datetime import timedelta

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from postroom import Event, OutboxRecord
from postroom.testing import FakeClock
from tests.support.shop import outbox
from tests.support.waiting import eventually


async def save(engine: AsyncEngine, *saved: Event | OutboxRecord) -> None:
    """Commit events, or records as they are, in one transaction."""
    async with AsyncSession(engine) as session, session.begin():
        session.add_all([each for each in saved if isinstance(each, OutboxRecord)])
        events = [each for each in saved if not isinstance(each, OutboxRecord)]
        await outbox.dispatcher(session).dispatch(events)


async def rows(engine: AsyncEngine) -> list[OutboxRecord]:
    """Give every record, in order."""
    async with AsyncSession(engine, expire_on_commit=False) as session:
        query = select(OutboxRecord).order_by(outbox.tables.records.c.position)
        return list(await session.scalars(query))


async def until(
    engine: AsyncEngine, so: Callable[[list[OutboxRecord]], object]
) -> list[OutboxRecord]:
    """Wait until the records are so, and give them."""
    found: list[OutboxRecord] = []

    async def is_so() -> object:
        found[:] = await rows(engine)
        return so(found)

    await eventually(is_so)
    return found


def all_delivered(found: list[OutboxRecord]) -> bool:
    return all(record.delivered for record in found)


def all_delivered_by(clock: FakeClock) -> Callable[[list[OutboxRecord]], bool]:
    """Let time pass for as long as something is undelivered."""

    def so(found: list[OutboxRecord]) -> bool:
        clock.advance(timedelta(seconds=5))
        return all_delivered(found)

    return so

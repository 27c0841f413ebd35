"""Commits orders and dispatches their events to postroom's outbox, in one SQLAlchemy session."""

import asyncio
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlalchemy import MetaData, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from benchmarks.contenders.control import Task, read_task
from benchmarks.contenders.orders import INSERT_ORDER, Event, serve
from postroom import DomainEvent, Outbox


@dataclass(frozen=True, kw_only=True)
class OrderPlaced(DomainEvent, aggregate="order", key="order_id"):
    order_id: str
    customer: str
    total: int
    note: str


async def create(task: Task) -> None:
    """Create its tables."""
    engine = create_async_engine(task.database.replace("postgresql:", "postgresql+asyncpg:"))
    async with engine.begin() as connection:
        await connection.run_sync(Outbox(MetaData(), table=task.table).create_tables)
    await engine.dispose()


async def main(task: Task) -> None:
    engine = create_async_engine(task.database.replace("postgresql:", "postgresql+asyncpg:"))
    outbox = Outbox(MetaData(), table=task.table)
    outbox.notify_workers(engine)

    async def place(events: Sequence[Event], committed: Callable[[], None]) -> None:
        async with AsyncSession(engine) as session:
            for event in events:
                await session.execute(text(INSERT_ORDER.format(event.number)))
            placed = [OrderPlaced(**event.payload) for event in events]
            await outbox.dispatcher(session).dispatch(placed)
            await session.commit()
        committed()

    await serve(task, place)


if __name__ == "__main__":
    asyncio.run((create if sys.argv[2:] == ["create"] else main)(read_task()))

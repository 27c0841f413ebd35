"""Commits orders and publishes their events to faststream-outbox, in one SQLAlchemy session."""

import asyncio
from collections.abc import Callable, Sequence

from faststream_outbox import OutboxBroker, make_outbox_table  # type: ignore[import-not-found]
from sqlalchemy import MetaData, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from benchmarks.contenders.control import read_task
from benchmarks.contenders.orders import INSERT_ORDER, Event, serve


async def main() -> None:
    task = read_task()
    engine = create_async_engine(task.database.replace("postgresql:", "postgresql+asyncpg:"))
    table = make_outbox_table(MetaData(), table_name=task.table)
    outbox = OutboxBroker(engine, outbox_table=table, logger=None)

    async def place(events: Sequence[Event], committed: Callable[[], None]) -> None:
        async with AsyncSession(engine) as session, session.begin():
            for event in events:
                await session.execute(text(INSERT_ORDER.format(event.number)))
                await outbox.publish(event.payload, queue=task.table, session=session)
        committed()

    await serve(task, place)


if __name__ == "__main__":
    asyncio.run(main())

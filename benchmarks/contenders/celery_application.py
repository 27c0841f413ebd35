"""Celery after the commit: SQLAlchemy's `after_commit` calls `.delay()`, with default settings.

By default Celery publishes without confirms, and tries four times within a second or so when the
broker cannot be reached.
"""

import asyncio
import os
from collections.abc import Callable, Sequence

from sqlalchemy import event as sqlalchemy_event
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from benchmarks.contenders.control import read_task
from benchmarks.contenders.orders import INSERT_ORDER, Event, serve


async def main() -> None:
    task = read_task()
    os.environ["COMPARED_BROKER"] = task.broker
    os.environ["COMPARED_BOUND"] = str(task.settings.get("bound", 0))
    from benchmarks.contenders.celery_tasks import announce

    engine = create_async_engine(task.database.replace("postgresql:", "postgresql+asyncpg:"))

    async def place(events: Sequence[Event], committed: Callable[[], None]) -> None:
        def on_commit(session: Session) -> None:
            committed()
            for event in events:
                announce.delay(event.payload)

        async with AsyncSession(engine) as session:
            sqlalchemy_event.listen(session.sync_session, "after_commit", on_commit)
            for event in events:
                await session.execute(text(INSERT_ORDER.format(event.number)))
            await session.commit()

    await serve(task, place)


if __name__ == "__main__":
    asyncio.run(main())

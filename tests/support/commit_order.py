"""For tests of the order of commits: an outbox that does not lock, and who waits for a lock."""

from sqlalchemy import MetaData, text
from sqlalchemy.ext.asyncio import AsyncEngine

from postroom import Outbox, UntypedEvent
from tests.support.waiting import eventually

relaxed = Outbox(MetaData(), table="relaxed", ordering="relaxed")

BLOCKED = text(
    "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)


def something(key: object, **payload: object) -> UntypedEvent:
    return UntypedEvent(
        event_type="something.happened",
        aggregate_type="thing",
        aggregate_id=str(key),
        payload=payload,
    )


async def wait_until_blocked(engine: AsyncEngine) -> None:
    async with engine.connect() as connection:
        await eventually(lambda: connection.scalar(BLOCKED), "somebody waits for the lock")

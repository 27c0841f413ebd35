"""Thousands of records, written by PostgreSQL itself: copies of a few that postroom has written."""

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from postroom import Outbox, UntypedEvent

KEYS = 100
"""How many keys the records of a bulk have."""


class Bulk:
    """Writes records to an outbox, of which it needs to know nothing but the table's columns."""

    def __init__(self, outbox: Outbox, engine: AsyncEngine) -> None:
        self._outbox = outbox
        self._engine = engine
        self._table = outbox.tables.records.name
        columns = [column.name for column in outbox.tables.records.columns]
        self._columns = ", ".join(each for each in columns if each not in ("position", "id"))

    async def save(self, key: str, event_type: str = "bulk.written", *, keys: int = KEYS) -> None:
        """Commit a record of each key, as an application does."""
        events = [
            UntypedEvent(
                event_type=event_type, aggregate_type="bulk", aggregate_id=f"{key}{n}", payload={}
            )
            for n in range(keys)
        ]
        async with AsyncSession(self._engine) as session, session.begin():
            await self._outbox.dispatcher(session).dispatch(events)

    async def multiply(self, times: int) -> None:
        """Have every record so many times, whatever has become of it."""
        await self.run(self._copy(self._table, times - 1))

    async def set_aside(self, key: str) -> None:
        """Write records of new keys, and put them into a table of their own, for `write`."""
        await self.save(key)
        theirs = f"FROM {self._table} WHERE aggregate_id LIKE '{key}%'"
        await self.run(f"CREATE TABLE aside AS SELECT * {theirs}", f"DELETE {theirs}")

    async def write(self, count: int) -> None:
        """Commit copies of what was set aside, in one transaction. Reads no other table."""
        await self.run(self._copy("aside", count // KEYS))

    async def run(self, *statements: str) -> None:
        async with self._engine.begin() as connection:
            for statement in statements:
                await connection.execute(text(statement))

    def _copy(self, source: str, times: int) -> str:
        return f"""INSERT INTO {self._table} (id, {self._columns})
            SELECT gen_random_uuid(), {self._columns}
            FROM {source} CROSS JOIN generate_series(1, {times}) n ORDER BY n"""

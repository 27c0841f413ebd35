"""The consumer behind the broker: acts on each record once, because its inbox drops repeats."""

from pathlib import Path
from typing import Any

from sqlalchemy import Column, Integer, MetaData, Table, Text, insert
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine

from demo.ledger import Arrival, Ledger
from postroom import Inbox

metadata = MetaData()
inbox = Inbox(metadata)
log = Table(
    "log",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("message", Text),
    Column("event_type", Text),
)


class Consumer:
    """Writes a row for each record, in a database of its own, and notes it in the ledger."""

    def __init__(self, file: Path, ledger: Ledger) -> None:
        self.ledger = ledger
        self._engine = create_async_engine(f"sqlite+aiosqlite:///{file}")
        self._sessions = async_sessionmaker(self._engine)

    async def open(self) -> None:
        """Create its tables."""
        async with self._engine.begin() as connection:
            await connection.run_sync(metadata.create_all)

    async def close(self) -> None:
        """Close its connections."""
        await self._engine.dispose()

    async def receive(self, record: dict[str, Any]) -> None:
        """Act on a record, unless it is a repeat: the receipt and the row commit together."""
        message = record["aggregate_id"]
        async with self._sessions.begin() as session:
            new = await inbox.accept(session, record["id"], consumer="demo")
            if new:
                row = {"message": message, "event_type": record["event_type"]}
                await session.execute(insert(log).values(row))
        arrival = Arrival(id=record["id"], key=message, position=record["position"])
        self.ledger.note(arrival, acted=new)

"""How much disk and WAL a record takes on PostgreSQL: captured, delivered, kept, deleted.

It starts a PostgreSQL server of its own, because WAL is counted for a whole server. Records are
captured one per transaction and delivered in rounds, with a VACUUM after each, as autovacuum does
in time; so what is measured is a table that has been in use for a while.
"""

import argparse
import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

from sqlalchemy import MetaData, text
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from benchmarks.backlog import vacuum
from benchmarks.drain import Sink
from postroom import Outbox, OutboxRelay, UntypedEvent
from postroom.relay.cleaner import clean
from tests.chaos.server import private_server

ROUNDS = 10
WRITERS = 4
KEYS = 1000
PAYLOADS = (300, 2_000, 10_000)


@dataclass
class Use:
    """Bytes that the records of one payload size took."""

    payload: int
    records: int
    wal: dict[str, int] = field(default_factory=dict)
    kept: int = 0
    """Of all tables and indexes, with every record delivered and kept."""
    emptied: int = 0
    """The same after all records were deleted and the tables vacuumed."""

    def row(self) -> str:
        """Write one row of the table: bytes per record."""
        wal = " ".join(f"{self.wal[each] / self.records:>10,.0f}" for each in STEPS)
        kept, emptied = self.kept / self.records, self.emptied / self.records
        return f"{self.payload:>8,} {kept:>10,.0f} {wal} {emptied:>10,.0f}"


STEPS = ("capture", "deliver", "delete")
HEADER = (
    f"{'payload':>8} {'kept':>10} {'WAL:':>10} {'':>10} {'':>10} {'after':>10}\n"
    f"{'bytes':>8} {'':>10} " + " ".join(f"{each:>10}" for each in STEPS) + f" {'deletion':>10}"
)


class Measurement:
    """Captures, delivers and deletes records of one payload size, and counts the bytes."""

    def __init__(self, engine: AsyncEngine, use: Use) -> None:
        self.engine, self.use = engine, use
        self.outbox = Outbox(MetaData(), table=f"outbox_{use.payload}")
        self.relay = OutboxRelay(self.outbox, engine, Sink(), batch_size=100)

    async def run(self) -> None:
        async with self.engine.begin() as connection:
            await connection.run_sync(self.outbox.create_tables)
        count = self.use.records // ROUNDS
        for first in range(0, self.use.records, count):
            await self._counted("capture", partial(self._capture, first, count))
            await self._counted("deliver", self._deliver)
            await vacuum(self.engine, self.outbox)
        self.use.kept = await self._size()
        await self._counted("delete", self._delete)
        await vacuum(self.engine, self.outbox)
        self.use.emptied = await self._size()

    async def _counted(self, step: str, work: Callable[[], Awaitable[None]]) -> None:
        before = await self._wal()
        await work()
        wal = self.use.wal
        wal[step] = wal.get(step, 0) + await self._wal() - before

    async def _capture(self, first: int, count: int) -> None:
        numbers = iter(range(first, first + count))

        async def write() -> None:
            for number in numbers:
                async with self.engine.begin() as connection:
                    await self.outbox.save(connection, [event(number, self.use.payload)])

        await asyncio.gather(*(write() for _ in range(WRITERS)))

    async def _deliver(self) -> None:
        await self.relay.run_once()

    async def _delete(self) -> None:
        assert await clean(self.relay.store, timedelta()) == self.use.records

    async def _wal(self) -> int:
        return int(await self._ask("SELECT pg_current_wal_insert_lsn() - '0/0'"))

    async def _size(self) -> int:
        return sum(
            [
                int(await self._ask(f"SELECT pg_total_relation_size('{table.fullname}')"))
                for table in self.outbox.tables
            ]
        )

    async def _ask(self, query: str) -> int:
        async with self.engine.connect() as connection:
            answer: int = (await connection.execute(text(query))).scalar_one()
            return answer


def event(number: int, size: int) -> UntypedEvent:
    """Make an event whose payload is so long in JSON, of a text that cannot be compressed much."""
    payload = {"number": number, "customer": "ann@example.com", "note": ""}
    rest = size - len(str(payload))
    payload["note"] = os.urandom(rest // 2 + 1).hex()[:rest]
    return UntypedEvent(
        event_type="order.placed",
        aggregate_type="order",
        aggregate_id=f"order-{number % KEYS}",
        payload=payload,
    )


async def measure(url: str, records: int, payloads: Sequence[int]) -> None:
    """Print a row for each payload size."""
    engine = create_async_engine(url)
    print(f"{records:,} records each; bytes per record\n{HEADER}")
    for payload in payloads:
        use = Use(payload, records)
        await Measurement(engine, use).run()
        print(use.row(), flush=True)
    await engine.dispose()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=20_000, help="of each payload size")
    parser.add_argument("--payloads", type=int, nargs="+", default=PAYLOADS, help="bytes of JSON")
    options = parser.parse_args()
    if options.records % ROUNDS or options.records <= 0:
        parser.error(f"--records must be a multiple of {ROUNDS}")
    with private_server() as server:
        asyncio.run(measure(server.url, options.records, options.payloads))


if __name__ == "__main__":
    main()

"""A store with its database at hand: what the suite writes, moves in time, and looks up."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar
from uuid import UUID

from sqlalchemy import MetaData, Row, delete, insert, select, text, update
from sqlalchemy.ext.asyncio import AsyncEngine

from postroom import Outbox, OutboxRecord
from postroom.operations import Operations
from postroom.record import Key
from postroom.store.base import Attempt, Claim, HeldRecord, Poll, Settlement, Verdict
from postroom.store.store import Store

LEASE = timedelta(seconds=30)
MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)
ZERO = timedelta()


class SuiteRecord(OutboxRecord):
    """A record of the suite's own outbox."""


outbox = Outbox(MetaData(), table="suite_outbox", record=SuiteRecord)
records = outbox.tables.records
leases = outbox.tables.leases
workers = outbox.tables.workers
blocked_keys = outbox.tables.blocked_keys
attempts = outbox.tables.attempts
inbox = outbox.tables.inbox


class StoreHarness(ABC):
    """A kind of store on an engine of its own, and what it is like.

    - `shares_work`: whether workers divide the partitions, or the first one takes everything
    """

    shares_work: ClassVar[bool]

    def __init__(self, engine: AsyncEngine) -> None:
        self.engine = engine

    @abstractmethod
    def store(self, **options: Any) -> Store:
        """Make a store of `outbox`."""


class Shift:
    """What tests add to the database's clock."""

    def __init__(self) -> None:
        self.ahead = ZERO

    def __call__(self) -> timedelta:
        return self.ahead


class StoreRig:
    """A worker's rig. Records are named by their event type: a1, a2 are the first ones of key a;
    those whose name begins with a dot have no key."""

    def __init__(self, harness: StoreHarness) -> None:
        self.harness = harness
        self.engine = harness.engine
        self.clock = Shift()
        self.store = self.another_store()
        self.operations = Operations(
            outbox, self.engine, operator="eve", host="laptop", channel=None, shift=self.clock
        )

    def another_store(self, **options: Any) -> Store:
        return self.harness.store(shift=self.clock, **options)

    def later(self, by: timedelta) -> None:
        self.clock.ahead += by

    def now(self) -> datetime:
        """About the time that the store believes it is."""
        return datetime.now(UTC) + self.clock.ahead

    async def clear(self) -> None:
        """Make the outbox as new, but for the numbers that it has given."""
        async with self.engine.begin() as connection:
            for table in outbox.tables:
                if table is not leases:
                    await connection.execute(delete(table))
            nobody = dict.fromkeys(("worker", "leased_until", "served_at", "suspect", "lost_by"))
            fresh = {
                "token": 0,
                "crash_count": 0,
                "suspect_crashes": 0,
                "suspect_sent": False,
                **nobody,
            }
            await connection.execute(update(leases).values(fresh))
        self.clock.ahead = ZERO

    # -- rows

    async def put(self, *names: str, **values: Any) -> None:
        """Insert records, in this order; `values` are what their rows say otherwise."""
        async with self.engine.begin() as connection:
            await connection.execute(insert(records), [new_row(name, values) for name in names])

    async def row(self, name: str) -> Row[Any]:
        async with self.engine.connect() as connection:
            return (await connection.execute(_select_one(name))).one()

    async def rows(self) -> dict[str, Row[Any]]:
        async with self.engine.connect() as connection:
            found = await connection.execute(select(records).order_by(records.c.position))
            return {row.event_type: row for row in found}

    async def ids(self, *names: str) -> list[UUID]:
        rows = await self.rows()
        return [rows[name].id for name in names]

    async def edit(self, name: str, **values: Any) -> None:
        """Change a row behind the store's back."""
        async with self.engine.begin() as connection:
            await connection.execute(
                update(records).where(records.c.event_type == name).values(**values)
            )

    async def sql(self, statement: str, **values: Any) -> Sequence[Row[Any]]:
        async with self.engine.begin() as connection:
            result = await connection.execute(text(statement), values)
            return result.all() if result.returns_rows else []

    async def gates(self) -> dict[str, str]:
        """Give which record each blocked key waits for."""
        names = {row.position: name for name, row in (await self.rows()).items()}
        async with self.engine.connect() as connection:
            found = await connection.execute(select(blocked_keys))
            return {row.aggregate_id: names.get(row.position, "gone") for row in found}

    async def history(self, name: str) -> list[Row[Any]]:
        """Give the refusals of a record, the oldest first."""
        position = (await self.row(name)).position
        async with self.engine.connect() as connection:
            wanted = select(attempts).where(attempts.c.position == position)
            return list(await connection.execute(wanted.order_by(attempts.c.id)))

    async def pause(self, event_type: str = "", key: str = "") -> None:
        key_ = key_named(key)
        await self.operations.pause(event_type=event_type, key=key_, reason="a release")

    async def resume(self) -> None:
        """End every pause."""
        for row in await self.sql("SELECT event_type, aggregate_id FROM suite_outbox_pauses"):
            key = key_named(row.aggregate_id)
            await self.operations.resume(event_type=row.event_type, key=key)

    # -- the store

    async def poll(self, worker: str = "ann", **options: Any) -> Poll:
        return await self.store.leases.poll(worker, lease=LEASE, **options)

    async def claim(
        self, worker: str = "ann", *, depth: int = 1000, held: Collection[HeldRecord] = ()
    ) -> Claim:
        """Poll, and claim from all that the worker holds then."""
        tokens = tokens_of(await self.poll(worker))
        return await self.store.claims.claim(tokens, depth=depth, held=held)

    async def claimed(self, *names: str, worker: str = "ann") -> list[HeldRecord]:
        """Claim, and give the records of these names."""
        found = {each.record.event_type: each for each in (await self.claim(worker)).records}
        return [found[name] for name in names]

    async def open_to_claim(self, **options: Any) -> list[str]:
        return names_of((await self.claim(**options)).records)

    async def deliver(self, *names: str, worker: str = "ann") -> None:
        delivered = await self.claimed(*names, worker=worker)
        await self.store.settlements.settle(Settlement(delivered=delivered))

    async def refuse(
        self,
        *names: str,
        delay: timedelta | None = MINUTE,
        holds: bool = True,
        reason: str | None = "no",
        worker: str = "ann",
    ) -> None:
        refused = await self.claimed(*names, worker=worker)
        made = [attempt(each, delay=delay, holds=holds, reason=reason) for each in refused]
        await self.store.settlements.settle(Settlement(worker=worker, attempts=made))

    async def fail(self, *names: str) -> None:
        await self.refuse(*names, delay=None)

    async def drain(self, worker: str = "ann") -> list[str]:
        """Deliver, in order, all that may leave, and what that brings; one at a time of a key."""
        delivered: list[str] = []
        while batch := first_of_each_key((await self.claim(worker)).records):
            await self.store.settlements.settle(Settlement(delivered=batch))
            delivered += names_of(batch)
        return delivered


def new_row(name: str, values: dict[str, Any]) -> dict[str, Any]:
    key = None if name.startswith(".") else name.rstrip("0123456789")
    chosen = {"aggregate_type": key and "suite", "aggregate_id": key, **values}
    record = SuiteRecord(
        event_type=name,
        payload={"name": name},
        aggregate_type=chosen["aggregate_type"],
        aggregate_id=chosen["aggregate_id"],
    )
    row = {"id": record.id, "event_type": name, "payload": record.payload, "headers": {}}
    row |= {"occurred_at": record.occurred_at, "partition": record.partition, "max_retries": 10}
    return row | {"ready": True, "due_at": None, **chosen}


def key_named(name: str) -> Key | None:
    return Key("suite", name) if name else None


def partition_of(name: str) -> int:
    """Give the partition of a record with a key."""
    partition: int = new_row(name, {})["partition"]
    return partition


def _select_one(name: str) -> Any:
    return select(records).where(records.c.event_type == name)


def tokens_of(poll: Poll) -> dict[int, int]:
    return {lease.partition: lease.token for lease in poll.leases}


def names_of(claimed: Iterable[HeldRecord]) -> list[str]:
    return [each.record.event_type for each in claimed]


def positions(claimed: Iterable[HeldRecord]) -> list[int]:
    return [record.position for record in claimed]


def numbered(key: str, first: int, last: int) -> list[str]:
    """Give the names key-first to key-last."""
    return [f"{key}{number}" for number in range(first, last + 1)]


def first_of_each_key(claimed: Iterable[HeldRecord]) -> list[HeldRecord]:
    firsts: dict[Any, HeldRecord] = {}
    for record in claimed:
        firsts.setdefault(record.key or record.position, record)
    return list(firsts.values())


def attempt(
    record: HeldRecord,
    *,
    delay: timedelta | None = MINUTE,
    holds: bool = True,
    reason: str | None = "no",
) -> Attempt:
    return Attempt(
        record=record,
        verdict=Verdict.FAILED if delay is None else Verdict.RETRY,
        reason=reason,
        retry_count=record.record.retry_count + 1,
        delay=delay or ZERO,
        blocks_key=holds,
    )


def of_key(names: Iterable[str], key: str) -> list[str]:
    """Give those of a key."""
    return [name for name in names if name.rstrip("0123456789") == key]

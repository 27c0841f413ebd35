"""Leases: which worker delivers the records of which partition, and for how long."""

from collections.abc import Collection, Mapping
from datetime import timedelta

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from postroom.record import PARTITIONS
from postroom.store.base import HeldRecord
from postroom.store.database import Database, as_rows
from postroom.store.polling import PostgresPoll, SQLitePoll, present


class Leases:
    """Takes, renews and releases the leases of workers.

    `poll` renews the leases of partitions that have work or are busy, releases the others, and
    takes a fair share of what is free.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self.poll = (PostgresPoll if database.sql.shares_work else SQLitePoll)(database)
        n, sql = database, database.sql

        # One row per partition, made when the first relay of an outbox starts.
        partitions = sql.rows("partitions", {"partition": "smallint"})
        self._seed = text(f"""INSERT INTO {n.leases} (partition)
            SELECT partition FROM {partitions} WHERE true ON CONFLICT DO NOTHING""")

        # The heartbeat: the leases of a worker last longer.
        self._renew = text(f"""UPDATE {n.leases} SET leased_until = {sql.after(":lease")},
            served_at = {sql.now} WHERE worker = :worker RETURNING partition, token""")
        # The last holder is alive: it did not crash.
        self._alive = text(f"""UPDATE {n.leases} SET lost_by = NULL, crash_count = 0
            WHERE lost_by = :worker""")

        # Before deliveries that may kill the process: which records, one per partition.
        suspects = {"at": "smallint", "position": "bigint", "crashes": "integer"}
        self._suspect = text(f"""UPDATE {n.leases} SET suspect = suspects.position,
            suspect_crashes = suspects.crashes FROM {sql.rows("suspects", suspects)}
            WHERE partition = suspects.at AND worker = :worker RETURNING partition, token""")
        # After enough deliveries without a crash.
        self._clear_crashes = text(f"""UPDATE {n.leases} SET crash_count = 0, suspect = NULL,
            suspect_crashes = 0, lost_by = NULL
            WHERE worker = :worker AND partition {sql.among("partitions")}""")

        # A worker that stops in an orderly way has survived its deliveries.
        self._release = text(f"""UPDATE {n.leases} SET worker = NULL, leased_until = NULL,
            suspect = NULL, suspect_crashes = 0 WHERE worker = :worker""")
        self._present = text(present(database))
        self._forget_worker = text(f"DELETE FROM {n.workers} WHERE worker = :worker")

    async def create(self, connection: AsyncConnection) -> None:
        """Create the leases that are missing."""
        partitions = as_rows({"partition": each} for each in range(PARTITIONS))
        await self._database.run(connection, self._seed, partitions=partitions)

    async def renew(self, worker: str, lease: timedelta) -> dict[int, int]:
        """Renew the leases of a worker; return the partitions that it holds, with the tokens."""

        async def work(connection: AsyncConnection) -> dict[int, int]:
            await self._database.run(connection, self._alive, worker=worker)
            seconds = lease.total_seconds()
            rows = await self._database.run(connection, self._renew, worker=worker, lease=seconds)
            tokens = {row.partition: row.token for row in rows}
            if tokens:
                await self._database.run(connection, self._present, worker=worker)
            return tokens

        return await self._database.write(work)

    async def suspect(self, worker: str, suspects: Mapping[HeldRecord, int]) -> list[HeldRecord]:
        """Write down which records are about to be delivered alone, and how often that began.

        Returns those whose lease the worker still holds.
        """
        values = as_rows(
            {"at": each.partition, "position": each.position, "crashes": crashes}
            for each, crashes in suspects.items()
        )
        rows = await self._database.fetch(self._suspect, worker=worker, suspects=values)
        held = {(row.partition, row.token) for row in rows}
        return [each for each in suspects if (each.partition, each.token) in held]

    async def clear_crashes(self, worker: str, partitions: Collection[int]) -> None:
        """Forget the crashes of partitions that have been served without one."""
        numbers = self._database.sql.numbers(partitions)
        await self._database.fetch(self._clear_crashes, worker=worker, partitions=numbers)

    async def release(self, worker: str) -> None:
        """Release every lease of a worker."""

        async def work(connection: AsyncConnection) -> None:
            await self._database.run(connection, self._release, worker=worker)
            await self._database.run(connection, self._forget_worker, worker=worker)

        await self._database.write(work)

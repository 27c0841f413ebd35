"""Takes, renews and releases leases: which worker delivers which partition."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from sqlalchemy import text

from postroom.database.database import HEARTBEAT, Database, Run, as_rows, transaction
from postroom.record import PARTITIONS
from postroom.store.base import HeldRecord, Lease, Pauses, Poll
from postroom.store.lease_decision import Decision, Look, decide
from postroom.store.pauses import PausedRecords
from postroom.store.rows import within_partition

LEASE = "partition, token, crash_count, suspect, suspect_crashes"


class Leases:
    """Takes, renews and releases the leases of workers.

    Workers divide the partitions with work evenly, except on SQLite: it has one writer at a time,
    so the first worker takes everything.
    """

    def __init__(self, database: Database, paused_records: PausedRecords) -> None:
        self.database = database
        self._paused_records = paused_records
        n, sql = database, database.sql
        # One row per partition, made when the first relay of an outbox starts.
        partitions = sql.rows("partitions", {"partition": "smallint"})
        self._seed = text(f"""INSERT INTO {n.leases} (partition)
            SELECT partition FROM {partitions} WHERE true ON CONFLICT DO NOTHING""")

        # A worker is there, for two heartbeats.
        present = f"""INSERT INTO {n.workers} (worker, seen_until)
            VALUES (:worker, {sql.after(":presence")})
            ON CONFLICT (worker) DO UPDATE SET seen_until = excluded.seen_until"""
        self._present = text(present)
        # It shares no work from now on; and it has ended.
        self._absent = text(f"UPDATE {n.workers} SET seen_until = {sql.now} WHERE worker = :worker")
        self._forget_worker = text(f"DELETE FROM {n.workers} WHERE worker = :worker")

        # What a worker reports of itself. It says nothing of whether it shares the work.
        reports = sql.rows("reports", {"worker": "text", "report": "jsonb"})
        self._report = text(f"""INSERT INTO {n.workers} (worker, seen_until, reported_at, report)
            SELECT reports.worker, {sql.now}, {sql.now}, reports.report FROM {reports} WHERE true
            ON CONFLICT (worker) DO UPDATE
            SET reported_at = excluded.reported_at, report = excluded.report""")

        # A lease has run out, or is further ahead than its length: the clock was wrong.
        length = sql.seconds_between("l.served_at", "l.leased_until")
        left = sql.seconds_between(sql.now, "l.leased_until")
        expired = f"(l.leased_until < {sql.now} OR {left} > 1.5 * {length})"

        # What there is to do, and who holds the leases: all that an idle relay asks. On PostgreSQL
        # it says in the same statement that it is there; on SQLite that would lock the file. A
        # busy partition is not looked into: what was delivered lately may be slow to walk past.
        ready = f"SELECT true FROM {n.records} r WHERE r.ready AND {within_partition('l', '0')}"
        due = f"""SELECT r.due_at FROM {n.records} r WHERE r.due_at < {sql.after("1000000000")}
            AND r.partition = l.partition ORDER BY r.due_at"""
        others = f"""(SELECT count(*) FROM {n.workers} w
            WHERE w.worker <> :worker AND w.seen_until > {sql.now} AND NOT w.draining)"""
        first = f"WITH present AS ({present})" if sql.shares_work else ""
        self._look = text(f"""{first} SELECT l.partition, l.worker, l.leased_until,
                l.is_ready OR coalesce(l.due_at <= {sql.now}, false) AS has_work,
                CASE WHEN l.due_at > {sql.now}
                    THEN {sql.seconds_between(sql.now, "l.due_at")} END AS due_in,
                coalesce({expired}, false) AS is_expired,
                EXISTS (SELECT 1 FROM {n.workers} w
                    WHERE w.worker = l.worker AND w.seen_until > {sql.now}) AS is_present,
                {others if sql.shares_work else 0} AS others,
                EXISTS (SELECT 1 FROM {n.pauses}) AS any_paused,
                EXISTS (SELECT 1 FROM {n.workers} w
                    WHERE w.worker = :worker AND w.draining) AS draining
            FROM (SELECT l.*, ({due} LIMIT 1) AS due_at, CASE WHEN l.partition {sql.among("busy")}
                THEN true ELSE coalesce(({ready} LIMIT 1), false) END AS is_ready
                FROM {n.leases} l) AS l""")

        # What a worker goes on with.
        self._keep = text(f"""UPDATE {n.leases} SET leased_until = {sql.after(":lease")},
            served_at = {sql.now} WHERE worker = :worker AND partition {sql.among("partitions")}
            RETURNING {LEASE}""")
        # What it leaves to others. Where all work is done, it was done without a crash.
        done = f"partition {sql.among('done')}"
        self._release = text(f"""UPDATE {n.leases} SET worker = NULL, leased_until = NULL,
            crash_count = CASE WHEN {done} THEN 0 ELSE crash_count END,
            suspect = CASE WHEN {done} THEN NULL ELSE suspect END,
            suspect_crashes = CASE WHEN {done} THEN 0 ELSE suspect_crashes END
            WHERE worker = :worker AND partition {sql.among("partitions")}""")
        # What it takes: leases that ran out first, then those that waited longest.
        free = f"""SELECT l.partition FROM {n.leases} l WHERE l.partition {sql.among("partitions")}
            AND (l.worker IS NULL OR (l.worker <> :worker AND {expired}))
            ORDER BY l.worker IS NULL, l.served_at NULLS FIRST, l.partition
            LIMIT :room {sql.skip_locked}"""
        self._take = text(f"""UPDATE {n.leases} SET worker = :worker, token = token + 1,
            leased_until = {sql.after(":lease")}, served_at = {sql.now},
            lost_by = coalesce(worker, lost_by),
            crash_count = crash_count + CASE WHEN leased_until < {sql.now} THEN 1 ELSE 0 END
            WHERE partition {sql.within(free)} RETURNING {LEASE}""")

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
        self._release_all = text(f"""UPDATE {n.leases} SET worker = NULL, leased_until = NULL,
            suspect = NULL, suspect_crashes = 0 WHERE worker = :worker""")

    @transaction
    async def create(self, run: Run) -> None:
        """Create the leases that are missing."""
        await run(self._seed, partitions=as_rows({"partition": n} for n in range(PARTITIONS)))

    async def poll(
        self,
        worker: str,
        *,
        lease: timedelta,
        busy: Collection[int] = (),
        surplus: Collection[int] = (),
        take: bool = True,
        all_if_alone: bool = False,
    ) -> Poll:
        """Renew the leases of partitions with work, release the others, take a fair share.

        Keeps `busy` partitions, and releases the idle ones of `surplus`. Without `take`, while
        everything is paused, and while an operator drains the worker, all that is not busy is
        released. With `all_if_alone`, a worker that is alone takes all partitions when one has
        work: it can then claim the next commit without a poll.
        """
        numbers, values = self.database.sql.numbers(busy), _values(worker, lease)

        async def look(run: Run) -> Decision:
            found = [Look(*row) for row in await run(self._look, busy=numbers, **values)]
            any_paused = bool(found and found[0].any_paused)
            pauses = await self._paused_records.read(run) if any_paused else Pauses()
            draining = bool(found and found[0].draining)
            takes = take and not (pauses.everything or draining)
            wanted = decide(found, worker, busy, surplus, take=takes, all_if_alone=all_if_alone)
            return replace(wanted, poll=replace(wanted.poll, pauses=pauses, draining=draining))

        if not self.database.sql.shares_work:  # most looks find nothing to do: no file is locked
            wanted = await self.database.transact(look, snapshot=True)
            if not wanted.writes:
                return wanted.poll

        async def work(run: Run) -> Poll:
            wanted = await look(run)
            leases = await self._write(run, worker, lease, wanted) if wanted.writes else ()
            return replace(wanted.poll, leases=leases)

        return await self.database.transact(work)

    async def _write(
        self, run: Run, worker: str, lease: timedelta, wanted: "Decision"
    ) -> tuple[Lease, ...]:
        """Write what was decided; return the leases that the worker holds now."""
        values, numbers = _values(worker, lease), self.database.sql.numbers
        if not self.database.sql.shares_work:
            await run(self._present, **values)
        leases: list[Any] = []
        if wanted.keep:
            leases += await run(self._keep, partitions=numbers(wanted.keep), **values)
        if wanted.release:
            done = numbers(wanted.release - wanted.with_work)
            await run(self._release, partitions=numbers(wanted.release), done=done, **values)
        if wanted.take and wanted.room:
            some = numbers(wanted.take)
            leases += await run(self._take, partitions=some, room=wanted.room, **values)
        return tuple(Lease(*row) for row in leases)

    @transaction
    async def renew(self, run: Run, worker: str, lease: timedelta) -> dict[int, int]:
        """Renew the leases of a worker; return the partitions that it holds, with the tokens."""
        values = _values(worker, lease)
        await run(self._alive, **values)
        tokens = {row.partition: row.token for row in await run(self._renew, **values)}
        if tokens:
            await run(self._present, **values)
        return tokens

    async def report(self, worker: str, report: Mapping[str, Any]) -> None:
        """Write what a worker reports of itself, for operators."""
        await self.database.fetch(
            self._report, reports=as_rows([{"worker": worker, "report": report}])
        )

    async def suspect(self, worker: str, suspects: Mapping[HeldRecord, int]) -> list[HeldRecord]:
        """Write down which records are about to be delivered alone, and how often that began.

        Returns those whose lease the worker still holds.
        """
        values = as_rows(
            {"at": each.partition, "position": each.position, "crashes": crashes}
            for each, crashes in suspects.items()
        )
        rows = await self.database.fetch(self._suspect, worker=worker, suspects=values)
        held = {(row.partition, row.token) for row in rows}
        return [each for each in suspects if (each.partition, each.token) in held]

    async def clear_crashes(self, worker: str, partitions: Collection[int]) -> None:
        """Forget the crashes of partitions that have been served without one."""
        numbers = self.database.sql.numbers(partitions)
        await self.database.fetch(self._clear_crashes, worker=worker, partitions=numbers)

    @transaction
    async def release(self, run: Run, worker: str, *, stays: bool = False) -> None:
        """Release every lease of a worker, which ends; or `stays`, and so does its row."""
        await run(self._release_all, worker=worker)
        await run(self._absent if stays else self._forget_worker, worker=worker)


def _values(worker: str, lease: timedelta) -> dict[str, Any]:
    """Return the values of the statements about a worker and its leases."""
    seconds = lease.total_seconds()
    return {"worker": worker, "lease": seconds, "presence": 2 * min(HEARTBEAT, seconds / 4)}

"""Takes, renews and releases leases: which worker delivers which partition."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from sqlalchemy import text

from postroom.database.database import HEARTBEAT, Database, Run, as_rows, transaction
from postroom.database.sqlite import Renewals
from postroom.process import is_dead
from postroom.record import PARTITIONS
from postroom.store.base import HeldRecord, Lease, Pauses, Poll, Verdict
from postroom.store.blocked_keys import BlockedKeys
from postroom.store.lease_decision import Decision, Look, decide
from postroom.store.rows import within_partition

ALL: Final = as_rows({"partition": each} for each in range(PARTITIONS))
NEVER: Final = 2**31 - 1
"""More crashes than anybody counts."""
LOST: Final = {"at": "smallint", "holder": "text", "crashes": "integer", "blamed": "integer"}


class Leases:
    """Takes, renews and releases the leases of workers.

    Workers divide the partitions with work evenly, except on SQLite: it has one writer at a time,
    so the first worker takes everything, and the others stand by.
    """

    def __init__(self, database: Database, blocked_keys: BlockedKeys) -> None:
        self.database = database
        self._blocked_keys = blocked_keys
        self._renewals = Renewals()
        n, sql = database, database.sql
        lease = f"partition, token, crash_count, {sql.identity('suspect')}, suspect_crashes"
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
        floors = sql.rows("floors", {"partition": "smallint", "floor": "bigint"})
        beyond = within_partition("l", "coalesce(floors.floor, 0)")
        ready = f"SELECT true FROM {n.records} r WHERE r.ready AND {beyond}"
        due = f"""SELECT r.due_at FROM {n.records} r WHERE r.due_at < {sql.after("1000000000")}
            AND r.status = 'pending' AND r.partition = l.partition ORDER BY r.due_at"""
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
                    WHERE w.worker = :worker AND w.draining) AS draining,
                l.crash_count, l.suspect_crashes, l.suspect_sent, {n.server} AS server
            FROM (SELECT l.*, ({due} LIMIT 1) AS due_at, CASE WHEN l.partition {sql.among("busy")}
                THEN true ELSE coalesce(({ready} LIMIT 1), false) END AS is_ready
                FROM {n.leases} l LEFT JOIN {floors} ON floors.partition = l.partition) AS l""")

        # What a worker goes on with.
        self._keep = text(f"""UPDATE {n.leases} SET leased_until = {sql.after(":lease")},
            served_at = {sql.now} WHERE worker = :worker AND partition {sql.among("partitions")}
            RETURNING {lease}""")
        # What it leaves to others: it has nothing of it in flight. Where all work is done, it was
        # done without a crash.
        self._release = text(f"""UPDATE {n.leases} SET worker = NULL, leased_until = NULL,
            suspect = CASE WHEN suspect_crashes > 0 THEN suspect END, suspect_sent = false,
            crash_count = CASE WHEN partition {sql.among("done")} THEN 0 ELSE crash_count END
            WHERE worker = :worker AND partition {sql.among("partitions")}""")
        # What the dead have left, with what follows from that for their records.
        left_behind = f"""SELECT l.partition FROM {n.leases} l WHERE l.worker <> :worker AND
            ({expired} OR l.worker IN (SELECT dead.name FROM {sql.rows("dead", {"name": "text"})}))
            {sql.skip_locked}"""
        self._bury = text(f"""UPDATE {n.leases} SET worker = NULL, leased_until = NULL,
            lost_by = worker, crash_count = lost.crashes, suspect_crashes = lost.blamed,
            suspect = CASE WHEN lost.blamed > 0 THEN suspect END, suspect_sent = false
            FROM {sql.rows("lost", LOST)} WHERE partition = lost.at AND worker = lost.holder
            AND partition {sql.within(left_behind)}""")
        # What it takes: those that waited longest.
        free = f"""SELECT l.partition FROM {n.leases} l WHERE l.partition {sql.among("partitions")}
            AND l.worker IS NULL ORDER BY l.served_at NULLS FIRST, l.partition
            LIMIT :room {sql.skip_locked}"""
        self._take = text(f"""UPDATE {n.leases} SET worker = :worker, token = token + 1,
            leased_until = {sql.after(":lease")}, served_at = {sql.now}
            WHERE partition {sql.within(free)} RETURNING {lease}""")

        # The heartbeat: the leases of a worker last longer.
        self._renew = text(f"""UPDATE {n.leases} SET leased_until = {sql.after(":lease")},
            served_at = {sql.now} WHERE worker = :worker RETURNING partition, token""")
        # The last holder is alive: it did not crash.
        self._alive = text(f"""UPDATE {n.leases} SET crash_count = 0, lost_by = NULL,
            suspect = NULL, suspect_crashes = 0, suspect_sent = false WHERE lost_by = :worker""")

        # Before deliveries that may kill the process: which records, one per partition.
        suspects = {"at": "smallint", "id": "uuid", "crashes": "integer"}
        self._suspect = text(f"""UPDATE {n.leases} SET suspect = suspects.id, suspect_sent = true,
            suspect_crashes = suspects.crashes FROM {sql.rows("suspects", suspects)}
            WHERE partition = suspects.at AND worker = :worker RETURNING partition, token""")
        # What is blamed for no crash any more; but for those that so many have died of.
        blamed = f"""SELECT l.partition FROM {n.leases} l
            WHERE l.partition {sql.among("partitions")}
            AND (l.crash_count > 0 OR l.suspect IS NOT NULL) {sql.skip_locked}"""
        proven = "suspect_crashes >= :proven"
        self._acquit = text(f"""UPDATE {n.leases} SET crash_count = 0, lost_by = NULL,
            suspect = CASE WHEN {proven} THEN suspect END, suspect_sent = suspect_sent AND {proven},
            suspect_crashes = CASE WHEN {proven} THEN :proven ELSE 0 END
            WHERE partition {sql.within(blamed)}""")
        self._quarantines = text(f"""SELECT count(*) AS number FROM {n.attempts}
            WHERE position = :position AND verdict = '{Verdict.QUARANTINED}'""")

    @transaction
    async def create(self, run: Run) -> None:
        """Create the leases that are missing."""
        await run(self._seed, partitions=ALL)

    async def poll(
        self,
        worker: str,
        *,
        lease: timedelta,
        busy: Collection[int] = (),
        surplus: Collection[int] = (),
        floors: Mapping[int, int] | None = None,
        take: bool = True,
        all_if_alone: bool = False,
    ) -> Poll:
        """Renew the leases of partitions with work, release the others, take a fair share.

        Keeps `busy` partitions, and releases the idle ones of `surplus`. Below the `floors`
        nothing is ready. Without `take`, while everything is paused, and while an operator drains
        the worker, all that is not busy is released. With `all_if_alone`, a worker that is alone
        takes all partitions when one has work: it can then claim the next commit without a poll.
        """
        values, one_delivers = _values(worker, lease), not self.database.sql.shares_work
        known: dict[str, Any] = {
            "busy": self.database.sql.numbers(busy),
            "floors": as_rows({"partition": p, "floor": at} for p, at in (floors or {}).items()),
        }

        async def look(run: Run) -> Decision:
            found = [Look(*row) for row in await run(self._look, **known, **values)]
            if one_delivers:
                living = self._renewals.living(found, lease)
                found = [
                    each._replace(is_expired=each.is_expired and each.worker not in living)
                    for each in found
                ]
            any_paused = any(each.any_paused for each in found)
            return decide(
                found,
                worker,
                busy,
                surplus,
                dead=set(filter(is_dead, {each.worker or "" for each in found})),
                pauses=await self._blocked_keys.pauses(run) if any_paused else Pauses(),
                take=take,
                all_if_alone=all_if_alone,
                one_delivers=one_delivers,
            )

        async def work(run: Run) -> Poll:
            wanted = await look(run)
            if wanted.poll.server is None:  # somebody has emptied the table
                await run(self._seed, partitions=ALL)
            leases = await self._write(run, values, wanted) if wanted.writes else ()
            return replace(wanted.poll, leases=leases)

        if one_delivers:  # most looks find nothing to do: no file is locked
            wanted = await self.database.transact(look, snapshot=True)
            if not wanted.writes and wanted.poll.server is not None:
                return wanted.poll
        return await self.database.transact(work)

    async def _write(
        self, run: Run, values: Mapping[str, Any], wanted: Decision
    ) -> tuple[Lease, ...]:
        """Write what was decided; return the leases that the worker holds now."""
        numbers = self.database.sql.numbers
        if not self.database.sql.shares_work:
            await run(self._present, **values)
        leases: list[Any] = []
        if wanted.lost:
            names = as_rows({"name": each} for each in wanted.dead)
            lost = as_rows(each._asdict() for each in wanted.lost)
            await run(self._bury, dead=names, lost=lost, **values)
        for each in wanted.dead:  # it shares no work from now on
            await run(self._absent, worker=each)
        if wanted.acquitted:
            await run(self._acquit, partitions=numbers(wanted.acquitted), proven=NEVER)
        if wanted.keep:
            leases += await run(self._keep, partitions=numbers(wanted.keep), **values)
        if wanted.release:
            done = numbers(wanted.release - wanted.with_work)
            await run(self._release, partitions=numbers(wanted.release), done=done, **values)
        if wanted.take and wanted.room:
            some = numbers(wanted.take)
            leases += await run(self._take, partitions=some, room=wanted.room, **values)
        return tuple(map(_lease, leases))

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
        reports = as_rows([{"worker": worker, "report": report}])
        await self.database.fetch(self._report, reports=reports)

    async def suspect(self, worker: str, suspects: Mapping[HeldRecord, int]) -> list[HeldRecord]:
        """Write down which records are about to be delivered with care, and how many died of it.

        Returns those whose lease the worker still holds.
        """
        values = as_rows(
            {"at": each.partition, "id": each.record.id.hex, "crashes": crashes}
            for each, crashes in suspects.items()
        )
        rows = await self.database.fetch(self._suspect, worker=worker, suspects=values)
        held = {(row.partition, row.token) for row in rows}
        return [each for each in suspects if (each.partition, each.token) in held]

    async def acquit(self, partitions: Collection[int], *, proven: int = NEVER) -> None:
        """Set the counts of partitions back; those of suspects to `proven`, if so many died."""
        numbers = self.database.sql.numbers(partitions)
        await self.database.fetch(self._acquit, partitions=numbers, proven=proven)

    async def quarantines(self, record: HeldRecord) -> int:
        """Return how often a record was quarantined, as far as its history tells."""
        [row] = await self.database.fetch(self._quarantines, position=record.position)
        return int(row.number)

    @transaction
    async def release(
        self, run: Run, worker: str, *, stays: bool = False, acquits: bool = False
    ) -> None:
        """Release every lease of a worker, which ends; or `stays`, and so does its row."""
        everything, none = map(self.database.sql.numbers, (range(PARTITIONS), ()))
        await run(self._release, worker=worker, partitions=everything, done=none)
        if acquits:
            await run(self._acquit, partitions=everything, proven=NEVER)
        await run(self._absent if stays else self._forget_worker, worker=worker)


def _lease(row: Any) -> Lease:
    partition, token, crash_count, suspect, suspect_crashes = row
    known = None if suspect is None else UUID(str(suspect))
    return Lease(partition, token, crash_count, known, suspect_crashes)


def _values(worker: str, lease: timedelta) -> dict[str, Any]:
    """Return the values of the statements about a worker and its leases."""
    seconds = lease.total_seconds()
    return {"worker": worker, "lease": seconds, "presence": 2 * min(HEARTBEAT, seconds / 4)}

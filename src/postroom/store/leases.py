"""Leases: which worker delivers the records of which partition, and for how long."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from math import ceil
from typing import Any, NamedTuple

from sqlalchemy import text

from postroom.database.database import HEARTBEAT, Database, Run, as_rows, transaction
from postroom.record import PARTITIONS
from postroom.store.base import HeldRecord, Lease, Poll, Unattended
from postroom.store.rows import moment, within_partition

LEASE = "partition, token, crash_count, suspect, suspect_crashes"


class Leases:
    """Takes, renews and releases the leases of workers.

    Workers divide the partitions with work evenly, except on SQLite: it has one writer at a time,
    so the first worker takes everything.
    """

    def __init__(self, database: Database) -> None:
        self.database = database
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
        self._forget_worker = text(f"DELETE FROM {n.workers} WHERE worker = :worker")

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
            WHERE w.worker <> :worker AND w.seen_until > {sql.now})"""
        first = f"WITH present AS ({present})" if sql.shares_work else ""
        self._look = text(f"""{first} SELECT l.partition, l.worker, l.leased_until,
                l.is_ready OR coalesce(l.due_at <= {sql.now}, false) AS has_work,
                CASE WHEN l.due_at > {sql.now}
                    THEN {sql.seconds_between(sql.now, "l.due_at")} END AS due_in,
                coalesce({expired}, false) AS is_expired,
                EXISTS (SELECT 1 FROM {n.workers} w
                    WHERE w.worker = l.worker AND w.seen_until > {sql.now}) AS is_present,
                {others if sql.shares_work else 0} AS others
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

        Keeps `busy` partitions, and releases the idle ones of `surplus`. Without `take`, everything
        that is not busy is released. With `all_if_alone`, a worker that is alone takes all
        partitions when one has work: it can then claim the next commit without a poll.
        """
        numbers, values = self.database.sql.numbers(busy), _values(worker, lease)

        async def look(run: Run) -> Decision:
            found = [Look(*row) for row in await run(self._look, busy=numbers, **values)]
            return decide(found, worker, busy, surplus, take=take, all_if_alone=all_if_alone)

        if not self.database.sql.shares_work:  # most looks find nothing to do: no file is locked
            async with self.database.transaction(snapshot=True) as run:
                wanted = await look(run)
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
    async def release(self, run: Run, worker: str) -> None:
        """Release every lease of a worker."""
        await run(self._release_all, worker=worker)
        await run(self._forget_worker, worker=worker)


class Look(NamedTuple):
    """What a poll finds of a partition: its lease, and what there is to do."""

    partition: int
    worker: str | None
    leased_until: Any
    has_work: bool
    due_in: float | None
    is_expired: bool
    is_present: bool
    others: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Which partitions a worker keeps, releases, and takes if they are free: `room` at most."""

    with_work: Set[int]
    keep: Set[int]
    release: Set[int]
    take: Set[int]
    room: int
    poll: Poll
    """What the poll returns, but for the leases."""

    @property
    def writes(self) -> bool:
        """Whether there is anything to write."""
        return bool(self.with_work or self.keep or self.release)


def decide(
    rows: Sequence[Look],
    worker: str,
    busy: Collection[int],
    surplus: Collection[int],
    *,
    take: bool,
    all_if_alone: bool = False,
) -> Decision:
    """Decide from a look at all partitions. What has run out is taken in addition to the share."""
    with_work = {row.partition for row in rows if row.has_work}
    mine = {row.partition for row in rows if row.worker == worker}
    others = rows[0].others if rows else 0
    takes_all = all_if_alone and with_work and not others
    served = {row.partition for row in rows} if takes_all else with_work
    wanted = (served - set(surplus) if take else set()) | set(busy)
    share = ceil(len(with_work) / (1 + others)) if others else PARTITIONS
    expired = [row for row in rows if row.has_work and row.is_expired and row.worker != worker]
    due = [row.due_in for row in rows if row.due_in is not None]
    return Decision(
        with_work=with_work,
        keep=mine & wanted,
        release=mine - wanted,
        take=served - mine if take else set(),
        room=max(0, share - len(mine & wanted)) + len(expired),
        poll=Poll(
            waiting=len(with_work),
            share=share,
            next_due=timedelta(seconds=float(min(due))) if due else None,
            unattended=tuple(_unattended(rows, worker)),
        ),
    )


def _values(worker: str, lease: timedelta) -> dict[str, Any]:
    """Return the values of the statements about a worker and its leases."""
    seconds = lease.total_seconds()
    return {"worker": worker, "lease": seconds, "presence": 2 * min(HEARTBEAT, seconds / 4)}


def _unattended(rows: Iterable[Look], worker: str) -> Iterator[Unattended]:
    """Find partitions with work whose worker has not shown up for two heartbeats."""
    until: dict[str, list[datetime]] = {}
    for row in rows:
        if row.has_work and not (row.worker in (None, worker) or row.is_expired or row.is_present):
            until.setdefault(row.worker, []).append(moment(row.leased_until))
    for each, times in until.items():
        yield Unattended(worker=each, partitions=len(times), until=max(times))

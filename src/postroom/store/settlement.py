"""Settlements: the results of deliveries, written in one transaction."""

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any

from sqlalchemy import text

from postroom.database.database import Database, Run, as_rows, transaction
from postroom.record import Status
from postroom.store.base import Attempt, HeldRecord, Settlement, Verdict
from postroom.store.blocked_keys import BlockedKeys, by_key
from postroom.store.rows import storable

ATTEMPT = {
    "at": "bigint",
    "id": "uuid",
    "status": "text",
    "retry_count": "integer",
    "reason": "text",
    "delay": "double precision",
    "verdict": "text",
    "seconds": "double precision",
}


class Settlements:
    """Writes settlements. Without `keep_delivered`, delivered records are deleted."""

    def __init__(
        self, database: Database, blocked_keys: BlockedKeys, *, keep_delivered: bool
    ) -> None:
        self.database = database
        self._blocked_keys = blocked_keys
        self._keep_delivered = keep_delivered
        n, sql = database, database.sql
        # Written even if the worker has lost its lease: the record has been delivered.
        delivered = f"""UPDATE {n.records} AS d SET status = 'published', ready = false,
            due_at = NULL, error_message = NULL, updated_at = {sql.now},
            published_at = coalesce(published_at, {sql.now}) WHERE {n.chosen}"""
        if not keep_delivered:
            delivered = f"DELETE FROM {n.records} AS d WHERE {n.chosen}"
        self._delivered = text(delivered)
        # The same without those that block their keys: these are settled with their keys.
        blocking = f"""SELECT b.position FROM {n.blocked} b WHERE b.aggregate_id = d.aggregate_id
            AND b.aggregate_type = coalesce(d.aggregate_type, '') LIMIT 1"""
        free = f"""(NOT EXISTS (SELECT 1 FROM {n.blocked})
            OR coalesce(({blocking}), 0) <> d.position)"""
        self._delivered_free = text(sql.counted(f"{delivered} AND {free}"))

        # Those that another transaction has locked.
        some = f"SELECT position FROM {n.records} WHERE {n.chosen}"
        self._locked = text(f"""WITH unlocked AS ({some} {sql.skip_locked})
            {some} AND position NOT IN (SELECT position FROM unlocked)""")
        # Which leases are still those that the deliveries began under; so until the commit.
        held = sql.rows("held", {"partition": "smallint", "token": "bigint"})
        self._fence = text(f"""SELECT l.partition, l.token FROM {n.leases} l
            WHERE CAST(:worker AS text) IN ('', l.worker) AND EXISTS (SELECT 1 FROM {held}
                WHERE held.partition = l.partition AND held.token = l.token)
            ORDER BY l.partition {sql.share_lock}""")

        # What was refused or postponed, with the time of the next attempt; or failed, now.
        rows = sql.rows("attempts", ATTEMPT)
        self._not_delivered = text(f"""UPDATE {n.records} SET status = attempts.status,
            ready = false, retry_count = attempts.retry_count,
            due_at = {sql.after("attempts.delay")},
            error_message = coalesce(attempts.reason, error_message),
            updated_at = {sql.now} FROM {rows}
            WHERE position = attempts.at AND {sql.identity(f"{n.records}.id")} = attempts.id
            AND {n.records}.status <> 'published' RETURNING position""")
        # The history of a record: its last ten refusals.
        columns = "retry_count, verdict, reason, seconds"
        self._add_refusals = text(f"""INSERT INTO {n.attempts}
                (position, attempted_at, worker, {columns})
            SELECT attempts.at, {sql.now}, CAST(:worker AS text), {columns} FROM {rows}""")
        numbered = f"""SELECT id, row_number() OVER (PARTITION BY position ORDER BY id DESC) AS age
            FROM {n.attempts} WHERE position {sql.among("positions")}"""
        oldest = f"SELECT id FROM ({numbered}) AS numbered WHERE age > 10"
        self._drop_refusals = text(f"DELETE FROM {n.attempts} WHERE id {sql.within(oldest)}")
        self._forget_refusals = text(f"""DELETE FROM {n.attempts} AS a
            WHERE position {sql.among("positions")}
            AND NOT EXISTS (SELECT 1 FROM {n.records} r WHERE r.position = a.position)""")

    async def settle(self, settlement: Settlement) -> list[Attempt]:
        """Write how deliveries went; return the attempts that were written.

        Sets `blocks_key` on the delivered records whose keys the database had blocked with them.
        Set it on those whose keys another worker may block at this moment.
        """
        delivered = settlement.delivered
        others = [each for each in delivered if not each.blocks_key]
        rows = await self.database.fetch_on(self._delivered_free, others)
        blocking = [each for each in delivered if each.blocks_key]
        if sum(row.number for row in rows) < len(others):
            blocking = delivered  # some of them: the transaction below finds out which
        attempts = []
        if blocking or settlement.attempts or settlement.slow:
            attempts = await self._settle_keys(replace(settlement, delivered=blocking))
        if not self._keep_delivered:  # nor is their history
            refused = [each.position for each in delivered if each.record.retry_count]
            await self.database.run_at(self.database.fetch, self._forget_refusals, refused)
        return attempts

    @transaction
    async def _settle_keys(self, run: Run, settlement: Settlement) -> list[Attempt]:
        """Settle records that block keys, or are to block them."""
        delivered = settlement.delivered
        everything = [*delivered, *(each.record for each in settlement.attempts), *settlement.slow]
        keys = by_key(everything).keys()
        locked = await self._blocked_keys.lock_records(run, keys, everything)
        blocked = locked.keys()
        for each in delivered:
            each.blocks_key = each.key is not None and locked.get(each.key) == each.position
        held = await self._leases_held(run, settlement.worker, everything)
        await self.database.run_on(run, self._delivered, delivered)
        # Without the lease only one: see BlockedKeys.release.
        mine = by_key(each for each in delivered if _lease(each) in held).keys()
        await self._blocked_keys.release(run, mine & blocked)
        await self._blocked_keys.release(run, (by_key(delivered).keys() & blocked) - mine, batch=1)
        attempts = [each for each in settlement.attempts if _lease(each.record) in held]
        slow = [each for each in settlement.slow if _lease(each) in held]
        if attempts:
            rows = await run(self._not_delivered, attempts=as_rows(map(_row, attempts)))
            written = {row.position for row in rows}
            attempts = [each for each in attempts if each.record.position in written]
            await self._keep_history(run, settlement.worker, attempts)
        blocking = [each.record for each in attempts if each.blocks_key]
        await self._blocked_keys.block(run, by_key([*blocking, *slow]))
        await self._blocked_keys.park(run, slow)  # now: a fast one is soon delivered
        skipped = [each.record for each in attempts if not each.blocks_key]
        await self._blocked_keys.release(
            run, by_key(skipped).keys() & blocked, [each.position for each in skipped]
        )
        return attempts

    async def _keep_history(self, run: Run, worker: str, attempts: Iterable[Attempt]) -> None:
        """Write down the refusals, and forget the oldest ones of the same records."""
        tried = (each for each in attempts if each.verdict is not Verdict.POSTPONED)
        refusals = [each for each in tried if each.reason is not None]
        if refusals:
            await run(self._add_refusals, worker=worker, attempts=as_rows(map(_row, refusals)))
            positions = [each.record.position for each in refusals]
            await self.database.run_at(run, self._drop_refusals, positions)

    async def locked(self, records: Collection[HeldRecord]) -> set[HeldRecord]:
        """Return the records that another transaction has locked."""
        locked = {row.position for row in await self.database.fetch_on(self._locked, records)}
        return {each for each in records if each.position in locked}

    async def _leases_held(
        self, run: Run, worker: str, records: Collection[HeldRecord]
    ) -> set[tuple[int, int]]:
        """Return the leases, of those that records were claimed under, that are valid still."""
        leases = {_lease(each) for each in records}
        held = as_rows({"partition": partition, "token": token} for partition, token in leases)
        rows = await run(self._fence, worker=worker, held=held)
        return {(row.partition, row.token) for row in rows}


def _row(attempt: Attempt) -> dict[str, Any]:
    return {
        "at": attempt.record.position,
        "id": str(attempt.record.id),
        "status": Status.FAILED if attempt.verdict is Verdict.FAILED else Status.PENDING,
        "retry_count": attempt.retry_count,
        "reason": None if attempt.reason is None else storable(attempt.reason),
        "delay": attempt.delay.total_seconds(),
        "verdict": attempt.verdict,
        "seconds": attempt.record.seconds,
    }


def _lease(record: HeldRecord) -> tuple[int, int]:
    return record.partition, record.token

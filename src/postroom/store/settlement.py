"""Settlements: the results of deliveries, written in one transaction."""

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any, Final

from sqlalchemy import text

from postroom.database.database import Database, Run, as_rows, transaction
from postroom.record import Key, Status
from postroom.store.base import Attempt, HeldRecord, Settlement, Verdict
from postroom.store.blocked_keys import BlockedKeys
from postroom.store.rows import storable

ATTEMPT = {
    "at": "bigint",
    "status": "text",
    "retry_count": "integer",
    "reason": "text",
    "delay": "double precision",
}
REFUSAL = {
    "at": "bigint",
    "retry_count": "integer",
    "verdict": "text",
    "reason": "text",
    "worker": "text",
    "seconds": "double precision",
}
KEPT: Final = 10
"""How many refusals of a record are kept."""


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
        delivered = text(f"""UPDATE {n.records} SET status = 'published', ready = false,
            due_at = NULL, error_message = NULL, updated_at = {sql.now},
            published_at = coalesce(published_at, {sql.now})
            WHERE position {sql.among("positions")}""")
        # The same if delivered records are not kept.
        delete = text(f"DELETE FROM {n.records} WHERE position {sql.among('positions')}")
        self._delivered = delivered if keep_delivered else delete

        # Locked in one order, before any of them is changed.
        self._lock_records = text(f"""SELECT position FROM {n.records}
            WHERE position {sql.among("positions")} ORDER BY position {sql.lock}""")
        # Those that exist, and those of them that no other transaction has locked.
        some = f"SELECT position FROM {n.records} WHERE position {sql.among('positions')}"
        self._existing, self._unlocked = text(some), text(f"{some} {sql.skip_locked}")
        # Which leases are still those that the deliveries began under; so until the commit.
        held = sql.rows("held", {"partition": "smallint", "token": "bigint"})
        self._fence = text(f"""SELECT l.partition, l.token FROM {n.leases} l
            WHERE EXISTS (SELECT 1 FROM {held}
                WHERE held.partition = l.partition AND held.token = l.token)
            ORDER BY l.partition {sql.share_lock}""")

        # What was refused or postponed, with the time of the next attempt; or failed.
        due = f"CASE WHEN attempts.delay IS NOT NULL THEN {sql.after('attempts.delay')} END"
        self._not_delivered = text(f"""UPDATE {n.records} SET status = attempts.status,
            ready = false, retry_count = attempts.retry_count, due_at = {due},
            error_message = coalesce(attempts.reason, error_message),
            updated_at = {sql.now} FROM {sql.rows("attempts", ATTEMPT)}
            WHERE position = attempts.at AND {n.records}.status <> 'published'""")
        # The history of a record: its last refusals.
        columns = "retry_count, verdict, reason, worker, seconds"
        self._add_refusals = text(f"""INSERT INTO {n.attempts} (position, attempted_at, {columns})
            SELECT refusals.at, {sql.now}, {columns} FROM {sql.rows("refusals", REFUSAL)}""")
        numbered = f"""SELECT id, row_number() OVER (PARTITION BY position ORDER BY id DESC) AS age
            FROM {n.attempts} WHERE position {sql.among("positions")}"""
        self._drop_refusals = text(
            f"""DELETE FROM {n.attempts} WHERE id {
                sql.within(f"SELECT id FROM ({numbered}) AS numbered WHERE age > {KEPT}")
            }"""
        )
        self._forget_refusals = text(
            f"DELETE FROM {n.attempts} WHERE position {sql.among('positions')}"
        )

    async def settle(self, settlement: Settlement) -> list[Attempt]:
        """Write how deliveries went; return the attempts that were written."""
        blocking = [each for each in settlement.delivered if each.blocks_key]
        delivered = settlement.delivered
        if blocking:
            delivered = [each for each in delivered if not each.blocks_key]
        if delivered:  # as usual: they hold nobody up
            numbers = self.database.sql.numbers(sorted(_positions(delivered)))
            await self.database.fetch(self._delivered, positions=numbers)
        if not self._keep_delivered:
            await self._forget(settlement.delivered)
        if not (blocking or settlement.attempts or settlement.slow):
            return []
        return await self._settle_keys(replace(settlement, delivered=blocking))

    @transaction
    async def _settle_keys(self, run: Run, settlement: Settlement) -> list[Attempt]:
        """Settle records that block keys, or are to block them."""
        delivered = settlement.delivered
        uncertain = [each.record for each in settlement.attempts] + settlement.slow
        keys = _keys(uncertain, delivered)
        blocked = (await self._blocked_keys.lock(run, keys)).keys()
        everything = _positions([*delivered, *uncertain])
        await self.database.run_at(run, self._lock_records, everything)
        await self._blocked_keys.check_all_locked(run, keys, blocked)
        await self.database.run_at(run, self._delivered, _positions(delivered))
        late = _keys(settlement.late)
        await self._blocked_keys.release(run, (_keys(delivered) & blocked) - late)
        await self._blocked_keys.release(run, _keys(delivered) & blocked & late, batch=1)
        held = await self._leases_held(run, uncertain)
        attempts = [each for each in settlement.attempts if _lease(each.record) in held]
        slow = [each for each in settlement.slow if _lease(each) in held]
        if attempts:
            rows = as_rows(map(_row, attempts))
            await run(self._not_delivered, attempts=rows)
            await self._keep_history(run, settlement.worker, attempts)
        waited_for = [each.record for each in attempts if each.blocks_key] + slow
        await self._blocked_keys.block(
            run, {each.key: each.position for each in waited_for if each.key is not None}
        )
        await self._blocked_keys.park(run, slow)  # now: a fast one is soon delivered
        skipped = [each.record for each in attempts if not each.blocks_key]
        await self._blocked_keys.release(run, _keys(skipped) & blocked, _positions(skipped))
        return attempts

    async def _keep_history(self, run: Run, worker: str, attempts: Iterable[Attempt]) -> None:
        """Write down the refusals, and forget the oldest ones of the same records."""
        refusals = [_refusal(each, worker) for each in attempts if each.is_refusal]
        if refusals:
            await run(self._add_refusals, refusals=as_rows(refusals))
            positions = [each["at"] for each in refusals]
            await self.database.run_at(run, self._drop_refusals, positions)

    async def _forget(self, delivered: Iterable[HeldRecord]) -> None:
        """Delete the refusals of records that are not kept."""
        refused = _positions(each for each in delivered if each.record.retry_count)
        if refused:
            numbers = self.database.sql.numbers(refused)
            await self.database.fetch(self._forget_refusals, positions=numbers)

    async def locked(self, positions: Collection[int]) -> set[int]:
        """Return the positions of records that another transaction has locked."""
        numbers = self.database.sql.numbers(positions)
        existing = await self.database.fetch(self._existing, positions=numbers)
        unlocked = await self.database.fetch(self._unlocked, positions=numbers)
        return {row.position for row in existing} - {row.position for row in unlocked}

    async def _leases_held(self, run: Run, records: Collection[HeldRecord]) -> set[tuple[int, int]]:
        """Return the leases, of those that records were claimed under, that are valid still."""
        if not records:
            return set()
        leases = {_lease(each) for each in records}
        held = as_rows({"partition": partition, "token": token} for partition, token in leases)
        rows = await run(self._fence, held=held)
        return {(row.partition, row.token) for row in rows}


def _row(attempt: Attempt) -> dict[str, Any]:
    failed = attempt.verdict is Verdict.FAILED
    return {
        "at": attempt.record.position,
        "status": Status.FAILED if failed else Status.PENDING,
        "retry_count": attempt.retry_count,
        "reason": None if attempt.reason is None else storable(attempt.reason),
        "delay": None if failed else attempt.delay.total_seconds(),
    }


def _refusal(attempt: Attempt, worker: str) -> dict[str, Any]:
    return {
        "at": attempt.record.position,
        "retry_count": attempt.retry_count,
        "verdict": attempt.verdict,
        "reason": storable(attempt.reason or ""),
        "worker": worker,
        "seconds": attempt.record.seconds,
    }


def _keys(*records: Iterable[HeldRecord]) -> set[Key]:
    return {each.key for some in records for each in some if each.key is not None}


def _positions(records: Iterable[HeldRecord]) -> list[int]:
    return [each.position for each in records]


def _lease(record: HeldRecord) -> tuple[int, int]:
    return record.partition, record.token

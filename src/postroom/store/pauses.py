"""What operators have paused, in SQL.

A claim parks a paused record, and blocks its key with it, so that later records of the key wait
behind it. A record that is parked without a pause is made due by `Cleaning.release_unheld`.
"""

from collections.abc import Collection

from sqlalchemy import text

from postroom.database.database import Database, Run
from postroom.record import Key
from postroom.store.base import HeldRecord, Pauses
from postroom.store.blocked_keys import BlockedKeys


class PausedRecords:
    """Reads the pauses, and parks the records that they hold."""

    def __init__(self, database: Database, blocked_keys: BlockedKeys) -> None:
        self.database = database
        self._blocked_keys = blocked_keys
        n, sql = database, database.sql
        read = f"SELECT event_type, aggregate_type, aggregate_id FROM {n.pauses}"
        # The same, and nobody ends a pause before the commit: who does would miss what is parked.
        self._read, self._read_locked = text(read), text(f"{read} {sql.share_lock}")
        self._lock_records = text(f"""SELECT position FROM {n.records}
            WHERE position {sql.among("positions")} ORDER BY position {sql.lock}""")
        self._park = text(f"""UPDATE {n.records} SET ready = false, due_at = NULL
            WHERE position {sql.among("positions")} AND status = 'pending'""")

    async def read(self, run: Run) -> Pauses:
        """Return what is paused."""
        return Pauses.of(await run(self._read))

    async def park(
        self, run: Run, paused: Collection[HeldRecord], others: Collection[Key | None]
    ) -> None:
        """Park records that are paused still: the first ones of their keys, and those without.

        `others`: further keys that the transaction will lock. Every transaction locks pauses, then
        the rows of blocked keys, then records.
        """
        pauses = Pauses.of(await run(self._read_locked))
        keys = {each.key for each in paused}.union(others) - {None}
        known = {key for key in keys if key is not None}
        blocked = await self._blocked_keys.lock(run, known)
        first = [each for each in paused if pauses.hold(each) and _is_first(each, blocked)]
        positions = [each.position for each in first]
        await self.database.run_at(run, self._lock_records, positions)
        await self._blocked_keys.check_all_locked(run, known, blocked.keys())
        await self.database.run_at(run, self._park, positions)
        await self._blocked_keys.block(
            run, {each.key: each.position for each in first if each.key is not None}
        )


def _is_first(record: HeldRecord, blocked: dict[Key, int]) -> bool:
    """Return whether no earlier record has come to block the key since the claim."""
    return record.key is None or blocked.get(record.key, record.position) >= record.position

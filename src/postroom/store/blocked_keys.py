"""Blocks keys, parks their later records and releases them, in SQL.

`key_order` says what happens; the statements here do it. Every transaction takes its locks in one
order: the rows of blocked keys (by key), records (by position), leases. A key that is blocked in
between has no row to lock at first: then the transaction begins again.
"""

from collections.abc import Collection, Mapping, Set

from sqlalchemy import text

from postroom.database.database import Database, Run, as_rows
from postroom.database.errors import ChangedError
from postroom.record import Key
from postroom.store.base import HeldRecord
from postroom.store.rows import key_of, within_partition

KEY = {"aggregate_type": "text", "aggregate_id": "text"}
BLOCKING = {**KEY, "position": "bigint"}
HELD = "NOT r.ready AND r.status <> 'published'"
PARKED = f"{HELD} AND r.status = 'pending' AND r.due_at IS NULL"


class BlockedKeys:
    """Blocks keys, parks their later records, and releases them."""

    AHEAD = 5000
    """How many later records a claim parks at once, when it has met one."""
    RELEASED = 100
    """How many parked records of a key are released at a time."""

    def __init__(self, database: Database) -> None:
        self.database = database
        n, sql = database, database.sql
        keys, blocking = sql.rows("keys", KEY), sql.rows("blocking", BLOCKING)
        same = "b.aggregate_type = keys.aggregate_type AND b.aggregate_id = keys.aggregate_id"

        # The blocking records of some keys. In a statement of its own: joined to a claim, the
        # planner would sort the backlog.
        one = """r.aggregate_type = keys.aggregate_type
            AND r.aggregate_id = keys.aggregate_id LIMIT 1"""
        self._look_up = text(f"""SELECT w.aggregate_type, w.aggregate_id, w.position
            FROM {sql.each(keys, n.blocked, one)}""")
        # The same, and whether they are settled or gone; then the same, locked.
        settled = f"""SELECT b.aggregate_type, b.aggregate_id, b.position, NOT EXISTS (
                SELECT 1 FROM {n.records} r WHERE r.position = b.position
                AND r.status <> 'published') AS settled
            FROM {keys} JOIN {n.blocked} b ON {same} ORDER BY b.aggregate_type, b.aggregate_id"""
        self._settled = text(settled)
        self._lock = text(f"{settled} {sql.lock and f'{sql.lock} OF b'}")

        # Park later records far ahead, so that each is met once.
        ahead = f"r.ready AND {within_partition('partitions', '0')} LIMIT :ahead"
        partitions = sql.rows("partitions", {"partition": "smallint"})
        self._park = text(
            f"""UPDATE {n.records} SET ready = false WHERE position {
                sql.within(f'''SELECT w.position FROM {sql.each(partitions, n.records, ahead)}
            JOIN {blocking} ON coalesce(w.aggregate_type, '') = blocking.aggregate_type
                AND w.aggregate_id = blocking.aggregate_id AND w.position > blocking.position
            ORDER BY w.position''')
            }"""
        )
        # Park a delayed record whose time has come while its key is blocked.
        self._park_due = text(f"""UPDATE {n.records} SET due_at = NULL, ready = false
            WHERE position {sql.among("positions")} AND due_at IS NOT NULL""")

        # Block keys, unless the blocking record is settled already. A later record that has failed
        # goes on blocking: an operator may have an earlier one delivered again.
        self._block = text(f"""INSERT INTO {n.blocked} AS b
                (aggregate_type, aggregate_id, position)
            SELECT blocking.aggregate_type, blocking.aggregate_id, blocking.position
            FROM {blocking} WHERE EXISTS (SELECT 1 FROM {n.records} r
                WHERE r.position = blocking.position AND r.status <> 'published')
            ORDER BY blocking.aggregate_type, blocking.aggregate_id
            ON CONFLICT (aggregate_type, aggregate_id) DO UPDATE SET position = excluded.position
            WHERE b.position < excluded.position OR NOT EXISTS (SELECT 1 FROM {n.records} r
                WHERE r.position = b.position AND r.status = 'failed')""")
        # Release the next parked records of some keys.
        parked = f"""{PARKED} AND r.aggregate_id = keys.aggregate_id
            AND coalesce(r.aggregate_type, '') = keys.aggregate_type
            ORDER BY r.position LIMIT :batch"""
        self._release = text(f"""UPDATE {n.records} SET ready = true, updated_at = {sql.now}
            WHERE position {
            sql.within(f"SELECT w.position FROM {sql.each(keys, n.records, parked)}")
        }
            RETURNING position, coalesce(aggregate_type, '') AS aggregate_type, aggregate_id""")
        # The last one released blocks its key, also if it comes before the one that was skipped.
        self._move = text(f"""UPDATE {n.blocked} AS b SET position = blocking.position
            FROM {blocking} WHERE b.aggregate_type = blocking.aggregate_type
                AND b.aggregate_id = blocking.aggregate_id""")
        # A key of which nothing is parked is not blocked any more.
        self._unblock = text(f"""DELETE FROM {n.blocked} AS b
            WHERE EXISTS (SELECT 1 FROM {keys} WHERE {same})""")

    async def look_up(self, run: Run, keys: Collection[Key]) -> dict[Key, int]:
        """Return the positions of the records that block some keys, by key."""
        if not keys:
            return {}
        rows = await run(self._look_up, keys=as_rows(keys))
        return {key_of(row): row.position for row in rows}

    async def park(self, run: Run, followers: Collection[HeldRecord]) -> None:
        """Park up to 5,000 later records of the keys of these, so that claims skip them."""
        keys = {each.key for each in followers if each.key is not None}
        # Read again, and locked: who releases a key would not see what is parked behind it.
        blocked = await self.lock(run, keys)
        still = [each for each in followers if each.key in blocked]
        if not still:
            return
        await run(
            self._park,
            partitions=as_rows([{"partition": p} for p in {each.partition for each in still}]),
            blocking=_blocking(blocked),
            ahead=self.AHEAD,
        )
        due = [each.position for each in still if each.key and blocked[each.key] != each.position]
        await self.database.run_at(run, self._park_due, due)

    async def lock(self, run: Run, keys: Collection[Key]) -> dict[Key, int]:
        """Lock the rows of those keys that are blocked, before any record; return them."""
        if not keys:
            return {}
        rows = await run(self._lock, keys=as_rows(sorted(keys)))
        return {key_of(row): row.position for row in rows}

    async def check_all_locked(self, run: Run, keys: Collection[Key], locked: Set[Key]) -> None:
        """Raise ChangedError if more of these keys are blocked by now.

        Call it when the records are locked: nobody can block their keys by them after that, and to
        lock a row now could wait for a transaction that waits for one of the records.
        """
        if not locked >= (await self.look_up(run, keys)).keys():
            raise ChangedError("another transaction blocked the same keys")

    async def block(self, run: Run, blocking: Mapping[Key, int]) -> None:
        """Have the later records of some keys wait for the records at these positions."""
        if blocking:
            await run(self._block, blocking=_blocking(blocking))

    async def release(
        self,
        run: Run,
        keys: Collection[Key],
        skipped: Collection[int] = (),
        batch: int = RELEASED,
    ) -> None:
        """Release the next records of each key whose blocking record is settled, gone or skipped.

        The last one released blocks the key from then on. Without any, the key is unblocked. The
        rows of the keys are locked. Only the worker that delivers a key may release several: of
        those that another one releases, it may read a part, from its floor on.
        """
        if not keys:
            return
        rows = await run(self._settled, keys=as_rows(sorted(keys)))
        passed = [key_of(row) for row in rows if row.settled or row.position in skipped]
        if not passed:
            return
        released = await run(self._release, keys=as_rows(passed), batch=batch)
        last: dict[Key, int] = {}
        for row in released:
            last[key_of(row)] = max(row.position, last.get(key_of(row), 0))
        if last:
            await run(self._move, blocking=_blocking(last))
        if done := [key for key in passed if key not in last]:
            await run(self._unblock, keys=as_rows(done))


def _blocking(positions: Mapping[Key, int]) -> str:
    return as_rows({**key._asdict(), "position": positions[key]} for key in sorted(positions))

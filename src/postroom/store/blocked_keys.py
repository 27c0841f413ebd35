"""Blocks keys, parks their later records and what is paused, and releases them, in SQL.

`key_order` says what happens; the statements here do it. Every transaction takes its locks in one
order: pauses, the rows of blocked keys (by key), records (by position), leases. A key that is
blocked in between has no row to lock at first: then the transaction begins again.
"""

from collections.abc import Collection, Iterable, Mapping, Set
from operator import attrgetter

from sqlalchemy import text

from postroom.database.database import Database, Positioned, Run, as_rows
from postroom.database.errors import ChangedError
from postroom.record import Key
from postroom.store.base import HeldRecord, Pauses
from postroom.store.rows import key_of, within_partition

KEY = {"aggregate_type": "text", "aggregate_id": "text"}
BLOCKING = {**KEY, "position": "bigint", "id": "uuid"}
HELD = "NOT r.ready AND r.status <> 'published'"
PARKED = f"{HELD} AND r.status = 'pending' AND r.due_at IS NULL"


class BlockedKeys:
    """Blocks keys, parks their later records and paused ones, and releases them."""

    AHEAD = 5000
    """How many later records are parked, or released, at once."""
    RELEASED = 100
    """How many parked records of a key are released at once at most."""

    def __init__(self, database: Database) -> None:
        self.database = database
        n, sql = database, database.sql
        keys, blocking = sql.rows("keys", KEY), sql.rows("blocking", BLOCKING)
        same = "b.aggregate_type = keys.aggregate_type AND b.aggregate_id = keys.aggregate_id"

        # The blocking records of some keys. In a statement of its own: joined to a claim, the
        # planner would sort the backlog.
        one = """r.aggregate_type = keys.aggregate_type
            AND r.aggregate_id = keys.aggregate_id LIMIT 1"""
        undone = f"SELECT 1 FROM {n.records} r WHERE r.status <> 'published' AND r.position ="
        self._look_up = text(f"""SELECT w.aggregate_type, w.aggregate_id, w.position,
            NOT EXISTS ({undone} w.position) AS settled FROM {sql.each(keys, n.blocked, one)}""")
        # The same, locked.
        self._lock = text(f"""SELECT b.aggregate_type, b.aggregate_id, b.position,
            NOT EXISTS ({undone} b.position) AS settled
            FROM {keys} JOIN {n.blocked} b ON {same} ORDER BY b.aggregate_type, b.aggregate_id
            {sql.lock and f"{sql.lock} OF b"}""")

        # Park later records far ahead, so that each is met once. As subqueries, whose plans cannot
        # depend on statistics: of many keys, a join may compare each record with all.
        ahead = f"r.ready AND {within_partition('partitions', 'partitions.floor')} LIMIT :ahead"
        partitions = sql.rows("partitions", {"partition": "smallint", "floor": "bigint"})
        locked = f"""CAST((coalesce(w.aggregate_type, ''), w.aggregate_id)
            IN (SELECT keys.aggregate_type, keys.aggregate_id FROM {keys}) AS integer) = 1"""
        blocker = f"""(SELECT b.position FROM {n.blocked} b WHERE b.aggregate_id = w.aggregate_id
            AND b.aggregate_type = coalesce(w.aggregate_type, '') LIMIT 1)"""
        later = f"""SELECT w.position FROM {sql.each(partitions, n.records, ahead)}
            WHERE {locked} AND w.position > {blocker} ORDER BY w.position"""
        self._park = text(
            f"UPDATE {n.records} SET ready = false WHERE position {sql.within(later)}"
        )
        # Park a delayed record whose time has come while its key is blocked.
        self._park_due = text(f"""UPDATE {n.records} SET due_at = NULL, ready = false
            WHERE {n.chosen} AND due_at IS NOT NULL AND status = 'pending'""")
        pauses = f"SELECT event_type, aggregate_type, aggregate_id FROM {n.pauses}"
        # Nobody ends a pause before the commit: who does would miss what is parked.
        self._pauses, self._lock_pauses = text(pauses), text(f"{pauses} {sql.share_lock}")
        self._park_paused = text(f"""UPDATE {n.records} SET ready = false, due_at = NULL
            WHERE {n.chosen} AND status = 'pending'""")
        # Locked in one order, before any of them is changed.
        self._lock_records = text(f"""SELECT position FROM {n.records}
            WHERE {n.chosen} ORDER BY position {sql.lock}""")

        # Block keys, unless the blocking record is settled already. A later record that has failed
        # goes on blocking: an operator may have an earlier one delivered again.
        self._block = text(f"""INSERT INTO {n.blocked} AS b
                (aggregate_type, aggregate_id, position)
            SELECT blocking.aggregate_type, blocking.aggregate_id, blocking.position
            FROM {blocking} WHERE EXISTS (SELECT 1 FROM {n.records} r
                WHERE r.position = blocking.position AND r.status <> 'published'
                AND {sql.identity("r.id")} = blocking.id)
            ORDER BY blocking.aggregate_type, blocking.aggregate_id
            ON CONFLICT (aggregate_type, aggregate_id) DO UPDATE SET position = excluded.position
            WHERE b.position < excluded.position OR NOT EXISTS (SELECT 1 FROM {n.records} r
                WHERE r.position = b.position AND r.status = 'failed')""")
        # Release the next parked records of some keys.
        parked = f"""{PARKED} AND r.aggregate_id = keys.aggregate_id
            AND coalesce(r.aggregate_type, '') = keys.aggregate_type
            ORDER BY r.position LIMIT :batch"""
        following = f"SELECT w.position FROM {sql.each(keys, n.records, parked)}"
        self._release = text(f"""UPDATE {n.records} SET ready = true, updated_at = {sql.now}
            WHERE position {sql.within(following)}
            RETURNING position, coalesce(aggregate_type, '') AS aggregate_type, aggregate_id""")
        # The last one released blocks its key, also if it comes before the one that was skipped.
        self._move = text(f"""UPDATE {n.blocked} AS b SET position = blocking.position
            FROM {blocking} WHERE b.aggregate_type = blocking.aggregate_type
                AND b.aggregate_id = blocking.aggregate_id""")
        # A key of which nothing is parked is not blocked any more.
        self._unblock = text(f"""DELETE FROM {n.blocked} AS b
            WHERE EXISTS (SELECT 1 FROM {keys} WHERE {same})""")

    async def look_up(
        self, run: Run, keys: Collection[Key]
    ) -> tuple[dict[Key, int], frozenset[Key]]:
        """Return the positions of the records that block some keys, by key.

        And the keys that nothing holds back any more: their blocking record is settled or gone.
        """
        if not keys:
            return {}, frozenset()
        rows = await run(self._look_up, keys=as_rows(keys))
        blocked = {key_of(row): row.position for row in rows}
        return blocked, frozenset(key_of(row) for row in rows if row.settled)

    async def park(self, run: Run, followers: Collection[HeldRecord]) -> None:
        """Park up to 5,000 later records of the keys of these, so that claims skip them."""
        # Read again, and locked: who releases a key would not see what is parked behind it.
        blocked = await self.lock(run, by_key(followers).keys())
        still = [each for each in followers if each.key in blocked]
        if not still:
            return
        later_first = sorted(still, key=attrgetter("position"), reverse=True)
        first = {each.partition: each.position - 1 for each in later_first}
        await run(
            self._park,
            partitions=as_rows({"partition": p, "floor": at} for p, at in first.items()),
            keys=as_rows(blocked),
            ahead=-(-self.AHEAD // len(first)),
        )
        due = [each for each in still if each.key and blocked[each.key] != each.position]
        await self.database.run_on(run, self._park_due, due)

    async def pauses(self, run: Run) -> Pauses:
        """Return what is paused."""
        return Pauses.of(await run(self._pauses))

    async def park_paused(
        self, run: Run, paused: Collection[HeldRecord], followers: Collection[HeldRecord]
    ) -> None:
        """Park records that are paused still, and block their keys with them.

        Only the first ones of their keys, and those without a key. The keys of `followers`, which
        are parked next, are locked with theirs.
        """
        pauses = Pauses.of(await run(self._lock_pauses))
        blocked = await self.lock_records(run, by_key([*paused, *followers]).keys(), paused)
        # No earlier record has come to block the key since the claim.
        first = [
            each
            for each in filter(pauses.hold, paused)
            if each.key is None or blocked.get(each.key, each.position) >= each.position
        ]
        await self.database.run_on(run, self._park_paused, first)
        await self.block(run, by_key(first))

    async def lock(self, run: Run, keys: Collection[Key]) -> dict[Key, int]:
        """Lock the rows of those keys that are blocked, before any record; return them."""
        if not keys:
            return {}
        rows = await run(self._lock, keys=as_rows(sorted(keys)))
        return {key_of(row): row.position for row in rows}

    async def lock_records(
        self, run: Run, keys: Collection[Key], records: Collection[Positioned]
    ) -> dict[Key, int]:
        """Lock the rows of those keys that are blocked, then records; return the first."""
        blocked = await self.lock(run, keys)
        await self.database.run_on(run, self._lock_records, records)
        await self.check_all_locked(run, keys, blocked.keys())
        return blocked

    async def check_all_locked(self, run: Run, keys: Collection[Key], locked: Set[Key]) -> None:
        """Raise ChangedError if more of these keys are blocked by now.

        Call it when the records are locked: nobody can block their keys by them after that, and to
        lock a row now could wait for a transaction that waits for one of the records.
        """
        if not locked >= (await self.look_up(run, keys))[0].keys():
            raise ChangedError("another transaction blocked the same keys")

    async def block(self, run: Run, blocking: Mapping[Key, Positioned]) -> None:
        """Have the later records of some keys wait for a record of each."""
        if blocking:
            rows = (
                {**key._asdict(), "position": each.position, "id": str(each.id)}
                for key, each in blocking.items()
            )
            await run(self._block, blocking=as_rows(rows))

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
        rows = await run(self._lock, keys=as_rows(sorted(keys)))
        passed = [key_of(row) for row in rows if row.settled or row.position in skipped]
        if not passed:
            return
        some = min(batch, -(-self.AHEAD // len(passed)))
        released = await run(self._release, keys=as_rows(passed), batch=some)
        in_order = sorted(released, key=attrgetter("position"))
        last = {key_of(row): row.position for row in in_order}
        if last:
            await run(self._move, blocking=_blocking(last))
        if done := [key for key in passed if key not in last]:
            await run(self._unblock, keys=as_rows(done))


def by_key(records: Iterable[HeldRecord]) -> dict[Key, HeldRecord]:
    """Return the records that have a key: one of each."""
    return {each.key: each for each in records if each.key is not None}


def _blocking(positions: Mapping[Key, int]) -> str:
    return as_rows({**key._asdict(), "position": at} for key, at in positions.items())

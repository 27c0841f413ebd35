"""The statements of operators' changes. Each method is a part of a transaction.

They take their locks in the order that `store.blocked_keys` says.
"""

import json
from collections.abc import Collection, Mapping, Sequence, Set
from typing import Any, Final
from uuid import UUID

from sqlalchemy import text

from postroom.database.database import Run, as_rows
from postroom.record import Key, Status
from postroom.store.rows import keys_of
from postroom.store.store import Store

REPLAY_HEADER: Final = "postroom-replay"
"""The header of a record that is delivered again; its value is the id of the replay."""
SCOPE: Final = ("event_type", "aggregate_type", "aggregate_id")
PAUSE: Final = dict.fromkeys((*SCOPE, "operator", "host", "reason"), "text")


class Changes:
    """Changes records, pauses, and which workers are drained."""

    def __init__(self, store: Store) -> None:
        self._blocked_keys = store.blocked_keys
        self._database = store.database
        n, sql = store.database, store.database.sql
        wanted = sql.within(f"SELECT id FROM {sql.rows('ids', {'id': 'uuid'})}")
        # Some records in order.
        self._order = text(f"""SELECT position, {sql.identity("id")} AS id FROM {n.records}
            WHERE id {wanted}""")
        # Records that are not delivered, by id; then the same, locked.
        find = f"""SELECT position, {sql.identity("id")} AS id,
            coalesce(aggregate_type, '') AS aggregate_type, aggregate_id, status, due_at
            FROM {n.records} WHERE id {wanted} AND status <> 'published' ORDER BY position"""
        self._find, self._find_locked = text(find), text(f"{find} {sql.lock}")
        # Have them claimed now, whatever they waited for.
        self._retry = text(f"""UPDATE {n.records} SET status = 'pending', retry_count = 0,
            ready = false, due_at = {sql.now}, updated_at = {sql.now}
            WHERE position {sql.among("positions")}""")
        self._delete = text(f"DELETE FROM {n.records} WHERE position {sql.among('positions')}")
        self._delete_attempts = text(
            f"DELETE FROM {n.attempts} WHERE position {sql.among('positions')}"
        )

        # Records that are delivered, locked.
        self._find_published = text(f"""SELECT position, {sql.identity("id")} AS id
            FROM {n.records} WHERE id {wanted} AND status = 'published'
            ORDER BY position {sql.lock}""")
        # Have them delivered again. As due rather than ready: a claim takes due records in order,
        # and parks those whose key is blocked.
        self._replay = text(f"""UPDATE {n.records} SET status = 'pending', retry_count = 0,
            ready = false, due_at = {sql.now}, published_at = NULL, updated_at = {sql.now},
            headers = {sql.merged("headers", "headers")}
            WHERE position {sql.among("positions")}""")
        received = sql.rows("messages", {"message_id": "text"})
        self._delete_receipts = text(
            f"""DELETE FROM {n.inbox} WHERE message_id {
                sql.within(f"SELECT message_id FROM {received}")
            }"""
        )

        columns = ", ".join(PAUSE)
        self._pause = text(f"""INSERT INTO {n.pauses} ({columns}, paused_at)
            SELECT {columns}, {sql.now} FROM {sql.rows("pause", PAUSE)} WHERE true
            ON CONFLICT ({", ".join(SCOPE)}) DO NOTHING RETURNING 1""")
        equal = " AND ".join(f"{each} = CAST(:{each} AS text)" for each in SCOPE)
        self._resume = text(f"DELETE FROM {n.pauses} WHERE {equal} RETURNING 1")

        self._drain = text(f"""UPDATE {n.workers} SET draining = true
            WHERE worker = :worker AND NOT draining RETURNING 1""")
        self._undrain = text(f"""UPDATE {n.workers} SET draining = false
            WHERE worker = :worker AND draining RETURNING 1""")

    async def in_order(self, ids: Collection[UUID], chunk: int) -> Sequence[UUID]:
        """Return the ids of records in the order of their positions, if that matters.

        Those of one chunk are changed in order anyway.
        """
        given = list(ids)
        if len(given) <= chunk:
            return given
        rows: list[Any] = []
        for start in range(0, len(given), chunk):
            wanted = _rows(given[start : start + chunk])
            rows += await self._database.fetch(self._order, ids=wanted)
        return [_id(row) for row in sorted(rows, key=lambda row: row.position)]

    async def retry(self, run: Run, ids: Collection[UUID]) -> Sequence[UUID]:
        """Have failed or waiting records tried again now; return their ids."""
        found, _ = await self._lock(run, ids)
        stuck = [row for row in found if row.status == Status.FAILED or row.due_at]
        await self._database.run_at(run, self._retry, _positions(stuck))
        return list(map(_id, stuck))

    async def skip(self, run: Run, ids: Collection[UUID]) -> Sequence[UUID]:
        """Release the later records of the keys of failed ones; return the ids of these."""
        found, blocked = await self._lock(run, ids)
        failed = [row for row in found if row.status == Status.FAILED]
        await self._blocked_keys.release(run, blocked, _positions(failed), batch=1)
        return list(map(_id, failed))

    async def discard(self, run: Run, ids: Collection[UUID]) -> Sequence[UUID]:
        """Delete records that are not delivered; return their ids."""
        found, blocked = await self._lock(run, ids)
        await self._database.run_at(run, self._delete, _positions(found))
        await self._database.run_at(run, self._delete_attempts, _positions(found))
        await self._blocked_keys.release(run, blocked, batch=1)
        return list(map(_id, found))

    async def replay(self, replay: str, run: Run, ids: Collection[UUID]) -> Sequence[UUID]:
        """Make published records pending, without receipts; return their ids."""
        found = await run(self._find_published, ids=_rows(ids))
        if found:
            positions = self._database.sql.numbers(_positions(found))
            headers = json.dumps({REPLAY_HEADER: replay})
            await run(self._replay, positions=positions, headers=headers)
            messages = as_rows({"message_id": str(_id(row))} for row in found)
            await run(self._delete_receipts, messages=messages)
        return list(map(_id, found))

    async def pause(self, run: Run, scope: Mapping[str, str], who: Mapping[str, Any]) -> bool:
        """Add a pause; return False if it is there already."""
        return bool(await run(self._pause, pause=as_rows([{**scope, **who}])))

    async def resume(self, run: Run, scope: Mapping[str, str]) -> bool:
        """Delete a pause; return False if there is none."""
        return bool(await run(self._resume, **scope))

    async def drain(self, run: Run, worker: str) -> bool:
        """Have a worker take no records; return False if it is so already, or there is none."""
        return bool(await run(self._drain, worker=worker))

    async def undrain(self, run: Run, worker: str) -> bool:
        """Have a worker take records again; return False if it does, or there is none."""
        return bool(await run(self._undrain, worker=worker))

    async def _lock(self, run: Run, ids: Collection[UUID]) -> tuple[Sequence[Any], Set[Key]]:
        """Lock records, and the rows of their keys that are blocked; return both."""
        wanted = _rows(ids)
        keys = keys_of(await run(self._find, ids=wanted))
        blocked = (await self._blocked_keys.lock(run, keys)).keys()
        found = await run(self._find_locked, ids=wanted)
        await self._blocked_keys.check_all_locked(run, keys, blocked)
        return found, blocked


def scope_row(event_type: str | None, key: Key | None) -> dict[str, str]:
    """Return what a pause is about, as its row says it: '' means any."""
    if event_type and key:
        raise ValueError("give event_type or key, not both: each is paused by itself.")
    return dict(zip(SCOPE, (event_type or "", *(key or ("", ""))), strict=True))


def _rows(ids: Collection[UUID]) -> str:
    return as_rows({"id": each.hex} for each in ids)


def _id(row: Any) -> UUID:
    return UUID(str(row.id))


def _positions(rows: Collection[Any]) -> list[int]:
    return [row.position for row in rows]

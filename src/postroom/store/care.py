"""What people and the cleaner do to an outbox: look, retry, skip, discard, clean up, mend."""

import json
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from postroom.record import PARTITIONS, Key, Status, key_hash
from postroom.store.base import Cleaned, Counts
from postroom.store.gates import GateKeeper, keys_of, positions_of
from postroom.store.rows import moment

LEAST_MEMORY = timedelta(days=30)
"""How long the inbox remembers at least: longer than a delivery can come again."""


class Care(GateKeeper):
    """The part of a `Store` that no delivery waits for."""

    async def clean(self, *, older_than: timedelta, after: int = 0, limit: int = 1000) -> Cleaned:
        """See `Store.clean`."""
        age = -older_than.total_seconds()
        async with self.transaction() as connection:
            if not await self._may_clean(connection):
                return Cleaned(deleted=0, last=None)
            found = await self._run(
                connection, self._care.oldest, age=age, after=after, limit=limit
            )
            rows = found.all()
            going = [row.position for row in rows if row.may_go]
            await self._at(connection, self._settle.delete, going)
            await self._run(connection, self._care.clean_workers)
        more = len(rows) == limit and bool(rows[-1].is_old)
        if not more:
            await self._receipts.clean(self.engine, max(older_than, LEAST_MEMORY))
        return Cleaned(deleted=len(going), last=rows[-1].position if more else None)

    async def counts(self) -> Counts:
        """See `Store.counts`."""
        async with self.transaction() as connection:
            row = (await self._run(connection, self._care.counts)).one()
        oldest = row.oldest_ready
        return Counts(
            ready=row.ready,
            waiting=row.waiting,
            held=row.held,
            failed=row.failed,
            blocked_keys=row.blocked_keys,
            oldest_ready=None if oldest is None else moment(row.now) - moment(oldest),
        )

    async def retry(self, ids: Iterable[UUID]) -> int:
        """See `Store.retry`."""
        async with self.transaction() as connection:
            found = await self._find(connection, ids)
            stuck = [row for row in found if row.status == Status.FAILED or row.due_at]
            await self._at(connection, self._care.retry, positions_of(stuck))
        return len(stuck)

    async def skip(self, ids: Iterable[UUID]) -> int:
        """See `Store.skip`."""
        async with self.transaction() as connection:
            found = await self._find(connection, ids)
            failed = [row for row in found if row.status == Status.FAILED]
            await self._advance(connection, keys_of(failed), positions_of(failed))
        return len(failed)

    async def discard(self, ids: Iterable[UUID]) -> int:
        """See `Store.discard`."""
        async with self.transaction() as connection:
            found = await self._find(connection, ids)
            await self._at(connection, self._settle.delete, positions_of(found))
            await self._advance(connection, keys_of(found))
        return len(found)

    async def mend(self) -> int:
        """See `Store.mend`."""
        async with self.transaction() as connection:
            if not await self._may_clean(connection):
                return 0
            astray = (await self._run(connection, self._care.astray, partitions=PARTITIONS)).all()
            homes = json.dumps([{"at": row.position, "home": _home(row)} for row in astray])
            await self._run(connection, self._care.bring_home, homes=homes)
            timeless = (await self._run(connection, self._care.timeless)).rowcount
            stale = keys_of(await self._run(connection, self._care.stale_gates))
            await self._advance(connection, stale)
            orphans = (await self._run(connection, self._care.orphans)).all()
            keyed = [row for row in orphans if row.aggregate_id is not None]
            gates = {Key(row.aggregate_type, row.aggregate_id): row.position for row in keyed}
            await self._hold(connection, gates)
            await self._at(connection, self._care.due_now, positions_of(orphans))
        return len(astray) + timeless + len(stale) + len(orphans)

    async def _find(self, connection: AsyncConnection, ids: Iterable[UUID]) -> Sequence[Any]:
        wanted = json.dumps([{"id": self.flavour.identifier(each)} for each in ids])
        return (await self._run(connection, self._care.find, ids=wanted)).all()

    async def _may_clean(self, connection: AsyncConnection) -> bool:
        """Tell whether no other worker is cleaning just now."""
        return True


def _home(row: Any) -> int:
    """Give the partition that a row belongs in."""
    if row.aggregate_id is None:
        return int(row.position % PARTITIONS)
    return key_hash(row.aggregate_type, row.aggregate_id) % PARTITIONS

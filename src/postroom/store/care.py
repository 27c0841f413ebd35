"""What people and the cleaner do to an outbox: look, retry, skip, discard, clean up, mend."""

import json
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from postroom.record import PARTITIONS, Key, Status
from postroom.store.base import Counts
from postroom.store.gates import GateKeeper, keys_of, positions_of
from postroom.store.rows import moment

NO_BOUNDARY = 2**62
LEAST_MEMORY = timedelta(days=7)
"""How long the inbox remembers at least: longer than a delivery can come again."""


class Care(GateKeeper):
    """The part of a `Store` that no delivery waits for."""

    async def clean(self, *, older_than: timedelta, limit: int) -> int:
        """See `Store.clean`."""
        age = -older_than.total_seconds()
        async with self.transaction() as connection:
            if not await self._may_clean(connection):
                return 0
            boundary = (await self._run(connection, self._care.boundary, age=age)).scalar()
            deleted = await self._run(
                connection,
                self._care.clean,
                age=age,
                limit=limit,
                boundary=NO_BOUNDARY if boundary is None else boundary,
            )
            await self._run(connection, self._care.clean_workers)
        await self._receipts.clean(self.engine, max(older_than, LEAST_MEMORY))
        return deleted.rowcount

    async def counts(self) -> Counts:
        """See `Store.counts`."""
        async with self.statement() as connection:
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
            moved = 0
            for statement in (self._care.mend_ready, self._care.mend_due):
                moved += (await self._run(connection, statement, partitions=PARTITIONS)).rowcount
            stale = keys_of(await self._run(connection, self._care.stale_gates))
            await self._advance(connection, stale)
            orphans = (await self._run(connection, self._care.orphans)).all()
            keyed = [row for row in orphans if row.aggregate_id is not None]
            gates = {Key(row.aggregate_type, row.aggregate_id): row.position for row in keyed}
            await self._hold(connection, gates)
            await self._at(connection, self._care.due_now, positions_of(orphans))
        return moved + len(stale) + len(orphans)

    async def _find(self, connection: AsyncConnection, ids: Iterable[UUID]) -> Sequence[Any]:
        wanted = json.dumps([{"id": self.flavour.identifier(each)} for each in ids])
        return (await self._run(connection, self._care.find, ids=wanted)).all()

    async def _may_clean(self, connection: AsyncConnection) -> bool:
        """Tell whether no other worker is cleaning just now."""
        return True

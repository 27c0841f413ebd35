"""The store in SQL: what PostgreSQL and SQLite have in common, which is nearly everything."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from postroom.record import PARTITIONS, ClaimedRecord, Key, Status
from postroom.store.base import Attempt, Claim, Settlement
from postroom.store.care import Care
from postroom.store.gates import gate_rows, key_rows, keys_of, partition_rows, positions_of
from postroom.store.rows import Rows, sift, storable
from postroom.store.schema import check_schema

AHEAD = 5000
"""How far a claim looks ahead for followers to park, once it has met one."""


class SqlStore(Care):
    """A `Store`, but for polling, which the two databases do each in its own way."""

    valid_json: bool
    """Whether a column of JSON can hold nothing else."""

    async def open(self) -> None:
        """See `Store.open`."""
        async with self.transaction() as connection:
            await connection.run_sync(check_schema, self.tables)
            everything = partition_rows(range(PARTITIONS))
            await self._run(connection, self._lease.seed, partitions=everything)

    async def claim(
        self, tokens: Mapping[int, int], *, depth: int, held: Collection[int] = ()
    ) -> Claim:
        """See `Store.claim`."""
        async with self.snapshot() as connection:
            window = await self._run(
                connection,
                self._claim.window,
                partitions=partition_rows(tokens),
                depth=depth,
                held=self.flavour.numbers(held),
            )
            rows = Rows(window.all())
            records = rows.records(tokens, valid_json=self.valid_json)
            gates = await self._gates(connection, keys_of(records)) if rows.gated else {}
        passing, parked = sift(records, gates)
        if rows.done or parked:
            await self._set_aside(rows.done, parked)
        more = rows.partitions(at_least=depth) | {record.partition for record in parked}
        return Claim(records=tuple(passing), more=frozenset(more))

    async def suspect(self, worker: str, record: ClaimedRecord) -> bool:
        """See `Store.suspect`."""
        values = {"worker": worker, "partition": record.partition, "position": record.position}
        async with self.transaction() as connection:
            rows = (await self._run(connection, self._lease.suspect, **values)).all()
        return (record.partition, record.token) in {(row.partition, row.token) for row in rows}

    async def calm(self, worker: str, partition: int) -> None:
        """See `Store.calm`."""
        async with self.transaction() as connection:
            await self._run(connection, self._lease.calm, worker=worker, partition=partition)

    async def leave(self, worker: str) -> None:
        """See `Store.leave`."""
        async with self.transaction() as connection:
            await self._run(connection, self._lease.leave, worker=worker)
            await self._run(connection, self._lease.forget_worker, worker=worker)

    async def settle(self, settlement: Settlement) -> list[Attempt]:
        """See `Store.settle`."""
        async with self.transaction() as connection:
            await self._delivered(connection, settlement.delivered)
            await self._advance(connection, _gate_keys(settlement.delivered))
            refused, slow = await self._fenced(connection, settlement)
            await self._refused(connection, refused)
            waited_for = [attempt.record for attempt in refused if attempt.holds]
            await self._hold(connection, _held_back([*waited_for, *slow]))
            let_go = [attempt.record for attempt in refused if not attempt.holds]
            await self._advance(connection, _gate_keys(let_go), positions_of(let_go))
        return refused

    async def _gates(self, connection: AsyncConnection, keys: Collection[Key]) -> dict[Key, int]:
        if not keys:
            return {}
        return _gates(await self._run(connection, self._claim.gates, keys=key_rows(keys)))

    async def _set_aside(self, done: Sequence[int], records: Sequence[ClaimedRecord]) -> None:
        """Take out of the line what is done, and what waits for another record of its key."""
        async with self.transaction() as connection:
            await self._at(connection, self._claim.take_out, done)
            if records:
                await self._park(connection, records)

    async def _park(self, connection: AsyncConnection, records: Sequence[ClaimedRecord]) -> None:
        """Park followers, as far as the eye can see."""
        # Read again, and locked: what opens a gate would not see what is parked behind it.
        keys = key_rows(keys_of(records))
        gates = _gates(await self._run(connection, self._claim.lock_gates, keys=keys))
        still = [record for record in records if record.key in gates]
        if not still:
            return
        partitions = partition_rows({record.partition for record in still})
        await self._run(
            connection,
            self._claim.park,
            partitions=partitions,
            gates=gate_rows(gates),
            ahead=AHEAD,
        )
        due = [each.position for each in still if each.key and gates[each.key] != each.position]
        await self._at(connection, self._claim.park_due, due)

    async def _delivered(
        self, connection: AsyncConnection, records: Sequence[ClaimedRecord]
    ) -> None:
        statement = self._settle.delivered if self._keep_delivered else self._settle.delete
        await self._at(connection, statement, positions_of(records))

    async def _fenced(
        self, connection: AsyncConnection, settlement: Settlement
    ) -> tuple[list[Attempt], list[ClaimedRecord]]:
        """Leave out what was begun under a lease that is another worker's now."""
        records = [attempt.record for attempt in settlement.refused] + settlement.slow
        if not records:
            return [], []
        claimed = {(record.partition, record.token) for record in records}
        held = json.dumps([{"partition": each[0], "token": each[1]} for each in claimed])
        rows = await self._run(connection, self._lease.fence, held=held)
        ours = {(row.partition, row.token) for row in rows}
        refused = [each for each in settlement.refused if _lease(each.record) in ours]
        return refused, [record for record in settlement.slow if _lease(record) in ours]

    async def _refused(self, connection: AsyncConnection, attempts: Sequence[Attempt]) -> None:
        if attempts:
            rows = json.dumps([_attempt_row(attempt) for attempt in attempts])
            await self._run(connection, self._settle.refuse, refused=rows)


def _attempt_row(attempt: Attempt) -> dict[str, Any]:
    delay = attempt.delay
    return {
        "at": attempt.record.position,
        "outcome": Status.FAILED if delay is None else Status.PENDING,
        "attempts": attempt.retry_count,
        "reason": storable(attempt.reason) or None,
        "delay": None if delay is None else delay.total_seconds(),
    }


def _gates(rows: Iterable[Any]) -> dict[Key, int]:
    return {Key(row.aggregate_type, row.aggregate_id): row.position for row in rows}


def _gate_keys(records: Iterable[ClaimedRecord]) -> list[Key]:
    return keys_of(record for record in records if record.is_gate)


def _held_back(records: Iterable[ClaimedRecord]) -> dict[Key, int]:
    return {record.key: record.position for record in records if record.key is not None}


def _lease(record: ClaimedRecord) -> tuple[int, int]:
    return record.partition, record.token

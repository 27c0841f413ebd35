"""Connections of a store, and its gates: the records that the later ones of their keys wait for."""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import Any

from sqlalchemy import CursorResult, TextClause
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from postroom.record import Key
from postroom.store.flavours import Flavour
from postroom.store.receipts import Receipts
from postroom.store.statements import (
    CareStatements,
    ClaimStatements,
    LeaseStatements,
    Names,
    SettleStatements,
)
from postroom.store.table import OutboxTables

FOLLOWERS = 100
"""How many followers leave at a time, once the record that they waited for is through."""


def no_shift() -> timedelta:
    """The database's clock is right."""
    return timedelta()


class GateKeeper(ABC):
    """What every part of a SQL store needs. `shift` is added to the database's clock, by tests."""

    flavour: Flavour

    def __init__(
        self,
        engine: AsyncEngine,
        tables: OutboxTables,
        *,
        keep_delivered: bool = True,
        shift: Callable[[], timedelta] = no_shift,
    ) -> None:
        self.engine = engine
        self.tables = tables
        self._keep_delivered = keep_delivered
        self._shift = shift
        self._names = Names(tables, engine.dialect)
        self._lease = LeaseStatements(self._names, self.flavour)
        self._claim = ClaimStatements(self._names, self.flavour)
        self._settle = SettleStatements(self._names, self.flavour)
        self._care = CareStatements(self._names, self.flavour)
        self._receipts = Receipts(tables.inbox)

    @abstractmethod
    def transaction(self) -> AbstractAsyncContextManager[AsyncConnection]:
        """Open a transaction whose statements each see what others have committed by then."""

    @abstractmethod
    def snapshot(self) -> AbstractAsyncContextManager[AsyncConnection]:
        """Open a transaction that only reads, and sees one moment of the database."""

    async def _run(
        self, connection: AsyncConnection, statement: TextClause, **values: Any
    ) -> CursorResult[Any]:
        """Run a statement with these values and the clock's."""
        return await connection.execute(statement, {**self.flavour.clock(self._shift()), **values})

    async def _at(
        self, connection: AsyncConnection, statement: TextClause, positions: Collection[int]
    ) -> None:
        """Run a statement about the records at some positions, if there are any."""
        if positions:
            numbers = self.flavour.numbers(positions)
            await self._run(connection, statement, positions=numbers)

    async def _hold(self, connection: AsyncConnection, gates: Mapping[Key, int]) -> None:
        """Have the later records of these keys wait for the ones at these positions."""
        if gates:
            await self._run(connection, self._settle.hold, gates=gate_rows(gates))

    async def _advance(
        self, connection: AsyncConnection, keys: Collection[Key], given_up: Collection[int] = ()
    ) -> None:
        """Let the next of each key go, if the record that they waited for is through or given up.

        The gate moves to the last of them, and goes when there are none.
        """
        if not keys:
            return
        locked = await self._run(connection, self._settle.lock_gates, keys=key_rows(keys))
        passed = [_key(row) for row in locked if row.through or row.position in given_up]
        if not passed:
            return
        freed = await self._run(
            connection, self._settle.followers, keys=key_rows(passed), batch=FOLLOWERS
        )
        last: dict[Key, int] = {}
        for row in freed:
            last[_key(row)] = max(row.position, last.get(_key(row), 0))
        if last:
            await self._run(connection, self._settle.move_gates, gates=gate_rows(last))
        if done := [key for key in passed if key not in last]:
            await self._run(connection, self._settle.open_gates, keys=key_rows(done))


def keys_of(rows: Iterable[Any]) -> list[Key]:
    """Give the keys of rows or records, each once, without those that have none."""
    return list({_key(row): None for row in rows if row.aggregate_id is not None})


def key_rows(keys: Collection[Key]) -> str:
    """Write keys as JSON, for a statement that takes them as rows."""
    return json.dumps([key._asdict() for key in keys])


def gate_rows(gates: Mapping[Key, int]) -> str:
    """Write keys with positions as JSON, for a statement that takes them as rows."""
    return json.dumps([{**key._asdict(), "position": gates[key]} for key in gates])


def partition_rows(partitions: Iterable[int]) -> str:
    """Write partitions as JSON, for a statement that takes them as rows."""
    return json.dumps([{"partition": partition} for partition in partitions])


def _key(row: Any) -> Key:
    return Key(row.aggregate_type or "", row.aggregate_id)


def positions_of(rows: Sequence[Any]) -> list[int]:
    """Give the positions of rows or records."""
    return [row.position for row in rows]

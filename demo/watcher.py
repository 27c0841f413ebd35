"""The watcher: reads the outbox, and compares it with the ledger."""

import asyncio
from collections import deque
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy.ext.asyncio import AsyncEngine

from demo.broker import Broker
from demo.ledger import Ledger
from messaging.models import outbox
from postroom.inspection import Inspector, RecordState, RecordSummary

SHOWN = 30
"""How many of the delivered records the page may show."""
PAGE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """What the outbox and the ledger say together."""

    lost: int
    out_of_order: int
    doubled: int
    dropped: int
    committed: int
    delivered: int
    waiting: int

    def __str__(self) -> str:
        return (
            f"{self.committed} committed, {self.delivered} delivered, {self.waiting} waiting:"
            f" {self.lost} lost, {self.out_of_order} out of order, {self.doubled} doubled."
        )


class Watcher:
    """Reads the records that are not known to be delivered yet, and checks those that are."""

    def __init__(self, engine: AsyncEngine, broker: Broker, ledger: Ledger) -> None:
        self._inspector = Inspector(outbox, engine)
        self._broker, self._ledger = broker, ledger
        self.sent: frozenset[str] = frozenset()
        """The ids of records that were sent to the broker, and are not noted as delivered yet."""
        self._one_at_a_time = asyncio.Lock()
        self._checked = 0  # all records up to `_position` are delivered, and were looked up
        self._position = 0
        self._lost = 0
        self._done: deque[RecordSummary] = deque(maxlen=SHOWN)
        self._rest: list[RecordSummary] = []
        self._backlog: list[int] = []
        self._leases: dict[int, datetime] = {}

    async def look(self) -> None:
        """Read the records and the leases."""
        async with self._one_at_a_time:  # else an older look could follow a newer one
            self._rest = await self._read()
            self._advance()
            sent = (str(each.id) for each in self._rest if self._is_sent(str(each.id)))
            self.sent = frozenset(sent)
            self._leases = {
                each.pid: each.lease_until
                for each in await self._inspector.workers()
                if each.pid is not None and each.lease_until is not None
            }

    @property
    def records(self) -> list[RecordSummary]:
        """The latest records that are delivered, and all that are not; the oldest first."""
        return [*self._done, *self._rest]

    def mark_backlog(self) -> None:
        """Remember the records that wait now."""
        self._backlog = [each.position for each in self._rest if not is_delivered(each)]

    def delivered_backlog(self) -> int | None:
        """Return how many records of the backlog were delivered, once, when all of them are."""
        waiting = {each.position for each in self._rest if not is_delivered(each)}
        if not self._backlog or waiting.intersection(self._backlog):
            return None
        delivered, self._backlog = len(self._backlog), []
        return delivered

    def lease_of_others(self, pid: int | None) -> float | None:
        """Return the seconds until the leases end that workers other than this one hold."""
        now = datetime.now(UTC)
        left = [(until - now).total_seconds() for p, until in self._leases.items() if p != pid]
        return max((each for each in left if each > 0), default=None)

    def counters(self) -> Counters:
        """Count what was committed, what arrived, and what went wrong."""
        delivered = [str(each.id) for each in self._rest if is_delivered(each)]
        return Counters(
            lost=self._lost + self._ledger.lost(delivered),
            out_of_order=self._ledger.out_of_order,
            doubled=self._ledger.doubled,
            dropped=self._ledger.dropped,
            committed=self._checked + len(self._rest),
            delivered=self._checked + len(delivered),
            waiting=len(self._rest) - len(delivered),
        )

    async def _read(self) -> list[RecordSummary]:
        records: list[RecordSummary] = []
        cursor: int | None = self._position
        while cursor is not None:
            page = await self._inspector.records(cursor=cursor, limit=PAGE, newest_first=False)
            records += page.records
            cursor = page.cursor
        return records

    def _is_sent(self, id_: str) -> bool:
        return id_ in self._broker.in_flight or self._ledger.deliveries(id_) > 0

    def _advance(self) -> None:
        """Look up the delivered records before the first that is not; they are not read again."""
        while self._rest and is_delivered(self._rest[0]):
            record = self._rest.pop(0)
            self._lost += self._ledger.lost([str(record.id)])
            self._checked += 1
            self._position = record.position
            self._done.append(record)


def is_delivered(record: RecordSummary) -> bool:
    """Return whether the outbox calls a record delivered."""
    return record.state is RecordState.PUBLISHED

"""An inspector beside the rig of a worker, and what others write: pauses, reports, attempts."""

import json
from datetime import timedelta
from typing import Any

from sqlalchemy import insert, update
from sqlalchemy.ext.asyncio import AsyncEngine

from postroom.inspection import Inspector, RecordFilter, RecordState
from postroom.store.base import HeldRecord, Settlement
from tests.conformance.store.rig import StoreHarness, StoreRig, attempt, outbox

tables = outbox.tables
OUTAGE = {"reason": "RabbitMQ at mq:5672 is unavailable", "seconds": 300}
ROUTE = {"route": "shop/order.paid", "reason": "queue full", "seconds": 600, "records": 12}


class Window(StoreRig):
    """A rig, and an inspector that looks at it."""

    def __init__(self, harness: StoreHarness) -> None:
        super().__init__(harness)
        self.inspector = self.another_inspector()

    def another_inspector(self, engine: AsyncEngine | None = None, **options: Any) -> Inspector:
        return Inspector(outbox, engine or self.engine, shift=self.clock, **options)

    async def report(self, worker: str = "ann", **report: Any) -> None:
        """Write what a worker reports with its heartbeat."""
        values = {"reported_at": self.now(), "report": json.loads(json.dumps(report))}
        async with self.engine.begin() as connection:
            mine = tables.workers.c.worker == worker
            await connection.execute(update(tables.workers).where(mine).values(values))

    async def note_attempt(self, name: str, **values: Any) -> None:
        """Write a refusal as the settlement does."""
        position = (await self.row(name)).position
        row = {
            "retry_count": 1,
            "verdict": "retry",
            "reason": "no",
            "worker": "ann",
            "seconds": 0.5,
        }
        async with self.engine.begin() as connection:
            row |= {"position": position, **values}
            await connection.execute(insert(tables.attempts).values(row))

    async def refuse_one(self, record: HeldRecord, reason: str = "no") -> None:
        """Have a claimed record fail."""
        failed = attempt(record, delay=None, reason=reason)
        await self.store.settlements.settle(Settlement(attempts=[failed]))

    async def position(self, name: str) -> int:
        return int((await self.row(name)).position)

    async def names(self, *states: RecordState, **filters: Any) -> list[str]:
        """List records, the oldest first, by name."""
        where = RecordFilter(states=frozenset(states), **filters)
        page = await self.inspector.records(where, newest_first=False)
        return [each.event_type for each in page.records]

    async def problems(self) -> str:
        return " ".join((await self.inspector.overview()).problems)


def seconds(time: timedelta | None) -> float:
    assert time is not None
    return time.total_seconds()

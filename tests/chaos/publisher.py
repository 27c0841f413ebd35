"""A way out that writes a ledger, and does to each record what a test says."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from postroom.publishers.base import DELIVERED, Delivered, Outcome
from postroom.record import ClaimedRecord
from tests.chaos.ledger import Ledger, What

Treatment = Callable[[ClaimedRecord], Awaitable[Outcome]]


async def deliver(record: ClaimedRecord) -> Outcome:
    """Treat a record well."""
    return DELIVERED


class LedgerPublisher:
    """Writes down when a delivery starts and how it ends.

    `opening` and `setting_out`, before each batch, may raise an outage.
    """

    def __init__(
        self,
        ledger: Ledger,
        worker: str = "here",
        treat: Treatment = deliver,
        *,
        opening: Callable[[], None] = lambda: None,
        setting_out: Callable[[], None] = lambda: None,
        max_batch: int = 10,
        max_in_flight: int = 100,
    ) -> None:
        self.max_batch = max_batch
        self.max_in_flight = max_in_flight
        self._ledger = ledger
        self._worker = worker
        self._treat = treat
        self._opening = opening
        self._setting_out = setting_out

    async def open(self) -> None:
        self._opening()

    async def publish(self, records: Sequence[ClaimedRecord]) -> Sequence[Outcome]:
        self._setting_out()
        return await asyncio.gather(*[self._deliver(record) for record in records])

    async def close(self) -> None:
        pass

    async def _deliver(self, record: ClaimedRecord) -> Outcome:
        self._ledger.write(What.STARTED, record, self._worker)
        outcome = await self._treat(record)
        arrived = isinstance(outcome, Delivered)
        self._ledger.write(What.DELIVERED if arrived else What.REFUSED, record, self._worker)
        return outcome

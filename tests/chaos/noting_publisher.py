"""A publisher that notes what another one is asked, and what it answers."""

import asyncio
from collections import Counter
from collections.abc import Sequence

from postroom.errors import OutageError
from postroom.publishers.base import (
    Delivered,
    Outage,
    OutageWatcher,
    Outcome,
    Publisher,
    ReportsOutages,
)
from postroom.record import ClaimedRecord
from tests.support.waiting import PATIENCE


class NotingPublisher:
    """Stands between a relay and its publisher."""

    def __init__(self, publisher: Publisher) -> None:
        self.opened = 0
        """How often the publisher was opened, with success or without."""
        self.outages: list[str] = []
        self.asked: Counter[str] = Counter()
        """How often each record was handed over."""
        self.delivered: Counter[str] = Counter()
        """How often each was said to have arrived."""
        self.asked_again: list[str] = []
        """The records that were handed over when they had arrived."""
        self._publisher = publisher
        self._more = asyncio.Event()

    @property
    def max_batch(self) -> int:
        return self._publisher.max_batch

    @property
    def max_in_flight(self) -> int:
        return self._publisher.max_in_flight

    async def open(self) -> None:
        try:
            await self._publisher.open()
        except OutageError as outage:
            self.outages.append(str(outage))
            raise
        finally:
            self.opened += 1

    async def publish(self, records: Sequence[ClaimedRecord]) -> Sequence[Outcome | Outage]:
        names = [str(record.id) for record in records]
        self.asked.update(names)
        self.asked_again += [name for name in names if name in self.delivered]
        try:
            answers = await self._publisher.publish(records)
        except OutageError as outage:
            self.outages.append(str(outage))
            raise
        self.outages += [each.reason for each in set(answers) if isinstance(each, Outage)]
        self.delivered.update(
            name
            for name, answer in zip(names, answers, strict=True)
            if isinstance(answer, Delivered)
        )
        self._more.set()
        return answers

    async def close(self) -> None:
        await self._publisher.close()

    def watch(self, changed: OutageWatcher) -> None:
        if isinstance(self._publisher, ReportsOutages):
            self._publisher.watch(changed)

    async def delivers(self, count: int) -> None:
        """Wait until so many have arrived, and act in that very moment."""
        async with asyncio.timeout(PATIENCE):
            while len(self.delivered) < count:
                self._more.clear()
                await self._more.wait()

    def sent_by_itself(self, arrivals: Counter[str]) -> list[str]:
        """Give the records that arrived more often than they were handed over."""
        return [name for name, count in arrivals.items() if count > self.asked[name]]

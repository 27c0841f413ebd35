"""A loop of a relay among fakes."""

import asyncio
from typing import Any, cast

from postroom.relay.health import Tally
from postroom.relay.loop import Loop
from postroom.store.store import Store
from tests.unit.relay.fake_publisher import FakePublisher, delivers_all
from tests.unit.relay.fake_store import FakeStore
from tests.unit.relay.hand_clock import HandClock
from tests.unit.relay.settings import relay_settings

MAX_IN_FLIGHT, BATCH_SIZE = 4, 10
CAPACITY = MAX_IN_FLIGHT + 2 * BATCH_SIZE


class FakedLoop:
    """A loop among fakes, wired as `OutboxRelay` wires it. The publisher delivers everything."""

    def __init__(
        self,
        *,
        max_in_flight: int = MAX_IN_FLIGHT,
        max_batch: int = 1,
        seconds: float = 0.0,
        drain: bool = False,
        clock: HandClock | None = None,
        store: FakeStore | None = None,
        **settings: Any,
    ) -> None:
        self.clock = clock or HandClock()
        self.store = store or FakeStore(self.clock)
        self.publisher = FakePublisher(
            max_batch=max_batch,
            max_in_flight=max_in_flight,
            reply=delivers_all,
            clock=self.clock,
            seconds=seconds,
        )
        self.publisher_opens = True
        self.tally = Tally()
        self.loop = Loop(
            worker="worker",
            store=cast(Store, self.store),
            publisher=self.publisher,
            settings=relay_settings(**{"batch_size": BATCH_SIZE} | settings),
            clock=self.clock,
            tally=self.tally,
            drain=drain,
        )
        self.publisher_breaker = self.loop.publisher_breaker
        self.database_breaker = self.loop.database_breaker

    async def _reopen_publisher(self) -> None:
        """Open the publisher again when it is time, as `OutboxRelay` does beside the loop."""
        while True:
            await self.loop.reopen.wait()
            self.loop.reopen.clear()
            if self.publisher_breaker.due() and self.publisher_opens:
                self.publisher_breaker.half_open()
            elif self.publisher_breaker.due():
                self.publisher_breaker.trip("still away")

    async def run(self, seconds: float) -> None:
        """Run the loop for so many seconds of its clock."""
        self.clock.at(seconds, self.loop.stop)
        beside = asyncio.create_task(self._reopen_publisher())
        try:
            await self.loop.run()
        finally:
            beside.cancel()

    def at(self, seconds: float) -> list[str]:
        """Return the calls of the store at a moment."""
        return [each.name for each in self.store.calls if each.at == seconds]

    def between(self, name: str, begin: float, end: float) -> int:
        """Count the calls of a method of the store in a time."""
        return sum(begin <= each.at < end for each in self.store.named(name))

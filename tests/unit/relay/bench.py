"""A loop of a relay among fakes."""

import asyncio
from typing import Any, cast

from postroom.relay.breaker import Breaker
from postroom.relay.health import Tally
from postroom.relay.loop import Loop
from postroom.store.store import Store
from tests.unit.relay.fake_publisher import FakePublisher, delivers_all
from tests.unit.relay.fake_store import FakeStore
from tests.unit.relay.hand_clock import HandClock
from tests.unit.relay.settings import relay_settings

MAX_IN_FLIGHT, BATCH_SIZE = 4, 10
CAPACITY = MAX_IN_FLIGHT + 2 * BATCH_SIZE
UNSETTLED_LIMIT = MAX_IN_FLIGHT + BATCH_SIZE


class Bench:
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
        self._opening = False
        self.publisher_breaker = Breaker("the publisher", self.clock, lambda: self.loop.look())
        self.database_breaker = Breaker("the database", self.clock, lambda: self.loop.look())
        self.tally = Tally()
        self.loop = Loop(
            worker="worker",
            store=cast(Store, self.store),
            publisher=self.publisher,
            settings=relay_settings(**{"batch_size": BATCH_SIZE} | settings),
            clock=self.clock,
            publisher_breaker=self.publisher_breaker,
            database_breaker=self.database_breaker,
            tally=self.tally,
            reopen=self.reopen,
            drain=drain,
        )

    def reopen(self) -> bool:
        """Open the publisher again beside the loop, as `OutboxRelay` does."""
        if self.publisher_breaker.due() and not self._opening:
            self._opening = True
            asyncio.get_running_loop().call_soon(self._reopened)
        return self._opening

    def _reopened(self) -> None:
        self._opening = False
        if self.publisher_opens:
            self.publisher_breaker.half_open()
        else:
            self.publisher_breaker.trip("still away")

    async def run(self, seconds: float) -> None:
        """Run the loop for so many seconds of its clock."""
        self.clock.at(seconds, self.loop.stop)
        await self.loop.run()

    def at(self, seconds: float) -> list[str]:
        """Return the calls of the store at a moment."""
        return [each.name for each in self.store.calls if each.at == seconds]

    def between(self, name: str, begin: float, end: float) -> int:
        """Count the calls of a method of the store in a time."""
        return sum(begin <= each.at < end for each in self.store.named(name))

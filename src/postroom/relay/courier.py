"""Sends records on their way, several calls of the publisher at once, and keeps what came of it."""

import asyncio
import logging
from collections.abc import Callable, Sequence

from postroom.errors import ConnectionLostError, Outage
from postroom.publishers.base import Delivered, Outcome, Publisher, Refused
from postroom.record import ClaimedRecord
from postroom.relay.breaker import Breaker, State, Suspicion
from postroom.relay.window import Window

logger = logging.getLogger("postroom.relay")

Allowed = Callable[[ClaimedRecord], bool]


class Courier:
    """Delivers what a window lets go. `unfit` tells why a record is not even to be tried."""

    def __init__(
        self,
        publisher: Publisher,
        breaker: Breaker,
        suspicion: Suspicion,
        *,
        max_in_flight: int,
        unfit: Callable[[ClaimedRecord], Refused | None],
        allowed: Allowed,
        poke: Callable[[], None],
    ) -> None:
        self.window = Window()
        self.outcomes: list[tuple[ClaimedRecord, Outcome]] = []
        self._publisher = publisher
        self._breaker = breaker
        self._suspicion = suspicion
        self._max_in_flight = max_in_flight
        self._unfit = unfit
        self._allowed = allowed
        self._poke = poke
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def busy(self) -> bool:
        """Whether anything is on its way."""
        return bool(self._tasks)

    def send(self) -> None:
        """Send what may leave, as far as there is room on the way."""
        if self._breaker.state is State.OPEN:
            return
        lone = self._suspicion and self.window.first(self._lonely)
        if lone:
            if not self.busy:
                self.send_alone(lone)
            return  # the way has to be clear
        most = 1 if self._breaker.state is State.PROBING else self._max_in_flight
        while batch := self.window.take(self._room(most), self._allowed):
            self._start(batch)

    def send_alone(self, record: ClaimedRecord) -> None:
        """Send one record in a call of its own."""
        self._start(self.window.take(1, lambda each: each is record))

    def landed(self, record: ClaimedRecord, outcome: Outcome) -> None:
        """Note how a record fared."""
        self.window.landed(record, delivered=isinstance(outcome, Delivered))
        self.outcomes.append((record, outcome))

    async def cancel(self) -> None:
        """Break off what is on its way: nobody knows whether it arrived, so it did not."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _room(self, most: int) -> int:
        return max(0, min(self._publisher.max_batch, most - self.window.in_flight))

    def _lonely(self, record: ClaimedRecord) -> bool:
        return self._suspicion.alone(record) and self._allowed(record)

    def _start(self, batch: Sequence[ClaimedRecord]) -> None:
        fit = []
        for record in batch:
            refused = self._unfit(record)
            if refused is None:
                fit.append(record)
            else:
                self.landed(record, refused)
        if fit:
            task = asyncio.create_task(self._deliver(fit))
            self._tasks.add(task)
            task.add_done_callback(self._next)
        else:
            self._poke()

    def _next(self, task: asyncio.Task[None]) -> None:
        """Let the next ones of the keys leave at once, before anything is written down."""
        self._tasks.discard(task)
        if not task.cancelled():
            task.result()  # a bug is not to be swallowed
            self.send()
        self._poke()

    async def _deliver(self, records: Sequence[ClaimedRecord]) -> None:
        try:
            outcomes = await self._publish(records)
        except Outage as outage:
            self._outage(records, outage)
        except asyncio.CancelledError:
            for record in records:
                self.window.turn_back(record)
            raise
        else:
            for record, outcome in zip(records, outcomes, strict=True):
                self.landed(record, outcome)
            self._suspicion.cleared(records)
            if self._breaker.state is State.PROBING:
                self._breaker.reset()

    async def _publish(self, records: Sequence[ClaimedRecord]) -> Sequence[Outcome]:
        """Publish; an error that is none of the seam's is one that a record may have caused."""
        try:
            outcomes = await self._publisher.publish(records)
        except Outage:
            raise
        except Exception as error:
            logger.exception("postroom: the publisher failed")
            raise ConnectionLostError(f"the publisher raised {error!r}") from error
        answered = len(outcomes) == len(records)
        if not answered or not all(isinstance(each, Outcome) for each in outcomes):
            raise ConnectionLostError(f"the publisher gave no outcome for each record: {outcomes}")
        return outcomes

    def _outage(self, records: Sequence[ClaimedRecord], outage: Outage) -> None:
        """Take everything back, but a record that breaks the connection for all."""
        lost = isinstance(outage, ConnectionLostError)
        guilty = self._suspicion.died(records) if lost else []
        for record in records:
            if record in guilty:
                reason = f"the way out broke each time this record was sent alone: {outage}"
                self.landed(record, Refused(reason))
            else:
                self.window.turn_back(record)
        self._breaker.trip(str(outage))

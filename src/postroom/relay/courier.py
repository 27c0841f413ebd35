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
Answer = Outcome | Outage
PROBE_PATIENCE = 1.0
"""Seconds to wait for what was sent to try the way out, before another is sent."""
CANCEL_WITHIN = 5.0
"""Seconds for deliveries to be broken off in."""


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
        permit: Callable[[], Allowed],
        poke: Callable[[], None],
    ) -> None:
        self.window = Window()
        self.outcomes: list[tuple[ClaimedRecord, Outcome]] = []
        self._publisher = publisher
        self._breaker = breaker
        self._suspicion = suspicion
        self._max_in_flight = max_in_flight
        self._unfit = unfit
        self._permit = permit
        self._poke = poke
        self._tasks: set[asyncio.Task[None]] = set()
        self._bug: BaseException | None = None
        self._probes: set[int] = set()  # what was sent since the way out opened again
        self._probe_until = 0.0
        self._closed = False

    def check(self) -> None:
        """Raise what should not have happened: it is not to be swallowed."""
        if self._bug is not None:
            raise self._bug

    @property
    def busy(self) -> bool:
        """Whether anything is on its way."""
        return bool(self._tasks)

    def send(self) -> None:
        """Send what may leave, as far as there is room on the way."""
        if self._closed or self._breaker.state is State.OPEN:
            return
        allowed = self._permit()
        if self._breaker.state is State.PROBING:
            self._send_probe(allowed)
        elif self._suspicion and (lone := self._first(allowed, self._suspicion.alone)):
            if not self.busy:  # else the way has to be clear first
                self.send_alone(lone)
        else:
            while batch := self.window.take(self._room(), allowed):
                self._start(batch)

    def _send_probe(self, allowed: Allowed) -> None:
        """Send one record, whatever else is on its way, and see; another if that one is slow."""
        if self.window.flies_any(self._probes) and self._breaker.now() < self._probe_until:
            return
        if (record := self._first(allowed)) is not None:
            self._probe_until = self._breaker.now() + PROBE_PATIENCE
            self.send_alone(record)

    def _first(self, allowed: Allowed, wanted: Allowed = lambda _: True) -> ClaimedRecord | None:
        """Choose who goes alone: of those that never broke anything, the first."""
        suspicion = self._suspicion
        return self.window.first(lambda each: allowed(each) and wanted(each), suspicion.times)

    def send_alone(self, record: ClaimedRecord) -> None:
        """Send one record in a call of its own."""
        self._start(self.window.take(1, lambda each: each is record))

    def landed(self, record: ClaimedRecord, outcome: Outcome) -> None:
        """Note how a record fared."""
        self.window.landed(record, delivered=isinstance(outcome, Delivered))
        self.outcomes.append((record, outcome))

    def close(self) -> None:
        """Send nothing more."""
        self._closed = True

    async def cancel(self) -> None:
        """Break off what is on its way: nobody knows whether it arrived, so it did not."""
        self.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=CANCEL_WITHIN)

    def _room(self) -> int:
        return max(0, min(self._publisher.max_batch, self._max_in_flight - self.window.in_flight))

    def _start(self, batch: Sequence[ClaimedRecord]) -> None:
        fit = []
        for record in batch:
            refused = self._unfit(record)
            if refused is None:
                fit.append(record)
            else:
                self.landed(record, refused)
        if self._breaker.state is State.PROBING:
            self._probes.update(record.position for record in fit)
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
            self._bug = self._bug or task.exception()
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
            self._answered(records, outcomes)

    def _answered(self, records: Sequence[ClaimedRecord], answers: Sequence[Answer]) -> None:
        """Note the answers; an outage among them is for those that have none."""
        lost: list[ClaimedRecord] = []
        outage: Outage | None = None
        for record, answer in zip(records, answers, strict=True):
            if isinstance(answer, Outage):
                lost.append(record)
                outage = answer
            else:
                self.landed(record, answer)
        known = [record for record in records if record not in lost] if lost else records
        self._suspicion.answered(known)
        if not self._probes.isdisjoint(record.position for record in known):
            self._breaker.reset()
            self._probes.clear()
        if outage is not None:
            self._outage(lost, outage)

    async def _publish(self, records: Sequence[ClaimedRecord]) -> Sequence[Answer]:
        """Publish; an error that is none of the seam's is one that a record may have caused."""
        try:
            outcomes = list(await self._publisher.publish(records))
        except Outage:
            raise
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise ConnectionLostError("the publisher cancelled its own call") from error
        except Exception as error:
            logger.exception("postroom: the publisher failed")
            raise ConnectionLostError(f"the publisher raised {error!r}") from error
        answered = len(outcomes) == len(records)
        if not answered or not all(isinstance(each, Answer) for each in outcomes):
            raise ConnectionLostError(
                f"the publisher gave {len(outcomes)} answers for {len(records)} records, and each"
                " has to be Delivered, Refused or Postponed"
            )
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
        self._probes.clear()
        self._breaker.trip(str(outage))

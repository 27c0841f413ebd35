"""Deliveries: call the publisher, several calls at once, and keep the outcomes to be settled."""

import asyncio
import logging
from collections.abc import Callable, Sequence

from postroom.errors import ConnectionLostError, Outage
from postroom.publishers.base import Delivered, Outcome, Publisher, Refused
from postroom.relay.breaker import Breaker
from postroom.relay.poison import Poison
from postroom.store.base import HeldRecord
from postroom.store.key_order import KeyOrder

logger = logging.getLogger("postroom.relay")

Allowed = Callable[[HeldRecord], bool]
Answer = Outcome | Outage
PROBE_PATIENCE = 1.0
"""Seconds to wait for the delivery that tries the publisher, before another one is sent."""
CANCEL_WITHIN = 5.0
"""Seconds to wait for cancelled deliveries."""


class Delivery:
    """Sends records and notes the answers.

    - `unsettled_limit`: how many records may be in flight or answered and not yet settled. A
      process that is killed delivers so many again at most
    - `refusal`: returns why a record is not even to be sent, or None
    - `changed`: is called when there is something for the loop to do
    """

    def __init__(
        self,
        publisher: Publisher,
        breaker: Breaker,
        poison: Poison,
        order: KeyOrder,
        *,
        unsettled_limit: int,
        refusal: Callable[[HeldRecord], Refused | None],
        allowed: Allowed,
        changed: Callable[[], None],
    ) -> None:
        self.outcomes: list[tuple[HeldRecord, Outcome]] = []
        self.locked: set[int] = set()
        """The positions of records that other transactions have locked: settled later."""
        self.settle_at = 0.0
        """When to settle again, after a lock was in the way."""
        self.closed = False
        self._publisher = publisher
        self._breaker = breaker
        self._poison = poison
        self._order = order
        self._unsettled_limit = unsettled_limit
        self._refusal = refusal
        self._allowed = allowed
        self._changed = changed
        self._tasks: set[asyncio.Task[None]] = set()
        self._bug: BaseException | None = None
        self._probes: set[int] = set()  # what was sent since the publisher opened again
        self._probe_until = 0.0

    @property
    def busy(self) -> bool:
        """Whether anything is in flight."""
        return bool(self._tasks)

    def to_settle(self, now: float) -> list[tuple[HeldRecord, Outcome]]:
        """Return the outcomes that can be settled now."""
        if not self.locked:
            return [] if now < self.settle_at else list(self.outcomes)
        return [each for each in self.outcomes if each[0].position not in self.locked]

    def settled(self, outcomes: Sequence[tuple[HeldRecord, Outcome]]) -> None:
        """Forget outcomes that are written."""
        if not self.locked:
            del self.outcomes[: len(outcomes)]
            return
        done = {record.position for record, _ in outcomes}
        self.outcomes = [each for each in self.outcomes if each[0].position not in done]

    @property
    def room(self) -> int:
        """How many more records may be sent."""
        in_flight = len(self._order.in_flight)
        unsettled = self._unsettled_limit - in_flight - len(self.outcomes)
        return max(0, min(self._publisher.max_in_flight - in_flight, unsettled))

    @property
    def room_alone(self) -> int:
        """How many more records may be sent in calls of their own."""
        if self._breaker.state == "closed":
            return self.room
        trying = not self._probes.isdisjoint(self._order.in_flight)
        return 0 if trying or self._breaker.state == "open" else min(1, self.room)

    def raise_bug(self) -> None:
        """Raise what should not have happened in a delivery, rather than swallow it."""
        if self._bug is not None:
            raise self._bug

    def send(self) -> None:
        """Send what may be sent, as far as there is room."""
        if self.closed or self._breaker.state == "open":
            return
        if self._breaker.state == "half_open":
            self._send_probe()
        elif self._poison.suspects_breaks and (alone := self._goes_alone()):
            if not self.busy:  # else it has to wait until nothing is in flight
                self.send_alone(alone)
        else:
            size = self._publisher.max_batch
            while batch := self._order.take(min(size, self.room), self._allowed):
                self._start(batch)

    def _goes_alone(self) -> HeldRecord | None:
        choices = self._order.choices(self._allowed)
        return next((each for each in choices if self._poison.must_go_alone(each)), None)

    def _send_probe(self) -> None:
        """Send one record to try the publisher; another one if that takes long."""
        waits = not self._probes.isdisjoint(self._order.in_flight)
        if not self.room or (waits and self._breaker.now() < self._probe_until):
            return
        record = self._poison.least_suspicious(self._order.choices(self._allowed))
        if record is not None:
            self._probe_until = self._breaker.now() + PROBE_PATIENCE
            self.send_alone(record)

    def send_alone(self, record: HeldRecord) -> None:
        """Send one record in a call of its own."""
        self._start(self._order.take(1, lambda each: each is record))

    def refuse(self, record: HeldRecord, reason: str) -> None:
        """Refuse a record for good, without sending it."""
        self._order.take(1, lambda each: each is record)
        self.answer(record, Refused(reason, permanent=True))

    def answer(self, record: HeldRecord, outcome: Outcome) -> None:
        """Note the outcome of a record."""
        self._order.answered(record, delivered=isinstance(outcome, Delivered))
        self.outcomes.append((record, outcome))

    async def cancel(self) -> None:
        """Cancel what is in flight: it counts as not delivered."""
        self.closed = True
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=CANCEL_WITHIN)

    def _start(self, batch: Sequence[HeldRecord]) -> None:
        good = []
        for each in batch:
            refused = self._refusal(each)
            if refused is None:
                good.append(each)
            else:
                self.answer(each, refused)
        if self._breaker.state == "half_open":
            self._probes.update(each.position for each in good)
        if good:
            task = asyncio.create_task(self._deliver(good))
            self._tasks.add(task)
            task.add_done_callback(self._done)
        else:
            self._changed()

    def _done(self, task: asyncio.Task[None]) -> None:
        """Send the next records of the keys at once, before anything is settled."""
        self._tasks.discard(task)
        if not task.cancelled():
            self._bug = self._bug or task.exception()
            self.send()
        self._changed()

    async def _deliver(self, records: Sequence[HeldRecord]) -> None:
        try:
            answers = await self._publish(records)
        except Outage as outage:
            self._outage(records, outage)
        except asyncio.CancelledError:
            for each in records:
                self._order.returned(each)
            raise
        else:
            self._answered(records, answers)

    def _answered(self, records: Sequence[HeldRecord], answers: Sequence[Answer]) -> None:
        """Note the answers; an outage among them is about the records that have none."""
        lost: list[HeldRecord] = []
        known: list[HeldRecord] = []
        outage: Outage | None = None
        for record, answer in zip(records, answers, strict=True):
            if isinstance(answer, Outage):
                lost.append(record)
                outage = answer
            else:
                known.append(record)
                self.answer(record, answer)
        self._poison.answered(known)
        if not self._probes.isdisjoint(each.position for each in known):
            self._breaker.reset()
            self._probes.clear()
        if outage is not None:
            self._outage(lost, outage)

    async def _publish(self, records: Sequence[HeldRecord]) -> Sequence[Answer]:
        """Call the publisher. An error that it should not raise may be caused by a record."""
        try:
            answers = list(await self._publisher.publish([each.record for each in records]))
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
        valid = len(answers) == len(records)
        if not valid or not all(isinstance(each, Answer) for each in answers):
            raise ConnectionLostError(
                f"the publisher gave {len(answers)} answers for {len(records)} records, and each"
                " has to be Delivered, Refused or Postponed"
            )
        return answers

    def _outage(self, records: Sequence[HeldRecord], outage: Outage) -> None:
        """Take the records back, except one that breaks the connection for all."""
        broke = isinstance(outage, ConnectionLostError)
        guilty = self._poison.connection_broke(records) if broke else []
        for each in records:
            if each in guilty:
                reason = f"the connection broke each time this record was sent alone: {outage}"
                self.answer(each, Refused(reason))
            else:
                self._order.returned(each)
        self._probes.clear()
        self._breaker.trip(str(outage))

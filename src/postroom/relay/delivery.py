"""Deliveries: send records to the publisher, keep its answers, and write them to the database."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from postroom.clock import Clock
from postroom.database.errors import describe
from postroom.publishers.base import Delivered, Outage, Outcome, Publisher, Refused
from postroom.relay.breaker import Breaker
from postroom.relay.health import Tally
from postroom.relay.leases import HeldLeases
from postroom.relay.observer import Answer, Observers
from postroom.relay.outcomes import refusal_before_delivery, settlement_of
from postroom.relay.poison import Poison
from postroom.relay.publishing import publish
from postroom.relay.refusal_log import RefusalLog
from postroom.relay.settings import RelaySettings
from postroom.store.base import HeldRecord, Settlement
from postroom.store.key_order import KeyOrder
from postroom.store.store import Store

logger = logging.getLogger("postroom.relay")

PROBE_PATIENCE = 1.0
"""Seconds to wait for the delivery that tries the publisher, before another one is sent."""
CANCEL_WITHIN = 5.0
"""Seconds to wait for cancelled deliveries."""
SETTLE_PAUSE = 0.1
"""Seconds between two settlements at least, unless there is a batch to settle."""
QUIET_PAUSE = 0.075
"""The same when nothing is in flight or to be claimed: later, it might delay the next record."""
LOCK_PAUSE = 0.5
"""Seconds between two looks at records that another transaction has locked."""


@dataclass(kw_only=True)
class Delivery:
    """Sends records, notes the answers and settles them."""

    worker: str
    store: Store
    publisher: Publisher
    settings: RelaySettings
    clock: Clock
    breaker: Breaker
    order: KeyOrder
    leases: HeldLeases
    poison: Poison
    tally: Tally
    changed: Callable[[], None]
    """Is called when there is something for the loop to do."""
    observers: Observers = field(default_factory=Observers)
    refusal_log: RefusalLog = field(default_factory=RefusalLog)
    drain: bool = False  # the relay ends when everything is settled
    more_to_claim: bool = False
    closed: bool = False
    """Whether nothing more may be sent."""
    outcomes: dict[HeldRecord, Outcome] = field(default_factory=dict)
    """The answers that are not yet written."""
    locked: set[int] = field(default_factory=set)
    """The positions of records that other transactions have locked: settled later."""
    settle_at: float = 0.0
    """When to settle again, after a lock was in the way."""
    bug: BaseException | None = None
    """What should not have happened in a delivery. The loop raises it."""
    tasks: set[asyncio.Task[None]] = field(default_factory=set)  # a batch each, then the next
    _calls: dict[object, tuple[float, Sequence[HeldRecord]]] = field(default_factory=dict)
    _settled_at: float = -SETTLE_PAUSE
    _planned: bool = False  # the loop waits for the next settlement
    _urgent: set[HeldRecord] = field(default_factory=set)  # answered, and others wait for them
    _probes: set[int] = field(default_factory=set)  # sent since the publisher opened again
    _probe_until: float = 0.0

    @property
    def room(self) -> int:
        """How many more records may be sent. What is unsettled is sent again after a crash."""
        free = self.publisher.max_in_flight - len(self.order.in_flight)
        return max(0, min(free, free + self.settings.batch_size - len(self.outcomes)))

    @property
    def _probing(self) -> bool:
        return not self._probes.isdisjoint(self.order.in_flight)

    # -- send

    def send(self) -> None:
        """Send what may be sent, as far as there is room."""
        for batch in self._batches():
            self._start(batch)

    def _batches(self) -> list[list[HeldRecord]]:
        """Take what may be sent now, for a call of the publisher each."""
        if self.closed or self.breaker.state == "open":
            return []
        now = self.clock.monotonic()
        tokens = self.leases.usable(now)
        if self.poison.restricts:
            tokens = {each: tokens[each] for each in tokens if self.poison.may_send(each)}

        def allowed(record: HeldRecord) -> bool:
            return tokens.get(record.partition) == record.token

        choices = filter(allowed, self.order.sendable)
        if self.breaker.state == "half_open":
            return self._take_probe(choices, now)
        if alone := self.poison.first_to_go_alone(choices):
            return [] if self.order.in_flight else [self.order.take(1, lambda it: it is alone)]
        size = self.publisher.max_batch
        taken = self.order.take(self.room, allowed)
        return [taken[start : start + size] for start in range(0, len(taken), size)]

    def _take_probe(self, choices: Iterable[HeldRecord], now: float) -> list[list[HeldRecord]]:
        """Take one record to try the publisher; another one if that takes long."""
        if not self.room or (self._probing and now < self._probe_until):
            return []
        record = self.poison.least_suspicious(choices)
        if record is None:
            return []
        self._probe_until = now + PROBE_PATIENCE
        self._probes.add(record.position)
        return [self.order.take(1, lambda each: each is record)]

    async def send_suspects(self) -> None:
        """After crashes, send one record of a partition at a time, written down before."""
        if not self.poison.restricts:
            return
        if done := self.poison.survived(self.order):
            await self.store.leases.clear_crashes(self.worker, done)
        room = self.room
        if self.breaker.state != "closed":
            room = 0 if self._probing or self.breaker.state == "open" else min(1, room)
        chosen = self.poison.choose(self.order, self.leases, room, self.clock.monotonic())
        killers = [record for record in chosen if self.poison.kills(chosen[record])]
        for record in killers:
            died = chosen.pop(record) - 1
            self.refuse(record, f"the process died {died} times while it delivered this record")
        if chosen:
            for record in await self.store.leases.suspect(self.worker, chosen):
                self.poison.sent(record, chosen[record], self.clock.monotonic())
                if self.breaker.state == "half_open":
                    self._probes.add(record.position)
                self.order.sent(record)
                self._start([record])

    def _start(self, batch: Sequence[HeldRecord]) -> None:
        task = asyncio.create_task(self._deliver(batch))
        self.tasks.add(task)
        task.add_done_callback(self._done)

    async def _deliver(self, batch: Sequence[HeldRecord]) -> None:
        """Deliver records, then the next ones at once, before anything is settled."""
        while batch:
            good = self._without_refused(batch)
            call, began = object(), self.clock.monotonic()
            self._calls[call] = began, good
            try:
                answers = await self._publish(good) if good else ()
            except asyncio.CancelledError:
                for each in good:
                    self.order.returned(each)
                raise
            finally:
                del self._calls[call]
            self._answered(good, answers, self.clock.monotonic() - began)
            batch, *others = self._batches() or [[]]
            for other in others:
                self._start(other)
            self._tell()

    async def _publish(self, records: Sequence[HeldRecord]) -> Sequence[Answer]:
        return await publish(self.publisher, records, self.observers, self.settings.redact)

    def _without_refused(self, batch: Sequence[HeldRecord]) -> Sequence[HeldRecord]:
        """Refuse the records that are not even to be sent; return the others."""
        good = []
        for each in batch:
            refused = refusal_before_delivery(each, self.settings.retry)
            if refused is None:
                good.append(each)
            else:
                self._answer(each, refused)
        return good

    def _done(self, task: asyncio.Task[None]) -> None:
        self.tasks.discard(task)
        if not task.cancelled():
            self.bug = self.bug or task.exception()
        self._tell()

    def _tell(self) -> None:
        """Tell the loop, unless it will come to settle by itself and has nothing to do before."""
        can_wait = self._planned and self.clock.monotonic() < self._settle_after
        if self.bug or self.poison.restricts or not can_wait:
            self.changed()

    def longest_call(self) -> tuple[HeldRecord, float] | None:
        """Return the first record of the call that takes longest so far, and its seconds."""
        for began, records in self._calls.values():  # in the order in which they began
            if records:
                return records[0], self.clock.monotonic() - began
        return None

    async def cancel(self) -> None:
        """Cancel what is in flight: it counts as not delivered."""
        self.closed = True
        for task in self.tasks:
            task.cancel()
        if self.tasks:
            await asyncio.wait(self.tasks, timeout=CANCEL_WITHIN)

    # -- answers

    def refuse(self, record: HeldRecord, reason: str) -> None:
        """Refuse a record for good, without sending it."""
        self.order.sent(record)
        self._answer(record, Refused(reason, permanent=True))

    def _answer(self, record: HeldRecord, outcome: Outcome) -> None:
        delivered = isinstance(outcome, Delivered)
        self.order.answered(record, delivered=delivered)
        self.outcomes[record] = outcome
        if isinstance(outcome, Refused) or (delivered and record.blocks_key):
            self._urgent.add(record)

    def _answered(
        self, records: Sequence[HeldRecord], answers: Sequence[Answer], seconds: float
    ) -> None:
        """Note the answers; an outage among them is about the records that have none."""
        lost: dict[HeldRecord, Outage] = {}
        for record, answer in zip(records, answers, strict=True):
            if isinstance(answer, Outage):
                lost[record] = answer
            else:
                if isinstance(answer, Refused):
                    record.seconds = seconds
                self._answer(record, answer)
        known = [each for each in records if each not in lost] if lost else records
        self.poison.answered(known)
        if self._probes and not self._probes.isdisjoint(each.position for each in known):
            self.breaker.reset()
            self._probes.clear()
        if lost:
            self._take_back(list(lost), next(iter(lost.values())))

    def _take_back(self, records: Sequence[HeldRecord], outage: Outage) -> None:
        """Have records sent again, except one that breaks the connection for all."""
        guilty = self.poison.connection_broke(records) if outage.connection_lost else []
        for each in records:
            if each in guilty:
                reason = "the connection broke each time this record was sent alone"
                self._answer(each, Refused(f"{reason}: {outage.reason}"))
            else:
                self.order.returned(each)
        self._probes.clear()
        self.breaker.trip(outage.reason)

    # -- settle

    def to_settle(self, now: float) -> dict[HeldRecord, Outcome]:
        """Return the outcomes that can be settled now."""
        if not self.locked:
            return self.outcomes.copy() if now >= self._settle_after else {}
        free = self.outcomes.items()
        return {record: outcome for record, outcome in free if record.position not in self.locked}

    @property
    def _settle_after(self) -> float:
        """When to settle: with what is answered soon, unless others wait or there is a batch."""
        quiet = not (self.order.in_flight or self.more_to_claim)
        last = self.closed or (self.drain and not self.order.in_flight)
        if last or self._urgent or len(self.outcomes) >= self.settings.batch_size:
            return self.settle_at
        return max(self.settle_at, self._settled_at + (QUIET_PAUSE if quiet else SETTLE_PAUSE))

    def plan_settlement(self) -> float:
        """Return when to settle, if there is not a batch to settle before."""
        self._planned = True
        return self._settle_after

    async def settle(self) -> Settlement:
        """Write the outcomes that can be settled, and return them. If that fails, they are kept."""
        now = self.clock.monotonic()
        if self.locked and now >= self.settle_at:
            await self._look_for_locks(self.locked)
        outcomes = self.to_settle(now)
        if not outcomes:
            return Settlement()
        settlement = settlement_of(outcomes, self.settings, self.worker)
        tokens = self.leases.usable(now)
        for each in settlement.delivered:
            if tokens.get(each.partition) != each.token:
                each.blocks_key = True  # a new holder of the lease may have blocked its key
                settlement.late.append(each)
        self._planned = False
        written = await self.store.settlements.settle(settlement)
        self._settled_at = self.clock.monotonic()
        self._urgent -= outcomes.keys()
        for record in outcomes:
            del self.outcomes[record]
        for each in settlement.delivered:
            self.order.settled(each)
        for attempt in settlement.attempts:
            self.order.drop_key(attempt.record)
        self.tally.add_deliveries(settlement.delivered, self.clock.shift())
        self.observers.settled(settlement.delivered, written)
        for attempt in written:  # those of a lost lease are for its new holder to report
            self.tally.add_attempt(attempt, now)
            self.refusal_log.add(attempt, now)
        logger.debug("postroom: settled %s", settlement)
        return settlement

    async def put_locked_aside(self, error: Exception) -> None:
        """After a settlement waited in vain, settle without the records that are locked."""
        positions = {each.position for each in self.to_settle(self.clock.monotonic())}
        await self._look_for_locks(positions | self.locked)
        some = f"{len(self.locked) or len(positions)} of {len(positions)}"
        logger.warning("postroom: %s settlements have to wait: %s", some, describe(error))

    async def _look_for_locks(self, positions: set[int]) -> None:
        self.locked = await self.store.settlements.locked(positions)
        self.settle_at = self.clock.monotonic() + LOCK_PAUSE

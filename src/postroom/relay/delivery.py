"""Deliveries: send records to the publisher, keep its answers, and write them to the database."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from postroom.clock import Clock
from postroom.database.errors import describe
from postroom.publishers.base import Delivered, Outage, Outcome, Publisher, Refused
from postroom.record import PARTITIONS
from postroom.relay.breaker import Breaker
from postroom.relay.health import Tally
from postroom.relay.leases import HeldLeases
from postroom.relay.observer import Answer, Observers
from postroom.relay.outcomes import refusal_before_delivery, settlement_of
from postroom.relay.poison import TRIED_ALONE, Poison, quarantine
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
    tally: Tally
    changed: Callable[[], None]
    """Is called when there is something for the loop to do."""
    observers: Observers = field(default_factory=Observers)
    poison: Poison = field(default_factory=Poison)
    refusal_log: RefusalLog = field(default_factory=RefusalLog)
    drain: bool = False  # the relay ends when everything is settled
    more_to_claim: bool = False
    closed: bool = False
    """Whether nothing more may be sent."""
    outcomes: dict[HeldRecord, Outcome] = field(default_factory=dict)
    """The answers that are not yet written."""
    locked: set[HeldRecord] = field(default_factory=set)
    """The records that other transactions have locked: settled later."""
    settle_at: float = 0.0
    """When to settle again, after a lock was in the way."""
    bug: BaseException | None = None
    """What should not have happened in a delivery. The loop raises it."""
    tasks: set[asyncio.Task[None]] = field(default_factory=set)  # a batch each, then the next
    _calls: dict[HeldRecord, float] = field(default_factory=dict)  # first record: since when
    _settled_at: float = -SETTLE_PAUSE
    _planned: bool = False  # the loop waits for the next settlement
    _urgent: bool = False  # others wait for a record that was answered
    _probes: set[HeldRecord] = field(default_factory=set)  # sent since the publisher opened again
    _probe_until: float = 0.0

    @property
    def room(self) -> int:
        """How many more records may be sent. What is unsettled is sent again after a crash.

        One record tries a publisher that has opened again; another one if that takes long.
        """
        if self.closed or self.breaker.state == "open":
            return 0
        free = self.publisher.max_in_flight - len(self.order.in_flight)
        room = max(0, min(free, free + self.settings.batch_size - len(self.outcomes)))
        if self.breaker.state == "half_open":
            probing = not self._probes.isdisjoint(self.order.in_flight)
            return 0 if probing and self.clock.monotonic() < self._probe_until else min(1, room)
        return room

    # -- send

    def send(self) -> None:
        """Send what may be sent, as far as there is room."""
        for batch in self._batches():
            self._start(batch)

    def _batches(self) -> list[list[HeldRecord]]:
        """Take what may be sent now, for a call of the publisher each."""
        room = self.room
        if not room:
            return []
        tokens, careful = self.leases.usable(self.clock.monotonic()), self.poison.restricts

        def allowed(record: HeldRecord) -> bool:
            leased = tokens.get(record.partition) == record.token
            return leased and not (careful and self.poison.holds_back(record))

        choices = filter(allowed, self.order.sendable)
        if self.breaker.state == "half_open":
            probe = self.poison.least_suspicious(choices)
            return [] if probe is None else [self._take(probe)]
        if alone := self.poison.first_to_go_alone(choices):
            return [] if self.order.in_flight else [self._take(alone)]
        size = self.publisher.max_batch
        room -= self.poison.reserved(self.publisher.max_in_flight)
        taken = self.order.take(max(0, room), allowed)
        return [taken[start : start + size] for start in range(0, len(taken), size)]

    def _take(self, record: HeldRecord) -> list[HeldRecord]:
        """Take one record to send; its answer tells whether a publisher that opened works."""
        self.order.sent(record)
        if self.breaker.state == "half_open":
            self._probes.add(record)
            self._probe_until = self.clock.monotonic() + PROBE_PATIENCE
        return [record]

    async def send_suspects(self) -> None:
        """After crashes, send few records at a time, written down before."""
        if not self.poison.restricts:
            return
        now = self.clock.monotonic()
        if innocent := self.poison.survived(self.order, now):
            await self.store.leases.acquit(innocent)
        for record in self.poison.proven(self.order):
            times = await self.store.leases.quarantines(record)
            await self.store.leases.acquit(range(PARTITIONS), proven=TRIED_ALONE)
            self.refuse(record, quarantine(times))
        if chosen := self.poison.choose(self.order, self.leases, self.room, now):
            held = await self.store.leases.suspect(self.worker, chosen)
            self.poison.sent(held, self.clock.monotonic())
            for record in held:
                self._start(self._take(record))

    def _start(self, batch: Sequence[HeldRecord]) -> None:
        task = asyncio.create_task(self._deliver(batch))
        self.tasks.add(task)
        task.add_done_callback(self._done)

    async def _deliver(self, batch: Sequence[HeldRecord]) -> None:
        """Deliver records, then the next ones at once, before anything is settled."""
        while batch:
            if good := self._without_refused(batch):
                await self._call(good)
            batch, *others = self._batches() or [[]]
            for other in others:
                self._start(other)
            self._tell()

    async def _call(self, records: Sequence[HeldRecord]) -> None:
        """Call the publisher, and note its answers."""
        began = self._calls[records[0]] = self.clock.monotonic()
        try:
            answers = await publish(self.publisher, records, self.observers, self.settings.redact)
        except asyncio.CancelledError:
            for each in records:
                self.order.returned(each)
            raise
        finally:
            del self._calls[records[0]]
        self._answered(records, answers, self.clock.monotonic() - began)

    def _without_refused(self, batch: Sequence[HeldRecord]) -> Sequence[HeldRecord]:
        """Refuse the records that are not even to be sent; return the others."""
        good = []
        for each in batch:
            if (refused := refusal_before_delivery(each, self.settings.retry)) is None:
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
        if self.bug or self.poison.hurries or not can_wait:
            self.changed()

    def longest_call(self) -> tuple[HeldRecord, float] | None:
        """Return the first record of the call that takes longest so far, and its seconds."""
        for first, began in self._calls.items():  # in the order in which they began
            return first, self.clock.monotonic() - began
        return None

    async def cancel(self) -> None:
        """Cancel what is in flight: it counts as not delivered."""
        self.closed = True
        for task in self.tasks:
            task.cancel()
        if self.tasks:
            await asyncio.wait(self.tasks, timeout=CANCEL_WITHIN)

    # -- answers

    def refuse(self, record: HeldRecord, outcome: Outcome) -> None:
        """Note the outcome of a record that is not sent."""
        self.order.sent(record)
        self._answer(record, outcome)

    def _answer(self, record: HeldRecord, outcome: Outcome) -> None:
        delivered = isinstance(outcome, Delivered)
        self.order.answered(record, delivered=delivered)
        self.outcomes[record] = outcome
        if isinstance(outcome, Refused) or (delivered and record.blocks_key):
            self._urgent = True

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
        if self._probes and not self._probes.isdisjoint(known):
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
        return {record: outcome for record, outcome in free if record not in self.locked}

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

    async def settle(self, *, sure: bool = True) -> Settlement:
        """Write the outcomes that can be settled, and return them. If that fails, they are kept.

        Not `sure`: the database was away, and may have given the leases to another worker.
        """
        now = self.clock.monotonic()
        if self.locked and now >= self.settle_at:
            await self._look_for_locks()
        outcomes = self.to_settle(now)
        if not outcomes:
            return Settlement()
        settlement = settlement_of(outcomes, self.settings, self.worker)
        tokens = self.leases.usable(now) if sure else {}
        for each in settlement.delivered:  # its next holder may be about to block its key
            each.blocks_key |= tokens.get(each.partition) != each.token
        self._planned = self._urgent = False
        written = await self.store.settlements.settle(settlement)
        self._settled_at = self.clock.monotonic()
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
        await self._look_for_locks()
        some = f"{len(self.locked) or len(self.outcomes)} of {len(self.outcomes)}"
        logger.warning("postroom: %s settlements have to wait: %s", some, describe(error))

    async def _look_for_locks(self) -> None:
        self.locked = await self.store.settlements.locked(list(self.outcomes))
        self.settle_at = self.clock.monotonic() + LOCK_PAUSE

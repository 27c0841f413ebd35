"""The loop of a relay: settle, poll, claim, send, wait."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Set
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import Literal

from postroom.clock import Clock
from postroom.database.database import finish
from postroom.database.errors import Kind, describe, is_conflict, kind_of
from postroom.database.locks import LockWatch
from postroom.errors import OutageError
from postroom.publishers.base import Publisher
from postroom.relay.breaker import Breaker
from postroom.relay.claiming import ClaimPlan, claim_past_hot_keys
from postroom.relay.delivery import LOCK_PAUSE, Delivery
from postroom.relay.health import Health, Tally, health_of
from postroom.relay.leases import HeldLeases
from postroom.relay.observer import Observers
from postroom.relay.settings import RelaySettings
from postroom.relay.timer import PollTimer
from postroom.store.base import Poll, Verdict
from postroom.store.key_order import KeyOrder
from postroom.store.store import Store

logger = logging.getLogger("postroom.relay")

LEAVE_WITHIN = 5.0
"""Seconds for each step of the end that needs the database."""
DRAINED = (
    "postroom: an operator drains this worker: it finishes what is in flight, and takes no more"
)
UNDRAINED = "postroom: this worker is resumed, and takes records again"
STANDS_BY = "postroom: stands by while worker %s delivers: SQLite has one writer at a time"


@dataclass(kw_only=True)
class Loop:
    """Delivers the records of the partitions that it leases. `drain`: ends when all is done."""

    worker: str
    store: Store
    publisher: Publisher
    settings: RelaySettings
    clock: Clock
    tally: Tally
    observers: Observers = field(default_factory=Observers)
    drain: bool = False
    idle: bool = False
    """Whether the last look at the outbox found nothing to deliver."""
    left: bool = False
    """Whether the worker has released its leases for good."""
    listener: Literal["up", "down", "off"] = "off"
    poll: Poll = field(default_factory=Poll)
    """What the last poll has found."""
    order: KeyOrder = field(default_factory=KeyOrder)
    reopen: asyncio.Event = field(default_factory=asyncio.Event)
    """Is set when it is time to open the publisher again, which is done beside the loop."""
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _asked: bool = False  # whether this turn has asked the database for all that it wants
    _settled: bool = False  # whether this turn has written outcomes
    _was_away: bool = False  # whether the database was unavailable since the last answer
    _server: int | None = None
    _last_active: str | None = None
    _stop_at: float = inf
    _time_limit: asyncio.Timeout | None = None

    def __post_init__(self) -> None:
        clock, watched, look = self.clock, self.observers, self._changed.set
        self.publisher_breaker = Breaker("the publisher", clock, self.publisher_changed, watched)
        self.database_breaker = Breaker("the database", clock, look, watched)
        self.locks = LockWatch(clock.monotonic)
        self.leases = HeldLeases(self.settings.lease.total_seconds(), watched)
        self._timer = PollTimer(self.settings, clock, self.drain)
        self._plan = ClaimPlan(
            order=self.order,
            leases=self.leases,
            capacity=self.publisher.max_in_flight + 2 * self.settings.batch_size,
            batch_size=self.settings.batch_size,
        )
        self.delivery = Delivery(
            worker=self.worker,
            store=self.store,
            publisher=self.publisher,
            settings=self.settings,
            clock=clock,
            breaker=self.publisher_breaker,
            order=self.order,
            leases=self.leases,
            tally=self.tally,
            changed=look,
            observers=watched,
            drain=self.drain,
        )
        self.tally.log_progress(self._now())  # from now on, once a minute

    def wake(self, partitions: Set[int] | None = None) -> None:
        """Have the loop claim what is new in some partitions; poll if it does not lease them all.

        Without partitions it polls. If it has just done so, it does very soon.
        """
        if partitions is None or not partitions <= self.leases.tokens.keys():
            self._timer.woken = True
        else:
            self._plan.wake(partitions)
        self.delivery.more_to_claim = True
        self._changed.set()

    def publisher_changed(self) -> None:
        """Have the loop pause, or poll at once when the publisher is back."""
        self._timer.woken |= self.publisher_breaker.state != "open"
        self._changed.set()

    def listener_changed(self, connected: bool) -> None:
        """Note whether the listener for commits of other processes is connected."""
        self.listener = "up" if connected else "down"
        self.observers.tell(lambda it: it.listener_changed(connected=connected))

    def stop(self) -> None:
        """Have the loop claim and send nothing more, finish what is in flight, and end."""
        if self.stopping:
            return
        grace = self.settings.grace.total_seconds()
        self._stop_at = self._now() + grace
        self.delivery.closed = True
        self._changed.set()
        if self._time_limit is not None:
            # A database that does not answer must not outlast the grace period.
            limit = asyncio.get_running_loop().time() + grace
            with suppress(RuntimeError):  # it has answered
                self._time_limit.reschedule(min(limit, self._time_limit.when() or limit))

    def health(self) -> Health:
        """Return the health of the relay, which runs."""
        outages = self.locks.problem, self.database_breaker.outage, self.publisher_breaker.outage
        return health_of(outages, self.publisher, self.tally, self._now())

    @property
    def stopping(self) -> bool:
        """Whether the loop was told to stop."""
        return self._stop_at < inf

    async def run(self) -> None:
        """Deliver until told to stop."""
        try:
            while not self._finished():
                self._changed.clear()  # before it looks, so that no later change is missed
                await self._turn()
        finally:
            await finish(self._leave())

    def _finished(self) -> bool:
        if self.stopping:
            over = self._now() >= self._stop_at
            return over or not (self.delivery.tasks or self.delivery.outcomes)
        return self.drain and self.idle

    async def _turn(self) -> None:
        self._asked = self._settled = False
        if self.delivery.bug is not None:
            raise self.delivery.bug
        if self.drain and self.publisher_breaker.state == "open" and not self.delivery.tasks:
            raise OutageError(self.publisher_breaker.reason)
        if self.publisher_breaker.due():
            self.reopen.set()
        try:
            longest = max(10.0, self.settings.lease.total_seconds())
            seconds = max(0.1, min(longest, self._stop_at - self._now()))
            async with asyncio.timeout(seconds) as self._time_limit:
                await self._settle()
                if not self._delivering:
                    await self._pause()
                else:
                    await self._poll()
                if self._delivering:
                    await self._claim()
                    await claim_past_hot_keys(self._plan, self.store, self._now())
                    await self.delivery.send_suspects()
                self.delivery.send()
                now = self._now()
                if self._plan.asks_for_writers(now):  # the records that were claimed are sent first
                    self._plan.note_writers(await self.store.claims.writers(), now)
        except Exception as error:
            if self.drain or kind_of(error) is Kind.BUG:
                raise
            if self._now() < self._stop_at:  # else the end of the grace period cut it off
                await self.wait_for_database(error)
            return
        if self._asked:
            if self._settled or not self.delivery.outcomes:
                self.locks.gone()
            self.database_breaker.reset("loop")
        await self._wait()

    @property
    def _delivering(self) -> bool:
        """Whether records may be claimed and sent: no stop, no outage, no operator against it."""
        stopped = self.stopping or self._stopped_by_operator
        return not stopped and self.publisher_breaker.state != "open"

    @property
    def _stopped_by_operator(self) -> bool:
        """Whether an operator has paused everything, or drains this worker. It goes on polling."""
        return self.poll.pauses.everything or self.poll.draining

    async def _settle(self) -> None:
        """Write the outcomes of deliveries, and note where that makes records ready."""
        try:
            settlement = await self.delivery.settle(sure=not self._was_away)
        except Exception as error:
            if self.drain or not is_conflict(error):
                raise
            await self.delivery.put_locked_aside(error)
            if not self.delivery.locked:  # then it is the table
                self.locks.met(error)
            return
        self._settled = bool(settlement.delivered or settlement.attempts)
        self._asked |= self._settled
        for each in settlement.delivered:
            if each.blocks_key:
                self._plan.look_again(each)
        for attempt in settlement.attempts:
            if attempt.verdict is Verdict.FAILED or not attempt.delay:
                self._plan.look_again(attempt.record)
            else:
                self._timer.within(attempt.delay.total_seconds())

    async def _poll(self, *, take: bool = True) -> None:
        """Renew the leases, release what has no work, take a share of what has."""
        now, surplus = self._now(), self.leases.surplus
        if surplus and surplus.keys().isdisjoint(self.order.partitions()):
            self._timer.within(0)  # nobody serves these until they are released
        quiet = self._asked and not (self.order.held or self.delivery.more_to_claim)
        if not self._timer.due(now, quiet=quiet):
            return
        busy = self.order.partitions()
        if take and not self.drain:
            busy |= self.leases.lingering(now)
        self._asked = True
        async with self.leases.lock:
            self._timer.begin(now)
            poll = await self.store.leases.poll(
                self.worker,
                lease=self.settings.lease,
                busy=busy,
                surplus=surplus,
                floors=self._plan.floors(now, of_all=True),
                take=take,
                all_if_alone=not self.drain,
            )
            if self._is_another(poll.server):
                poll = Poll()
            taken_over = self.leases.polled(poll.leases, asked_at=now)
        if taken_over:
            await self.store.claims.retry_postponed(taken_over)
        self.leases.limit(poll.share, self.order.held_of.__getitem__, now=now)
        self.order.drop_waiting(lambda each: self.leases.leaves(each, now))
        self._apply(poll)
        self.delivery.poison.look_at(poll.leases, now)
        if self._plan.look_into(self.leases.tokens if take else (), taken_over):
            self._timer.woken = True
        self.idle = self._timer.end(poll, busy=bool(poll.leases or self.order.held))
        if self._stopped_by_operator:
            self.idle |= not self.order.held
        if self.idle and self.publisher_breaker.state == "half_open":
            self.publisher_breaker.reset()  # there is nothing to try it with
        logger.debug("postroom: leases %d of %d partitions", len(poll.leases), poll.waiting)

    def _is_another(self, server: int | None) -> bool:
        """Drop what was claimed if the database may be another one than before, and poll again.

        It may have lost commits, and give positions and leases out again.
        """
        if server is None:
            return False
        before, self._server = self._server, server
        was_away, self._was_away = self._was_away, False
        if before is not None and self.store.is_another(server, before):
            logger.warning(
                "postroom: the database was restarted, restored, or is another one. Records that"
                " are not in flight are claimed again"
            )
        elif not was_away:
            return False
        self._plan.forget()
        self.leases.polled((), asked_at=self._now())
        self._timer.woken, self._asked = True, False  # an outage ends when claims succeed, too
        return True

    def _apply(self, poll: Poll) -> None:
        """Drop what an operator has stopped and is not in flight; log what has changed."""
        pauses, before, self.poll = poll.pauses, self.poll, poll
        if poll.draining:
            self.order.drop_waiting()
        elif pauses:
            self.order.drop_waiting(pauses.hold)
        if pauses.everything != before.pauses.everything:
            change = "paused by an operator" if pauses.everything else "resumed"
            logger.warning("postroom: deliveries are %s", change)
            self._timer.woken = True
        if poll.draining != before.draining:
            logger.warning(DRAINED if poll.draining else UNDRAINED)
            self._timer.woken = True
        if poll.active not in (None, self._last_active):
            logger.info(STANDS_BY, poll.active)
            self._last_active = poll.active

    async def _claim(self) -> None:
        """Read more records, evenly from the partitions."""
        tokens, floors = self._plan.partitions(now := self._now()), self._plan.floors(now)
        if not tokens:
            return
        self._plan.begin(tokens)
        claim = await self.store.claims.claim(
            tokens, depth=self._plan.depth(tokens), held=self.order.held, floors=floors
        )
        if self._is_another(claim.server):
            return
        ended = self._now()
        self._plan.claimed(claim, tokens.keys(), full=not floors, began=now, ended=ended)
        self.observers.tell(lambda it: it.claimed(len(claim.records), ended - now))
        all_looked_at = not (self.drain or floors) and tokens.keys() == self.leases.lingering(now)
        self.idle = self._plan.empty_claims > (0 if all_looked_at else 1)
        if self._plan.empty_claims == 1 and not all_looked_at:
            self._timer.within(0)  # poll at once, to release the leases
        logger.debug("postroom: claimed %d of %d partitions", len(claim.records), len(tokens))

    async def _pause(self) -> None:
        """Release what is not in flight: other workers may be able to deliver it."""
        self.order.drop_waiting()
        if self.order.held or self._stopped_by_operator:
            await self._poll(take=False)
        elif self.leases.tokens:
            await self.store.leases.release(self.worker, stays=True)
            self.leases.polled((), asked_at=self._now())

    async def _wait(self) -> None:
        """Wait for the first thing that there is to do."""
        now = self._now()
        self.tally.log_progress(now, busy=bool(self.order.held))
        self.delivery.refusal_log.end_minute(now)
        self.delivery.more_to_claim = self._delivering and bool(self._plan.partitions(now))
        if self.delivery.more_to_claim or self.delivery.to_settle(now) or self._finished():
            return
        if self.drain and not (self.order.held or self.idle or self._timer.waits_for_others):
            self._timer.within(0)  # there is only to find out that nothing is left
            return
        times = [now + 60, self._stop_at]
        if self._delivering or self.order.held or self._stopped_by_operator:
            times.append(self._timer.next_poll)
        if self.delivery.outcomes:
            times.append(self.delivery.plan_settlement())
        if self.publisher_breaker.due():  # since this turn began: what it asked may have taken long
            self.reopen.set()
        elif self.publisher_breaker.state == "open":
            times.append(self.publisher_breaker.retry_at)
        await self.clock.wait(self._changed, min(times) - now)

    async def wait_for_database(self, error: Exception) -> None:
        """Note an outage of the database, and wait until it may be tried again."""
        self._timer.woken = True  # what woke the relay may not have been seen
        if is_conflict(error):
            level = logging.INFO if self.locks.was_met else logging.WARNING
            self.locks.met(error)
            logger.log(level, "postroom: tries again in a moment: %s", describe(error))
            await self.clock.wait(asyncio.Event(), LOCK_PAUSE)
            return
        self._was_away = True
        breaker = self.database_breaker
        breaker.trip(describe(error), "loop")
        while breaker.state == "open" and not breaker.due() and not self._finished():
            self._changed.clear()
            until = min(breaker.retry_at, self._stop_at)
            await self.clock.wait(self._changed, until - self._now())

    async def _leave(self) -> None:
        """End deliveries. What was in flight stays undelivered, and others may take it at once."""
        self.delivery.closed, self.delivery.settle_at = True, 0.0
        await _try(self._settle)
        await self.delivery.cancel()
        await _try(self._settle)
        self.delivery.refusal_log.summarize(self._now())
        async with self.leases.lock:  # or a heartbeat that has begun would come after it
            self.left = True
            release = partial(self.store.leases.release, self.worker, acquits=self.stopping)
            await _try(release)

    def _now(self) -> float:
        return self.clock.monotonic()


async def _try(step: Callable[[], Awaitable[None]]) -> None:
    try:
        async with asyncio.timeout(LEAVE_WITHIN):
            await step()
    except Exception as error:
        logger.warning("postroom: leases are left to run out: %s", describe(error))

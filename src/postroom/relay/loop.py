"""The loop of a relay: settle, poll, claim, send, wait."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import inf

from postroom.clock import Clock
from postroom.errors import Outage
from postroom.publishers.base import Publisher
from postroom.relay.breaker import Breaker
from postroom.relay.claiming import ClaimPlan
from postroom.relay.crowds import block_crowding_keys
from postroom.relay.delivery import Delivery
from postroom.relay.health import Tally, log_attempt
from postroom.relay.leases import HeldLeases
from postroom.relay.leaving import leave
from postroom.relay.locks import PAUSE, look_at_locks, put_locked_aside
from postroom.relay.outcomes import refusal_before_delivery, settlement_of
from postroom.relay.poison import Poison
from postroom.relay.settings import RelaySettings
from postroom.relay.suspects import send_suspects
from postroom.relay.timer import PollTimer
from postroom.store.base import HeldRecord, Settlement, Verdict
from postroom.store.database import finish
from postroom.store.errors import database_outage, describe, is_conflict
from postroom.store.key_order import KeyOrder
from postroom.store.store import Store

logger = logging.getLogger("postroom.relay")


@dataclass(kw_only=True)
class Loop:
    """Delivers the records of the partitions that it leases. `drain`: ends when all is done.

    `reopen` opens the publisher again beside the loop, and returns whether that goes on.
    """

    worker: str
    store: Store
    publisher: Publisher
    settings: RelaySettings
    clock: Clock
    publisher_breaker: Breaker
    database_breaker: Breaker
    tally: Tally
    reopen: Callable[[], bool]
    drain: bool = False
    idle: bool = False
    """Whether the last look at the outbox found nothing to deliver."""

    def __post_init__(self) -> None:
        in_flight, batch = self.publisher.max_in_flight, self.settings.batch_size
        self.leases = HeldLeases(self.settings.lease.total_seconds())
        self._order = KeyOrder()
        self._poison = Poison(in_flight + 2 * batch, self.settings.max_crashes)
        self._timer = PollTimer(self.settings, self.clock, drain=self.drain)
        self._plan = ClaimPlan(
            self._order, self.leases, capacity=in_flight + 2 * batch, batch_size=batch
        )
        self._delivery = Delivery(
            self.publisher,
            self.publisher_breaker,
            self._poison,
            self._order,
            unsettled_limit=in_flight + batch,
            refusal=lambda each: refusal_before_delivery(each, self.settings.retry),
            allowed=lambda each: self._has_lease(each) and self._poison.may_send(each),
            changed=self.look,
        )
        self._changed = asyncio.Event()
        self._asked = self._claimed_first = self._paused = self._reopening = False
        self._stop_at = inf
        self._time_limit: asyncio.Timeout | None = None
        self.tally.log_progress(self._now())  # from now on, once a minute

    def look(self) -> None:
        """Have the loop look at what has changed."""
        self._changed.set()

    def wake(self) -> None:
        """Have the loop poll now, or very soon if it has just done so."""
        self._timer.wake()
        self.look()

    def stop(self) -> None:
        """Have the loop claim nothing more, finish what is in flight, and end."""
        if self._stop_at < inf:
            return
        grace = self.settings.grace.total_seconds()
        self._stop_at = self._now() + grace
        self._changed.set()
        if self._time_limit is not None and not self._time_limit.expired():
            # A database that does not answer must not outlast the grace period.
            limit = asyncio.get_running_loop().time() + grace
            self._time_limit.reschedule(min(limit, self._time_limit.when() or limit))

    async def run(self) -> None:
        """Deliver until told to stop."""
        try:
            while not self._finished():
                self._changed.clear()  # before it looks, so that no later change is missed
                await self._turn()
        finally:
            self._delivery.settle_at = 0.0
            release = partial(self.store.leases.release, self.worker)
            await finish(leave(self._delivery, self._settle, release))

    def _finished(self) -> bool:
        if self._stop_at < inf:
            over = self._now() >= self._stop_at
            return over or not (self._delivery.busy or self._delivery.outcomes)
        return self.drain and self.idle

    async def _turn(self) -> None:
        self._asked = False  # anything of the database
        self._delivery.raise_bug()
        self._check_publisher()
        try:
            seconds = min(self.settings.database_seconds, self._stop_at - self._now())
            async with asyncio.timeout(max(0.1, seconds)) as self._time_limit:
                await self._settle()
                if not self._delivering:
                    await self._pause()
                elif not await self._claim_before_poll():
                    await self._poll()
                    await self._claim()
                    await self._see_to_hot_keys_and_poison()
        except Exception as error:
            self._time_limit = None
            if self.drain or not database_outage(error):
                raise
            await self._wait_for_database(error)
            return
        self._time_limit = None
        if self._asked:
            self.database_breaker.reset()
        self._delivery.send()
        await self._wait()

    @property
    def _delivering(self) -> bool:
        """Whether records may be claimed and sent: it is not stopping, and there is no outage."""
        return self._stop_at == inf and self.publisher_breaker.state != "open"

    def _check_publisher(self) -> None:
        if self.publisher_breaker.state == "open":
            if self.drain and not self._delivery.busy:
                raise Outage(self.publisher_breaker.reason)
            self._paused, self._reopening = True, self.reopen()
        elif self._paused:
            self._paused = self._reopening = False
            self._timer.within(0)

    async def _settle(self) -> None:
        """Write the outcomes of deliveries. If that fails, they are kept and written later."""
        now = self._now()
        await look_at_locks(self.store, self._delivery, now)
        outcomes = self._delivery.to_settle(now)
        if not outcomes:
            return
        settlement = settlement_of(outcomes, self.settings)
        for each in settlement.delivered:  # a new holder of the lease may have blocked its key
            each.blocks_key |= not self.leases.covers(each, now)
        try:
            written = await self.store.settlements.settle(settlement)
        except Exception as error:
            if self.drain or not is_conflict(error):
                raise
            await put_locked_aside(error, settlement, self.store, self._delivery, self._now())
            return
        self._asked = True
        self._delivery.settled(outcomes)
        self._settled(settlement)
        for attempt in written:  # those of a lost lease are for its new holder to report
            self.tally.add_attempt(attempt, now)
            log_attempt(attempt)

    def _settled(self, settlement: Settlement) -> None:
        self.tally.add_deliveries(settlement.delivered, self.clock.shift())
        for each in settlement.delivered:
            self._order.settled(each)
            if each.blocks_key:
                self._plan.look_again(each)
        for attempt in settlement.attempts:
            self._order.drop_key(attempt.record)
            if attempt.verdict is Verdict.FAILED or not attempt.delay:
                self._plan.look_again(attempt.record)
            else:
                self._timer.within(attempt.delay.total_seconds())
        logger.debug("postroom: settled %s", settlement)

    async def _poll(self, *, take: bool = True) -> None:
        """Renew the leases, release what has no work, take a share of what has."""
        now, surplus, busy = self._now(), self.leases.surplus, self._order.partitions()
        if surplus and surplus.isdisjoint(busy):
            self._timer.within(0)  # nobody serves these until they are released
        if not self._timer.due(now):
            return
        if take and not self.drain:
            busy |= self.leases.lingering(now)
        async with self.leases.lock:
            self._timer.begin(now)
            poll = await self.store.leases.poll(
                self.worker, lease=self.settings.lease, busy=busy, surplus=surplus, take=take
            )
            self.leases.polled(poll.leases, asked_at=now)
        self._asked = True
        self.leases.limit(poll.share, lambda each: self._order.load(each).held)
        self._order.keep_only(self.leases.holds, self.leases.partitions)
        self._poison.look_at(self.leases)
        self._plan.look_into(self.leases.partitions if take else ())
        self.idle = self._timer.end(poll, busy=bool(poll.leases or self._order.held))
        if self.idle and self.publisher_breaker.state == "half_open":
            self.publisher_breaker.reset()  # there is nothing to try it with
        self.tally.note_unattended(poll.unattended, self._now())
        logger.debug("postroom: leases %d of %d partitions", len(self.leases), poll.waiting)

    async def _claim_before_poll(self) -> bool:
        """After a commit, look first where a lease is held anyway; return whether that helped."""
        woken = self._timer.woken(self._now())
        self._claimed_first = woken and not self._claimed_first and self.leases.are_most
        if self._claimed_first:
            self._plan.look_into(self.leases.partitions)
            await self._claim()
        return self._claimed_first and self._order.sendable > 0

    async def _claim(self) -> None:
        """Read more records, evenly from the partitions."""
        tokens, floors = self._plan.partitions(now := self._now()), self._plan.floors(now)
        if not tokens:
            return
        claim = await self.store.claims.claim(
            tokens, depth=self._plan.depth(tokens), held=self._order.held, floors=floors
        )
        if self._plan.claimed(claim, tokens, full=not floors, began=now, ended=self._now()):
            self.idle = not self._plan.first_empty_claim
            if not self.idle:
                self._timer.within(0)  # poll at once, to release the leases
        logger.debug("postroom: claimed %d of %d partitions", len(claim.records), len(tokens))

    async def _see_to_hot_keys_and_poison(self) -> None:
        order, leases, plan, now = self._order, self.leases, self._plan, self._now()
        for each in await block_crowding_keys(self.store, order, leases, now, plan.no_room_for):
            plan.look_again(each)
        if done := self._poison.survived(order):
            await self.store.leases.clear_crashes(self.worker, done)
        chosen = self._poison.choose(order, leases, self._has_lease, self._delivery.room_alone, now)
        await send_suspects(chosen, self.store, self.worker, self._poison, self._delivery)

    def _has_lease(self, record: HeldRecord) -> bool:
        return self._stop_at == inf and self.leases.covers(record, self._now())

    async def _wait(self) -> None:
        """Wait for the first thing that there is to do."""
        now = self._now()
        self.tally.log_progress(now, busy=bool(self._order.held))
        claims = self._delivering and self._plan.partitions(now)
        if claims or self._delivery.to_settle(now) or self._finished():
            return
        if self.drain and not (self._order.held or self.idle or self._timer.waits_for_others):
            self._timer.within(0)  # there is only to find out that nothing is left
            return
        times = [now + 60, self._stop_at]
        if self._delivering or self._order.held:
            times.append(self._timer.next_poll())
        if self._delivery.outcomes:
            times.append(self._delivery.settle_at)
        opens = self._stop_at == inf and not self._reopening
        if opens and self.publisher_breaker.state == "open":
            times.append(self.publisher_breaker.retry_at)
        await self.clock.wait(self._changed, min(times) - now)

    async def _wait_for_database(self, error: Exception) -> None:
        if is_conflict(error):
            logger.warning("postroom: tries again in a moment: %s", describe(error))
            await self.clock.wait(asyncio.Event(), PAUSE)
            return
        self.database_breaker.trip(describe(error))
        self._timer.wake()  # what woke the relay may not have been seen
        breaker = self.database_breaker
        while breaker.state == "open" and not breaker.due() and not self._finished():
            self._changed.clear()
            until = min(breaker.retry_at, self._stop_at)
            await self.clock.wait(self._changed, until - self._now())

    async def _pause(self) -> None:
        """Release what is not in flight: other workers may be able to deliver it."""
        self._order.drop_waiting()
        if self._order.held:
            await self._poll(take=False)
        elif len(self.leases):
            await self.store.leases.release(self.worker)
            self.leases.clear()

    def _now(self) -> float:
        return self.clock.monotonic()

"""One lane of a relay: settle, poll and claim in turn, while deliveries are under way."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from postroom.errors import Outage, error_text
from postroom.publishers.base import Postponed, Refused
from postroom.record import ClaimedRecord
from postroom.relay.breaker import State
from postroom.relay.caution import Caution
from postroom.relay.clog import Clog
from postroom.relay.courier import Allowed, Courier
from postroom.relay.leases import Leases
from postroom.relay.office import OPEN_WITHIN, Office
from postroom.relay.pace import Pace
from postroom.relay.retry import FOUND_EXHAUSTED, exhausted, judge, postpone
from postroom.relay.trouble import database_outage
from postroom.store.base import Attempt, Settlement

logger = logging.getLogger("postroom.relay")

LEAVE_WITHIN = 5.0
"""Seconds for each step at the end: to settle, to give leases back."""


class Lane:
    """Delivers the records of the partitions that it leases. `drain`: ends when all is done."""

    def __init__(self, office: Office, worker: str, *, drain: bool = False) -> None:
        self._office = office
        self._settings = office.settings
        self._clock = office.clock
        self._worker = worker
        self._drain = drain
        self._leases = Leases()
        self._courier = Courier(
            office.publisher,
            office.way_out,
            office.suspicion,
            max_in_flight=max(1, office.publisher.max_in_flight // office.settings.lanes),
            unfit=self._unfit,
            permit=self._permit,
            poke=self.poke,
        )
        self._window = self._courier.window
        self._clog = Clog(self._window, office.settings.capacity)
        self._poke = asyncio.Event()
        self._pace = Pace(office.settings, office.clock, drain=drain)
        self._more: set[int] = set()  # the partitions that may have more to claim
        self._dry = 0
        self._ahead = False
        self.idle = False
        self._stop_at: float | None = None
        self._turn_limit: asyncio.Timeout | None = None
        self._paused = False
        self._caution = Caution(office, worker, self._leases, self._courier)

    def poke(self) -> None:
        """Have it look at what has changed."""
        self._poke.set()

    def wake(self) -> None:
        """Have it poll now, or very soon if it has just done so."""
        self._pace.wake()
        self._poke.set()

    def stop(self) -> None:
        """Have it claim nothing more, finish what is on its way, and end."""
        if self._stop_at is not None:
            return
        grace = self._settings.grace.total_seconds()
        self._stop_at = self._now() + grace
        self._poke.set()
        if self._turn_limit is not None and not self._turn_limit.expired():
            # A database that hangs is not to outlast the grace period.
            limit = asyncio.get_running_loop().time() + grace
            self._turn_limit.reschedule(min(limit, self._turn_limit.when() or limit))

    async def run(self) -> None:
        """Deliver until told to stop."""
        try:
            while not self._done():
                self._poke.clear()  # before it looks: what changes later is not missed
                await self._turn()
        finally:
            await finish(self._leave())

    def _done(self) -> bool:
        if self._stop_at is not None:
            over = self._now() >= self._stop_at
            return over or not (self._courier.busy or self._courier.outcomes)
        return self._drain and self.idle

    async def _turn(self) -> None:
        self._courier.check()
        try:
            async with asyncio.timeout(self._limit()) as self._turn_limit:
                await self._database_work()
        except Exception as error:
            if self._drain or not database_outage(error):
                raise
            self._office.database.trip(error_text(error))
            self._pace.wake()  # what woke it may not have been seen to
            again = self._office.database.retry_at
            until = again if self._stop_at is None else min(again, self._stop_at)
            await self._clock.wait(self._poke, until - self._now())
            return
        finally:
            self._turn_limit = None
        self._office.database.reset()
        self._courier.send()
        await self._wait()

    def _limit(self) -> float:
        """Give the seconds that a turn may take."""
        if self._stop_at is None:
            return self._office.patience
        return max(0.1, min(self._office.patience, self._stop_at - self._now()))

    async def _database_work(self) -> None:
        """Do, one after the other, what a claim must not overlap with."""
        await self._settle()
        if self._stop_at is None and await self._way_is_open():
            if await self._claim_ahead():
                return  # let those leave first; the poll is next
            await self._poll()
            await self._claim()
            await self._caution.send_next()
            return
        self._window.forget_waiting()
        if self._window.held:  # what is on its way must not be another's meanwhile
            await self._poll(take=False)
        elif len(self._leases):
            await self._office.store.leave(self._worker)  # others may have a way out
            self._leases.clear()

    async def _wait(self) -> None:
        """Wait for whatever comes first of what there is to do."""
        if self._courier.outcomes or self._may_claim():
            return
        if self._nearly_done:
            self._pace.at_once()
            return
        times = [self._pace.next_poll()] if self._may_take or self._window.held else []
        if self._stop_at is not None:
            times.append(self._stop_at)
        elif self._office.way_out.state is State.OPEN:
            opening = self._office.opening  # another lane does, and pokes this one when it has
            times.append(self._now() + OPEN_WITHIN if opening else self._office.way_out.retry_at)
        if not self._done():
            await self._clock.wait(self._poke, min(times) - self._now())

    @property
    def _nearly_done(self) -> bool:
        """Whether a drain has only to find out that there is nothing left."""
        waits = self.idle or self._pace.waits_for_others
        return self._drain and not self._window.held and not waits

    @property
    def _may_take(self) -> bool:
        return self._stop_at is None and self._office.way_out.state is not State.OPEN

    # -- settle

    async def _settle(self) -> None:
        """Write down how deliveries went. When the database is away, it is done again later."""
        outcomes = list(self._courier.outcomes)
        stuck = self._clog.behind(self._now(), shared_by=len(self._leases))
        settlement = Settlement(slow=[each for each in stuck if self._leases.covers(each)])
        in_charge = self._leases.alive(self._now())
        for record, outcome in outcomes:
            if isinstance(outcome, Refused):
                settlement.refused.append(self._judge(record, outcome))
            elif isinstance(outcome, Postponed):
                settlement.refused.append(postpone(record, outcome))
            else:
                # Whoever took the lease meanwhile may have others wait for this one.
                record.is_gate |= not (in_charge and self._leases.covers(record))
                settlement.delivered.append(record)
        if not settlement:
            return
        written = await self._office.store.settle(settlement)
        del self._courier.outcomes[: len(outcomes)]
        self._settled(settlement)
        for attempt in written:  # what another worker has taken over is that one's to report
            self._office.report(attempt)

    def _settled(self, settlement: Settlement) -> None:
        for record in settlement.delivered:
            self._window.settled(record)
            if record.is_gate:
                self._more.add(record.partition)
        for attempt in settlement.refused:
            self._window.forget(attempt.record)
            if attempt.delay:
                self._pace.within(attempt.delay.total_seconds())
            else:  # due at once, or others are let go
                self._more.add(attempt.record.partition)
        for record in settlement.slow:
            record.is_gate = True
            self._window.forget_followers(record)
        self._office.tally.delivered += len(settlement.delivered)

    def _judge(self, record: ClaimedRecord, refused: Refused) -> Attempt:
        settings = self._settings
        return judge(
            record,
            refused,
            settings.retry,
            poll_interval=settings.poll_interval,
            holds_failed=settings.on_failed == "hold",
        )

    # -- the way out

    async def _way_is_open(self) -> bool:
        """Tell whether deliveries may go out; during an outage, try again when it is time."""
        breaker = self._office.way_out
        if breaker.state is State.OPEN:
            if self._drain and not self._courier.busy:
                raise Outage(breaker.reason)
            self._paused = True
            await self._office.reopen_publisher()
        if breaker.state is not State.OPEN and self._paused:
            self._paused = False
            self._pace.at_once()
        return breaker.state is not State.OPEN

    def _permit(self) -> Allowed:
        """Tell what may be sent just now."""
        leases = self._leases
        if self._stop_at is not None or not leases.alive(self._now()):
            return lambda _: False
        return lambda each: leases.covers(each) and each.partition not in leases.cautious

    def _unfit(self, record: ClaimedRecord) -> Refused | None:
        if record.fault is not None:
            return Refused(f"its row is no record: {record.fault}", permanent=True)
        if exhausted(record, self._settings.retry):
            return FOUND_EXHAUSTED
        return None

    # -- poll and claim

    async def _poll(self, *, take: bool = True) -> None:
        """Renew the leases, give back what has no work, take a share of what has."""
        now, lease = self._now(), self._settings.lease
        retiring = self._leases.retiring
        if retiring and retiring.isdisjoint(self._window.partitions()):
            self._pace.at_once()  # nobody serves them until they are given back
        if now < self._pace.next_poll():
            return
        self._pace.begin(now)
        poll = await self._office.store.poll(
            self._worker,
            busy=self._kept(take=take),
            retiring=retiring,
            take=take,
            lease=lease,
        )
        self._leases.renew(poll.leases, asked_at=now, seconds=lease.total_seconds())
        self._leases.retire(poll.share, lambda each: self._window.crowd(each).held)
        self._window.forget_waiting(lambda record: not self._leases.covers(record))
        self._more = {lease.partition for lease in poll.leases} if take else set()
        self.idle = self._pace.end(poll, busy=bool(poll.leases or self._window.held))
        if self.idle and self._office.way_out.state is State.PROBING:
            self._office.way_out.reset()  # it opened, and there is nothing to try it with

    def _kept(self, *, take: bool) -> set[int]:
        """Give the partitions to keep, whether or not there is work in them."""
        busy = set(self._window.partitions())
        return busy | self._leases.lingering(self._now()) if take and not self._drain else busy

    async def _claim_ahead(self) -> bool:
        """When a commit woke it, look first where it holds a lease anyway; tell if that helped."""
        self._ahead = not self._ahead and self._leases.are_most and self._pace.woken(self._now())
        if not self._ahead:
            return False
        self._more |= self._leases.tokens().keys()
        await self._claim()
        return self._window.waiting

    def _may_claim(self) -> bool:
        room = self._settings.capacity - len(self._window.held)
        enough = room >= self._settings.batch_size or not self._window.waiting
        return (
            room > 0
            and enough
            and self._stop_at is None
            and self._office.way_out.state is not State.OPEN
            and self._leases.alive(self._now())
            and bool(self._claimable())
        )

    def _claimable(self) -> dict[int, int]:
        """Give the partitions to claim from, with the tokens of their leases."""
        tokens = self._leases.tokens()
        return {p: tokens[p] for p in self._more if p in tokens and not self._full(p)}

    async def _claim(self) -> None:
        """Read more records, evenly from the partitions, so that there are many keys."""
        if not self._may_claim():
            return
        tokens = self._claimable()
        room = self._settings.capacity - len(self._window.held)
        claim = await self._office.store.claim(
            tokens, depth=-(-room // len(tokens)), held=self._window.held
        )
        self._window.add(claim.records)
        self._leases.serve({record.partition for record in claim.records}, self._now())
        self._more = (self._more - tokens.keys()) | claim.more
        if claim.records or self._window.held:
            self._dry = 0
        elif not self._more:
            self._run_dry()

    def _run_dry(self) -> None:
        """Poll at once, to give the leases back; but never twice in a row for nothing."""
        self._dry += 1
        if self._dry == 1:
            self._pace.at_once()
        self.idle = self._dry > 1

    def _full(self, partition: int) -> bool:
        return self._clog.full(partition, shared_by=len(self._leases))

    # -- the end

    async def _leave(self) -> None:
        """Settle what is known, break off what is on its way, give the leases back."""
        self._courier.close()
        await self._try(self._settle)
        await self._courier.cancel()
        self._caution.leave()
        await self._try(self._settle)
        await self._try(lambda: self._office.store.leave(self._worker))

    async def _try(self, step: Callable[[], Awaitable[None]]) -> None:
        try:
            async with asyncio.timeout(LEAVE_WITHIN):
                await step()
        except Exception as error:
            logger.warning("postroom: leases are left to run out: %s", error_text(error))

    def _now(self) -> float:
        return self._clock.monotonic()


async def finish(work: Coroutine[Any, Any, None]) -> None:
    """Do something to its end, also when whoever waits for it is cancelled meanwhile."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise

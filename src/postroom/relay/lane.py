"""One lane of a relay: settle, poll and claim in turn, while deliveries are under way."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from postroom.errors import Outage
from postroom.publishers.base import Refused
from postroom.record import ClaimedRecord
from postroom.relay.breaker import State
from postroom.relay.caution import Caution
from postroom.relay.courier import Courier
from postroom.relay.leases import Leases
from postroom.relay.office import Office
from postroom.relay.retry import FOUND_EXHAUSTED, exhausted, judge
from postroom.relay.trouble import database_outage, one_line
from postroom.store.base import Attempt, Poll, Settlement

logger = logging.getLogger("postroom.relay")

BUSY_POLL = 1.0
"""Seconds between polls while there is work: for partitions that fill, or that others give up."""
WAKE_PAUSE = 0.05
"""Seconds between polls at least, however many commits wake it."""
CLOGGED = 1.0
"""Seconds after which a partition that holds nothing but followers has them put aside."""
LEAST_DEPTH = 8
"""How many records of a partition are held at least, before it counts as full."""
LEAVE_WITHIN = 10.0
"""Seconds to settle and to give leases back in, at the end."""


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
            allowed=self._allowed,
            poke=self.poke,
        )
        self._window = self._courier.window
        self._poke = asyncio.Event()
        self._poll_at = 0.0
        self._polled_at = 0.0
        self._woken = False
        self._more = False
        self._dry = 0
        self._idle = False
        self._stop_at: float | None = None
        self._full_since: dict[int, float] = {}
        self._caution = Caution(office, worker, self._leases, self._courier)

    def poke(self) -> None:
        """Have it look at what has changed."""
        self._poke.set()

    def wake(self) -> None:
        """Have it poll now, or very soon if it has just done so."""
        self._woken = True
        self._poke.set()

    def stop(self) -> None:
        """Have it claim nothing more, finish what is on its way, and end."""
        if self._stop_at is None:
            self._stop_at = self._now() + self._settings.grace.total_seconds()
        self._poke.set()

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
        return self._drain and self._idle

    async def _turn(self) -> None:
        try:
            async with asyncio.timeout(self._office.patience):
                await self._database_work()
        except Exception as error:
            if self._drain or not database_outage(error):
                raise
            self._office.database.trip(one_line(error))
            await self._clock.wait(self._poke, self._office.database.retry_at - self._now())
            return
        self._office.database.reset()
        self._courier.send()
        await self._wait()

    async def _database_work(self) -> None:
        """Do, one after the other, what a claim must not overlap with."""
        await self._settle()
        if self._stop_at is not None:
            self._window.forget_waiting()
        elif await self._way_is_open():
            await self._poll()
            await self._claim()
            await self._caution.send_next()

    async def _wait(self) -> None:
        """Wait for whatever comes first of what there is to do."""
        if self._courier.outcomes or self._may_claim():
            return
        if self._drain and not self._window.held and not self._idle:
            self._poll_at = 0.0
            return
        until = self._next_poll()
        if self._stop_at is not None:
            until = self._stop_at
        elif self._office.way_out.state is State.OPEN:
            until = self._office.way_out.retry_at
        if not self._done():
            await self._clock.wait(self._poke, until - self._now())

    # -- settle

    async def _settle(self) -> None:
        """Write down how deliveries went. When the database is away, it is done again later."""
        outcomes, slow = list(self._courier.outcomes), self._slow()
        settlement = Settlement(slow=slow)
        for record, outcome in outcomes:
            if isinstance(outcome, Refused):
                settlement.refused.append(self._judge(record, outcome))
            else:
                # Whoever took the lease meanwhile may have others wait for this one.
                record.is_gate |= not self._in_charge_of(record)
                settlement.delivered.append(record)
        if not settlement:
            return
        await self._office.store.settle(settlement)
        del self._courier.outcomes[: len(outcomes)]
        self._settled(settlement)

    def _settled(self, settlement: Settlement) -> None:
        for record in settlement.delivered:
            self._window.settled(record)
            self._more |= record.is_gate
        for attempt in settlement.refused:
            self._window.forget(attempt.record)
            self._more = True  # it may be due at once
            self._office.report(attempt)
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
        if breaker.state is not State.OPEN:
            return True
        self._window.forget_waiting()
        if self._drain and not self._courier.busy:
            raise Outage(breaker.reason)
        if not self._courier.busy and len(self._leases):
            await self._office.store.leave(self._worker)  # others may have a way out
            self._leases.clear()
        self._poll_at = 0.0
        if breaker.probe():
            await self._office.open_publisher()
        return breaker.state is not State.OPEN

    def _allowed(self, record: ClaimedRecord) -> bool:
        cautious = self._leases.cautious(record.partition)
        return self._stop_at is None and self._in_charge_of(record) and not cautious

    def _in_charge_of(self, record: ClaimedRecord) -> bool:
        return self._leases.alive(self._now()) and self._leases.covers(record)

    def _unfit(self, record: ClaimedRecord) -> Refused | None:
        if record.fault is not None:
            return Refused(f"its row is no record: {record.fault}", permanent=True)
        if exhausted(record, self._settings.retry):
            return FOUND_EXHAUSTED
        return None

    # -- poll and claim

    async def _poll(self) -> None:
        """Renew the leases, give back what has no work, take a share of what has."""
        now, lease = self._now(), self._settings.lease
        if now < self._next_poll():
            return
        self._woken = False  # before it looks: a commit during the poll is not missed
        poll = await self._office.store.poll(
            self._worker,
            busy=self._window.partitions(),
            retiring=self._leases.retiring,
            lease=lease,
        )
        self._leases.renew(poll.leases, asked_at=now, seconds=lease.total_seconds())
        self._leases.retire(poll.share, self._window.held_in)
        self._window.forget_waiting(lambda record: not self._leases.covers(record))
        self._more = bool(poll.leases)
        self._idle = not poll.leases and not self._window.held
        self._polled_at = now
        self._poll_at = now + self._pause(poll)
        if self._idle and self._office.way_out.state is State.PROBING:
            self._office.way_out.reset()  # it opened, and there is nothing to try it with

    def _next_poll(self) -> float:
        soon = self._polled_at + WAKE_PAUSE
        return min(self._poll_at, soon) if self._woken else self._poll_at

    def _pause(self, poll: Poll) -> float:
        """Give the seconds until the next poll."""
        pause = self._settings.poll_interval.total_seconds()
        if not self._idle:
            return min(pause, self._settings.lease.total_seconds() / 3, BUSY_POLL)
        if poll.waiting:  # in partitions of others, who may give them up, or be dead
            return min(pause, BUSY_POLL)
        if poll.next_due is not None:
            return min(pause, poll.next_due.total_seconds())
        return pause

    def _may_claim(self) -> bool:
        room = self._settings.capacity - len(self._window.held)
        enough = room >= self._settings.batch_size or not self._window.waiting
        return (
            self._more
            and room > 0
            and enough
            and self._stop_at is None
            and self._office.way_out.state is not State.OPEN
            and self._leases.alive(self._now())
        )

    async def _claim(self) -> None:
        """Read more records, evenly from the partitions, so that there are many keys."""
        if not self._may_claim():
            return
        tokens = {p: token for p, token in self._leases.tokens().items() if not self._full(p)}
        if not tokens:
            self._more = False
            return
        room = self._settings.capacity - len(self._window.held)
        claim = await self._office.store.claim(
            tokens, depth=-(-room // len(tokens)), held=self._window.held
        )
        self._window.add(claim.records)
        self._more = claim.more
        if claim.records or self._window.held:
            self._dry = 0
        elif not claim.more:
            self._run_dry()

    def _run_dry(self) -> None:
        """Poll at once, to give the leases back; but never twice in a row for nothing."""
        self._dry += 1
        if self._dry == 1:
            self._poll_at = 0.0
        self._idle = self._dry > 1

    def _full(self, partition: int) -> bool:
        depth = self._settings.capacity // max(1, len(self._leases))
        return self._window.held_in(partition) >= max(LEAST_DEPTH, depth)

    def _slow(self) -> list[ClaimedRecord]:
        """Find what others wait behind, in partitions that have held nothing else for a while."""
        no_room = len(self._window.held) >= self._settings.capacity
        clogged = {
            partition
            for partition in self._window.partitions()
            if (no_room or self._full(partition)) and not self._window.free_in(partition)
        }
        now = self._now()
        self._full_since = {p: self._full_since.get(p, now) for p in clogged}
        late = [p for p, since in self._full_since.items() if now - since >= CLOGGED]
        return [
            record
            for partition in late
            for record in self._window.slow(partition)
            if self._leases.covers(record)
        ]

    # -- the end

    async def _leave(self) -> None:
        """Break off what is on its way, settle what is known, give the leases back."""
        try:
            async with asyncio.timeout(LEAVE_WITHIN):
                await self._courier.cancel()
                await self._settle()
                await self._office.store.leave(self._worker)
        except Exception as error:
            logger.warning("postroom: leases are left to run out: %s", one_line(error))

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

"""The relay: takes what was committed, delivers it, and writes down how it went."""

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from typing import Any, Self

from sqlalchemy.ext.asyncio import AsyncEngine

from postroom.errors import ConfigurationError, error_text
from postroom.identity import uuid7
from postroom.outbox import Outbox
from postroom.publishers.base import Publisher
from postroom.relay.breaker import Breaker
from postroom.relay.cleaner import Cleaner
from postroom.relay.clock import Clock, SystemClock
from postroom.relay.health import Health, HealthStatus
from postroom.relay.lane import Lane
from postroom.relay.listener import Listener
from postroom.relay.office import Office, Tally
from postroom.relay.retry import RetrySchedule
from postroom.relay.settings import OnFailed, RelaySettings
from postroom.relay.trouble import database_outage
from postroom.store.base import Store
from postroom.store.listen import can_listen
from postroom.store.notify import CHANNEL
from postroom.store.open import store_for, with_own_pool

logger = logging.getLogger("postroom.relay")

CLOSE_WITHIN = 10.0
"""Seconds for a publisher to close in."""
LISTENER_GRACE = 2.0
"""Seconds for the listener to begin in, and to hang up."""
CLEANER_GRACE = 5.0
"""Seconds for the clean-up to end a batch in."""


class OutboxRelay:
    """Delivers the records of an outbox: at least once, and in order per key.

    Any number of relays may run, in any number of processes. What they are told:

    - `poll_interval`: how often to look for records; a commit in this process wakes it at once
    - `listen`: the channel on which other processes tell of theirs (`Outbox.notify_workers`); None
      only polls, for a database behind PgBouncer
    - `batch_size`: how many records to claim at a time
    - `lanes`: how many claims to have under way at once; one is enough for most
    - `retry`: when a refused record is tried again; its own `max_retries` ends that
    - `on_failed`: whether a failed record holds back the later ones of its key ("hold"), until
      somebody retries, skips or discards it, or not ("continue")
    - `lease`: how long a worker that died keeps others waiting; a delivery may take longer
    - `grace`: how long `stop` waits for what is on its way
    - `retention`: how long delivered records are kept; None for ever, zero not at all
    - `max_crashes`: how often a record may kill the process, once it is the suspect
    """

    def __init__(
        self,
        outbox: Outbox,
        engine: AsyncEngine,
        publisher: Publisher,
        *,
        poll_interval: timedelta = timedelta(seconds=30),
        listen: str | None = CHANNEL,
        batch_size: int = 100,
        lanes: int = 1,
        retry: RetrySchedule | None = None,
        on_failed: OnFailed = "hold",
        lease: timedelta = timedelta(seconds=30),
        grace: timedelta = timedelta(seconds=30),
        retention: timedelta | None = timedelta(days=7),
        max_crashes: int = 3,
        clock: Clock | None = None,
    ) -> None:
        settings = RelaySettings(
            poll_interval=poll_interval,
            listen=listen if can_listen(engine) else None,
            batch_size=batch_size,
            lanes=lanes,
            retry=retry or RetrySchedule.backoff(),
            on_failed=on_failed,
            lease=lease,
            grace=grace,
            retention=retention,
            max_crashes=max_crashes,
        )
        self._clock = clock or SystemClock()
        self._make_store = partial(
            store_for,
            tables=outbox.tables,
            keep_delivered=settings.keep_delivered,
            shift=self._clock.shift,
        )
        self.store: Store = self._make_store(engine)
        """For people: what is there, retry, skip, discard."""
        self._office = Office(
            outbox=outbox,
            engine=engine,
            store=self.store,
            publisher=publisher,
            settings=settings,
            clock=self._clock,
            way_out=Breaker("the way out", self._clock, self._changed),
            database=Breaker("the database", self._clock, self._changed),
            changed=self._changed,
        )
        self._engine = engine
        self._lanes: list[Lane] = []
        self._failure: str | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = asyncio.Event()
        self._ended = asyncio.Event()

    @property
    def outbox(self) -> Outbox:
        """Whose records it delivers."""
        return self._office.outbox

    @property
    def engine(self) -> AsyncEngine:
        """Of the database that they are in."""
        return self._engine

    @property
    def publisher(self) -> Publisher:
        """The way out."""
        return self._office.publisher

    @property
    def settings(self) -> RelaySettings:
        """What it was told."""
        return self._office.settings

    @property
    def health(self) -> Health:
        """How it is."""
        if self._loop is None:
            return Health(status=HealthStatus.STOPPED, reason=self._failure)
        for breaker in (self._office.database, self._office.way_out):
            if breaker.since is not None:
                seconds = self._clock.monotonic() - breaker.since
                reason = f"{breaker.what} cannot be used: {breaker.reason}"
                return Health(status=HealthStatus.DEGRADED, reason=reason, seconds=seconds)
        return Health(status=HealthStatus.OK)

    @property
    def idle(self) -> bool:
        """Whether it runs, and found nothing to deliver when it last looked."""
        return bool(self._lanes) and all(lane.idle for lane in self._lanes)

    async def run(self) -> None:
        """Deliver until `stop` is called, or the task is cancelled.

        Outages, of the database too, are waited out. Raises SchemaError when the tables are not
        as they have to be.
        """
        self._begin()
        lanes = [Lane(self._office, self._worker(each)) for each in range(self.settings.lanes)]
        cleaner = Cleaner(self._office.store, self._clock, self.settings.retention)
        unsubscribe = self._office.outbox.on_commit(self.wake)
        try:
            await self._open_store()
            await self._office.open_publisher()
            if self._stopping.is_set():
                return  # it was waiting for something to come up, and need not any more
            self._lanes = lanes
            async with self._listening():
                await self._run_all(lanes, cleaner)
        except Exception as error:
            self._failure = error_text(error)
            raise
        finally:
            unsubscribe()
            await self._end()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Self]:
        """Run for as long as the block lasts; what `run` raises comes out at its end."""
        task = asyncio.create_task(self.run(), name="postroom relay")
        await asyncio.sleep(0)  # now it has begun, and can be stopped
        try:
            yield self
        finally:
            await self.stop()
            await task

    async def run_once(self) -> Tally:
        """Deliver everything that may leave now, and return; raises what stands in the way.

        What is refused is tried again in a later run, unless its schedule says at once.
        """
        self._begin()
        before = self._office.tally
        self._office.tally = Tally()
        try:
            await self._office.store.open()
            await self._office.publisher.open(self._office.outbox, self._engine)
            self._lanes = [Lane(self._office, self._worker(0), drain=True)]
            if not self._stopping.is_set():
                await self._lanes[0].run()
            return self._office.tally
        finally:
            self._office.tally = before
            await self._end()

    async def clean(self) -> int:
        """Clean up once, as it does by itself while it runs; gives how many records are gone."""
        return await Cleaner(self.store, self._clock, self.settings.retention).clean()

    async def stop(self) -> None:
        """Claim nothing more, finish what is on its way within the grace period, and end `run`."""
        if self._loop is None:
            return
        self._stopping.set()
        for lane in self._lanes:
            lane.stop()
        await self._ended.wait()

    def wake(self) -> None:
        """Have it look for records now. May be called from any thread."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._wake_lanes)

    def _wake_lanes(self) -> None:
        for lane in self._lanes:
            lane.wake()

    def _changed(self) -> None:
        for lane in self._lanes:
            lane.poke()

    def _worker(self, lane: int) -> str:
        return f"{socket.gethostname()[:100]}:{os.getpid()}:{lane}:{uuid7().hex[-12:]}"

    def _begin(self) -> None:
        if self._loop is not None:
            raise ConfigurationError("this relay is running already. Make another one.")
        self._loop = asyncio.get_running_loop()
        self._failure = None
        self._stopping, self._ended = asyncio.Event(), asyncio.Event()  # of this very loop
        self._own_engine = with_own_pool(self._engine)
        self._office.store = self._make_store(self._own_engine)

    async def _end(self) -> None:
        self._lanes = []
        try:
            async with asyncio.timeout(CLOSE_WITHIN):
                await self._office.publisher.close()
        except TimeoutError:
            logger.warning("postroom: the publisher did not close within %.0f s", CLOSE_WITHIN)
        finally:
            await self._own_engine.dispose()
            self._office.way_out.forget()
            self._office.database.forget()
            self._loop = None
            self._ended.set()

    async def _open_store(self) -> None:
        """Check the tables; wait for a database that is away."""
        database = self._office.database
        while not self._stopping.is_set():
            try:
                await self._office.store.open()
            except Exception as error:
                if not database_outage(error):
                    raise
                database.trip(error_text(error))
                await self._clock.wait(self._stopping, database.retry_at - self._clock.monotonic())
            else:
                database.reset()
                return

    @asynccontextmanager
    async def _listening(self) -> AsyncIterator[None]:
        """Have other processes wake it, if they can: from before the first poll on."""
        channel = self.settings.listen
        if channel is None:
            yield
            return
        listener = Listener(self._engine, channel, self._wake_lanes)
        task = asyncio.create_task(listener.run())
        try:
            await self._clock.wait(listener.tried, LISTENER_GRACE)
            yield
        finally:
            task.cancel()
            await asyncio.wait([task], timeout=LISTENER_GRACE)

    async def _run_all(self, lanes: list[Lane], cleaner: Cleaner) -> None:
        """Run lanes and cleaner until all have stopped; the first that fails stops the others."""
        if self._stopping.is_set():
            return
        work: list[Coroutine[Any, Any, None]] = [lane.run() for lane in lanes]
        tasks = [asyncio.create_task(each) for each in work]
        cleaning = asyncio.create_task(cleaner.run())
        try:
            await asyncio.wait([*tasks, cleaning], return_when=asyncio.FIRST_COMPLETED)
            cleaner.stop()
            for lane in lanes:
                lane.stop()
            await asyncio.wait(tasks)
            await asyncio.wait([cleaning], timeout=CLEANER_GRACE)
        finally:
            for task in (*tasks, cleaning):
                task.cancel()
            await asyncio.gather(*tasks, cleaning, return_exceptions=True)
        for task in (*tasks, cleaning):
            if not task.cancelled() and (error := task.exception()):
                raise error


class OutboxEventPublisher(OutboxRelay):
    """A relay with the habits of a background service: every 5 seconds, and it never gives up.

    Records fail all the same at a `max_retries` of their own: `Outbox(…, max_retries=None)` gives
    them none.
    """

    def __init__(
        self,
        outbox: Outbox,
        engine: AsyncEngine,
        publisher: Publisher,
        *,
        poll_interval: timedelta = timedelta(seconds=5),
        **options: Any,
    ) -> None:
        super().__init__(outbox, engine, publisher, poll_interval=poll_interval, **options)

"""The relay: delivers what an application has committed. Starts the loop, and ends it."""

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, Self

from sqlalchemy.ext.asyncio import AsyncEngine

from postroom.capture.notify import CHANNEL
from postroom.clock import Clock
from postroom.errors import ConfigurationError, Outage, error_text
from postroom.identity import uuid7
from postroom.outbox import Outbox
from postroom.publishers.base import Publisher, ReportsOutages
from postroom.relay.breaker import Breaker
from postroom.relay.cleaner import clean, clean_regularly
from postroom.relay.health import Health, HealthStatus, Tally
from postroom.relay.heartbeat import beat, run_until_first_ends
from postroom.relay.listener import can_listen, listening
from postroom.relay.loop import Loop
from postroom.relay.opening import open_publisher
from postroom.relay.retry import RetrySchedule
from postroom.relay.settings import OnFailed, RelaySettings
from postroom.store.database import LEASE, own_engine
from postroom.store.errors import database_outage, describe
from postroom.store.store import Store

logger = logging.getLogger("postroom.relay")

CLOSE_WITHIN = 10.0
"""Seconds for a publisher to close, and for the connections to the database."""


class OutboxRelay:
    """Delivers the records of an outbox: at least once, and in order per key.

    Any number of relays may run, in any number of processes.

    - `poll_interval`: how often to look for records; a commit in this process wakes it at once
    - `listen`: the channel on which other processes tell of their commits
      (`Outbox.notify_workers`); None only polls, for a database behind PgBouncer
    - `batch_size`: the relay claims more records when it has room for so many
    - `retry`: when a refused record is tried again; its own `max_retries` ends that
    - `on_failed`: whether a failed record blocks the later ones of its key ("hold"), until it is
      retried, skipped or discarded, or not ("continue")
    - `lease`: how long the partitions of a worker that died wait for another one; a delivery may
      take longer
    - `grace`: how long `stop` waits for what is in flight
    - `retention`: how long delivered records are kept; None for ever, zero not at all
    - `max_crashes`: how often a record may kill the process before it fails
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
        retry: RetrySchedule | None = None,
        on_failed: OnFailed = "hold",
        lease: timedelta = LEASE,
        grace: timedelta = timedelta(seconds=30),
        retention: timedelta | None = timedelta(days=7),
        max_crashes: int = 3,
        clock: Clock | None = None,
    ) -> None:
        self.settings = RelaySettings(
            poll_interval=poll_interval,
            listen=listen if can_listen(engine) else None,
            batch_size=batch_size,
            retry=retry or RetrySchedule.backoff(),
            on_failed=on_failed,
            lease=lease,
            grace=grace,
            retention=retention,
            max_crashes=max_crashes,
        )
        self.outbox, self.engine, self.publisher = outbox, engine, publisher
        self._clock = clock or Clock()
        self.store = self._store(engine)
        """For operators: counts, retry, skip, discard."""
        self._publisher_breaker = Breaker("the publisher", self._clock, self._look)
        self._database_breaker = Breaker("the database", self._clock, self._look)
        self._tally = Tally()
        self._loop: Loop | None = None
        self._failure: str | None = None
        self._event_loop: asyncio.AbstractEventLoop | None = None
        self._stopping, self._ended = asyncio.Event(), asyncio.Event()

    @property
    def health(self) -> Health:
        """The relay's current health."""
        if self._event_loop is None:
            return Health(status=HealthStatus.STOPPED, reason=self._failure)
        problems = [
            self._database_breaker.outage,
            self._publisher_breaker.outage,
            self._tally.problem(self._clock.monotonic()),
        ]
        for reason, seconds in filter(None, problems):
            return Health(status=HealthStatus.DEGRADED, reason=reason, seconds=seconds)
        return Health(status=HealthStatus.OK)

    @property
    def idle(self) -> bool:
        """Whether it runs, and found nothing to deliver when it last looked."""
        return self._loop is not None and self._loop.idle

    async def run(self) -> None:
        """Deliver until `stop` is called, or the task is cancelled.

        Outages, of the database too, are waited out. Raises SchemaError when the tables are not
        as they have to be.
        """
        self._begin()
        unsubscribe = self.outbox.on_commit(self.wake)
        try:
            await self._open_store()
            await self._open_publisher()
            if not self._stopping.is_set():
                self._loop = self._make_loop()
                cleaner = clean_regularly(self._own_store, self._clock, self.settings.retention)
                engine, channel = self._own_engine(), self.settings.listen
                async with listening(engine, channel, self._wake, self._clock):
                    await self._run_loop(self._loop, cleaner)
        except Exception as error:
            self._failure = error_text(error)
            raise
        finally:
            unsubscribe()
            await self._end()
            logger.info("postroom: the relay has stopped: %s", self._tally)

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
        """Deliver everything that may be sent now, and return; raises what prevents that.

        A refused record is tried again in a later run, unless its schedule says at once.
        """
        self._begin()
        before, self._tally = self._tally, Tally()
        try:
            await self._own_store.open()
            await self.publisher.open(self.outbox, self.engine)
            self._loop = self._make_loop(drain=True)
            if not self._stopping.is_set():
                await self._run_loop(self._loop)
            return self._tally
        finally:
            self._tally = before
            await self._end()

    async def clean(self) -> int:
        """Clean up once, as it does by itself while it runs; return how many records are gone."""
        return await clean(self.store, self.settings.retention)

    async def stop(self) -> None:
        """Claim nothing more, finish what is in flight within the grace period, and end `run`."""
        if self._event_loop is None:
            return
        self._stopping.set()
        if self._loop is not None:
            self._loop.stop()
        await self._ended.wait()

    def wake(self) -> None:
        """Have it look for records now. May be called from any thread."""
        event_loop = self._event_loop
        if event_loop is not None and not event_loop.is_closed():
            event_loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        if self._loop is not None:
            self._loop.wake()

    def _look(self) -> None:
        if self._loop is not None:
            self._loop.look()

    def _store(self, engine: AsyncEngine) -> Store:
        return Store(
            engine,
            self.outbox.tables,
            keep_delivered=self.settings.keep_delivered,
            lease=self.settings.lease,
            shift=self._clock.shift,
        )

    def _own_engine(self) -> AsyncEngine:
        engine = own_engine(self.engine, self.outbox.tables, self.settings.lease)
        self._engines.append(engine)
        return engine

    def _begin(self) -> None:
        if self._event_loop is not None:
            raise ConfigurationError("this relay is running already. Make another one.")
        self._event_loop = asyncio.get_running_loop()
        self._failure = None
        self._stopping, self._ended = asyncio.Event(), asyncio.Event()  # of this event loop
        self._opening: asyncio.Task[None] | None = None
        self._engines: list[AsyncEngine] = []
        self._own_store = self._store(self._own_engine())
        if isinstance(self.publisher, ReportsOutages):
            self.publisher.watch(self._publisher_changed)

    def _make_loop(self, *, drain: bool = False) -> Loop:
        return Loop(
            store=self._own_store,
            publisher=self.publisher,
            settings=self.settings,
            clock=self._clock,
            worker=f"{socket.gethostname()[:100]}:{os.getpid()}:{uuid7().hex[-12:]}",
            publisher_breaker=self._publisher_breaker,
            database_breaker=self._database_breaker,
            tally=self._tally,
            reopen=self._reopen_publisher,
            drain=drain,
        )

    async def _end(self) -> None:
        self._loop = None
        if self._opening is not None:
            self._opening.cancel()
        try:
            async with asyncio.timeout(CLOSE_WITHIN):
                await self.publisher.close()
                for engine in self._engines:
                    await engine.dispose()
        except TimeoutError:
            logger.warning("postroom: connections did not close within %.0f s", CLOSE_WITHIN)
        finally:
            self._publisher_breaker.forget()
            self._database_breaker.forget()
            self._event_loop = None
            self._ended.set()

    async def _open_store(self) -> None:
        """Check the tables; wait for a database that is unavailable."""
        breaker = self._database_breaker
        while not self._stopping.is_set():
            try:
                await self._own_store.open()
            except Exception as error:
                if not database_outage(error):
                    raise
                breaker.trip(describe(error))
                await self._clock.wait(self._stopping, breaker.retry_at - self._clock.monotonic())
            else:
                breaker.reset()
                return

    def _open_publisher(self) -> Coroutine[Any, Any, None]:
        return open_publisher(self.publisher, self.outbox, self.engine, self._publisher_breaker)

    def _reopen_publisher(self) -> bool:
        """Open the publisher again, beside the loop, if it is time; return whether that goes on."""
        if self._opening is not None and self._opening.done():
            self._opening.result()  # raises what waiting cannot cure
            self._opening = None
        if self._opening is None and self._publisher_breaker.due():
            self._opening = asyncio.create_task(self._open_publisher())
            self._opening.add_done_callback(lambda _: self._look())
        return self._opening is not None

    def _publisher_changed(self, outage: Outage | None) -> None:
        """Note what a publisher reports by itself, also when there is nothing to deliver."""
        if outage is not None and self._event_loop is not None:
            self._publisher_breaker.trip(str(outage))
        else:
            self._publisher_breaker.retry_now()

    async def _run_loop(self, loop: Loop, *beside: Coroutine[Any, Any, None]) -> None:
        """Run a loop with its heartbeat; if what runs beside it fails, the loop ends too."""
        store = self._store(self._own_engine())
        heart = beat(loop, store, self.settings, self._clock, self._database_breaker)
        await run_until_first_ends(loop.run(), heart, *beside, stop=loop.stop)

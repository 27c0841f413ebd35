"""`OutboxRelay`: starts the loop and what runs beside it, and ends them."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Coroutine, Sequence, Set
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    suppress,
)
from contextvars import ContextVar
from datetime import timedelta
from typing import Any, Self

from sqlalchemy.ext.asyncio import AsyncEngine

from postroom.clock import Clock
from postroom.database.database import LEASE, own_engine
from postroom.database.errors import database_outage
from postroom.errors import ConfigurationError, OutageError, error_text, traceable
from postroom.identity import uuid7
from postroom.outbox import Outbox
from postroom.process import process_name
from postroom.publishers.base import Outage, Publisher, ReportsOutages, UsesOutbox
from postroom.relay.cleaner import clean, clean_regularly
from postroom.relay.health import Health, HealthStatus, Tally
from postroom.relay.heartbeat import beat
from postroom.relay.loop import Loop
from postroom.relay.observer import Observers, RelayObserver
from postroom.relay.retry import RetrySchedule
from postroom.relay.settings import BATCH_SIZE, RETENTION, OnFailed, RelaySettings
from postroom.store.store import Store
from postroom.wakeup.listener import can_listen, listening
from postroom.wakeup.notifier import CHANNEL

logger = logging.getLogger("postroom.relay")

OPEN_WITHIN = 30.0
"""Seconds for a publisher to connect."""
CLOSE_WITHIN = 10.0
"""Seconds for a publisher to close, and for the connections to the database."""
SERVICE_POLL_INTERVAL = timedelta(seconds=5)
_worker: ContextVar[str | None] = ContextVar("postroom_worker", default=None)


class OutboxRelay:
    """Delivers the records of an outbox: at least once, and in order per key.

    Any number of relays may run at once. Raises ConfigurationError for a wrong setting.

    - `outbox`: the outbox
    - `engine`: an AsyncEngine of its database; the relay makes up to four connections like its own
    - `publisher`: what delivers the records
    - `poll_interval`: the time between two searches for records if nothing wakes the relay
    - `listen`: the PostgreSQL channel of commits in other processes; None only polls
    - `batch_size`: how many outcomes are written in one transaction; a claim reads at least as many
    - `retry`: when a refused record is tried again, until its own `max_retries`
    - `on_failed`: whether a failed record holds back the later records of its key
    - `lease`: how long the partitions of a killed worker wait for another one
    - `grace`: how long `stop` waits for records in flight
    - `retention`: how long delivered records are kept; None: for ever; zero: not at all
    - `observers`: are called when something happens, for metrics and traces
    - `clock`: another clock, for tests
    """

    def __init__(
        self,
        outbox: Outbox,
        engine: AsyncEngine,
        publisher: Publisher,
        *,
        poll_interval: timedelta = timedelta(seconds=30),
        listen: str | None = CHANNEL,
        batch_size: int = BATCH_SIZE,
        retry: RetrySchedule | None = None,
        on_failed: OnFailed = "hold",
        lease: timedelta = LEASE,
        grace: timedelta = timedelta(seconds=30),
        retention: timedelta | None = RETENTION,
        observers: Sequence[RelayObserver] = (),
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
            redact=outbox.redact,
        )
        self.outbox, self.engine, self.publisher = outbox, engine, publisher
        if isinstance(publisher, UsesOutbox):
            publisher.use(outbox, engine)
        self._observers = Observers(observers)
        self._clock = clock or Clock()
        self.store = self._store(engine)
        """The store of the outbox. `Inspector` reads records, `Operations` changes them."""
        self._tally = Tally()
        self._loop: Loop | None = None
        self._failure: str | None = None
        self._opening: asyncio.Timeout | None = None
        """How long the publisher may take to open; `stop` ends it."""

    @property
    def health(self) -> Health:
        """The relay's current health."""
        loop = self._loop
        if loop is None or self._failure is not None:  # started again, and not yet open
            return Health(status=HealthStatus.STOPPED, reason=self._failure)
        return loop.health()

    @property
    def idle(self) -> bool:
        """Whether the relay runs, and its last search found nothing to deliver."""
        return self._loop is not None and self._loop.idle

    @property
    def in_flight(self) -> int:
        """How many records are sent and not yet answered. Any thread may read it."""
        return 0 if self._loop is None else len(self._loop.order.in_flight)

    async def run(self) -> None:
        """Deliver until `stop` is called, or the task is cancelled.

        Waits for the end of every outage, of the database too. Raises SchemaError if the tables are
        not those that this version needs, and ConfigurationError.
        """
        loop = self._begin(self._tally)
        unsubscribe = self.outbox.on_commit(self.wake)
        try:
            async with self._observers.running(self):
                await self._open_store(loop)
                await self._open_publisher(loop)
                if not loop.stopping:
                    cleaner = clean_regularly(loop.store, self._clock, self.settings.retention)
                    async with self._listening(loop):
                        await self._run_loop(loop, cleaner, self._reopen_publisher(loop))
        except Exception as error:
            self._failure = error_text(error)
            raise
        finally:
            unsubscribe()
            await self._end()
            logger.info("postroom: the relay has stopped: %s", self._tally)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Self]:
        """Run the relay for as long as the block lasts. Raises errors of `run` at its end."""
        task = asyncio.create_task(self.run(), name="postroom relay")
        await asyncio.sleep(0)  # now it has begun, and can be stopped
        try:
            yield self
        finally:
            await self.stop()
            await task

    async def run_once(self) -> Tally:
        """Deliver everything that may be sent now; return the counts.

        A refused record is tried again in a later run, unless its schedule says at once. While
        other workers lease the partitions of all records that are left, it waits: for 1.5 leases
        (15 s by default) at most. It deletes no old records: see `clean`. Raises OutageError if
        nothing can be delivered, SchemaError, ConfigurationError, and errors of the database.
        """
        loop = self._begin(Tally(), drain=True)
        try:
            async with self._observers.running(self):
                await loop.store.open()
                await self.publisher.open()
                if not loop.stopping:
                    await self._run_loop(loop)
            return loop.tally
        finally:
            await self._end()

    @property
    def observers(self) -> tuple[RelayObserver, ...]:
        """The observers of the relay."""
        return self._observers.all

    def observe(self, observer: RelayObserver) -> None:
        """Add an observer. Call it before the relay runs."""
        self._observers.all += (observer,)

    async def clean(self) -> int:
        """Delete records that were delivered longer ago than `retention`; return how many.

        A running relay does this every ten minutes.
        """
        return await clean(self.store, self.settings.retention)

    async def stop(self) -> None:
        """Claim no more, wait up to `grace` for records in flight, return when `run` has ended."""
        if self._loop is not None:
            self._loop.stop()
            if self._opening is not None:
                with suppress(RuntimeError):  # it has ended
                    self._opening.reschedule(0)
            await self._ended.wait()

    def wake(self, partitions: Set[int] | None = None) -> None:
        """Look for records now, in all partitions or in some. Any thread may call this."""
        loop = self._loop
        if loop is not None and not self._event_loop.is_closed():
            self._event_loop.call_soon_threadsafe(loop.wake, partitions)

    def _store(self, engine: AsyncEngine, *, keep_connections: bool = False) -> Store:
        return Store(
            engine,
            self.outbox.tables,
            keep_delivered=self.settings.keep_delivered,
            lease=self.settings.lease,
            shift=self._clock.shift,
            keep_connections=keep_connections,
        )

    def _own_engine(self) -> AsyncEngine:
        return own_engine(self.engine, self.outbox.tables, self.settings.lease)

    def _own_store(self) -> Store:
        store = self._store(self._own_engine(), keep_connections=True)
        if self._observers:
            store.database.watch = self._observers.statement_run
        self._stores.append(store)
        return store

    def _begin(self, tally: Tally, *, drain: bool = False) -> Loop:
        if self._loop is not None:
            raise ConfigurationError("this relay is running already. Make another one.")
        self._event_loop, self._ended = asyncio.get_running_loop(), asyncio.Event()
        self._stores: list[Store] = []
        self._loop = Loop(
            store=self._own_store(),
            publisher=self.publisher,
            settings=self.settings,
            clock=self._clock,
            worker=f"{socket.gethostname()[:100]}:{process_name()}{uuid7().hex[-8:]}",
            tally=tally,
            observers=self._observers,
            drain=drain,
        )
        _worker.set(self._loop.worker)  # of this task, and of those that it starts
        if isinstance(self.publisher, ReportsOutages):
            self.publisher.watch(self._publisher_changed)
        return self._loop

    async def _end(self) -> None:
        try:
            async with asyncio.timeout(CLOSE_WITHIN), AsyncExitStack() as last_first:
                for store in self._stores:
                    last_first.push_async_callback(store.database.close)
                last_first.push_async_callback(self.publisher.close)
        except TimeoutError:
            logger.warning("postroom: connections did not close within %.0f s", CLOSE_WITHIN)
        finally:
            self._loop = None
            self._ended.set()

    async def _open_store(self, loop: Loop) -> None:
        """Check the tables; wait for a database that is unavailable."""
        while not loop.stopping:
            try:
                await loop.store.open()
                loop.database_breaker.reset("loop")
                return
            except Exception as error:
                if not database_outage(error):
                    raise
                await loop.wait_for_database(error)

    async def _open_publisher(self, loop: Loop) -> None:
        """Open the publisher, or note the outage. Raises ConfigurationError."""
        breaker = loop.publisher_breaker
        try:
            async with asyncio.timeout(OPEN_WITHIN) as self._opening:
                await self.publisher.open()
            breaker.half_open()
        except ConfigurationError:
            raise
        except TimeoutError:
            if not loop.stopping:
                breaker.trip(f"it did not open within {OPEN_WITHIN:.0f} s")
        except Exception as error:
            if not isinstance(error, OutageError):
                logger.error("postroom: the publisher cannot be opened", exc_info=traceable(error))
            breaker.trip(error_text(error))

    def _listening(self, loop: Loop) -> AbstractAsyncContextManager[None]:
        """Have the commits of other processes wake a loop."""
        return listening(
            self._own_engine(),
            self.settings.listen,
            self.outbox.tables.records.fullname,
            loop.wake,
            self._clock,
            loop.listener_changed,
            loop.database_breaker.recovered,
        )

    async def _reopen_publisher(self, loop: Loop) -> None:
        """Open the publisher again after each outage, until cancelled."""
        while True:
            await loop.reopen.wait()
            loop.reopen.clear()
            if loop.publisher_breaker.due():  # else it has just been tried
                await self._open_publisher(loop)

    def _publisher_changed(self, outage: Outage | None) -> None:
        """Note what a publisher reports by itself, also when there is nothing to deliver."""
        if self._loop is None:
            return
        if outage is not None:
            self._loop.publisher_breaker.trip(outage.reason)
        else:
            self._loop.publisher_breaker.retry_now()

    async def _run_loop(self, loop: Loop, *beside: Coroutine[Any, Any, None]) -> None:
        """Run a loop with its heartbeat; if what runs beside it fails, the loop ends too."""
        self._failure = None
        tasks = [asyncio.create_task(each) for each in (beat(loop, self._own_store()), *beside)]
        for task in tasks:
            task.add_done_callback(lambda _: loop.stop())
        try:
            await loop.run()
        finally:
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
        for error in ended:
            if isinstance(error, Exception):
                raise error


class OutboxEventPublisher(OutboxRelay):
    """An `OutboxRelay` that polls every 5 s by default. Takes the same options."""

    def __init__(
        self,
        outbox: Outbox,
        engine: AsyncEngine,
        publisher: Publisher,
        *,
        poll_interval: timedelta = SERVICE_POLL_INTERVAL,
        **options: Any,
    ) -> None:
        super().__init__(outbox, engine, publisher, poll_interval=poll_interval, **options)


def _add_worker(line: logging.LogRecord) -> bool:
    """Give a log line the name of the worker as its field `worker`."""
    if (worker := _worker.get()) is not None:
        line.worker = worker
    return True


for _name in ("postroom.relay", "postroom.publishers", "postroom.store"):
    logging.getLogger(_name).addFilter(_add_worker)

"""The worker process: check, deliver, stop by signal."""

import asyncio
import gc
import logging
import signal
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

from postroom.cli.database import bad_database, bad_schema, is_database_unusable
from postroom.cli.errors import BY_SIGNAL, CommandError, Exit
from postroom.cli.health import health_server
from postroom.cli.metrics import metrics_of
from postroom.cli.options import WorkerSettings
from postroom.cli.telemetry import instrument
from postroom.cli.wiring import relay_of
from postroom.database.naming import place_of
from postroom.errors import ConfigurationError, OutageError, SchemaError
from postroom.publishers.base import Publisher
from postroom.relay.health import Tally
from postroom.relay.relay import OutboxRelay

logger = logging.getLogger("postroom.worker")

T = TypeVar("T")
SIGNALS = (signal.SIGTERM, signal.SIGINT)
END_WITHIN = 0.3
"""Seconds to clean up in after a second signal: give leases back, close connections."""


class StopSignals:
    """The signals that the process got: one to stop, a second one to stop now."""

    def __init__(self) -> None:
        self.stop = asyncio.Event()
        self.now = asyncio.Event()
        self.code = int(Exit.OK)
        """How the process is to end: by the second signal, as if that had killed it."""

    def listen(self) -> None:
        """Take the signals from now on."""
        loop = asyncio.get_running_loop()
        for each in SIGNALS:
            with suppress(NotImplementedError):  # on Windows, Ctrl-C just cancels
                loop.add_signal_handler(each, self._take, each)

    def _take(self, number: int) -> None:
        name = signal.Signals(number).name
        if self.stop.is_set():
            logger.warning("postroom: %s again, stops now", name)
            self.code = BY_SIGNAL + number
            self.now.set()
        else:
            logger.info("postroom: %s, finishes what is in flight and stops", name)
            self.stop.set()


async def work(settings: WorkerSettings, *, once: bool, wait: bool) -> int:
    """Run a worker from its start to its end; give its exit code. Raises CommandError.

    After a second signal it returns within END_WITHIN. What has not ended by then is abandoned.
    """
    if once and wait:
        raise CommandError(
            "--once delivers what is ready and ends, --wait waits: leave one of them out."
        )
    signals = StopSignals()
    signals.listen()
    working = asyncio.create_task(_work(settings, signals, once=once, wait=wait))
    stop_now = asyncio.create_task(signals.now.wait())
    try:
        await asyncio.wait({working, stop_now}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        working.cancel()
        await asyncio.wait({working}, timeout=END_WITHIN)
        return signals.code
    finally:
        stop_now.cancel()


async def _work(settings: WorkerSettings, signals: StopSignals, *, once: bool, wait: bool) -> int:
    relay = await _unless(signals.stop, relay_of(settings))
    if relay is None:
        return signals.code
    try:
        async with _observed(relay, settings):
            if wait or await _unless(signals.stop, check(relay)):
                logger.info("postroom: delivers %s", description(relay, once=once))
                gc.freeze()  # what is there now stays: to look for garbage in it takes long
                tally = await _deliver(relay, signals, once=once)
                return signals.code or exit_code(tally)
            return signals.code
    finally:
        await relay.publisher.close()  # which the check may have opened
        await relay.engine.dispose()


@asynccontextmanager
async def _observed(relay: OutboxRelay, settings: WorkerSettings) -> AsyncIterator[None]:
    """Trace the relay; answer for health and metrics while the block lasts, if there is a port."""
    instrument(relay)
    host, port = settings.health_host, settings.health_port
    if port is None:
        yield
        return
    with metrics_of(relay) as routes:
        async with health_server(host, port, lambda: relay.health, routes):
            yield


async def check(relay: OutboxRelay) -> bool:
    """See that the database and the publisher can be used; raises CommandError if not."""
    try:
        await relay.store.open()
    except SchemaError as error:
        raise bad_schema(error) from error
    except ConfigurationError as error:
        raise CommandError(str(error), Exit.DATABASE) from error
    except Exception as error:
        if not is_database_unusable(error):
            raise
        raise bad_database(error, relay.engine.url) from error
    try:
        await relay.publisher.open()
    except (OutageError, ConfigurationError) as error:
        raise CommandError(str(error), Exit.BROKER) from error
    return True


def description(relay: OutboxRelay, *, once: bool) -> str:
    """Say what a worker will do, and to where; nothing that is secret."""
    settings = relay.settings
    where = place_of(relay.outbox.tables.records, relay.engine)
    journey = f"from {where} to {_name(relay.publisher)}"
    if once:
        return f"what is ready {journey}"
    how = f"polls every {settings.poll_interval.total_seconds():g} s"
    if settings.listen is not None:
        how += f", listens on {settings.listen}"
    return f"{journey} ({how}, batches of {settings.batch_size})"


def _name(publisher: Publisher) -> str:
    named = type(publisher).__str__ is not object.__str__
    return str(publisher) if named else type(publisher).__name__


def exit_code(tally: Tally | None) -> Exit:
    """Return the exit code of `--once`: a record that could not be delivered is a problem."""
    if tally is not None and (tally.retried or tally.postponed or tally.failed):
        return Exit.PROBLEM
    return Exit.OK


async def _deliver(relay: OutboxRelay, signals: StopSignals, *, once: bool) -> Tally | None:
    stopping = asyncio.create_task(_stop(relay, signals))
    try:
        tally: Tally | None = await (relay.run_once() if once else relay.run())
    except SchemaError as error:
        raise bad_schema(error) from error
    except (OutageError, ConfigurationError) as error:
        raise CommandError(str(error), Exit.BROKER) from error
    except Exception as error:
        if not is_database_unusable(error):
            raise
        raise bad_database(error, relay.engine.url) from error
    else:
        if tally is not None:
            logger.info("postroom: %s", tally)
        return tally
    finally:
        stopping.cancel()


async def _stop(relay: OutboxRelay, signals: StopSignals) -> None:
    """Stop a relay at the first signal."""
    await signals.stop.wait()
    await relay.stop()


async def _unless(stop: asyncio.Event, work: Coroutine[Any, Any, T]) -> T | None:
    """Do something, unless told to stop meanwhile; None then."""
    doing = asyncio.create_task(work)
    stopped = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({doing, stopped}, return_when=asyncio.FIRST_COMPLETED)
        return doing.result() if doing.done() else None
    finally:
        for task in (doing, stopped):
            task.cancel()
        await asyncio.gather(doing, stopped, return_exceptions=True)

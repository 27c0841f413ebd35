"""Sends a NOTIFY to other processes after the commit, from a thread.

Never in the application's transaction: there it would make all commits of the cluster queue up.
"""

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Set
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, Final

from sqlalchemy import Connection, Engine, text
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.util import await_only, greenlet_spawn

from postroom.errors import ConfigurationError, error_text

logger = logging.getLogger(__name__)

CHANNEL: Final = "outbox_channel"
PAUSE: Final = 0.01
"""Seconds between two notifications at least, however many commits there are."""
CLOSE_WITHIN: Final = 5.0
LONGEST: Final = 63
# To write the commit to disk before it is notified of would take long, and protect nothing.
NOTIFY: Final = "SELECT set_config('synchronous_commit', 'off', true), pg_notify({}, {})"


def payload_of(table: str, partitions: Set[int]) -> str:
    """Write the payload of a notification: in which partitions of an outbox there are records."""
    return f"{table} {','.join(map(str, sorted(partitions)))}"


def partitions_in(payload: str, table: str) -> Set[int] | None:
    """Read in which partitions of an outbox there are records; None for any: it does not say."""
    name, _, listed = payload.rpartition(" ")
    numbers = listed.split(",")
    if not name or not all(number.isdecimal() for number in numbers):
        return None
    return set(map(int, numbers)) if name == table else set()


def check_channel(channel: str) -> None:
    """Refuse a name that PostgreSQL would cut off, so that nobody hears anything."""
    if not 0 < len(channel.encode()) <= LONGEST:
        raise ConfigurationError(
            f"channel {channel!r} cannot be listened to: its name has 1 to {LONGEST} bytes."
        )


class Notifier:
    """Notifies workers in other processes of commits, by NOTIFY. Made by `Outbox.notify_workers`.

    Sends from its own thread and connection, so no commit waits for it; at most one notification
    every 10 ms. If one cannot be sent, a warning is logged; workers find the records at their next
    poll.
    """

    def __init__(self, engine: Engine | AsyncEngine, channel: str, table: str) -> None:
        check_channel(channel)
        self._engine = engine
        self._channel = channel
        self._table = table
        self._committed: SimpleQueue[Set[int] | None] = SimpleQueue()  # None at the end
        self._closing = threading.Event()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._process = os.getpid()
        self._failing = False
        self._unsubscribe: Callable[[], None] = lambda: None

    def on_close(self, unsubscribe: Callable[[], None]) -> None:
        """Call a function when the notifier is closed."""
        self._unsubscribe = unsubscribe

    def __call__(self, partitions: Set[int]) -> None:
        """Send a notification soon. Any thread may call this."""
        if self._thread is None or self._process != os.getpid():  # a fork has no threads
            self._start()
        self._committed.put(partitions)

    def close(self) -> None:
        """Send the last notification, and end the thread and its connection. Waits 5 s at most."""
        self._unsubscribe()
        self._closing.set()
        self._committed.put(None)
        if self._thread is not None and self._process == os.getpid():
            self._thread.join(CLOSE_WITHIN)

    def _start(self) -> None:
        with self._starting:
            if self._thread is None or self._process != os.getpid():
                self._process = os.getpid()
                self._committed = SimpleQueue()
                self._thread = threading.Thread(
                    target=self._run, name="postroom notifier", daemon=True
                )
                self._thread.start()

    def _run(self) -> None:
        with Line(self._engine) as line:
            ended = False
            while not ended:
                commits = [self._committed.get()]
                while not self._committed.empty():
                    commits.append(self._committed.get())
                ended = None in commits
                partitions = set[int]().union(*(each for each in commits if each is not None))
                if partitions:
                    self._send(line, partitions)
                self._closing.wait(PAUSE)

    def _send(self, line: "Line", partitions: Set[int]) -> None:
        try:
            line.notify(self._channel, payload_of(self._table, partitions))
        except Exception as error:
            if not self._failing:
                logger.warning(
                    "postroom: cannot notify workers, who will see what is committed when they"
                    " poll: %s",
                    error_text(error),
                )
            self._failing = True
        else:
            self._failing = False


class Line:
    """A connection that is kept for notifications, of a sync or an async engine."""

    def __init__(self, engine: Engine | AsyncEngine) -> None:
        self._runner = asyncio.Runner() if isinstance(engine, AsyncEngine) else None
        source = engine.sync_engine if isinstance(engine, AsyncEngine) else engine
        self._engine = Engine(source.pool.recreate(), source.dialect, source.url)
        self._connection: Connection | None = None

    def __enter__(self) -> "Line":
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(Exception):  # the server may be gone, and that is all right
            self._call(self._hang_up)
        if self._runner is not None:
            self._runner.close()

    def notify(self, channel: str, payload: str) -> None:
        """Send a notification; a connection that was lost since the last one is made again."""
        kept = self._connection is not None
        try:
            self._call(lambda: self._notify(channel, payload))
        except Exception:
            with suppress(Exception):
                self._call(self._hang_up)
            if not kept:
                raise
            self._call(lambda: self._notify(channel, payload))

    def _notify(self, channel: str, payload: str) -> None:
        if self._connection is None:
            self._connection = self._engine.connect()
            self._connection.execution_options(isolation_level="AUTOCOMMIT")
        if self._engine.dialect.driver == "asyncpg":  # directly: the application waits for its CPU
            driver: Any = self._connection.connection.driver_connection
            await_only(driver.execute(NOTIFY.format(_literal(channel), _literal(payload))))
            return
        statement = text(NOTIFY.format(":channel", ":payload"))
        self._connection.execute(statement, {"channel": channel, "payload": payload})
        self._connection.commit()

    def _hang_up(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.invalidate()
            connection.close()
        self._engine.dispose()

    def _call(self, work: Callable[[], None]) -> None:
        if self._runner is None:
            work()
        else:
            self._runner.run(greenlet_spawn(work))


def _literal(text: str) -> str:
    escaped = text.replace("'", "''")
    return f"'{escaped}'"

"""Tells workers in other processes that records were committed: NOTIFY, after the commit.

Never in the application's transaction: there it would make all commits of the cluster queue up.
"""

import asyncio
import logging
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from sqlalchemy import Connection, Engine, text
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.util import greenlet_spawn

from postroom.errors import ConfigurationError, error_text

logger = logging.getLogger(__name__)

CHANNEL: Final = "outbox_channel"
PAUSE: Final = 0.01
"""Seconds between two notifications at least, however many commits there are."""
CLOSE_WITHIN: Final = 5.0
LONGEST: Final = 63
NOTIFY: Final = text("SELECT pg_notify(:channel, '')")


def check_channel(channel: str) -> None:
    """Refuse a name that PostgreSQL would cut off, so that nobody hears anything."""
    if not 0 < len(channel.encode()) <= LONGEST:
        raise ConfigurationError(
            f"channel {channel!r} cannot be listened to: its name has 1 to {LONGEST} bytes."
        )


class Notifier:
    """Sends one notification for the commits of a moment, from a thread of its own.

    It never holds up who commits. What cannot be sent is logged: workers poll anyway.
    """

    def __init__(self, engine: Engine | AsyncEngine, channel: str = CHANNEL) -> None:
        check_channel(channel)
        self._engine = engine
        self._channel = channel
        self._wanted = False
        self._woken = threading.Event()
        self._closing = threading.Event()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._process = os.getpid()
        self._failing = False
        self._unsubscribe: Callable[[], None] = lambda: None

    def on_close(self, unsubscribe: Callable[[], None]) -> None:
        """Call this when it is closed."""
        self._unsubscribe = unsubscribe

    def __call__(self) -> None:
        """Send one soon. May be called from any thread."""
        self._wanted = True
        self._woken.set()
        if self._thread is None or self._process != os.getpid():  # a fork has no threads
            self._start()

    def close(self) -> None:
        """Hear of no more commits, send what is still to be sent, and end."""
        self._unsubscribe()
        self._closing.set()
        self._woken.set()
        if self._thread is not None and self._process == os.getpid():
            self._thread.join(CLOSE_WITHIN)

    def _start(self) -> None:
        with self._starting:
            if self._thread is None or self._process != os.getpid():
                self._process = os.getpid()
                self._thread = threading.Thread(
                    target=self._run, name="postroom notifier", daemon=True
                )
                self._thread.start()

    def _run(self) -> None:
        with Line(self._engine) as line:
            while self._wanted or not self._closing.is_set():
                self._woken.wait()
                self._woken.clear()
                if self._wanted:
                    self._wanted = False  # before it is sent: a later commit is told again
                    self._send(line)
                self._closing.wait(PAUSE)

    def _send(self, line: "Line") -> None:
        try:
            line.notify(self._channel)
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

    def notify(self, channel: str) -> None:
        """Send a notification; a connection that was lost since the last one is made again."""
        kept = self._connection is not None
        try:
            self._call(lambda: self._notify(channel))
        except Exception:
            with suppress(Exception):
                self._call(self._hang_up)
            if not kept:
                raise
            self._call(lambda: self._notify(channel))

    def _notify(self, channel: str) -> None:
        if self._connection is None:
            self._connection = self._engine.connect()
            self._connection.execution_options(isolation_level="AUTOCOMMIT")
        self._connection.execute(NOTIFY, {"channel": channel})
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

"""Outages: pause, try again with growing patience, resume. Nothing is counted against a record."""

import logging
from collections import Counter
from collections.abc import Callable, Iterable
from enum import StrEnum

from postroom.record import ClaimedRecord
from postroom.relay.clock import Clock

logger = logging.getLogger("postroom.relay")

FIRST_PAUSE = 0.5
LONGEST_PAUSE = 30.0


class State(StrEnum):
    """Whether deliveries may go out."""

    CLOSED = "closed"
    OPEN = "open"
    PROBING = "probing"


class Breaker:
    """Guards one thing that can be away: the publisher's other end, or the database."""

    def __init__(self, what: str, clock: Clock, changed: Callable[[], None]) -> None:
        self.what = what
        self.state = State.CLOSED
        self.reason: str | None = None
        self.retry_at = 0.0
        self._clock = clock
        self._changed = changed
        self._pause = 0.0
        self._since = 0.0

    @property
    def closed(self) -> bool:
        """Whether all is well, as far as anybody knows."""
        return self.state is State.CLOSED

    @property
    def since(self) -> float | None:
        """When the outage began, by the monotonic clock."""
        return None if self.closed else self._since

    def trip(self, reason: str) -> None:
        """Note an outage; several reports of one do not make the pause longer."""
        now = self._clock.monotonic()
        if self.state is State.OPEN and now < self.retry_at:
            return
        if self.closed:
            self._since, self._pause = now, 0.0
            logger.warning("postroom: %s is away, deliveries pause: %s", self.what, reason)
        else:
            logger.info("postroom: %s is still away: %s", self.what, reason)
        self._pause = min(LONGEST_PAUSE, max(FIRST_PAUSE, 2 * self._pause))
        self.state, self.reason, self.retry_at = State.OPEN, reason, now + self._pause
        self._changed()

    def probe(self) -> bool:
        """Start to try again, if it is time and nobody else does."""
        if self.state is not State.OPEN or self._clock.monotonic() < self.retry_at:
            return False
        self.state = State.PROBING
        return True

    def reset(self) -> None:
        """Note that all is well."""
        if self.closed:
            return
        away = self._clock.monotonic() - self._since
        logger.warning("postroom: %s is back after %.1f s, deliveries resume", self.what, away)
        self.state, self.reason, self._pause = State.CLOSED, None, 0.0
        self._changed()


class Suspicion:
    """Finds the record that breaks the connection for all: it can look like an outage.

    What dies with the connection once, goes out again as before; twice, alone. What then dies
    alone twice more is to blame.
    """

    ALONE = 2
    GUILTY = 4

    def __init__(self) -> None:
        self._deaths: Counter[int] = Counter()

    def died(self, records: Iterable[ClaimedRecord]) -> list[ClaimedRecord]:
        """Note records that were on their way when the connection broke; give the guilty ones."""
        guilty = []
        for record in records:
            self._deaths[record.position] += 1
            if self._deaths[record.position] >= self.GUILTY:
                guilty.append(record)
        self.cleared(guilty)
        return guilty

    def cleared(self, records: Iterable[ClaimedRecord]) -> None:
        """Forget records that were answered, one way or the other."""
        if self._deaths:
            for record in records:
                self._deaths.pop(record.position, None)

    def __bool__(self) -> bool:
        return bool(self._deaths)

    def alone(self, record: ClaimedRecord) -> bool:
        """Tell whether a record has to travel alone."""
        return self._deaths[record.position] >= self.ALONE

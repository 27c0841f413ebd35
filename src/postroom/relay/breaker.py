"""Outages: pause, try again with growing patience, resume. Nothing is counted against a record."""

import logging
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
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
            logger.warning("postroom: %s cannot be used, deliveries pause: %s", self.what, reason)
        else:
            logger.info("postroom: %s still cannot be used: %s", self.what, reason)
        self._pause = min(LONGEST_PAUSE, max(FIRST_PAUSE, 2 * self._pause))
        self.state, self.reason, self.retry_at = State.OPEN, reason, now + self._pause
        self._changed()

    def now(self) -> float:
        """Give the time, by the clock that outages are measured with."""
        return self._clock.monotonic()

    def due(self) -> bool:
        """Tell whether it is time to try again."""
        return self.state is State.OPEN and self._clock.monotonic() >= self.retry_at

    def probe(self) -> None:
        """Note that it opened: one delivery will tell whether all is well."""
        if self.state is State.OPEN:
            self.state = State.PROBING
            self._changed()

    def reset(self) -> None:
        """Note that all is well."""
        if self.closed:
            return
        away = self._clock.monotonic() - self._since
        logger.warning(
            "postroom: %s can be used again after %.1f s, deliveries resume", self.what, away
        )
        self.forget()
        self._changed()

    def forget(self) -> None:
        """Know nothing, as at the start."""
        self.state, self.reason, self._pause = State.CLOSED, None, 0.0


@dataclass(slots=True)
class Death:
    """What is known of a record that was on its way when the connection broke."""

    times: int = 0
    proven: int = 0
    """How often others were answered in between: it was not an outage, then."""
    answered: int = -1


class Suspicion:
    """Finds the record that breaks the connection for all: it can look like an outage.

    What dies with the connection once goes out again as before; twice, alone. What then dies
    alone twice more is to blame. A death counts only if others were answered since the last one.
    """

    ALONE = 2
    GUILTY = 4
    REMEMBERED = 10_000

    def __init__(self) -> None:
        self._deaths: dict[int, Death] = {}
        self._answered = 0

    def died(self, records: Iterable[ClaimedRecord]) -> list[ClaimedRecord]:
        """Note records that were on their way when the connection broke; give the guilty ones."""
        guilty = []
        for record in records:
            death = self._deaths.setdefault(record.position, Death())
            death.times += 1
            death.proven += self._answered > death.answered
            death.answered = self._answered
            if death.proven >= self.GUILTY:
                guilty.append(record)
                del self._deaths[record.position]
        while len(self._deaths) > self.REMEMBERED:
            del self._deaths[next(iter(self._deaths))]
        return guilty

    def answered(self, records: Collection[ClaimedRecord]) -> None:
        """Note records that were answered, one way or the other: they broke nothing."""
        self._answered += len(records)
        if self._deaths:
            for record in records:
                self._deaths.pop(record.position, None)

    def __bool__(self) -> bool:
        return bool(self._deaths)

    def alone(self, record: ClaimedRecord) -> bool:
        """Tell whether a record has to travel alone."""
        death = self._deaths.get(record.position)
        return death is not None and death.proven >= self.ALONE

    def times(self, record: ClaimedRecord) -> int:
        """Count the deaths of a record, whoever was to blame."""
        death = self._deaths.get(record.position)
        return 0 if death is None else death.times

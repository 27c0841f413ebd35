"""Routes that cannot be used: how long their records wait, and one log line for each route."""

import logging
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import islice
from math import inf
from typing import Any, Final, Generic, Literal, TypeVar, get_args
from uuid import UUID

from postroom.errors import ConfigurationError
from postroom.publishers.base import Postponed, WaitingRoute

logger = logging.getLogger("postroom.publishers")

Unroutable = Literal["wait", "refuse", "accept"]
"""What becomes of a message that no queue takes."""
Rejected = Literal["wait", "refuse"]
"""What becomes of a message that a queue rejects, because it is full."""
Unknown = Literal["wait", "refuse"]
"""What becomes of a record whose event type or version a worker does not know."""

SHORTEST: Final = 1.0
LONGEST: Final = 30.0
"""Seconds for which a record is postponed: as long as its route has failed, within these bounds."""
RETRIES_PER_SECOND: Final = 500
"""Records of one route that are tried again in a second. If more wait, they wait longer."""
SLOTS: Final = 6
"""Within the delay there are so many moments at which records are due: together they cost less."""
OVER_AFTER: Final = 60.0
"""Seconds without a postponed record after which nothing waits here any more.

The records may be another worker's by then, or discarded.
"""
LOG_EVERY: Final = 300.0
QUIET: Final = 60.0
"""Seconds after its last log line in which a route that fails again is not logged again."""
LISTED: Final = 20
"""Routes that are logged and reported. With a routing key per record, there may be thousands."""
REMEMBERED: Final = 15_000

R = TypeVar("R", bound=Hashable)


@dataclass(slots=True)
class _Wait:
    """What is known of a route whose records wait."""

    reason: str
    since: float
    last: float
    """When a record was last postponed."""
    log_at: float
    """When to log it next."""
    logged: bool = False
    failing_since: float | None = None
    """None while the route can be used again, and records still wait for their time."""
    records: set[UUID] = field(default_factory=set)
    waited: int = 0
    """How many records have waited so far."""


class WaitingRoutes(Generic[R]):
    """The routes of a publisher that cannot be used, through no fault of a record.

    `describe` returns the name of a route, for logs and for `relay.health`.
    """

    def __init__(
        self, describe: Callable[[R], str] = str, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._describe = describe
        self._now = now
        self._waits: dict[R, _Wait] = {}
        self._ended: dict[R, float] = {}
        """When routes that failed could be used again, for a minute."""
        self._forget_at = 0.0

    def __bool__(self) -> bool:
        return bool(self._waits)

    def fails(self, route: R) -> bool:
        """Tell whether the last record that was sent to a route was not taken."""
        wait = self._waits.get(route)
        return wait is not None and wait.failing_since is not None

    def reason(self, route: R) -> str:
        """Say why a route fails."""
        return self._waits[route].reason

    def postpone(self, route: R, record_id: UUID, reason: str) -> Postponed:
        """Note that a record waits for a route; return the outcome, with how long it waits."""
        now = self._now()
        wait = self._waits.get(route) or self._begin(route, reason, now)
        wait.reason, wait.last = reason, now
        if wait.failing_since is None:
            wait.failing_since = now
        if record_id not in wait.records and len(wait.records) < REMEMBERED:
            wait.records.add(record_id)
            wait.waited += 1
        if now >= wait.log_at:
            wait.log_at, wait.logged = now + LOG_EVERY, True
            still = "postroom: still waiting, for %.0f s: %s"
            report = self._report(route, wait, now)
            logger.warning(still, now - wait.since, report, extra={"route": report.route})
        return Postponed(reason, timedelta(seconds=self._delay(wait, now)))

    def delivered(self, route: R, record_id: UUID) -> None:
        """Note that a route has taken a record. When all that waited are delivered, it is over."""
        wait = self._waits.get(route)
        if wait is not None:
            wait.failing_since = None
            wait.records.discard(record_id)
            if not wait.records:
                self._end(route)

    def report(self) -> tuple[WaitingRoute, ...]:
        """Return the routes that records wait for, the longest waiting first."""
        self.forget_old()
        now = self._now()
        listed = islice(self._waits.items(), LISTED)
        return tuple(self._report(route, wait, now) for route, wait in listed)

    def forget_old(self) -> None:
        """Forget the routes that no record has waited for lately. Looks once a second."""
        now = self._now()
        if now < self._forget_at:
            return
        self._forget_at = now + 1.0
        for route in [each for each, wait in self._waits.items() if now - wait.last >= OVER_AFTER]:
            self._end(route)
        self._ended = {each: at for each, at in self._ended.items() if now - at < QUIET}

    def _delay(self, wait: _Wait, now: float) -> float:
        """Return for how many seconds to postpone a record, so that many are due together."""
        failing = 0.0 if wait.failing_since is None else now - wait.failing_since
        many = max(len(wait.records), len(self._waits)) / RETRIES_PER_SECOND
        seconds = min(LONGEST, max(SHORTEST, failing, many))
        slot = seconds / SLOTS
        return (now + seconds) // slot * slot - now

    def _begin(self, route: R, reason: str, now: float) -> _Wait:
        while len(self._waits) >= REMEMBERED:
            del self._waits[next(iter(self._waits))]
        wait = self._waits[route] = _Wait(reason, since=now, last=now, log_at=now + LOG_EVERY)
        if len(self._waits) > LISTED:
            wait.log_at = inf
        elif now - self._ended.get(route, -inf) < QUIET:
            wait.log_at = now + QUIET
        else:
            text = "postroom: %s cannot be used: %s. Its records wait, and are not counted"
            name = self._describe(route)
            logger.warning(text, name, reason, extra={"route": name})
            wait.logged = True
        if len(self._waits) == LISTED:
            logger.warning("postroom: %d routes cannot be used; more are not logged", LISTED)
        return wait

    def _end(self, route: R) -> None:
        wait, now = self._waits.pop(route), self._now()
        self._ended[route] = now
        if wait.logged:
            text = "postroom: no record waits for %s any more, after %.1f s; %d had to wait"
            name, seconds = self._describe(route), now - wait.since
            about = {"route": name, "duration": round(seconds, 3), "records": wait.waited}
            logger.warning(text, name, seconds, wait.waited, extra=about)

    def _report(self, route: R, wait: _Wait, now: float) -> WaitingRoute:
        return WaitingRoute(
            route=self._describe(route),
            reason=wait.reason,
            seconds=now - wait.since,
            records=len(wait.records),
        )


def check_choice(name: str, value: object, choices: Any) -> None:
    """Raise ConfigurationError if a value is none of a Literal's."""
    if value not in get_args(choices):
        *others, last = (f"{each!r}" for each in get_args(choices))
        raise ConfigurationError(f"{name} is {value!r}: {', '.join(others)} or {last}.")

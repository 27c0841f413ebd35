"""The circuit breaker: during an outage, pause, try again after growing pauses, resume."""

import asyncio
import logging
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from postroom.clock import Clock
from postroom.redaction import mask
from postroom.relay.observer import BreakerState, Observers

logger = logging.getLogger("postroom.relay")

FIRST_PAUSE = 0.5
LONGEST_PAUSE = 30.0
JITTER = 0.2
"""The part of a pause that is left to chance, so that workers do not all return at once."""


@dataclass
class Breaker:
    """Guards something that can be unavailable: the publisher or the database.

    Closed: all is well. Open: an outage, until `retry_at`. Half open: one delivery is tried.
    """

    name: str
    clock: Clock
    changed: Callable[[], None]
    """Is called when the state or `retry_at` has changed."""
    observers: Observers = field(default_factory=Observers)
    state: BreakerState = "closed"
    reason: str = ""
    retry_at: float = 0.0
    _pause: float = 0.0
    _since: float = 0.0
    recovered: asyncio.Event = field(default_factory=asyncio.Event)
    """Is set when an outage ends."""
    _failing: set[str] = field(default_factory=set)

    @property
    def outage(self) -> tuple[str, float] | None:
        """What is unavailable and why, and for how many seconds; None if all is well."""
        if self.state == "closed":
            return None
        seconds = self.clock.monotonic() - self._since
        return f"{self.name} is unavailable: {self.reason}", seconds

    def trip(self, reason: str, by: str = "") -> None:
        """Note an outage. Several reports of one outage do not make the pause longer.

        All who have met it, `by`, have to succeed before it ends: a lease may be renewed on a disk
        that is too full for a settlement.
        """
        self._failing.add(by)
        now, reason = self.clock.monotonic(), mask(reason)
        if self.state == "open" and now < self.retry_at:
            return
        # The first line of an outage is a warning, and each that gives another reason.
        known = self.state != "closed" and reason == self.reason
        if self.state == "closed":
            self._since, self._pause = now, 0.0
        self._pause = min(LONGEST_PAUSE, max(FIRST_PAUSE, 2 * self._pause))
        pause = self._pause * random.uniform(1 - JITTER, 1)  # noqa: S311 - not a secret
        logger.log(
            logging.INFO if known else logging.WARNING,
            "postroom: %s is unavailable (%s). Deliveries are paused; next try in %.1f s",
            self.name,
            reason.rstrip("."),
            pause,
        )
        self.reason, self.retry_at = reason, now + pause
        self._change("open")

    def due(self) -> bool:
        """Return whether it is time to try again."""
        return self.state == "open" and self.clock.monotonic() >= self.retry_at

    def retry_now(self) -> None:
        """End the pause: whatever caused the outage may be over."""
        if self.state == "open":
            self.retry_at = self.clock.monotonic()
            self.changed()

    def half_open(self) -> None:
        """Note that a connection was made: one delivery will tell whether all is well."""
        if self.state == "open":
            self._change("half_open")

    def reset(self, by: str = "") -> None:
        """Note that all is well, as far as one who may have met the outage can tell."""
        self._failing.discard(by)
        if self._failing:
            self.retry_now()
        elif self.state != "closed":
            logger.warning(
                "postroom: %s is available again after %.1f s. Deliveries resume",
                self.name,
                self.clock.monotonic() - self._since,
            )
            self.reason = ""
            self.recovered.set()
            self._change("closed")

    def _change(self, state: BreakerState) -> None:
        self.state = state
        self.observers.tell(lambda it: it.breaker_changed(self.name, state))
        self.changed()

"""The circuit breaker: during an outage, pause, try again after growing pauses, resume."""

import logging
import random
from collections.abc import Callable
from typing import Literal

from postroom.clock import Clock

logger = logging.getLogger("postroom.relay")

FIRST_PAUSE = 0.5
LONGEST_PAUSE = 30.0
JITTER = 0.2
"""The part of a pause that is left to chance, so that workers do not all return at once."""


class Breaker:
    """Guards something that can be unavailable: the publisher or the database.

    Closed: all is well. Open: an outage, until `retry_at`. Half open: one delivery is tried.
    """

    def __init__(self, name: str, clock: Clock, changed: Callable[[], None]) -> None:
        self.name = name
        self.state: Literal["closed", "open", "half_open"] = "closed"
        self.reason = ""
        self.retry_at = 0.0
        self._clock = clock
        self._changed = changed
        self._pause = 0.0
        self._since = 0.0

    @property
    def outage(self) -> tuple[str, float] | None:
        """What is unavailable and why, and for how many seconds; None if all is well."""
        if self.state == "closed":
            return None
        seconds = self._clock.monotonic() - self._since
        return f"{self.name} is unavailable: {self.reason}", seconds

    def trip(self, reason: str) -> None:
        """Note an outage. Several reports of one outage do not make the pause longer."""
        now = self._clock.monotonic()
        if self.state == "open" and now < self.retry_at:
            return
        if self.state == "closed":
            self._since, self._pause = now, 0.0
        self._pause = min(LONGEST_PAUSE, max(FIRST_PAUSE, 2 * self._pause))
        pause = self._pause * random.uniform(1 - JITTER, 1)  # noqa: S311 - not a secret
        # The first line of an outage is a warning, and each that gives another reason.
        known = self.state != "closed" and reason == self.reason
        level = logging.INFO if known else logging.WARNING
        logger.log(
            level,
            "postroom: %s is unavailable (%s). Deliveries are paused; next try in %.1f s",
            self.name,
            reason.rstrip("."),
            pause,
        )
        self.state, self.reason, self.retry_at = "open", reason, now + pause
        self._changed()

    def now(self) -> float:
        """Return the time by the clock that pauses are measured with."""
        return self._clock.monotonic()

    def due(self) -> bool:
        """Return whether it is time to try again."""
        return self.state == "open" and self._clock.monotonic() >= self.retry_at

    def retry_now(self) -> None:
        """End the pause: whatever caused the outage may be over."""
        if self.state == "open":
            self.retry_at = self._clock.monotonic()
            self._changed()

    def half_open(self) -> None:
        """Note that a connection was made: one delivery will tell whether all is well."""
        if self.state == "open":
            self.state = "half_open"
            self._changed()

    def reset(self) -> None:
        """Note that all is well."""
        if self.state != "closed":
            logger.warning(
                "postroom: %s is available again after %.1f s. Deliveries resume",
                self.name,
                self._clock.monotonic() - self._since,
            )
            self.forget()
            self._changed()

    def forget(self) -> None:
        """Start anew, as if there had been no outage."""
        self.state, self.reason, self._pause = "closed", "", 0.0

"""Retry schedules: the delays after each refusal, as data."""

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from postroom.errors import ConfigurationError

NEXT_POLL: Final = None
"""A delay: until the next poll."""
LONGEST: Final = timedelta(days=3653)


@dataclass(frozen=True, slots=True)
class RetrySchedule:
    """The delay after each refusal in turn. After the last one the record fails, or repeats it.

    A record's own `max_retries` wins over where the schedule ends.
    """

    delays: tuple[timedelta | None, ...]
    forever: bool = False
    end: int | None = None
    """The record fails on this refusal, if not on the one after the last delay."""

    def __post_init__(self) -> None:
        delays = [delay for delay in self.delays if delay is not None]
        if not self.delays or not all(timedelta() <= delay <= LONGEST for delay in delays):
            raise ConfigurationError(
                "a retry schedule is a list of delays, none of them negative or above ten years"
            )

    @classmethod
    def seconds(cls, *delays: float | None, forever: bool = False) -> "RetrySchedule":
        """Write a schedule in seconds; None waits for the next poll."""
        each = (None if delay is None else timedelta(seconds=delay) for delay in delays)
        return cls(tuple(each), forever)

    @classmethod
    def polls(cls) -> "RetrySchedule":
        """At every poll, until the record's own limit."""
        return cls((NEXT_POLL,), forever=True)

    @classmethod
    def tiers(cls) -> "RetrySchedule":
        """Three times at the next poll, three after 30 s, three after 5 minutes; then it fails."""
        return cls.seconds(*[NEXT_POLL] * 3, *[30] * 3, *[300] * 3)

    @classmethod
    def backoff(cls) -> "RetrySchedule":
        """At once, after 1, 2, 5, 15, 60 and 300 s, then every 900 s until the record's limit."""
        return cls.seconds(0, 1, 2, 5, 15, 60, 300, 900, forever=True)

    def ending_after(self, refusals: int) -> "RetrySchedule":
        """Return the same schedule with another end, for records without a limit of their own."""
        if refusals < 1:
            raise ConfigurationError("a record fails after 1 refusal or more.")
        return replace(self, end=refusals)

    def limit(self, max_retries: int | None) -> int | None:
        """Return the number of the refusal that fails a record; None if it never fails."""
        if max_retries is not None:
            return max_retries
        if self.end is not None:
            return self.end
        return None if self.forever else len(self.delays) + 1

    def delay(self, refusals: int, poll_interval: timedelta) -> timedelta:
        """Return how long to wait after so many refusals."""
        delay = self.delays[min(refusals, len(self.delays)) - 1]
        return poll_interval if delay is NEXT_POLL else delay

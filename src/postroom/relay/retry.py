"""`RetrySchedule`: the delays after each refusal."""

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from postroom.errors import ConfigurationError

NEXT_POLL: Final = None
"""A delay: until the next poll."""
LONGEST: Final = timedelta(days=3653)


@dataclass(frozen=True, slots=True)
class RetrySchedule:
    """When a refused record is tried again: the delay after each refusal, in turn.

    After the last delay the record fails, or the last delay repeats. A record's own `max_retries`
    wins over the end of the schedule. Raises ConfigurationError for a negative delay, or for one
    above ten years.
    """

    delays: tuple[timedelta | None, ...]
    """None waits for the next poll."""
    forever: bool = False
    """Whether the last delay repeats."""
    end: int | None = None
    """The record fails on this refusal, if it has no `max_retries`."""

    def __post_init__(self) -> None:
        delays = [delay for delay in self.delays if delay is not None]
        if not self.delays or not all(timedelta() <= delay <= LONGEST for delay in delays):
            raise ConfigurationError(
                "a retry schedule is a list of delays, none of them negative or above ten years"
            )

    @classmethod
    def seconds(cls, *delays: float | None, forever: bool = False) -> "RetrySchedule":
        """Return a schedule of delays in seconds; None waits for the next poll."""
        each = (None if delay is None else timedelta(seconds=delay) for delay in delays)
        return cls(tuple(each), forever)

    @classmethod
    def polls(cls) -> "RetrySchedule":
        """Return a schedule that tries at every poll, until the record's own limit."""
        return cls((NEXT_POLL,), forever=True)

    @classmethod
    def tiers(cls) -> "RetrySchedule":
        """Return a schedule of 9 retries: 3 at the next poll, 3 after 30 s, 3 after 5 minutes."""
        return cls.seconds(*[NEXT_POLL] * 3, *[30] * 3, *[300] * 3)

    @classmethod
    def backoff(cls) -> "RetrySchedule":
        """Return the default schedule: at once, after 1, 2, 5, 15, 60, 300 s, then every 900 s."""
        return cls.seconds(0, 1, 2, 5, 15, 60, 300, 900, forever=True)

    def ending_after(self, refusals: int) -> "RetrySchedule":
        """Return the schedule with another end, for records without `max_retries`."""
        if refusals < 1:
            raise ConfigurationError("a record fails after 1 refusal or more.")
        return replace(self, end=refusals)

    def limit(self, max_retries: int | None) -> int | None:
        """Return the number of the refusal on which a record fails; None if there is no limit."""
        if max_retries is not None:
            return max_retries
        if self.end is not None:
            return self.end
        return None if self.forever else len(self.delays) + 1

    def delay(self, refusals: int, poll_interval: timedelta) -> timedelta:
        """Return the delay after a number of refusals."""
        delay = self.delays[min(refusals, len(self.delays)) - 1]
        return poll_interval if delay is NEXT_POLL else delay

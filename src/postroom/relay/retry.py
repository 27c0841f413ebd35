"""When a record that was refused is tried again: data, and one small decision about it."""

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from postroom.errors import ConfigurationError
from postroom.publishers.base import Postponed, Refused
from postroom.record import ClaimedRecord
from postroom.store.base import Attempt

NEXT_POLL: Final = None
"""A delay: until the relay polls next."""
POSTPONED: Final = timedelta(seconds=30)
"""How long a record waits that cannot be delivered, through no fault of its own."""
LONGEST: Final = timedelta(days=3653)
MOST_RETRIES: Final = 2**31 - 1  # what the column holds
FOUND_EXHAUSTED: Final = Refused("", permanent=True)
"""For a record that was at its limit before it was tried: what its row says of it is left."""


@dataclass(frozen=True, slots=True)
class RetrySchedule:
    """The delay after each refusal in turn; then the record fails, or repeats the last for ever.

    A record's own `max_retries` wins over where the schedule ends.
    """

    delays: tuple[timedelta | None, ...]
    forever: bool = False
    end: int | None = None
    """How many refusals are one too many, if not one more than there are delays."""

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
        """Give the same schedule with another end, for records without a limit of their own."""
        if refusals < 1:
            raise ConfigurationError(f"a record fails after {refusals} refusals? One at least.")
        return replace(self, end=refusals)

    def limit(self, max_retries: int | None) -> int | None:
        """Give how many refusals are one too many, for a record with this limit of its own."""
        if max_retries is not None:
            return max_retries
        if self.end is not None:
            return self.end
        return None if self.forever else len(self.delays) + 1

    def delay(self, refusals: int, poll_interval: timedelta) -> timedelta:
        """Give how long to wait after so many refusals."""
        delay = self.delays[min(refusals, len(self.delays)) - 1]
        return poll_interval if delay is NEXT_POLL else delay


def judge(
    record: ClaimedRecord,
    refused: Refused,
    schedule: RetrySchedule,
    *,
    poll_interval: timedelta,
    holds_failed: bool,
) -> Attempt:
    """Decide what becomes of a record that was refused: tried again, and when, or failed."""
    tried = 0 if refused is FOUND_EXHAUSTED else 1
    count = min(max(record.retry_count, 0) + tried, MOST_RETRIES)
    limit = schedule.limit(record.max_retries)
    failed = refused.permanent or (limit is not None and count >= limit)
    return Attempt(
        record=record,
        reason=refused.reason,
        retry_count=count,
        delay=None if failed else schedule.delay(count, poll_interval),
        holds=holds_failed or not failed,
    )


def postpone(record: ClaimedRecord, postponed: Postponed) -> Attempt:
    """Have a record wait that cannot be delivered now: nothing is counted against it."""
    return Attempt(
        record=record,
        reason=postponed.reason,
        retry_count=record.retry_count,
        delay=POSTPONED,
        holds=True,
    )


def exhausted(record: ClaimedRecord, schedule: RetrySchedule) -> bool:
    """Tell whether a record was found at its limit already."""
    limit = schedule.limit(record.max_retries)
    return limit is not None and record.retry_count >= max(limit, 1)

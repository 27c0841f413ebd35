"""What a relay is told, checked where it is told."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, get_args

from postroom.errors import ConfigurationError
from postroom.relay.retry import RetrySchedule
from postroom.store.notify import check_channel

OnFailed = Literal["hold", "continue"]
ZERO = timedelta()


@dataclass(frozen=True, slots=True, kw_only=True)
class RelaySettings:
    """See `OutboxRelay`."""

    poll_interval: timedelta
    listen: str | None
    batch_size: int
    lanes: int
    retry: RetrySchedule
    on_failed: OnFailed
    lease: timedelta
    grace: timedelta
    retention: timedelta | None
    max_crashes: int

    def __post_init__(self) -> None:
        for name in ("poll_interval", "lease"):
            if getattr(self, name) <= ZERO:
                raise ConfigurationError(f"{name} is {getattr(self, name)}: give it some time.")
        for name in ("batch_size", "lanes", "max_crashes"):
            if getattr(self, name) < 1:
                raise ConfigurationError(f"{name} is {getattr(self, name)}. It is 1 or more.")
        for name in ("grace", "retention"):
            if (getattr(self, name) or ZERO) < ZERO:
                raise ConfigurationError(f"{name} is {getattr(self, name)}: it cannot be negative.")
        if self.listen is not None:
            check_channel(self.listen)
        if self.on_failed not in get_args(OnFailed):
            raise ConfigurationError(f"on_failed is {self.on_failed!r}: 'hold' or 'continue'.")

    @property
    def capacity(self) -> int:
        """How many records a lane holds: on their way, next of their keys, and to be settled."""
        return 4 * self.batch_size

    @property
    def keep_delivered(self) -> bool:
        """Whether delivered records stay for a while."""
        return self.retention != ZERO

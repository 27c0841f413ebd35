"""The settings of a relay, checked."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, get_args

from postroom.database.database import HEARTBEAT
from postroom.errors import ConfigurationError
from postroom.relay.retry import RetrySchedule
from postroom.wakeup.notifier import check_channel

OnFailed = Literal["hold", "continue"]
BATCH_SIZE = 100
RETENTION = timedelta(days=7)
ZERO = timedelta()


@dataclass(frozen=True, slots=True, kw_only=True)
class RelaySettings:
    """The settings of a relay; `OutboxRelay` explains them."""

    poll_interval: timedelta
    listen: str | None
    batch_size: int
    retry: RetrySchedule
    on_failed: OnFailed
    lease: timedelta
    grace: timedelta
    retention: timedelta | None
    redact: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("poll_interval", "lease"):
            if getattr(self, name) <= ZERO:
                raise ConfigurationError(f"{name} must be greater than zero.")
        if self.batch_size < 1:
            raise ConfigurationError("batch_size must be 1 or more.")
        for name in ("grace", "retention"):
            if (getattr(self, name) or ZERO) < ZERO:
                raise ConfigurationError(f"{name} must not be negative.")
        if self.listen is not None:
            check_channel(self.listen)
        if self.on_failed not in get_args(OnFailed):
            raise ConfigurationError(f"on_failed is {self.on_failed!r}: 'hold' or 'continue'.")

    @property
    def heartbeat(self) -> float:
        """The seconds between heartbeats."""
        return min(HEARTBEAT, self.lease.total_seconds() / 4)

    @property
    def keep_delivered(self) -> bool:
        """Whether delivered records stay for a while."""
        return self.retention != ZERO

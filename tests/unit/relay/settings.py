"""The settings of a relay, with defaults for tests."""

from datetime import timedelta
from typing import Any

from postroom.relay.retry import RetrySchedule
from postroom.relay.settings import RelaySettings

SECOND = timedelta(seconds=1)
GOOD: dict[str, Any] = {
    "poll_interval": 30 * SECOND,
    "listen": None,
    "batch_size": 100,
    "retry": RetrySchedule.backoff(),
    "on_failed": "hold",
    "lease": 30 * SECOND,
    "grace": 30 * SECOND,
    "retention": timedelta(days=7),
}


def relay_settings(**values: Any) -> RelaySettings:
    """Return settings; `values` are those that differ from the defaults."""
    return RelaySettings(**GOOD | values)

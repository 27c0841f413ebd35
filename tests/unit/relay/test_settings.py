"""What a relay is told, checked where it is told."""

from datetime import timedelta
from typing import Any

import pytest

from postroom.errors import ConfigurationError
from postroom.relay.retry import RetrySchedule
from postroom.relay.settings import RelaySettings

SECOND = timedelta(seconds=1)
GOOD: dict[str, Any] = {
    "poll_interval": 30 * SECOND,
    "listen": None,
    "batch_size": 100,
    "lanes": 1,
    "retry": RetrySchedule.backoff(),
    "on_failed": "hold",
    "lease": 30 * SECOND,
    "grace": 30 * SECOND,
    "retention": timedelta(days=7),
    "max_crashes": 3,
}
BAD: list[tuple[str, Any]] = [
    ("poll_interval", timedelta()),
    ("poll_interval", -SECOND),
    ("lease", timedelta()),
    ("lease", -SECOND),
    ("batch_size", 0),
    ("batch_size", -1),
    ("lanes", 0),
    ("max_crashes", 0),
    ("grace", -SECOND),
    ("retention", -SECOND),
    ("on_failed", "ignore"),
    ("listen", ""),
    ("listen", "ä" * 32),
]


@pytest.mark.parametrize(("name", "value"), BAD)
def test_what_cannot_work_is_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(ConfigurationError, match=name):
        RelaySettings(**GOOD | {name: value})


def test_the_least_that_works_is_taken() -> None:
    least = {"batch_size": 1, "max_crashes": 1, "grace": timedelta(), "lease": SECOND}
    assert RelaySettings(**GOOD | least).capacity == 4


@pytest.mark.requirement("C14")
@pytest.mark.parametrize(
    ("retention", "kept"), [(timedelta(days=7), True), (None, True), (timedelta(), False)]
)
def test_retention_is_a_while_for_ever_or_not_at_all(
    retention: timedelta | None, kept: bool
) -> None:
    assert RelaySettings(**GOOD | {"retention": retention}).keep_delivered is kept

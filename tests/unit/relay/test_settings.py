"""The settings of a relay are checked when it is made."""

from datetime import timedelta
from typing import Any

import pytest

from postroom.database.database import HEARTBEAT
from postroom.errors import ConfigurationError
from tests.unit.relay.settings import SECOND, relay_settings

BAD: list[tuple[str, Any]] = [
    ("poll_interval", timedelta()),
    ("poll_interval", -SECOND),
    ("lease", timedelta()),
    ("lease", -SECOND),
    ("batch_size", 0),
    ("batch_size", -1),
    ("grace", -SECOND),
    ("retention", -SECOND),
    ("on_failed", "ignore"),
    ("listen", ""),
    ("listen", "ä" * 32),
]


@pytest.mark.parametrize(("name", "value"), BAD)
def test_what_cannot_work_is_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(ConfigurationError, match=name):
        relay_settings(**{name: value})


def test_the_least_that_works_is_accepted() -> None:
    settings = relay_settings(batch_size=1, grace=timedelta(), lease=SECOND)
    assert settings.batch_size == 1


@pytest.mark.parametrize(("lease", "heartbeat"), [(2, 0.5), (8, 2.0), (3600, HEARTBEAT)])
def test_leases_are_renewed_four_times_before_they_end(lease: float, heartbeat: float) -> None:
    assert relay_settings(lease=lease * SECOND).heartbeat == heartbeat


@pytest.mark.requirement("C14")
@pytest.mark.parametrize(
    ("retention", "kept"), [(timedelta(days=7), True), (None, True), (timedelta(), False)]
)
def test_retention_is_a_while_for_ever_or_not_at_all(
    retention: timedelta | None, kept: bool
) -> None:
    assert relay_settings(retention=retention).keep_delivered is kept

"""Retry schedules: the delays after each refusal, and where they end."""

from datetime import timedelta

import pytest

from postroom.errors import ConfigurationError
from postroom.relay.retry import RetrySchedule


@pytest.mark.parametrize("seconds", [(), (-1,), (5, None, -0.001), (10 * 366 * 86400,)])
def test_a_schedule_without_delays_or_with_impossible_ones_is_refused(
    seconds: tuple[float | None, ...],
) -> None:
    with pytest.raises(ConfigurationError, match="retry schedule"):
        RetrySchedule.seconds(*seconds)


def test_schedules_are_values() -> None:
    assert RetrySchedule.seconds(1, None) == RetrySchedule((timedelta(seconds=1), None))
    assert hash(RetrySchedule.tiers()) == hash(RetrySchedule.tiers())


@pytest.mark.parametrize("refusals", [0, -1])
def test_a_schedule_ends_after_one_refusal_at_least(refusals: int) -> None:
    with pytest.raises(ConfigurationError, match="1 refusal or more"):
        RetrySchedule.tiers().ending_after(refusals)
    assert RetrySchedule.tiers().limit(None) == 10

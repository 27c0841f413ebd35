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


@pytest.mark.requirement("C11", "D7")
@pytest.mark.parametrize(
    ("schedule", "delays"),
    [
        (RetrySchedule.tiers(), [7, 7, 7, 30, 30, 30, 300, 300, 300]),
        (RetrySchedule.backoff(), [0, 1, 2, 5, 15, 60, 300, 900, 900, 900]),
    ],
)
def test_a_schedule_says_how_long_to_wait_after_each_refusal(
    schedule: RetrySchedule, delays: list[int]
) -> None:
    poll_interval = timedelta(seconds=7)
    found = [schedule.delay(each, poll_interval) for each in range(1, len(delays) + 1)]
    assert found == [timedelta(seconds=each) for each in delays]

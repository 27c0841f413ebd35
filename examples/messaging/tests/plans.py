"""Moments and schedules, in few words."""

from datetime import UTC, datetime

from hypothesis import strategies as st

from messaging.schedule import Schedule, in_utc

VIENNA = "Europe/Vienna"


def at(text: str, zone: str = "UTC") -> datetime:
    return in_utc(datetime.fromisoformat(text), zone)


def plan(
    rule: str | None, start: datetime, zone: str = VIENNA, end: datetime | None = None
) -> Schedule:
    return Schedule(
        scheduled_at=start,
        timezone=zone,
        is_recurring=rule is not None,
        recurrence_rule=rule,
        recurrence_end_at=end,
    )


MOMENTS = st.integers(1_767_225_600, 1_893_456_000).map(
    lambda seconds: datetime.fromtimestamp(seconds, UTC)
)
"""From 2026 to 2030."""

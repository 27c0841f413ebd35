"""What becomes of a record: delivered, retry, postponed or failed. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from postroom.publishers.base import Delivered, Outcome, Postponed, Refused
from postroom.relay.retry import RetrySchedule
from postroom.relay.settings import RelaySettings
from postroom.store.base import Attempt, HeldRecord, Settlement, Verdict

MOST_RETRIES: Final = 2**31 - 1  # what the column holds


@dataclass(frozen=True, slots=True)
class Quarantined(Postponed):
    """An outcome: workers died while they delivered the record."""


def decide(held: HeldRecord, outcome: Refused | Postponed, settings: RelaySettings) -> Attempt:
    """Decide what becomes of a record that was not delivered: a retry, and when, or failed."""
    count, reason = held.record.retry_count, outcome.reason
    if isinstance(outcome, Postponed):
        is_quarantined, delay = isinstance(outcome, Quarantined), outcome.delay
        verdict = Verdict.QUARANTINED if is_quarantined else Verdict.POSTPONED
        return Attempt(record=held, verdict=verdict, reason=reason, retry_count=count, delay=delay)
    found = _is_at_limit(held, settings.retry)  # nothing was tried, and the row says why
    count = min(max(count, 0) + (0 if found else 1), MOST_RETRIES)
    limit = settings.retry.limit(held.record.max_retries)
    failed = outcome.permanent or (limit is not None and count >= limit)
    return Attempt(
        record=held,
        verdict=Verdict.FAILED if failed else Verdict.RETRY,
        reason=None if found else reason,
        retry_count=count,
        delay=timedelta() if failed else settings.retry.delay(count, settings.poll_interval),
        blocks_key=settings.on_failed == "hold" or not failed,
        error=outcome.error,
    )


def settlement_of(
    outcomes: Mapping[HeldRecord, Outcome], settings: RelaySettings, worker: str
) -> Settlement:
    """Return what to write about the outcomes of deliveries."""
    return Settlement(
        worker=worker,
        delivered=[each for each, outcome in outcomes.items() if isinstance(outcome, Delivered)],
        attempts=[
            decide(each, outcome, settings)
            for each, outcome in outcomes.items()
            if not isinstance(outcome, Delivered)
        ],
    )


def refusal_before_delivery(held: HeldRecord, schedule: RetrySchedule) -> Refused | None:
    """Return why a record is not even to be sent: a bad row, or a limit reached before."""
    if held.fault is None and not held.record.retry_count:  # nearly always
        return None
    if held.fault is not None:
        return Refused(f"its row cannot be read as a record: {held.fault}", permanent=True)
    if _is_at_limit(held, schedule):
        return Refused("it was found at its limit", permanent=True)
    return None


def _is_at_limit(held: HeldRecord, schedule: RetrySchedule) -> bool:
    """Return whether a good record had reached its limit before it could be sent."""
    limit = schedule.limit(held.record.max_retries)
    return held.fault is None and limit is not None and held.record.retry_count >= max(limit, 1)

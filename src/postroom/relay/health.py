"""`relay.health`, and counts of what the relay has done."""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from postroom.publishers.base import Publisher, ReportsWaitingRoutes, WaitingRoute
from postroom.store.base import Attempt, HeldRecord, Verdict

logger = logging.getLogger("postroom.relay")

LOG_EVERY = 60.0
ALL_REFUSED = 3
"""A route counts as refused after so many refusals of its event type without a delivery ..."""
REFUSED_FOR = 5.0
"""... in so many seconds at least."""
Problem = tuple[str, float]
"""What keeps a relay from delivering, and for how many seconds it has."""
REMEMBERED = 300.0
"""Seconds for which a refusal is held against its route."""


class HealthStatus(StrEnum):
    """The status of a relay."""

    OK = "ok"
    """It runs, and delivers what there is to deliver."""
    DEGRADED = "degraded"
    """It runs, and something keeps it from delivering."""
    STOPPED = "stopped"
    """It does not run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """The health of a relay."""

    status: HealthStatus
    reason: str | None = None
    """Why it is not OK; None for a relay that was stopped without an error."""
    seconds: float | None = None
    """For how many seconds it has been degraded."""
    waiting_routes: tuple[WaitingRoute, ...] = ()
    """The routes that cannot be used at the moment."""


@dataclass(slots=True)
class Tally:
    """Counts of what a relay has done."""

    delivered: int = 0
    """Records delivered."""
    retried: int = 0
    """Refusals of records that are tried again."""
    postponed: int = 0
    """Postponements: their route cannot be used."""
    failed: int = 0
    """Records that failed."""
    oldest: float = 0.0
    """The longest time, in seconds, from the commit of a record to its delivery."""
    refusals: dict[str, tuple[int, float, float, str]] = field(default_factory=dict, repr=False)
    """By event type without a delivery since: how many, since when, until the next try, and why."""
    _logged: tuple[float, tuple[int, int, int]] | None = field(default=None, repr=False)

    def __str__(self) -> str:
        rest = f"{self.retried} refused, {self.postponed} postponed, {self.failed} failed"
        return f"{self.delivered} delivered, {rest}"

    def add_deliveries(self, delivered: Sequence[HeldRecord], shift: timedelta) -> None:
        """Count deliveries."""
        if not delivered:
            return
        self.delivered += len(delivered)
        oldest = min(each.record.created_at for each in delivered)
        waited = datetime.now(UTC) + shift - oldest
        self.oldest = max(self.oldest, waited.total_seconds())
        for each in delivered:
            self.refusals.pop(each.record.event_type, None)

    def add_attempt(self, attempt: Attempt, now: float) -> None:
        """Count an attempt that did not deliver."""
        match attempt.verdict:
            case Verdict.RETRY:
                self.retried += 1
            case Verdict.POSTPONED | Verdict.QUARANTINED:
                self.postponed += 1
            case Verdict.FAILED:
                self.failed += 1
        event_type = attempt.record.record.event_type
        count, since, *_ = self.refusals.get(event_type, (0, now))
        until = now + attempt.delay.total_seconds()
        self.refusals[event_type] = count + 1, since, until, attempt.reason or ""

    def problem(self, now: float) -> Problem | None:
        """Return what keeps records from being delivered, and for how many seconds."""
        for event_type, (count, since, until, reason) in self.refusals.items():
            refused_for = min(now, until) - since
            if count >= ALL_REFUSED and refused_for >= REFUSED_FOR and now - until < REMEMBERED:
                return f"no {event_type} record is delivered: {reason}", now - since
        return None

    def log_progress(self, now: float, *, busy: bool = False) -> None:
        """Log, once a minute while there is work, what was done in that minute."""
        done = self.delivered, self.retried + self.failed, self.postponed
        self._logged = since, before = self._logged or (now, done)
        if now - since < LOG_EVERY:
            return
        self._logged = now, done
        if busy or done != before:
            text = "postroom: %d delivered, %d refused, %d postponed in %.0f s, oldest took %.1f s"
            counts = (after - earlier for after, earlier in zip(done, before, strict=True))
            logger.info(text, *counts, now - since, self.oldest)
        self.oldest = 0.0


def health_of(
    outages: Iterable[Problem | None], publisher: Publisher, tally: Tally, now: float
) -> Health:
    """Return the health of a relay that runs: its first problem, and the routes that wait."""
    reports = publisher if isinstance(publisher, ReportsWaitingRoutes) else None
    waiting = () if reports is None else tuple(reports.waiting_routes())
    routes = ((str(each), each.seconds) for each in waiting if each.seconds >= REFUSED_FOR)
    for reason, seconds in filter(None, (*outages, *routes, tally.problem(now))):
        degraded = HealthStatus.DEGRADED
        return Health(status=degraded, reason=reason, seconds=seconds, waiting_routes=waiting)
    return Health(status=HealthStatus.OK, waiting_routes=waiting)

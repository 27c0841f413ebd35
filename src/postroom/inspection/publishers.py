"""Where the workers deliver to, and whether that works, as they report it. Pure: no I/O."""

from collections.abc import Iterable
from dataclasses import dataclass

from postroom.inspection.wording import counted, duration
from postroom.inspection.workers import Report, Worker


@dataclass(frozen=True, slots=True)
class PublisherState:
    """A publisher of one or more workers, and whether it works."""

    name: str
    is_ok: bool
    text: str
    """`ok`, or the problem."""

    def __str__(self) -> str:
        return f"{self.name}: {self.text}"


def publisher_states(workers: Iterable[Worker]) -> tuple[PublisherState, ...]:
    """Return what the workers that are alive report, each state once."""
    reports = (each.report for each in workers if each.is_alive)
    return tuple(dict.fromkeys(_state(report) for report in reports if report is not None))


def _state(report: Report) -> PublisherState:
    name = report.publisher or "publisher"
    if (outage := report.publisher_outage) is not None:
        since = duration(report.reported_at - outage.since)
        return PublisherState(name, False, f"unavailable for {since}: {outage.reason}")
    if report.waiting_routes:
        routes = counted(len(report.waiting_routes), "route")
        return PublisherState(name, False, f"{routes} cannot be used")
    return PublisherState(name, True, "ok")

"""The log lines about records that were not delivered, limited in number."""

import logging
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from postroom.store.base import Attempt, Verdict

logger = logging.getLogger("postroom.relay")

MINUTE: Final = 60.0
FULL_LINES: Final = {Verdict.RETRY: 10, Verdict.FAILED: 100}
"""Lines in full per minute for each event type and kind of error. The rest are counted."""
MOST_LINES: Final = 500
"""Lines in full per minute in all."""
LISTED: Final = 5
"""Event types that a summary names."""
SUMMARIES: Final = {
    Verdict.RETRY: "postroom: %d more records were refused in %.0f s (%s). See: postroom status",
    Verdict.FAILED: "postroom: gave up on %d more records in %.0f s (%s). See: postroom failures",
}
LEVELS: Final = {Verdict.RETRY: logging.ERROR, Verdict.FAILED: logging.CRITICAL}


@dataclass(slots=True)
class RefusalLog:
    """Logs refused and failed records: the first ones of a minute in full, the others as counts."""

    _since: float | None = None
    _seen: Counter[tuple[Verdict, str, str]] = field(default_factory=Counter)
    _lines: int = 0
    _left_out: dict[Verdict, Counter[str]] = field(default_factory=dict)

    def add(self, attempt: Attempt, now: float) -> None:
        """Log a record that was not delivered, once that is written."""
        if attempt.verdict is Verdict.POSTPONED:
            _log_postponed(attempt)  # its route is a warning
            return
        self.end_minute(now)
        if self._since is None:
            self._since = now
        event_type = attempt.record.record.event_type
        kind = attempt.verdict, event_type, type(attempt.error).__name__
        self._seen[kind] += 1
        if self._seen[kind] <= FULL_LINES[attempt.verdict] and self._lines < MOST_LINES:
            self._lines += 1
            _log_refused(attempt)
        else:
            self._left_out.setdefault(attempt.verdict, Counter())[event_type] += 1

    def end_minute(self, now: float) -> None:
        """Log what was left out, if the minute is over."""
        if self._since is not None and now - self._since >= MINUTE:
            self.summarize(now)

    def summarize(self, now: float) -> None:
        """Log how many records were left out since the last summary, and begin anew."""
        seconds = 0.0 if self._since is None else now - self._since
        for verdict, counts in self._left_out.items():
            about = {"records": counts.total(), "duration": round(seconds, 3)}
            arguments = counts.total(), seconds, _most_common(counts)
            logger.log(LEVELS[verdict], SUMMARIES[verdict], *arguments, extra=about)
        self._since, self._lines = None, 0
        self._seen.clear()
        self._left_out.clear()


def _log_refused(attempt: Attempt) -> None:
    record, count = attempt.record.record, attempt.retry_count
    extra, error = _fields(attempt), attempt.error
    if attempt.verdict is Verdict.FAILED:
        text = "postroom: gave up on %s (attempt %d): %s"
        reason = attempt.reason or "it was found at its limit"
        logger.critical(text, record, count, reason, extra=extra, exc_info=error)
    else:
        text = "postroom: %s was refused (attempt %d), next try in %g s: %s"
        arguments = record, count, _seconds(attempt), attempt.reason
        logger.error(text, *arguments, extra=extra, exc_info=error)


def _log_postponed(attempt: Attempt) -> None:
    text = "postroom: %s is postponed, next try in %g s: %s"
    arguments = attempt.record.record, _seconds(attempt), attempt.reason
    if logger.isEnabledFor(logging.DEBUG):
        logger.debug(text, *arguments, extra=_fields(attempt))


def _seconds(attempt: Attempt) -> float:
    return round(attempt.delay.total_seconds(), 1)


def _fields(attempt: Attempt) -> dict[str, Any]:
    """Return the fields of a line about a record, for structured logs."""
    record = attempt.record.record
    return {
        "record_id": str(record.id),
        "event_type": record.event_type,
        "key": None if record.key is None else str(record.key),
        "attempt": attempt.retry_count,
        "partition": record.partition,
        "duration": round(attempt.record.seconds, 3),
        "retry_in": None if attempt.verdict is Verdict.FAILED else attempt.delay.total_seconds(),
    }


def _most_common(counts: Counter[str]) -> str:
    named = [f"{count} {event_type}" for event_type, count in counts.most_common(LISTED)]
    rest = len(counts) - len(named)
    return ", ".join([*named, *([f"{rest} more event types"] if rest else [])])

"""The log lines about records that were not delivered, limited in number."""

import logging
from collections import Counter
from dataclasses import dataclass, field
from math import inf
from typing import Any, Final

from postroom.store.base import Attempt, Verdict

logger = logging.getLogger("postroom.relay")

MINUTE: Final = 60.0
FULL_LINES: Final = {Verdict.RETRY: 10, Verdict.FAILED: 100}
"""Lines in full per minute for each event type and kind of error. The rest are counted."""
MOST_LINES: Final = 500
"""Lines in full per minute in all."""
SUMMARIES: Final = {
    Verdict.RETRY: "postroom: %d more records were refused in %.0f s (%s). See: postroom status",
    Verdict.FAILED: "postroom: gave up on %d more records in %.0f s (%s). See: postroom failures",
}
LEVELS: Final = {
    Verdict.RETRY: logging.ERROR,
    Verdict.FAILED: logging.CRITICAL,
    Verdict.POSTPONED: logging.DEBUG,  # its route is a warning
    Verdict.QUARANTINED: logging.CRITICAL,
}
LINES: Final = {
    Verdict.RETRY: "postroom: %(record)s was refused (attempt %(attempt)d), next try in"
    " %(delay)g s: %(reason)s",
    Verdict.FAILED: "postroom: gave up on %(record)s (attempt %(attempt)d): %(reason)s",
    Verdict.POSTPONED: "postroom: %(record)s is postponed, next try in %(delay)g s: %(reason)s",
    Verdict.QUARANTINED: "postroom: quarantined %(record)s, next try in %(delay)g s: %(reason)s",
}


@dataclass(slots=True)
class RefusalLog:
    """Logs refused and failed records: the first ones of a minute in full, the others as counts."""

    _since: float = inf  # the first record of this minute
    _seen: Counter[tuple[Verdict, str, str]] = field(default_factory=Counter)
    _lines: int = 0
    _left_out: dict[Verdict, Counter[str]] = field(default_factory=dict)

    def add(self, attempt: Attempt, now: float) -> None:
        """Log a record that was not delivered, once that is written."""
        if attempt.verdict not in FULL_LINES:
            _log(attempt)
            return
        self.end_minute(now)
        self._since = min(now, self._since)
        event_type = attempt.record.record.event_type
        kind = attempt.verdict, event_type, type(attempt.error).__name__
        self._seen[kind] += 1
        if self._seen[kind] <= FULL_LINES[attempt.verdict] and self._lines < MOST_LINES:
            self._lines += 1
            _log(attempt)
        else:
            self._left_out.setdefault(attempt.verdict, Counter())[event_type] += 1

    def end_minute(self, now: float) -> None:
        """Log what was left out, if the minute is over."""
        if now - self._since >= MINUTE:
            self.summarize(now)

    def summarize(self, now: float) -> None:
        """Log how many records were left out since the last summary, and begin anew."""
        seconds = now - self._since
        for verdict, counts in self._left_out.items():
            about = {"records": counts.total(), "duration": round(seconds, 3)}
            arguments = counts.total(), seconds, _most_common(counts)
            level = logging.ERROR if verdict is Verdict.RETRY else logging.CRITICAL
            logger.log(level, SUMMARIES[verdict], *arguments, extra=about)
        self._since, self._lines = inf, 0
        self._seen.clear()
        self._left_out.clear()


def _log(attempt: Attempt) -> None:
    verdict = attempt.verdict
    if not logger.isEnabledFor(LEVELS[verdict]):
        return
    values = {
        "record": attempt.record.record,
        "attempt": attempt.retry_count,
        "delay": round(attempt.delay.total_seconds(), 1),
        "reason": attempt.reason or "it was found at its limit",
    }
    extra, error = _fields(attempt), attempt.error
    logger.log(LEVELS[verdict], LINES[verdict], values, extra=extra, exc_info=error)


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
    """Return the five most frequent event types, and how many there are besides."""
    named = [f"{count} {event_type}" for event_type, count in counts.most_common(5)]
    rest = len(counts) - len(named)
    return ", ".join([*named, *([f"{rest} more event types"] if rest else [])])

"""When a scheduled message is due: pure decisions about rules, zones and the next time."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Final
from zoneinfo import ZoneInfo, available_timezones

from dateutil.rrule import rrule, rrulestr

from messaging.errors import UnprocessableError

FREQUENCIES: Final = ("DAILY", "WEEKLY", "MONTHLY", "YEARLY")
# The time of day is that of `scheduled_at`: with BYHOUR and the like, one rule could be a million
# times a day.
PARTS: Final = (
    *("FREQ", "INTERVAL", "COUNT", "UNTIL", "WKST", "BYSETPOS"),
    *("BYDAY", "BYMONTHDAY", "BYYEARDAY", "BYWEEKNO", "BYMONTH"),
)
PART: Final = re.compile(r"([A-Z]+)=([A-Z0-9,+-]+)")
UNTIL: Final = re.compile(r"\d{8}T\d{6}Z")
ZERO: Final = re.compile(r"[+-]?0+")
LONGEST_RULE: Final = 200
MOST_APART: Final = 1000
POSITIONS: Final = {"WEEKLY": 7, "MONTHLY": 31, "YEARLY": 366}
"""The largest BYSETPOS by FREQ: the days of its period. A day has one time, so DAILY has none."""
MOST_POSITIONS: Final = 10
FIRST_YEAR, LAST_YEAR = 1970, 2200
FARTHEST: Final = timedelta(days=3653)
"""How far ahead a message can be planned."""
CYCLE: Final = 28
"""Years after which weekdays and leap years repeat, between two years like 2100."""
LAST_CYCLE: Final = range(9999 - 2 * CYCLE, 9999 - CYCLE)
"""The start of a rule is moved to one of these years; see `_comes_to_pass`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """When a message is sent: once, or by a rule (RFC 5545) in the wall time of a zone."""

    scheduled_at: datetime
    timezone: str
    is_recurring: bool = False
    recurrence_rule: str | None = None
    recurrence_end_at: datetime | None = None

    def check_start(self, now: datetime) -> None:
        """Raise UnprocessableError for a start in the past, or too far ahead."""
        if not now <= self.scheduled_at <= now + FARTHEST:
            raise UnprocessableError("scheduled_at", "is in the past, or more than ten years ahead")

    def check(self) -> None:
        """Raise UnprocessableError, naming the field, where one part does not go with another."""
        if self.is_recurring != (self.recurrence_rule is not None):
            raise UnprocessableError("is_recurring", "is true with a recurrence_rule, else false")
        if self.recurrence_end_at is not None and not self.is_recurring:
            raise UnprocessableError("recurrence_end_at", "is for a message that recurs")
        if self.recurrence_end_at is not None and self.recurrence_end_at <= self.scheduled_at:
            raise UnprocessableError("recurrence_end_at", "is not after scheduled_at")
        if self.recurrence_rule and not _comes_to_pass(self.recurrence_rule, self._start):
            raise UnprocessableError(
                "recurrence_rule", f"does not come to pass within {CYCLE} years"
            )

    def due(self, now: datetime) -> datetime:
        """Return the next time. Raises UnprocessableError if there is none left."""
        trigger = self.next_trigger(now)
        if trigger is None:
            raise UnprocessableError("scheduled_at", "the last time is over: give it a new one")
        return trigger

    def next_trigger(self, now: datetime) -> datetime | None:
        """Return the first time from `now` on, in UTC; None if there is none left."""
        if self.recurrence_rule is None:
            return self.scheduled_at if self.scheduled_at >= now else None
        rule = _rule(self.recurrence_rule, self._start)
        if self.scheduled_at >= now and next(iter(rule), None) == self._start:
            return self.scheduled_at  # else an hour early, where it is in the hour that comes twice
        moment = rule.after(max(now, self.scheduled_at), inc=True)
        if moment is None or (self.recurrence_end_at and moment > self.recurrence_end_at):
            return None
        return moment.astimezone(UTC)

    @property
    def _start(self) -> datetime:
        return self.scheduled_at.astimezone(ZoneInfo(self.timezone))


def check_timezone(name: str) -> str:
    """Return the name of a zone. Raises ValueError if it is unknown."""
    if name not in _zones():
        raise ValueError(f"there is no time zone {name!r}; one is Europe/Vienna")
    return name


def in_utc(moment: datetime, timezone: str = "UTC") -> datetime:
    """Return a moment in UTC, to the second; without an offset it is the time of the zone."""
    moment = moment.replace(microsecond=0)  # a rule knows of no fractions
    return (moment if moment.tzinfo else moment.replace(tzinfo=ZoneInfo(timezone))).astimezone(UTC)


def check_moment(moment: datetime) -> datetime:
    """Return a moment. Raises ValueError if its year is out of range."""
    if not FIRST_YEAR <= moment.year <= LAST_YEAR:
        raise ValueError(f"the year is between {FIRST_YEAR} and {LAST_YEAR}")
    return moment


def check_rule(text: str) -> str:
    """Return a recurrence rule. Raises ValueError if it is not one, or not an accepted one."""
    _rule(text, datetime.now(UTC))
    return text


def _rule(text: str, start: datetime) -> rrule:
    parts = _parts(text)
    if parts.get("FREQ") not in FREQUENCIES:
        raise ValueError(f"FREQ is one of {', '.join(FREQUENCIES)}")
    try:
        numbers = {name: int(parts.get(name, "1")) for name in ("INTERVAL", "COUNT")}
        rule = rrulestr(text, dtstart=start)
    except (ValueError, TypeError, LookupError, OverflowError) as error:
        raise ValueError(f"not a rule of RFC 5545: {error}") from error
    if not 1 <= numbers["INTERVAL"] <= MOST_APART or numbers["COUNT"] < 1:
        raise ValueError(f"INTERVAL is between 1 and {MOST_APART}, COUNT is 1 or more")
    _check_positions(parts)
    assert isinstance(rule, rrule)  # a set of them takes more than one line
    return rule


def _check_positions(parts: dict[str, str]) -> None:
    # dateutil goes through the days of a period once for each position, and through all periods
    # until one has it: 45 positions of a day, which has one time, took it 10 s.
    if "BYSETPOS" not in parts:
        return
    positions = [int(each) for each in parts["BYSETPOS"].split(",")]
    most = POSITIONS.get(parts["FREQ"])
    if most is None:
        raise ValueError("BYSETPOS is for WEEKLY, MONTHLY and YEARLY")
    if len(positions) > MOST_POSITIONS or any(abs(each) > most for each in positions):
        raise ValueError(
            f"BYSETPOS has up to {MOST_POSITIONS} numbers, with {parts['FREQ']} from 1 to {most}"
            " or negative"
        )


def _comes_to_pass(text: str, start: datetime) -> bool:
    # dateutil looks for the 30th of February until the year 9999, whatever UNTIL says. Therefore
    # the start is moved to a late year whose weekdays and leap years are the same: the search
    # then ends after two cycles at most, some 20,000 days.
    parts = [part for part in text.split(";") if not part.startswith(("COUNT=", "UNTIL="))]
    rule = _rule(";".join(parts), _in_last_cycle(start))
    try:
        return any(rule)
    except (ValueError, LookupError):  # what dateutil makes of the 53rd Monday of a month
        return False


def _in_last_cycle(start: datetime) -> datetime:
    """Return the same time of the year in one of the last years with the same calendar."""
    wall = start.replace(tzinfo=None)
    same = (wall.replace(year=year) for year in LAST_CYCLE if year % 4 == wall.year % 4)
    return next(each for each in same if each.weekday() == wall.weekday())


def _parts(text: str) -> dict[str, str]:
    if len(text) > LONGEST_RULE:
        raise ValueError(f"a rule has up to {LONGEST_RULE} characters")
    found = [PART.fullmatch(part) for part in text.split(";")]
    parts = {match[1]: match[2] for match in found if match}
    if len(parts) < len(found) or not parts.keys() <= set(PARTS):
        raise ValueError(f"a rule is like FREQ=WEEKLY;BYDAY=MO,TH, of {', '.join(PARTS)}")
    if any(ZERO.fullmatch(each) for value in parts.values() for each in value.split(",")):
        raise ValueError("no number of a rule is 0")
    if "UNTIL" in parts and not UNTIL.fullmatch(parts["UNTIL"]):
        raise ValueError("UNTIL is a moment in UTC, like 20270131T120000Z")
    return parts


@cache
def _zones() -> frozenset[str]:
    return frozenset(available_timezones()) - {"Factory", "localtime"}  # of no place

"""Words for ages, times, counts and keys; results as JSON."""

import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from postroom.record import Key

UNITS: Final = ((86400, "d"), (3600, "h"), (60, "min"))
AGE_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
LONGEST_AGE: Final = timedelta(days=365_000)
"""Databases know no time that is much longer ago."""
AGE: Final = re.compile(rf"([0-9]+(?:\.[0-9]+)?)\s*([{''.join(AGE_UNITS)}])")


def duration(time: timedelta) -> str:
    """Return a duration as text, in its largest unit: 4 min, 3 h, 0.4 s."""
    seconds = abs(time.total_seconds())
    for size, unit in UNITS:
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"


def counted(count: int, noun: str, *, at_least: bool = False) -> str:
    """Return a count as text: 1 record, 1,200 records, at least 10,000 records."""
    number = f"{'at least ' if at_least else ''}{count:,}"
    return f"{number} {noun}{'' if count == 1 else 's'}"


def key_text(key: Key) -> str:
    """Return a key as commands take it: order/7, or 7 for a key without a type."""
    return str(key)


def parse_key(text: str) -> Key:
    """Return the key of a text such as order/7. The first `/` ends the type."""
    before, slash, after = text.partition("/")
    return Key(before, after) if slash else Key("", text)


def parse_age(text: str) -> timedelta:
    """Return the duration of a text such as 30s, 15m, 2h, 7d or 1w.

    Raises ValueError. Its text ends a sentence that begins with "it has to be".
    """
    match = AGE.fullmatch(text.strip().lower())
    if match is None:
        raise ValueError("a number and a unit, like 30s, 15m, 2h, 7d or 1w")
    try:
        age = timedelta(**{AGE_UNITS[match[2]]: float(match[1])})
    except OverflowError:
        age = timedelta.max
    if age > LONGEST_AGE:
        raise ValueError("a length of time below 1000 years")
    return age


def parse_time(text: str) -> datetime:
    """Return the time of a text in ISO 8601; UTC without a zone. Raises ValueError."""
    try:
        read = datetime.fromisoformat(text.strip())
        return read.astimezone(UTC) if read.tzinfo else read.replace(tzinfo=UTC)
    except ValueError:
        raise ValueError("a time like 2026-01-31, or 2026-01-31T12:00:00Z") from None
    except OverflowError:
        raise ValueError("a time from the year 1 to the year 9999") from None


def as_json(value: Any) -> Any:
    """Return a result as JSON values: times in ISO 8601, durations as seconds, keys as text."""
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: as_json(getattr(value, each.name)) for each in fields(value)}
    match value:
        case Key():
            return key_text(value)
        case datetime():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case UUID():
            return str(value)
        case Mapping():
            return {str(name): as_json(each) for name, each in value.items()}
        case list() | tuple() | set() | frozenset():
            return [as_json(each) for each in value]
    return value

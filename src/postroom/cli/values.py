"""Reads the values of options, whether given as text or, in a file, as TOML's own types."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar

import typer

from postroom.redaction import is_pattern

T = TypeVar("T")

FOREVER: Final = "forever"
SCHEDULES: Final = ("tiers", "backoff", "polls")


class BadValue(typer.BadParameter):
    """Raised when a value cannot be used. `reporting` adds which source it came from."""

    def __init__(self, value: Any, form: str, *, secret: bool = False) -> None:
        shown = "" if secret else f" is {value!r}"
        super().__init__(f"{shown}: it has to be {form}.")


def text(value: Any) -> str:
    """Read a text that is not empty."""
    if not isinstance(value, str) or not value:
        raise BadValue(value, "a text")
    return value


def secret(value: Any) -> str:
    """Read a text that is never shown, such as a URL with a password."""
    if not isinstance(value, str) or not value:
        raise BadValue(value, "a text", secret=True)
    return value


def text_or_none(value: Any) -> str | None:
    """Read a text; an empty one means none."""
    if not isinstance(value, str):
        raise BadValue(value, "a text")
    return value or None


def redact(value: Any) -> tuple[str, ...]:
    """Read names of payload fields, as a list or between commas."""
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not all(map(is_pattern, names)):
        raise BadValue(value, "names of fields like email,card.number,address.*")
    return tuple(each.strip() for each in names)


def seconds(value: Any) -> float:
    """Read a number of seconds above 0."""
    return _number(value, "a number of seconds, above 0", 0.001, 1e9)


def seconds_or_zero(value: Any) -> float:
    """Read a number of seconds."""
    return _number(value, "a number of seconds, 0 or more", 0, 1e9)


def count(value: Any) -> int:
    """Read a whole number from 1 on."""
    return _whole(value, "a whole number, 1 or more", 1, 2**31 - 1)


def days(value: Any) -> float | None:
    """Read a number of days, or `forever`: None."""
    if value == FOREVER:
        return None
    return _number(value, f"a number of days, 0 or more, or {FOREVER!r}", 0, 100_000)


def port(value: Any) -> int:
    """Read the number of a TCP port."""
    return _whole(value, "a port, from 1 to 65535", 1, 65535)


def on_failed(value: Any) -> str:
    """Read what a failed record does to the later ones of its key."""
    return _one_of(value, "hold", "continue")


def dialect(value: Any) -> str:
    """Read the name of a kind of database."""
    return _one_of(value, "postgresql", "sqlite")


def log_format(value: Any) -> str:
    """Read how logs are written."""
    return _one_of(value, "text", "json")


def log_level(value: Any) -> str:
    """Read from which level on logs are written."""
    return _one_of(str(value).upper(), "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


def schedule(value: Any) -> str | tuple[float, ...]:
    """Read the name of a retry schedule, or its delays in seconds."""
    if value in SCHEDULES:
        return str(value)
    delays = value.split(",") if isinstance(value, str) else value
    form = f"one of {', '.join(SCHEDULES)}, or delays in seconds like 1,5,30"
    if not isinstance(delays, list | tuple) or not delays:
        raise BadValue(value, form)
    try:
        return tuple(_number(each, form, 0, 1e8) for each in delays)
    except BadValue:
        raise BadValue(value, form) from None


def duration(value: Any) -> timedelta:
    """Read a length of time such as 30s, 15m, 2h, 7d or 1w."""
    from postroom.inspection.wording import parse_age

    return _parsed(value, parse_age)


def moment(value: Any) -> datetime:
    """Read a time in ISO 8601; one without a zone is UTC."""
    from postroom.inspection.wording import parse_time

    return _parsed(value, parse_time)


def _parsed(value: Any, parse: Callable[[str], T]) -> T:
    try:
        return parse(str(value))
    except ValueError as error:
        raise BadValue(value, str(error)) from None


def _number(value: Any, form: str, least: float, most: float) -> float:
    try:
        number = float(value)
    except (ValueError, TypeError, OverflowError):
        raise BadValue(value, form) from None
    if isinstance(value, bool) or not least <= number <= most:
        raise BadValue(value, form)
    return number


def _whole(value: Any, form: str, least: int, most: int) -> int:
    number = _number(value, form, least, most)
    if not number.is_integer():
        raise BadValue(value, form)
    return int(number)


def _one_of(value: Any, *choices: str) -> str:
    if value not in choices:
        raise BadValue(value, f"one of {', '.join(choices)}")
    return str(value)

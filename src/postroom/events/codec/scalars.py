"""Numbers, text, dates, decimals, UUIDs, bytes."""

import re
import sys
from base64 import b64decode, b64encode
from dataclasses import replace
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from types import NoneType
from typing import Any, Final
from uuid import UUID

from postroom.events.codec.contract import Codec, CodecOf, Convert, typed
from postroom.events.codec.unfit import Unfit, mismatch, unreadable

_TOO_LONG = 10**4300  # Python's own limit for int → str, and well within PostgreSQL's
_LARGEST = sys.float_info.max
_DECIMAL = r"-?\d+(\.\d+)?([eE][+-]?\d+)?"
_UUID = r"[\da-fA-F]{8}(-[\da-fA-F]{4}){3}-[\da-fA-F]{12}"
_DATE = r"\d{4}-\d\d-\d\d"
_TIME = r"(?!24)\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d(:\d\d(\.\d{6})?)?)?"
_TINY_OFFSET = re.compile(r"([+-])00:00:00\.(\d{6})$")
_DURATION = re.compile(r"(-?)PT(\d+)(?:\.(\d{1,6}))?S", re.ASCII)


def scalar(tp: Any, codec_of: CodecOf) -> Codec | None:
    """The codec of a type without parts."""
    return SCALARS.get(tp) if isinstance(tp, type) else None


def _as_text(tp: type, write: Convert, read: Convert, form: str, example: str) -> Codec:
    """A value as text of one form; text of another form is refused, not guessed at."""
    has_form = re.compile(form, re.ASCII).fullmatch
    expected = f"{tp.__name__} (such as {example!r})"

    def read_form(text: str) -> Any:
        if not has_form(text):
            raise unreadable(text, expected)
        try:
            return read(text)
        except (ValueError, ArithmeticError) as error:
            raise unreadable(text, expected) from error

    return typed(tp, str, write, read_form)


def _or_subclass(tp: type, write: Convert, read: Convert, form: str, example: str) -> Codec:
    """Take a subclass's value too, if its text is one that the class itself would have.

    asyncpg has a UUID of its own, and freezegun a datetime: they stand for the plain ones. A
    datetime does not stand for a date, nor a pandas Timestamp for a datetime: they say more.
    """
    codec = _as_text(tp, write, read, form, example)

    def encode(value: Any) -> Any:
        if type(value) is tp or not isinstance(value, tp):
            return codec.encode(value)
        text = write(value)
        try:
            codec.decode(text)
        except Unfit:
            raise mismatch(value, tp.__name__) from None
        return text

    return replace(codec, encode=encode, tolerates=(tp,))


def _text(value: str) -> str:
    if "\0" in value:
        raise Unfit("contains a NUL character, which PostgreSQL cannot hold", "Remove it.")
    try:
        value.isascii() or value.encode()
    except UnicodeEncodeError:
        problem = "contains a lone surrogate (half a character), which is not text"
        raise Unfit(problem, _repair_of(value)) from None
    return value


def _repair_of(text: str) -> str:
    """Say how to repair a text with surrogates, without harm to the rest of it."""
    surrogates = [each for each in text if "\ud800" <= each <= "\udfff"]
    if all("\udc80" <= each <= "\udcff" for each in surrogates):  # what Python makes of bytes
        return (
            "Read its bytes in their encoding, such as Latin-1:"
            " text.encode(errors='surrogateescape').decode('latin-1')."
        )
    return "Join the halves: text.encode('utf-16', 'surrogatepass').decode('utf-16', 'replace')."


def _integer(value: int) -> int:
    if abs(value) >= _TOO_LONG:
        raise Unfit("has more than 4300 digits", "Pass hex(value), in a field of type str.")
    return value


def _encode_float(value: Any) -> float:
    if type(value) in (float, int) and abs(value) <= _LARGEST and float(value) == value:
        return float(value)
    if type(value) is not float:
        raise mismatch(value, "float")
    name = "NaN" if value != value else "infinite"
    raise Unfit(f"is {name}, which JSON cannot hold", "Pass None, in a field of type float | None.")


def _decode_float(json: Any) -> float:
    if type(json) in (float, int) and abs(json) <= _LARGEST:
        return float(json)  # an int: JSONB writes 1e22 without an exponent
    raise unreadable(json, "float")


def _write_decimal(value: Decimal) -> str:
    if not value.is_finite():
        remedy = "Pass None, in a field of type Decimal | None."
        raise Unfit(f"is {value}, which is not a number", remedy)
    return str(value)


def _write_date(value: date) -> str:
    return value.isoformat()  # its own, which shows whether it is a datetime


def _write_moment(value: datetime | time) -> str:
    text = value.isoformat()
    if value.tzinfo is None:
        return text
    if (offset := value.utcoffset()) is None:
        remedy = "Use a fixed offset (datetime.timezone), or a datetime in that zone."
        raise Unfit("has a time zone that gives it no UTC offset", remedy)
    return text if offset else f"{text[:-6]}Z"


def _moment_reader(read: Convert) -> Convert:
    def read_moment(text: str) -> Any:
        moment = read(text)
        if tiny := _TINY_OFFSET.search(text):  # fromisoformat() takes it for UTC
            micros = timedelta(microseconds=int(tiny[1] + tiny[2]))
            return moment.replace(tzinfo=timezone(micros))
        return moment

    return read_moment


def _write_duration(value: timedelta) -> str:
    total = (value.days * 86_400 + value.seconds) * 10**6 + value.microseconds
    seconds, micros = divmod(abs(total), 10**6)
    fraction = f".{micros:06}".rstrip("0") if micros else ""
    return f"{'-' if total < 0 else ''}PT{seconds}{fraction}S"


def _read_duration(text: str) -> timedelta:
    sign, seconds, fraction = _DURATION.findall(text)[0]
    return timedelta(microseconds=int(f"{sign}{seconds}{fraction:0<6}"))


def _write_bytes(value: bytes) -> str:
    return b64encode(value).decode()


def _read_bytes(text: str) -> bytes:
    value = b64decode(text, validate=True)
    if _write_bytes(value) != text:
        raise ValueError("bits are left over")
    return value


def _unchanged(value: Any) -> Any:
    return value


SCALARS: Final[dict[type, Codec]] = {
    NoneType: typed(NoneType, NoneType, _unchanged, _unchanged, "None"),
    bool: typed(bool, bool, _unchanged, _unchanged),
    int: typed(int, int, _integer, _unchanged),
    str: typed(str, str, _text, _unchanged),
    float: Codec(_encode_float, _decode_float, frozenset((float,)), frozenset((float,)), (int,)),
    Decimal: _as_text(Decimal, _write_decimal, Decimal, _DECIMAL, "12.50"),
    UUID: _or_subclass(UUID, str, UUID, _UUID, str(UUID(int=7))),
    bytes: _as_text(bytes, _write_bytes, _read_bytes, r"[\w+/]*=*", "aGk="),
    date: _or_subclass(date, _write_date, date.fromisoformat, _DATE, "2024-05-01"),
    time: _as_text(time, _write_moment, _moment_reader(time.fromisoformat), _TIME, "12:30:00"),
    datetime: _or_subclass(
        datetime,
        _write_moment,
        _moment_reader(datetime.fromisoformat),
        f"{_DATE}T{_TIME}",
        "2024-05-01T12:30:00Z",
    ),
    timedelta: _as_text(timedelta, _write_duration, _read_duration, _DURATION.pattern, "PT90.5S"),
}

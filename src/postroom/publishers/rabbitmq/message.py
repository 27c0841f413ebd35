"""A record as a message: body, properties, headers, CloudEvents."""

import struct
from collections.abc import Mapping
from datetime import timedelta
from functools import lru_cache
from typing import Any, Final, NamedTuple

from postroom.errors import ConfigurationError
from postroom.publishers.rabbitmq.amqp.frames import WORDS, Message, entries, short, text
from postroom.record import ClaimedRecord

CORRELATION: Final = "correlation_id"
SHORT: Final = 255
CLOUD_EVENT: Final = "cloudEvents:"
"""What the headers of a CloudEvent begin with, in its binding for AMQP."""
ROUTING: Final = frozenset({"CC", "BCC"})
"""Headers that RabbitMQ sends messages elsewhere for: that is what routes are for."""
SET_HERE: Final = frozenset(
    {"aggregate_type", "aggregate_id", "event_type", "event_version", "position", "created_at"}
)
LEFT_OUT: Final = SET_HERE | ROUTING

CONTENT: Final = struct.Struct(">HHQH17sI")
"""Class 60, weight 0, size of the body, flags, content type, size of the headers."""
CONTENT_TYPE, HEADERS, DELIVERY_MODE = 1 << 15, 1 << 13, 1 << 12
PRIORITY, CORRELATION_ID, EXPIRATION = 1 << 11, 1 << 10, 1 << 8
MESSAGE_ID, TIMESTAMP, TYPE, APP_ID = 1 << 7, 1 << 6, 1 << 5, 1 << 3
ALWAYS: Final = CONTENT_TYPE | HEADERS | DELIVERY_MODE | MESSAGE_ID | TIMESTAMP | TYPE
JSON: Final = b"\x10application/json"
PERSISTENT: Final = b"\x02"
ID_AND_TIMESTAMP: Final = struct.Struct(">37pQ")
POSITION, CREATED_AT, AGGREGATE_ID = b"\x08position", b"\x0acreated_at", b"\x0caggregate_id"
POSITION_AND_TIME: Final = struct.Struct(">9scq11scI")
"""The header `position`, and the header `created_at` up to the size of its text."""


LONGEST_EXPIRATION: Final = timedelta(milliseconds=2**32 - 1)


class Properties(NamedTuple):
    """The properties of a message that its route sets, encoded; each is empty if it is not set."""

    flags: int = 0
    priority: bytes = b""
    expiration: bytes = b""
    app_id: bytes = b""


NO_PROPERTIES: Final = Properties()


@lru_cache(maxsize=WORDS, typed=True)
def encode_properties(
    priority: int | None, expiration: timedelta | None, app_id: str | None
) -> Properties:
    """Encode the properties that a route sets. Raises ConfigurationError if one is out of range."""
    level = b"" if priority is None else _priority(priority)
    lifetime = b"" if expiration is None else _expiration(expiration)
    name = b"" if app_id is None else _app_id(app_id)
    flags = (PRIORITY if level else 0) | (EXPIRATION if lifetime else 0) | (APP_ID if name else 0)
    return Properties(flags, level, lifetime, name)


def _priority(value: Any) -> bytes:
    if not isinstance(value, int) or not 0 <= value <= 255:
        raise ConfigurationError(f"priority is {value!r}: a whole number from 0 to 255.")
    return bytes([value])


def _expiration(value: Any) -> bytes:
    if not isinstance(value, timedelta) or not timedelta() <= value <= LONGEST_EXPIRATION:
        raise ConfigurationError(f"expiration is {value!r}: a timedelta of 0 to 49 days.")
    return short(str(value // timedelta(milliseconds=1)), "expiration")


def _app_id(value: Any) -> bytes:
    if not isinstance(value, str) or len(value.encode(errors="replace")) > SHORT:
        raise ConfigurationError(f"app_id is {value!r}: a text of up to {SHORT} bytes.")
    return short(value, "app_id")


def plain_message(record: ClaimedRecord, properties: Properties = NO_PROPERTIES) -> Message:
    """Make the message of a record. Headers that postroom sets win over those of the same name.

    Those that RabbitMQ would route by are left out. Raises EncodeError, UnicodeError or
    RecursionError if AMQP cannot hold it.
    """
    return _message(record, _own_headers(record) if record.headers else None, properties)


def cloud_event(
    record: ClaimedRecord, properties: Properties = NO_PROPERTIES, *, source: str
) -> Message:
    """Make the message of a record as a CloudEvent 1.0 in binary mode: the body stays as it is."""
    attributes = {
        "specversion": "1.0",
        "id": str(record.id),
        "source": source,
        "type": record.event_type,
        "time": record.occurred_at.isoformat(),
    }
    if record.aggregate_id is not None:
        attributes["subject"] = record.aggregate_id
        attributes["partitionkey"] = f"{record.aggregate_type or ''}/{record.aggregate_id}"
    for name in ("traceparent", "tracestate"):
        if isinstance(record.headers.get(name), str):
            attributes[name] = record.headers[name]
    prefixed = {f"{CLOUD_EVENT}{name}": value for name, value in attributes.items()}
    return _message(record, {**_own_headers(record), **prefixed}, properties)


def _own_headers(record: ClaimedRecord) -> Mapping[str, Any]:
    if LEFT_OUT.isdisjoint(record.headers):  # nearly always
        return record.headers
    return {name: value for name, value in record.headers.items() if name not in LEFT_OUT}


def _message(
    record: ClaimedRecord, headers: Mapping[str, Any] | None, properties: Properties
) -> Message:
    """Encode a record, and headers beyond those that postroom sets. Every record comes by here."""
    body = record.payload_json.encode()
    same, event_type = _of_type(record.event_type, record.event_version, record.aggregate_type)
    created_at, key = record.created_at.isoformat().encode(), record.aggregate_id
    table = b"".join(
        (
            entries(headers) if headers else b"",
            same,
            POSITION_AND_TIME.pack(
                POSITION, b"l", record.position, CREATED_AT, b"S", len(created_at)
            ),
            created_at,
            AGGREGATE_ID,
            b"V" if key is None else text(key),
        )
    )
    correlation_id = _correlation_id(headers) if headers else b""
    flags = ALWAYS | properties.flags | (CORRELATION_ID if correlation_id else 0)
    seconds = int(record.occurred_at.timestamp())
    content = (
        CONTENT.pack(60, 0, len(body), flags, JSON, len(table)),
        table,
        PERSISTENT,
        properties.priority,
        correlation_id,
        properties.expiration,
        ID_AND_TIMESTAMP.pack(str(record.id).encode(), seconds if seconds > 0 else 0),
        event_type,
        properties.app_id,
    )
    return b"".join(content), body


@lru_cache(maxsize=WORDS)
def _of_type(event_type: str, version: int, aggregate_type: str | None) -> tuple[bytes, bytes]:
    """Encode what the messages of an event type have in common: headers, and the type itself."""
    same = {"event_type": event_type, "event_version": version, "aggregate_type": aggregate_type}
    return entries(same), short(event_type, "its event type")


def _correlation_id(headers: Mapping[str, Any]) -> bytes:
    """Encode the correlation id as a property too, if it is a text that fits."""
    told = headers.get(CORRELATION)
    if isinstance(told, str) and len(told.encode()) <= SHORT:
        return short(told, "its correlation id")
    return b""

"""Messages and confirmations as bytes of AMQP 0-9-1: what every record needs, so by hand.

A codec for all of AMQP does the same six times as slowly; pamqp does everything that is rare.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

from postroom.errors import UndeliverableError

METHOD, HEADER, BODY = 1, 2, 3
FRAME: Final = struct.Struct(">BHI")
END: Final = b"\xce"
OVERHEAD: Final = FRAME.size + len(END)
ACK, NACK = b"\x00\x3c\x00\x50", b"\x00\x3c\x00\x78"
PUBLISH: Final = b"\x00\x3c\x00\x28\x00\x00"  # class 60, method 40, a field of old
MANDATORY: Final = b"\x01"
CONTENT: Final = struct.Struct(">HHQH")
PERSISTENT: Final = b"\x02"
TEXT: Final = struct.Struct(">cI")
LONG: Final = struct.Struct(">cq")
DOUBLE: Final = struct.Struct(">cd")
WORDS: Final = 4096
"""How many of the texts that come again and again are kept encoded."""
SMALLEST, LARGEST = -(2**63), 2**63 - 1
CONTENT_TYPE, HEADERS, DELIVERY_MODE = 1 << 15, 1 << 13, 1 << 12
CORRELATION_ID, MESSAGE_ID, TIMESTAMP, TYPE = 1 << 10, 1 << 7, 1 << 6, 1 << 5
ALWAYS: Final = CONTENT_TYPE | HEADERS | DELIVERY_MODE | MESSAGE_ID | TIMESTAMP | TYPE


@dataclass(slots=True, kw_only=True)  # not frozen, which is slower to make: one per record
class Message:
    """A message as a broker gets it. It is persistent."""

    body: bytes
    message_id: str
    type: str
    timestamp: datetime
    headers: Mapping[str, Any]
    content_type: str = "application/json"
    correlation_id: str | None = None
    _content: bytes | None = field(init=False, default=None, repr=False, compare=False)

    @classmethod
    def empty(cls, message_id: str) -> "Message":
        """Make one that says nothing."""
        now = datetime.fromtimestamp(0, UTC)
        return cls(body=b"", message_id=message_id, type="", timestamp=now, headers={})

    def content(self) -> bytes:
        """Encode everything but the body and where it goes; once, however many places those are."""
        if self._content is None:
            self._content = self._encoded()
        return self._content

    def _encoded(self) -> bytes:
        correlation = self.correlation_id
        flags = ALWAYS if correlation is None else ALWAYS | CORRELATION_ID
        seconds = max(0, int(self.timestamp.timestamp()))
        return b"".join(
            (
                CONTENT.pack(60, 0, len(self.body), flags),
                short(self.content_type, "its content type"),
                table(self.headers),
                PERSISTENT,
                b"" if correlation is None else short(correlation, "its correlation id"),
                short(self.message_id, "its id"),
                seconds.to_bytes(8, "big"),
                _type(self.type),
            )
        )


@lru_cache(maxsize=WORDS)
def publish(channel: int, exchange: str, routing_key: str) -> bytes:
    """Encode where a message goes. It comes back if no queue takes it."""
    payload = b"".join(
        (PUBLISH, short(exchange, "the exchange"), short(routing_key, "its routing key"), MANDATORY)
    )
    return _frame(METHOD, channel, payload)


def message(channel: int, message: Message, frame_max: int) -> list[bytes]:
    """Encode what a message holds. Raises UndeliverableError if its headers do not fit a frame."""
    content, body, room = message.content(), message.body, frame_max - OVERHEAD
    if len(content) > room:
        raise UndeliverableError(
            f"its headers take {len(content)} bytes, and this broker takes {room}"
        )
    parts = [FRAME.pack(HEADER, channel, len(content)), content, END]
    for start in range(0, len(body), room):
        part = body if len(body) <= room else body[start : start + room]
        parts += (FRAME.pack(BODY, channel, len(part)), part, END)
    return parts


def confirmation(data: bytes) -> tuple[int, bool, bool] | None:
    """Read an ack or a nack, of which there are many: tag, whether of several, which of the two."""
    method = data[7:11]
    if len(data) != 21 or data[0] != 1 or method not in (ACK, NACK) or not data.endswith(END):
        return None
    return int.from_bytes(data[11:19], "big"), bool(data[19] & 1), method == ACK


def short(text: str, what: str) -> bytes:
    """Encode a text of 255 bytes at most."""
    data = text.encode()
    if len(data) > 255:
        raise UndeliverableError(f"{what} has {len(data)} bytes, and AMQP holds 255: {text[:50]}…")
    return bytes((len(data),)) + data


@lru_cache(maxsize=WORDS)
def _name(text: str) -> bytes:
    return short(text, "the name of a header")


@lru_cache(maxsize=WORDS)
def _type(text: str) -> bytes:
    return short(text, "its event type")


def table(headers: Mapping[str, Any]) -> bytes:
    """Encode headers: all that JSON holds."""
    parts: list[bytes] = []
    for name, each in headers.items():
        parts += (_name(name), value(each))
    return _sized(b"".join(parts))


def value(each: Any) -> bytes:
    """Encode one value of a table; a number that AMQP has no room for becomes text."""
    match each:
        case str():
            return _text(each)
        case None:
            return b"V"
        case bool():
            return b"t\x01" if each else b"t\x00"
        case int() if SMALLEST <= each <= LARGEST:
            return LONG.pack(b"l", each)
        case float():
            return DOUBLE.pack(b"d", each)
        case Mapping():
            return b"F" + table(each)
        case list() | tuple():
            return b"A" + _sized(b"".join(map(value, each)))
        case _:
            return _text(str(each))


def _text(text: str) -> bytes:
    data = text.encode()
    return TEXT.pack(b"S", len(data)) + data


def _sized(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


def _frame(kind: int, channel: int, payload: bytes) -> bytes:
    return b"".join((FRAME.pack(kind, channel, len(payload)), payload, END))

"""Messages and confirmations as bytes.

A codec for all of AMQP does the same six times as slowly; pamqp does everything that is rare.
"""

import struct
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from postroom.publishers.rabbitmq.amqp.errors import EncodeError

METHOD, HEADER, BODY = 1, 2, 3
FRAME: Final = struct.Struct(">BHI")
END: Final = b"\xce"
OVERHEAD: Final = FRAME.size + len(END)
ACK, NACK = b"\x00\x3c\x00\x50", b"\x00\x3c\x00\x78"
PUBLISH: Final = b"\x00\x3c\x00\x28\x00\x00"  # class 60, method 40, a field of old
MANDATORY: Final = b"\x01"
TEXT: Final = struct.Struct(">cI")
LONG: Final = struct.Struct(">cq")
DOUBLE: Final = struct.Struct(">cd")
WORDS: Final = 4096
"""How many of the texts that come again and again are kept encoded."""
SMALLEST, LARGEST = -(2**63), 2**63 - 1

Message = tuple[bytes, bytes]
"""The payload of its header frame, alike for all destinations, and its body."""


@lru_cache(maxsize=WORDS)
def publish(channel: int, exchange: str, routing_key: str) -> bytes:
    """Encode where a message goes. It comes back if no queue takes it."""
    payload = b"".join(
        (PUBLISH, short(exchange, "the exchange"), short(routing_key, "its routing key"), MANDATORY)
    )
    return _frame(METHOD, channel, payload)


def message(channel: int, message: Message, frame_max: int) -> list[bytes]:
    """Encode what a message holds. Raises EncodeError if its headers do not fit a frame."""
    content, body = message
    room = frame_max - OVERHEAD
    if len(content) > room:
        raise EncodeError(f"its headers take {len(content)} bytes, and this broker takes {room}")
    parts = [FRAME.pack(HEADER, channel, len(content)), content, END]
    for part in (body,) if 0 < len(body) <= room else _split(body, room):
        parts += (FRAME.pack(BODY, channel, len(part)), part, END)
    return parts


def _split(body: bytes, room: int) -> list[bytes]:
    return [body[start : start + room] for start in range(0, len(body), room)]


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
        raise EncodeError(f"{what} has {len(data)} bytes, and AMQP holds 255: {text[:50]}…")
    return bytes((len(data),)) + data


@lru_cache(maxsize=WORDS)
def _name(text: str) -> bytes:
    return short(text, "the name of a header")


def entries(headers: Mapping[str, Any]) -> bytes:
    """Encode headers, without their size: all that JSON holds."""
    parts: list[bytes] = []
    for name, each in headers.items():
        parts += (_name(name), value(each))
    return b"".join(parts)


def value(each: Any) -> bytes:
    """Encode one value of a table; a number that AMQP has no room for becomes text."""
    match each:
        case str():
            return text(each)
        case None:
            return b"V"
        case bool():
            return b"t\x01" if each else b"t\x00"
        case int() if SMALLEST <= each <= LARGEST:
            return LONG.pack(b"l", each)
        case float():
            return DOUBLE.pack(b"d", each)
        case Mapping():
            return b"F" + _sized(entries(each))
        case list() | tuple():
            return b"A" + _sized(b"".join(map(value, each)))
        case _:
            return text(str(each))


def text(value: str) -> bytes:
    """Encode a text of any length, as a value of a table."""
    data = value.encode()
    return TEXT.pack(b"S", len(data)) + data


def _sized(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


def _frame(kind: int, channel: int, payload: bytes) -> bytes:
    return b"".join((FRAME.pack(kind, channel, len(payload)), payload, END))

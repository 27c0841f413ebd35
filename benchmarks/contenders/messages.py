"""The messages that raw frames, aio-pika alone and the textbook loop send: as postroom sends them.

This file imports nothing of postroom, so that changes there do not change what they send.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

NOTE = (
    "Please ring the bell twice, and leave the parcel with the neighbours on the second floor if"
    " nobody is at home."
)
"""Makes a payload about 300 bytes long."""
EVENT_TYPE = "OrderPlaced"


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """The body of a message, its id, and the headers that postroom gives to it."""

    message_id: str
    body: bytes
    headers: dict[str, Any]
    timestamp: datetime


def letters(count: int, keys: int) -> Iterator[Letter]:
    """Make the messages of so many records, of so many keys in turn."""
    for number in range(count):
        yield letter(number, f"order-{number % keys}")


def letter(number: int, key: str) -> Letter:
    now, identity = datetime.now(UTC), str(uuid4())
    payload = {
        "note": NOTE,
        "total": number,
        "customer": "ann@example.com",
        "event_id": identity,
        "order_id": key,
        "occurred_at": now.isoformat(),
    }
    body, sent = json.dumps(payload).encode(), headers(number, key, now)
    return Letter(message_id=identity, body=body, headers=sent, timestamp=now)


def headers(position: int, key: str, created_at: datetime) -> dict[str, Any]:
    """The headers that postroom gives to the message of a record."""
    return {
        "aggregate_type": "order",
        "aggregate_id": key,
        "event_type": EVENT_TYPE,
        "event_version": 1,
        "position": position,
        "created_at": created_at.isoformat(),
    }

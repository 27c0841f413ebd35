"""A record as a message of RabbitMQ: what its consumers see."""

from typing import Any, Final

from postroom.publishers.rabbitmq.frames import Message
from postroom.record import ClaimedRecord

CORRELATION: Final = "correlation_id"
SHORT: Final = 255
ROUTING: Final = frozenset({"CC", "BCC"})
"""Headers that RabbitMQ sends messages elsewhere for: that is what routes are for."""
CLOUD_EVENT: Final = "cloudEvents:"
"""What the headers of a CloudEvent begin with, in its binding for AMQP."""


def plain_message(record: ClaimedRecord) -> Message:
    """Make the message of a record. Headers that postroom sets win over those of the same name.

    Those that RabbitMQ would route by are left out.
    """
    headers = {
        **{name: value for name, value in record.headers.items() if name not in ROUTING},
        "aggregate_type": record.aggregate_type,
        "aggregate_id": record.aggregate_id,
        "event_type": record.event_type,
        "event_version": record.event_version,
        "position": record.position,
        "created_at": record.created_at.isoformat(),
    }
    return _message(record, headers)


def cloud_event(record: ClaimedRecord, source: str) -> Message:
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
    message = plain_message(record)
    return _message(record, {**message.headers, **prefixed})


def _message(record: ClaimedRecord, headers: dict[str, Any]) -> Message:
    correlation = record.headers.get(CORRELATION)
    fits = isinstance(correlation, str) and len(correlation.encode()) <= SHORT
    return Message(
        body=record.payload_json.encode(),
        message_id=str(record.id),
        type=record.event_type,
        timestamp=record.occurred_at,
        headers=headers,
        correlation_id=correlation if fits else None,
    )

"""A record as a message: what a consumer finds in it."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from postroom import UntypedEvent
from postroom.publishers.rabbitmq import message
from postroom.publishers.rabbitmq.amqp import frames
from postroom.record import ClaimedRecord
from tests.support.claims import MOMENT, claimed
from tests.unit.publishers.rabbitmq.decoding import read as decoded

OCCURRED = datetime(2026, 1, 5, 11, 59, 58, 765432, tzinfo=UTC)
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def record(**values: object) -> ClaimedRecord:
    event = UntypedEvent(
        event_type="order.placed",
        aggregate_type="order",
        aggregate_id="7",
        payload={"total": 99, "note": "für dich"},
    )
    return claimed(event, position=42, event_version=3, occurred_at=OCCURRED, **values)


def read(encoded: frames.Message) -> Any:
    """Give the properties of a message as a consumer gets them, with its body."""
    (_, header), *rest = decoded(b"".join(frames.message(1, encoded, 128 * 1024)))
    header.properties.body = b"".join(each.value for _, each in rest)
    return header.properties


def plain_message(made: ClaimedRecord) -> Any:
    return read(message.plain_message(made))


def cloud_event(made: ClaimedRecord, source: str) -> Any:
    return read(message.cloud_event(made, source=source))


@pytest.mark.requirement("C9")
def test_a_message_says_all_that_its_record_does() -> None:
    made = record(headers={"traceparent": TRACE, "user": {"id": 5}})
    message = plain_message(made)
    assert message.message_id == str(made.id)
    assert (message.message_type, message.content_type) == ("order.placed", "application/json")
    assert json.loads(message.body) == {"total": 99, "note": "für dich"}
    assert message.body == made.payload_json.encode()
    assert message.timestamp == OCCURRED.replace(microsecond=0)  # AMQP counts seconds
    assert message.headers == {
        "traceparent": TRACE,
        "user": {"id": 5},
        "aggregate_type": "order",
        "aggregate_id": "7",
        "event_type": "order.placed",
        "event_version": 3,
        "position": 42,
        "created_at": MOMENT.isoformat(),
    }


@pytest.mark.parametrize(
    ("told", "shown"),
    [("abc", "abc"), ("x" * 255, "x" * 255), ("x" * 256, None), ("ü" * 128, None), (7, None)],
)
def test_a_correlation_id_is_a_property_too_where_it_fits(told: object, shown: str | None) -> None:
    message = plain_message(record(headers={"correlation_id": told}))
    assert message.correlation_id == shown
    assert message.headers["correlation_id"] == told


def attributes(made: ClaimedRecord) -> dict[str, object]:
    prefix = "cloudEvents:"
    headers = cloud_event(made, "/shop").headers
    return {name.removeprefix(prefix): headers[name] for name in headers if name.startswith(prefix)}


def test_what_a_record_does_not_have_is_no_attribute_of_a_cloud_event() -> None:
    bare = claimed(UntypedEvent(event_type="tick", payload={}), headers={"traceparent": 5})
    assert attributes(bare).keys().isdisjoint({"subject", "partitionkey", "traceparent"})
    without_type = UntypedEvent(event_type="tick", aggregate_id="7", payload={})
    assert attributes(claimed(without_type))["partitionkey"] == "/7"


def test_a_cloud_event_has_every_attribute_and_the_same_body() -> None:
    made = record(headers={"traceparent": TRACE, "tracestate": "a=b"})
    found = attributes(made)
    assert made.headers == {"traceparent": TRACE, "tracestate": "a=b"}  # as they were
    found.pop("datacontenttype", None)  # the content type says it
    assert found == {
        "specversion": "1.0",
        "id": str(made.id),
        "source": "/shop",
        "type": "order.placed",
        "time": OCCURRED.isoformat(),
        "subject": "7",
        "partitionkey": "order/7",
        "traceparent": TRACE,
        "tracestate": "a=b",
    }
    plain, cloud = plain_message(made), cloud_event(made, "/shop")
    assert (cloud.body, cloud.content_type) == (plain.body, plain.content_type)
    assert (cloud.message_id, cloud.timestamp) == (plain.message_id, plain.timestamp)
    assert plain.headers.items() <= cloud.headers.items()

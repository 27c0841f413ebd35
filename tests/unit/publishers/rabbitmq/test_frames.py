"""What is written to RabbitMQ by hand, read by a codec that others wrote."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp import body, commands, frame, header, heartbeat

from postroom import UntypedEvent
from postroom.errors import UndeliverableError
from postroom.publishers.rabbitmq import frames
from postroom.publishers.rabbitmq.message import SET_HERE, plain_message
from postroom.record import ClaimedRecord
from tests.support.claims import claimed

LONG = 2**63
EVENT = UntypedEvent(event_type="noted", payload={})


def moment(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=999_999)


shorts = st.text().filter(lambda text: len(text.encode()) <= 255)
names = st.text("abcXYZ019-_.:@#,/+ ", max_size=127)  # what pamqp takes for one of an exchange
numbers = st.integers(-(2**70), 2**70) | st.sampled_from([LONG - 1, LONG, -LONG, -LONG - 1])
scalars = st.none() | st.booleans() | st.text() | st.floats(allow_nan=False) | numbers
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(shorts, inner, max_size=4),
    max_leaves=12,
)
own_headers = st.dictionaries(shorts, values, max_size=5) | st.fixed_dictionaries(
    {"correlation_id": shorts}, optional={"position": scalars, "CC": scalars}
)
records = st.builds(
    claimed,
    st.just(EVENT),
    position=st.integers(1, LONG - 1),
    id=st.uuids(),
    payload_json=st.text(max_size=500),
    event_type=shorts,
    event_version=st.integers(0, 2**31 - 1),
    aggregate_type=st.none() | st.text(),
    aggregate_id=st.none() | st.text(),
    occurred_at=st.integers(0, 2**32 - 1).map(moment),  # pamqp takes later ones for milliseconds
    created_at=st.integers(0, 2**32 - 1).map(moment) | st.datetimes(timezones=st.just(UTC)),
    headers=own_headers,
)
channels = st.integers(1, 65535)


def message(**values: Any) -> frames.Message:
    return plain_message(claimed(EVENT, **values))


def as_amqp(value: Any) -> Any:
    """What a consumer gets: a number that AMQP has no room for is text."""
    match value:
        case bool():
            return value
        case int() if not -LONG <= value < LONG:
            return str(value)
        case list():
            return [as_amqp(each) for each in value]
        case dict():
            return {name: as_amqp(each) for name, each in value.items()}
        case _:
            return value


def read(data: bytes) -> Iterator[tuple[int, Any]]:
    """Cut bytes into frames, as a broker does."""
    while data:
        size, channel, received = frame.unmarshal(data)
        data = data[size:]
        yield channel, received


def alike(one: Any, other: Any) -> bool:
    """Compare, types included: 1, 1.0 and True are three."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(alike(one[name], other[name]) for name in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(alike, one, other))
    return bool(one == other)


@given(sent=records, channel=channels)
def test_what_is_encoded_is_what_others_decode(sent: ClaimedRecord, channel: int) -> None:
    data = b"".join(frames.message(channel, plain_message(sent), 128 * 1024))
    (number, first), *rest = read(data)
    assert isinstance(first, header.ContentHeader)
    got = first.properties
    assert number == channel
    assert first.body_size == len(sent.payload_json.encode())
    assert (got.message_id, got.message_type) == (str(sent.id), sent.event_type)
    assert (got.content_type, got.delivery_mode) == ("application/json", 2)
    correlation_id = sent.headers.get("correlation_id")
    assert got.correlation_id == (correlation_id if isinstance(correlation_id, str) else None)
    assert got.timestamp == sent.occurred_at.replace(microsecond=0)
    own = {name: each for name, each in sent.headers.items() if name not in {"CC", "BCC"}}
    set_here = {name: getattr(sent, name) for name in SET_HERE}
    set_here["created_at"] = sent.created_at.isoformat()
    assert alike(got.headers, as_amqp(own | set_here))
    assert b"".join(each.value for _, each in rest) == sent.payload_json.encode()


@given(exchange=names, routing_key=shorts, channel=channels)
def test_where_it_goes_is_encoded_and_that_it_comes_back(
    exchange: str, routing_key: str, channel: int
) -> None:
    [(number, got)] = read(frames.publish(channel, exchange, routing_key))
    assert isinstance(got, commands.Basic.Publish)
    assert (number, got.exchange, got.routing_key) == (channel, exchange, routing_key)
    assert (got.mandatory, got.immediate) == (True, False)


@given(sent=records.map(plain_message), room=st.integers(0, 100))
def test_a_body_is_split_over_frames_that_are_no_larger_than_agreed(
    sent: frames.Message, room: int
) -> None:
    content, payload = sent
    frame_max = frames.OVERHEAD + len(content) + room
    data = b"".join(frames.message(1, sent, frame_max))
    _, *bodies = (received for _, received in read(data))
    assert all(isinstance(each, body.ContentBody) for each in bodies)
    assert b"".join(each.value for each in bodies) == payload
    assert all(0 < len(each.value) <= frame_max - frames.OVERHEAD for each in bodies)
    assert len(bodies) == -(-len(payload) // (frame_max - frames.OVERHEAD))


def test_an_empty_body_takes_no_frame() -> None:
    [(_, only)] = read(b"".join(frames.message(1, message(payload_json=""), 4096)))
    assert (type(only), only.body_size) == (header.ContentHeader, 0)


def test_headers_that_do_not_fit_a_frame_cannot_be_delivered() -> None:
    large = message(headers={"note": "x" * 5000})
    with pytest.raises(UndeliverableError, match=r"its headers take \d+ bytes.*takes 4088"):
        frames.message(1, large, 4096)
    content, _ = large
    assert frames.message(1, large, len(content) + frames.OVERHEAD)
    with pytest.raises(UndeliverableError):
        frames.message(1, large, len(content) + frames.OVERHEAD - 1)


@pytest.mark.parametrize(
    ("values", "what"),
    [
        ({"event_type": "x" * 256}, "its event type has 256 bytes"),
        ({"event_type": "ü" * 128}, "its event type has 256 bytes"),
        ({"headers": {"h" * 256: 1}}, "the name of a header has 256"),
        ({"headers": {"deep": [{"h" * 256: 1}]}}, "the name of a header has 256"),
    ],
)
def test_a_text_that_amqp_has_no_room_for_cannot_be_delivered(
    values: dict[str, Any], what: str
) -> None:
    with pytest.raises(UndeliverableError, match=what):
        message(**values)


@pytest.mark.parametrize("place", [("e" * 256, "key"), ("exchange", "k" * 256)])
def test_neither_can_a_place_whose_name_is_too_long(place: tuple[str, str]) -> None:
    with pytest.raises(UndeliverableError, match="255"):
        frames.publish(1, *place)


def test_255_bytes_fit() -> None:
    assert frames.publish(1, "e" * 255, "k" * 255)
    assert frames.message(1, message(event_type="ü" * 127 + "x"), 4096)


def test_a_time_before_1970_is_none_that_amqp_knows() -> None:
    old = message(occurred_at=datetime(1912, 6, 23, tzinfo=UTC))
    (_, first), *_ = read(b"".join(frames.message(1, old, 4096)))
    assert first.properties.timestamp == datetime(1970, 1, 1, tzinfo=UTC)


@given(
    channel=channels, tag=st.integers(1, 2**63 - 1), multiple=st.booleans(), requeue=st.booleans()
)
def test_an_ack_and_a_nack_are_told_apart(
    channel: int, tag: int, multiple: bool, requeue: bool
) -> None:
    ack = frame.marshal(commands.Basic.Ack(tag, multiple), channel)
    nack = frame.marshal(commands.Basic.Nack(tag, multiple, requeue), channel)
    assert frames.confirmation(ack) == (tag, multiple, True)
    assert frames.confirmation(nack) == (tag, multiple, False)


def test_no_other_frame_is_a_confirmation() -> None:
    ack = frame.marshal(commands.Basic.Ack(1), 1)
    others = [
        frame.marshal(commands.Basic.Return(312, "NO_ROUTE", "e", "k"), 1),
        frame.marshal(commands.Basic.Reject(1), 1),
        frame.marshal(commands.Channel.CloseOk(), 1),
        frame.marshal(heartbeat.Heartbeat(), 0),
        frame.marshal(body.ContentBody(ack[7:-1]), 1),  # as long, and with the same bytes
    ]
    assert [frames.confirmation(each) for each in others] == [None] * len(others)

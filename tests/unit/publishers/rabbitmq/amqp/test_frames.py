"""What is written to RabbitMQ by hand, read by a codec that others wrote."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp import body, commands, frame, header, heartbeat

from postroom.publishers.rabbitmq.amqp import frames
from postroom.publishers.rabbitmq.amqp.errors import EncodeError
from tests.unit.publishers.rabbitmq.decoding import read

PLAIN = bytes.fromhex("003c0000")
"""A content header's class and weight; the size of the body and the flags follow."""
shorts = st.text().filter(lambda text: len(text.encode()) <= 255)
names = st.text("abcXYZ019-_.:@#,/+ ", max_size=127)  # what pamqp takes for one of an exchange
channels = st.integers(1, 65535)


def message(payload: bytes) -> frames.Message:
    """Make a message without any property."""
    return PLAIN + len(payload).to_bytes(8, "big") + bytes(2), payload


@given(exchange=names, routing_key=shorts, channel=channels)
def test_where_it_goes_is_encoded_and_that_it_comes_back(
    exchange: str, routing_key: str, channel: int
) -> None:
    [(number, got)] = read(frames.publish(channel, exchange, routing_key))
    assert isinstance(got, commands.Basic.Publish)
    assert (number, got.exchange, got.routing_key) == (channel, exchange, routing_key)
    assert (got.mandatory, got.immediate) == (True, False)


@given(sent=st.binary(max_size=500).map(message), room=st.integers(0, 100))
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
    [(_, only)] = read(b"".join(frames.message(1, message(b""), 4096)))
    assert (type(only), only.body_size) == (header.ContentHeader, 0)


@pytest.mark.parametrize("place", [("e" * 256, "key"), ("exchange", "k" * 256)])
def test_neither_can_a_place_whose_name_is_too_long(place: tuple[str, str]) -> None:
    with pytest.raises(EncodeError, match="255"):
        frames.publish(1, *place)
    assert frames.publish(1, *(name[:255] for name in place))


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

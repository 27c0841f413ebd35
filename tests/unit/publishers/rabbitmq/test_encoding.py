"""Records encoded by hand, and decoded by a codec that others wrote."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp import header

from postroom import UntypedEvent
from postroom.events.codec import same
from postroom.publishers.rabbitmq.amqp import frames
from postroom.publishers.rabbitmq.amqp.errors import EncodeError
from postroom.publishers.rabbitmq.message import SET_HERE, plain_message
from postroom.record import ClaimedRecord
from tests.support.claims import claimed
from tests.unit.publishers.rabbitmq.decoding import read

LONG = 2**63
EVENT = UntypedEvent(event_type="noted", payload={})


def moment(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=999_999)


shorts = st.text().filter(lambda text: len(text.encode()) <= 255)
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
    assert same(got.headers, as_amqp(own | set_here))
    assert b"".join(each.value for _, each in rest) == sent.payload_json.encode()


def test_headers_that_do_not_fit_a_frame_cannot_be_delivered() -> None:
    large = message(headers={"note": "x" * 5000})
    with pytest.raises(EncodeError, match=r"its headers take \d+ bytes.*takes 4088"):
        frames.message(1, large, 4096)
    content, _ = large
    assert frames.message(1, large, len(content) + frames.OVERHEAD)
    with pytest.raises(EncodeError):
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
    with pytest.raises(EncodeError, match=what):
        message(**values)


def test_a_time_before_1970_is_none_that_amqp_knows() -> None:
    old = message(occurred_at=datetime(1912, 6, 23, tzinfo=UTC))
    (_, first), *_ = read(b"".join(frames.message(1, old, 4096)))
    assert first.properties.timestamp == datetime(1970, 1, 1, tzinfo=UTC)

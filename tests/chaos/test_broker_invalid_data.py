"""A broker that talks rubbish: the publisher says so, and believes nothing of it."""

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from pamqp import commands, frame

from postroom import UntypedEvent
from postroom.errors import OutageError
from postroom.publishers.base import Delivered, Outage, Outcome, Postponed
from postroom.publishers.rabbitmq import RabbitMQPublisher
from postroom.record import ClaimedRecord
from tests.support.claims import claimed
from tests.support.fake_broker import SILENCE, FakeBroker, Raw, Reply, Script, fake_broker
from tests.support.waiting import PATIENCE, eventually

pytestmark = pytest.mark.extended

BRIEF = 0.5
"""Seconds for a broker to confirm in that will not."""
LONG = 2 * PATIENCE
"""Seconds for it to confirm in where something else has to show that it will not."""
COUNT = 6
HUGE = 2**62
ACK = commands.Basic.Ack
NACK = commands.Basic.Nack
METHOD, HEADER = 1, 2
ALL = b"\x00\x3c\x00\x50" + COUNT.to_bytes(8, "big") + b"\x01"
"""A confirmation of all, without what is around it."""


def records(count: int = COUNT) -> list[ClaimedRecord]:
    return [
        claimed(
            UntypedEvent(
                event_type="thing.happened",
                payload={"number": number},
                aggregate_type="thing",
                aggregate_id=str(number),
            ),
            position=number + 1,
        )
        for number in range(count)
    ]


@asynccontextmanager
async def publisher_to(
    broker: FakeBroker, *, patience: float = BRIEF
) -> AsyncIterator[RabbitMQPublisher]:
    publisher = RabbitMQPublisher(
        broker.url, exchange="things", confirm_within=timedelta(seconds=patience)
    )
    try:
        yield publisher
    finally:
        async with asyncio.timeout(PATIENCE):
            await publisher.close()


async def answers(script: Script) -> Sequence[Outcome | Outage]:
    """Publish a batch to a broker with that script, in bounded time."""
    batch = records()
    async with fake_broker(script) as broker, publisher_to(broker, patience=LONG) as publisher:
        await publisher.open()
        async with asyncio.timeout(PATIENCE):
            return [answer for _, answer in await answers_of(publisher, batch)]


def always(*replies: Reply) -> Script:
    """Reply so to the last message of a batch, and not to others."""
    return lambda channel, number: replies if number == COUNT else ()


def by(number: int, method: Any) -> bytes:
    """Encode a method for this channel, whichever the message came by."""
    data: bytes = frame.marshal(method, number)
    return data


def raw(kind: int, content: bytes, *, end: bytes = b"\xce") -> Raw:
    """Make a frame of anything."""
    size = len(content).to_bytes(4, "big")
    return lambda channel: bytes((kind,)) + channel.to_bytes(2, "big") + size + content + end


NONSENSE: dict[str, Sequence[Reply]] = {
    "zeroes": [bytes(64)],
    "ones": [b"\xff" * 64],
    "text": [b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"],
    "the greeting of another version": [b"AMQP\x00\x00\x09\x01"],
    "a frame without its end": [raw(METHOD, ALL, end=b"\x00")],
    "a frame of a kind that there is not": [raw(9, b"abcd")],
    "a frame that is too large": [b"\x01\x00\x01\xff\xff\xff\xff" + bytes(100)],
    "a method that there is not": [raw(METHOD, b"\x7f\xff\x7f\xff")],
    "a method that breaks off": [raw(METHOD, ALL[:5])],
    "a method without any": [raw(METHOD, b"")],
    "a header that breaks off": [raw(HEADER, b"\x00\x3c\x00\x00")],
    "text that is no text": [raw(METHOD, b"\x00\x14\x00\x28\x01\x94\x02\xff\xfe\x00\x00\x00\x00")],
    "half a frame, and then nothing": [lambda channel: by(channel, ACK(COUNT, True))[:10]],
    "an answer that nobody asked for": [commands.Exchange.DeclareOk()],
    "a confirmation on the connection itself": [by(0, ACK(COUNT, True))],
    "a confirmation on another channel": [by(77, ACK(COUNT, True))],
    "a delivery": [commands.Basic.Deliver("nobody", 1, False, "things", "thing.happened")],
    "the end": [None],
    "a confirmation of none": [ACK(0)],
    "a confirmation of one that was never sent": [ACK(COUNT + 1)],
    "a confirmation of one that is far away": [ACK(HUGE)],
    "a refusal of one that was never sent": [NACK(HUGE, False)],
    "a confirmation of all, to one that was never sent": [ACK(COUNT + 1, True)],
    "a confirmation of all, to one that is far away": [ACK(HUGE, True)],
    "a refusal of all, to one that is far away": [NACK(HUGE, True)],
    "a message that comes back, and was never sent": [
        commands.Basic.Return(312, "NO_ROUTE", "elsewhere", "nothing")
    ],
    "the end of the connection, with no reason": [by(0, commands.Connection.Close(0, "", 0, 0))],
    "the end of the connection, with an odd code": [
        by(0, commands.Connection.Close(65535, "because", 99, 99))
    ],
}

HARMLESS = {
    "half a frame, and then nothing",
    "an answer that nobody asked for",
    "a confirmation on the connection itself",
    "a confirmation on another channel",
    "a delivery",
    "a message that comes back, and was never sent",
}
"""What does not show that all is lost: only the missing confirmations do."""


@pytest.mark.requirement("E2")
@pytest.mark.parametrize("name", NONSENSE)
async def test_rubbish_is_an_outage_and_confirms_nothing(name: str) -> None:
    wicked = True

    def script(channel: int, number: int) -> Sequence[Reply]:
        if wicked:
            return [ACK(2, True), *NONSENSE[name]] if number == COUNT else []
        return [ACK(number)]

    async with (
        fake_broker(script) as broker,
        publisher_to(broker, patience=BRIEF if name in HARMLESS else LONG) as publisher,
        asyncio.timeout(PATIENCE),
    ):
        await publisher.open()
        given = [answer for _, answer in await answers_of(publisher, records())]
        assert [isinstance(each, Delivered) for each in given] == [True] * 2 + [False] * 4
        lost = Outage | Postponed if name in HARMLESS else Outage
        assert all(isinstance(each, lost) and "\n" not in str(each) for each in given[2:])

        wicked = False  # and the publisher is as good as new
        with suppress(OutageError):  # it may find out only now how things stand
            await publisher.open()
        await publisher.open()
        assert {type(each) for each in await publisher.publish(records())} == {Delivered}


@dataclass(frozen=True)
class Confirmations:
    """Answers that are odd, and right."""

    replies: Sequence[Reply]
    delivered: str


ODD = {
    "all at once": Confirmations([ACK(COUNT, True)], "++++++"),
    "backwards": Confirmations([ACK(tag) for tag in range(COUNT, 0, -1)], "++++++"),
    "twice": Confirmations([ACK(tag) for tag in (*range(1, 7), *range(1, 7))], "++++++"),
    "some again, among all": Confirmations([ACK(2), ACK(4), ACK(COUNT, True)], "++++++"),
    "fewer, after more": Confirmations([ACK(4, True), ACK(2, True), ACK(6), ACK(5)], "++++++"),
    "a refusal, and then all": Confirmations([NACK(3, False), ACK(COUNT, True)], "++-+++"),
    "a refusal, and then the contrary": Confirmations(
        [NACK(3, False), ACK(3), ACK(COUNT, True)], "++-+++"
    ),
    "the contrary, and then a refusal": Confirmations(
        [ACK(3), NACK(3, False), ACK(COUNT, True)], "++++++"
    ),
    "refusals of all": Confirmations([NACK(COUNT, True)], "------"),
}


@pytest.mark.requirement("E2")
@pytest.mark.parametrize("name", ODD)
async def test_confirmations_count_in_whatever_order_they_come(name: str) -> None:
    given = await answers(always(*ODD[name].replies))

    assert "".join("+" if isinstance(each, Delivered) else "-" for each in given) == (
        ODD[name].delivered
    )
    assert all(isinstance(each, Delivered | Postponed) for each in given)


@pytest.mark.requirement("E2")
async def test_a_confirmation_that_comes_in_single_bytes_counts() -> None:
    def piece(number: int) -> Raw:
        return lambda channel: by(channel, ACK(COUNT, True))[number : number + 1]

    pieces = [piece(number) for number in range(len(by(1, ACK(COUNT, True))))]

    given = await answers(always(*pieces))

    assert all(isinstance(answer, Delivered) for answer in given)


@pytest.mark.requirement("E2")
@pytest.mark.parametrize("code", [0, 200, 311, 313, 320, 405, 500, 541, 65535])
async def test_a_broker_that_closes_every_channel_delivers_nothing_and_is_told_so_soon(
    code: int,
) -> None:
    def close(channel: int, number: int) -> Sequence[Reply]:
        return [commands.Channel.Close(code, "because", 0, 0)] if number == 1 else []

    given = await answers(close)

    assert not any(isinstance(answer, Delivered) for answer in given)
    assert all(isinstance(answer, Outage) for answer in given)


ENTRY: dict[str, tuple[type[Any], Sequence[Reply]]] = {
    "hangs up at the greeting": (commands.Connection.StartOk, [None]),
    "asks for more than a password": (
        commands.Connection.StartOk,
        [commands.Connection.Secure("more")],
    ),
    "answers the password by rubbish": (commands.Connection.StartOk, [bytes(64)]),
    "answers by another answer": (commands.Connection.Open, [commands.Connection.Tune(1, 1, 1)]),
    "opens a channel by another answer": (commands.Channel.Open, [commands.Confirm.SelectOk()]),
    "closes the channel at once": (
        commands.Channel.Open,
        [commands.Channel.Close(504, "no", 0, 0)],
    ),
    "hangs up at the first channel": (commands.Channel.Open, [None]),
    "will not confirm": (commands.Confirm.Select, [commands.Channel.Close(540, "no", 0, 0)]),
    "answers the declaration by rubbish": (commands.Exchange.Declare, [b"\xff" * 64]),
}


@pytest.mark.requirement("E2")
@pytest.mark.parametrize("name", ENTRY)
async def test_a_broker_that_talks_rubbish_at_the_door_is_an_outage(name: str) -> None:
    what, replies = ENTRY[name]
    async with (
        fake_broker(lambda *_: [], {what: replies}) as broker,
        publisher_to(broker) as publisher,
    ):
        with pytest.raises(OutageError) as raised:
            async with asyncio.timeout(PATIENCE):
                await publisher.open()

    assert re.search(rf"127\.0\.0\.1:{broker.port}", str(raised.value))
    assert "\n" not in str(raised.value)


@pytest.mark.requirement("E2")
async def test_a_broker_that_falls_silent_after_a_part_is_tried_by_another_connection() -> None:
    def script(channel: int, number: int) -> Sequence[Reply]:
        if broker.connections > 1:
            return [ACK(number)]
        return [ACK(3, True), SILENCE] if number == COUNT else []

    left = {record.id: record for record in records()}
    async with fake_broker(script) as broker, publisher_to(broker) as publisher:
        async with asyncio.timeout(PATIENCE):
            await publisher.open()
            while left:
                given = await answers_of(publisher, list(left.values()))
                for record, answer in given:
                    if isinstance(answer, Delivered):
                        del left[record.id]
                if any(isinstance(answer, Outage) for _, answer in given):
                    with suppress(OutageError):
                        await publisher.open()
                await asyncio.sleep(0)

    assert broker.connections == 2


async def answers_of(
    publisher: RabbitMQPublisher, batch: Sequence[ClaimedRecord]
) -> list[tuple[ClaimedRecord, Outcome | Outage]]:
    try:
        return list(zip(batch, await publisher.publish(batch), strict=True))
    except OutageError as error:
        return [(record, Outage.of(error)) for record in batch]


@pytest.mark.requirement("E2")
async def test_closing_that_is_cancelled_ends_the_connection_at_once() -> None:
    unanswered: dict[type[Any], Sequence[Reply]] = {commands.Connection.Close: [SILENCE]}
    async with fake_broker(always(), unanswered) as broker, publisher_to(broker) as publisher:
        await publisher.open()
        closing = asyncio.create_task(publisher.close())
        await asyncio.sleep(0)  # it has begun
        closing.cancel()
        async with asyncio.timeout(PATIENCE):
            await asyncio.wait([closing])
        await eventually(lambda: not broker.clients, "the broker sees the end of the connection")
        assert closing.cancelled()

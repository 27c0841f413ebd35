"""A channel that rejects messages is replaced: RabbitMQ may do so on this channel only.

After the loss of a node, a channel of RabbitMQ 3.10 can go on for ever asking the node where the
leader of a quorum queue was, and rejects every message, while a new channel finds the new leader.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
from pamqp import commands, frame

from postroom import Postponed, UntypedEvent
from postroom.publishers.base import DELIVERED, Refused
from postroom.publishers.rabbitmq import RabbitMQPublisher
from postroom.record import ClaimedRecord
from tests.support.claims import claimed
from tests.support.fake_broker import FakeBroker, Reply, Script, fake_broker
from tests.support.waiting import PATIENCE, eventually

ACK, NACK = commands.Basic.Ack, commands.Basic.Nack


@asynccontextmanager
async def publisher_to(script: Script) -> AsyncIterator[tuple[RabbitMQPublisher, FakeBroker]]:
    async with fake_broker(script) as broker:
        publisher = RabbitMQPublisher(broker.url, exchange="things")
        try:
            async with asyncio.timeout(PATIENCE):
                await publisher.open()
                yield publisher, broker
        finally:
            await publisher.close()


def records(count: int) -> list[ClaimedRecord]:
    return [claimed(UntypedEvent(event_type="thing.happened", payload={})) for _ in range(count)]


@pytest.mark.requirement("E2")
async def test_after_a_rejection_the_next_message_goes_by_another_channel() -> None:
    seen: list[int] = []

    def script(channel: int, number: int) -> Sequence[Reply]:
        seen.append(channel)
        return [NACK(number) if channel == seen[0] else ACK(number)]

    async with publisher_to(script) as (publisher, broker):
        [one], [two] = records(1), records(1)
        [outcome] = await publisher.publish([one])
        assert isinstance(outcome, Postponed)
        assert await publisher.publish([one]) == [DELIVERED]
        assert await publisher.publish([two]) == [DELIVERED]
        await eventually(lambda: broker.channels == 1, "the channel that rejected is closed")
    rejecting, *others = seen
    assert set(others) == {others[0]} - {rejecting}


@pytest.mark.requirement("E2")
async def test_a_channel_that_rejected_stays_open_for_the_answers_that_it_owes() -> None:
    counts: Counter[int] = Counter()
    owed: list[tuple[int, int]] = []

    def script(channel: int, number: int) -> Sequence[Reply]:
        counts[channel] += 1
        if len(counts) == 1 and counts[channel] == 1:
            owed.append((channel, number))
            return []  # the answer comes later
        if len(counts) == 1:
            return [NACK(number)]
        first, late = owed[0]
        answer = commands.Basic.Ack(late)
        return [ACK(number), lambda _: answered(first, answer)]

    async with publisher_to(script) as (publisher, broker):
        first, second, third = records(3)
        waiting = asyncio.create_task(publisher.publish([first]))
        await eventually(lambda: broker.messages == 1, "the first message is there")
        [outcome] = await publisher.publish([second])
        assert isinstance(outcome, Postponed)
        assert await publisher.publish([third]) == [DELIVERED]
        assert await waiting == [DELIVERED]
        assert broker.messages == 3
        await eventually(lambda: broker.channels == 1, "the channel that rejected is closed")


@pytest.mark.requirement("E2")
async def test_a_message_that_the_broker_refuses_for_its_content_can_never_be_delivered() -> None:
    close = commands.Channel.Close(406, "PRECONDITION_FAILED - invalid expiration", 0, 0)
    async with publisher_to(lambda *_: [close]) as (publisher, _):
        [outcome] = await publisher.publish(records(1))
    assert isinstance(outcome, Refused)
    assert outcome.permanent
    assert "invalid expiration" in outcome.reason


def answered(channel: int, answer: commands.Basic.Ack) -> bytes:
    """Encode an answer on another channel than that of the message."""
    return frame.marshal(answer, channel)

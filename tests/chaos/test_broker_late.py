"""A broker that confirms late: what it may still confirm is not sent again."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest
from pamqp import commands

from postroom import Postponed, UntypedEvent
from postroom.publishers.base import DELIVERED
from postroom.publishers.rabbitmq import RabbitMQPublisher
from postroom.record import ClaimedRecord
from tests.support.claims import claimed
from tests.support.fake_broker import FakeBroker, Reply, fake_broker
from tests.support.waiting import PATIENCE, eventually

pytestmark = pytest.mark.extended

ACK = commands.Basic.Ack
BRIEF = timedelta(seconds=0.5)
"""For the broker to confirm in, where it will not."""
Replies = dict[int, Sequence[Reply]]
"""By the number of the message, over all channels."""


@asynccontextmanager
async def publisher_to(replies: Replies) -> AsyncIterator[tuple[RabbitMQPublisher, FakeBroker]]:
    async with fake_broker(lambda *_: replies.get(broker.messages, [])) as broker:
        publisher = RabbitMQPublisher(broker.url, exchange="things", confirm_within=BRIEF)
        try:
            async with asyncio.timeout(PATIENCE):
                await publisher.open()
                yield publisher, broker
        finally:
            await publisher.close()


def records(count: int) -> list[ClaimedRecord]:
    return [claimed(UntypedEvent(event_type="thing.happened", payload={})) for _ in range(count)]


@pytest.mark.requirement("E2")
async def test_a_late_confirmation_counts_and_the_message_is_not_sent_again() -> None:
    first, second, third = records(3)
    replies: Replies = {2: [ACK(2)], 3: [ACK(1), ACK(3)], 4: [ACK(4)]}
    async with publisher_to(replies) as (publisher, broker):
        late, in_time = await publisher.publish([first, second])
        assert isinstance(late, Postponed)
        assert in_time is DELIVERED

        assert isinstance((await publisher.publish([first]))[0], Postponed)
        assert await publisher.publish([third]) == [DELIVERED]
        assert await publisher.publish([first]) == [DELIVERED]  # its answer came in between
        assert broker.messages == 3

        await publisher.publish([first])  # nothing is known of it any more
        assert broker.messages == 4


@pytest.mark.requirement("E2")
async def test_what_a_cancelled_call_has_sent_is_not_sent_again() -> None:
    first, second = records(2)
    async with publisher_to({2: [ACK(2, True)]}) as (publisher, broker):
        sending = asyncio.create_task(publisher.publish([first]))
        await eventually(lambda: broker.messages == 1, "the broker has the message")
        sending.cancel()
        await asyncio.wait([sending])

        assert await publisher.publish([first, second]) == [DELIVERED, DELIVERED]
        assert broker.messages == 2


@pytest.mark.requirement("E2")
async def test_what_was_not_confirmed_when_its_channel_was_closed_is_sent_again() -> None:
    first, second, third = records(3)
    close = commands.Channel.Close(504, "because", 0, 0)
    replies: Replies = {2: [ACK(2)], 3: [ACK(3), close], 4: [ACK(1)]}
    async with publisher_to(replies) as (publisher, broker):
        late, _ = await publisher.publish([first, second])
        assert isinstance(late, Postponed)
        assert await publisher.publish([third]) == [DELIVERED]

        assert await publisher.publish([first]) == [DELIVERED]
        assert broker.messages == 4

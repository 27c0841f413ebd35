"""A broker that takes messages and confirms none of them: an outage, not a refusal."""

import asyncio
from datetime import timedelta

import pytest
from pamqp import commands, frame

from postroom import UntypedEvent
from postroom.publishers.base import Outage
from postroom.publishers.rabbitmq import RabbitMQPublisher
from tests.support.claims import claimed
from tests.support.fake_broker import Reply, fake_broker
from tests.support.waiting import PATIENCE

BRIEF = timedelta(seconds=0.1)
LONG = timedelta(seconds=10 * PATIENCE)


async def reasons(reply: Reply, *, within: timedelta) -> list[str]:
    """Publish to a broker that has one reply to each message; return the reasons of the outage."""
    event = UntypedEvent(event_type="thing.happened", payload={})
    async with fake_broker(lambda *_: [reply]) as broker:
        publisher = RabbitMQPublisher(broker.url, exchange="things", confirm_within=within)
        await publisher.open()
        try:
            async with asyncio.timeout(PATIENCE):
                answers = await publisher.publish([claimed(event), claimed(event)])
        finally:
            await publisher.close()
    return [each.reason for each in answers if isinstance(each, Outage)]


@pytest.mark.requirement("E2")
async def test_a_broker_that_confirms_no_message_in_time_is_an_outage() -> None:
    found = await reasons(b"", within=BRIEF)
    assert ["has not confirmed any message" in each for each in found] == [True, True]


@pytest.mark.requirement("E2")
async def test_a_broker_that_blocks_the_connection_is_an_outage_at_once() -> None:
    blocked = frame.marshal(commands.Connection.Blocked("low on memory"), 0)
    found = await reasons(blocked, within=LONG)
    assert ["low on memory" in each for each in found] == [True, True]

"""A broker that takes messages and confirms none of them: an outage, not a refusal.

One that is silent is lost after five looks in a row, which these tests have follow each other soon.
"""

import asyncio
from datetime import timedelta

import pytest
from pamqp import commands, frame
from pamqp.base import Frame

from postroom import UntypedEvent
from postroom.publishers.base import DELIVERED, Outage
from postroom.publishers.rabbitmq import RabbitMQPublisher
from postroom.publishers.rabbitmq.amqp import confirms
from tests.support.claims import claimed
from tests.support.fake_broker import SILENCE, Reply, fake_broker
from tests.support.waiting import PATIENCE

BRIEF = timedelta(seconds=0.1)
LONG = timedelta(seconds=10 * PATIENCE)


@pytest.fixture
def looks_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confirms, "LOOK_EVERY", 0.05)


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


@pytest.mark.requirement("E2")
@pytest.mark.usefixtures("looks_soon")
async def test_a_broker_that_falls_silent_before_it_confirms_is_lost() -> None:
    found = await reasons(SILENCE, within=LONG)
    assert ["was lost" in each and "unconfirmed" in each for each in found] == [True, True]


@pytest.mark.usefixtures("looks_soon")
async def test_a_broker_that_is_slow_to_confirm_and_answers_questions_is_waited_for() -> None:
    questions = 0

    def answer(channel: int) -> bytes:
        nonlocal questions
        questions += 1  # the first comes when the channel is opened
        answers: list[Frame] = [commands.Confirm.SelectOk()]
        if questions == 4:
            answers.append(commands.Basic.Ack(2, True))
        return b"".join(frame.marshal(each, channel) for each in answers)

    async with fake_broker(lambda *_: [], {commands.Confirm.Select: [answer]}) as broker:
        publisher = RabbitMQPublisher(broker.url, exchange="things", confirm_within=LONG)
        await publisher.open()
        try:
            event = UntypedEvent(event_type="thing.happened", payload={})
            async with asyncio.timeout(PATIENCE):
                answers = await publisher.publish([claimed(event), claimed(event)])
        finally:
            await publisher.close()
    assert answers == [DELIVERED, DELIVERED]
    assert questions == 4
    assert broker.messages == 2

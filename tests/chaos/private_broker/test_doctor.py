"""`postroom doctor` and a broker that takes no messages, or does not answer at all."""

import asyncio

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from postroom.doctor import Level
from postroom.publishers.rabbitmq import RabbitMQPublisher
from tests.chaos.broker import Broker
from tests.chaos.mailbox import Mailbox
from tests.support.clinic import Clinic
from tests.support.shop import outbox
from tests.support.waiting import eventually

pytestmark = pytest.mark.requirement("E6")


@pytest.fixture
def clinic(engine: AsyncEngine) -> Clinic:
    return Clinic(outbox, engine, engine)


async def test_a_broker_that_has_blocked_publishers_is_a_problem_until_its_alarm_ends(
    clinic: Clinic, broker: Broker, mailbox: Mailbox
) -> None:
    publisher = RabbitMQPublisher(broker.url, exchange="")
    assert await clinic.is_fine("publisher connection", publisher=publisher)
    await asyncio.to_thread(broker.alarm, on=True)

    async def has_problem() -> bool:
        found = await clinic.findings("publisher connection", publisher=publisher)
        return any(each.level == Level.PROBLEM for each in found)

    await eventually(has_problem)
    finding = await clinic.problem("publisher connection", publisher=publisher)
    assert finding.text.startswith("the broker has blocked publishers: ")
    await asyncio.to_thread(broker.alarm, on=False)
    await eventually(lambda: clinic.is_fine("publisher connection", publisher=publisher))

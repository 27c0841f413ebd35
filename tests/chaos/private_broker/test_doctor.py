"""`postroom doctor` and a broker that takes no messages, or does not answer at all."""

import asyncio

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from postroom.doctor import Level
from postroom.publishers.rabbitmq import RabbitMQPublisher
from tests.chaos.broker import Broker
from tests.chaos.mailbox import Mailbox
from tests.support.doctor_checks import Checks
from tests.support.shop import outbox
from tests.support.waiting import eventually

pytestmark = [pytest.mark.extended, pytest.mark.requirement("E6")]


@pytest.fixture
def checks(engine: AsyncEngine) -> Checks:
    return Checks(outbox, engine, engine)


async def test_a_broker_that_has_blocked_publishers_is_a_problem_until_its_alarm_ends(
    checks: Checks, broker: Broker, mailbox: Mailbox
) -> None:
    publisher = RabbitMQPublisher(broker.url, exchange="")
    assert await checks.is_fine("publisher connection", publisher=publisher)
    await asyncio.to_thread(broker.alarm, on=True)

    async def has_problem() -> bool:
        found = await checks.findings("publisher connection", publisher=publisher)
        return any(each.level == Level.PROBLEM for each in found)

    await eventually(has_problem)
    finding = await checks.problem("publisher connection", publisher=publisher)
    assert finding.text.startswith("the broker has blocked publishers: ")
    await asyncio.to_thread(broker.alarm, on=False)
    await eventually(lambda: checks.is_fine("publisher connection", publisher=publisher))

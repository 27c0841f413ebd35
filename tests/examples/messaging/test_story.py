"""A message on its way: API, worker and consumer as processes, an outage, and a kill."""

import signal
from functools import partial

import pytest

from tests.examples.applications import proxied
from tests.examples.messaging.conftest import FACTORY, account_at, start_worker
from tests.examples.messaging.database import Database
from tests.examples.server import serve
from tests.support.command import Commands
from tests.support.proxy import How
from tests.support.waiting import eventually


@pytest.mark.requirement("C7")
@pytest.mark.requirement("C8")
@pytest.mark.requirement("C15")
@pytest.mark.requirement("C17")
async def test_a_message_is_sent_once_though_the_broker_is_away_and_a_consumer_is_killed(
    commands: Commands, database_url: str, database: Database, rabbitmq_url: str
) -> None:
    urls = {"DATABASE_URL": database_url, "RABBITMQ_URL": rabbitmq_url}
    server = serve(commands, FACTORY, **urls)
    async with proxied(rabbitmq_url) as (proxy, url), account_at(server) as account:
        worker = start_worker(commands, database_url, url)
        await worker.says("delivers from table `outbox_events`")
        assert "polls every 600 s" in worker.err  # so that commits have to wake it
        proxy.go_away(How.RST)
        message = (await account.group_message("queued"))["id"]
        await worker.says("Deliveries are paused")
        assert database.events(message) == ["created", "queued"]
        assert {(each.status, each.retry_count) for each in database.records(message)} == {
            ("pending", 0)
        }

        proxy.come_back()
        module = "tests.examples.messaging.unacknowledging_consumer"
        killed = commands.python("-m", module, **urls)
        await killed.prints("committed")
        assert database.deliveries(message) == ["ann", "bob"]
        killed.tell(signal.SIGKILL)
        await killed.code()

        consumer = commands.python("-m", "messaging.consumer", **urls)
        await consumer.says("was processed before")
        await eventually(partial(database.is_published, message))
        assert await worker.stop() == await consumer.stop() == 0
    # uvicorn ends in good order, and then as the signal would have ended it.
    assert await server.command.stop() == -signal.SIGTERM
    assert database.deliveries(message) == ["ann", "bob"]
    assert database.events(message) == ["created", "queued", "processing", "completed"]
    assert {each.retry_count for each in database.records(message)} == {0}
    assert not any("Traceback" in each.out + each.err for each in commands.everyone)

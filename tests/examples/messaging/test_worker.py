"""The worker as its settings have it: what it declares, and when it gives up."""

from collections.abc import Iterator
from uuid import uuid4

import pytest

from tests.examples.messaging.conftest import FACTORY, account_at, start_worker
from tests.examples.messaging.database import Database
from tests.support.broker import Broker
from tests.support.command import Commands
from tests.support.rabbitmq import temporary_vhost
from tests.support.server import serve
from tests.support.services import service_url
from tests.support.waiting import eventually

QUEUES = ("group_message_processing", "scheduled_message_processing", "messaging_audit")
EAGER = {
    "RABBITMQ_EXCHANGE": "news",
    "OUTBOX_POLL_INTERVAL": "0.2",
    "OUTBOX_BATCH_SIZE": "7",
    "OUTBOX_MAX_RETRIES": "2",
}


@pytest.fixture
def empty_vhost_url() -> Iterator[str]:
    name = f"postroom_test_messaging_{uuid4().hex[:12]}"
    with temporary_vhost(service_url("POSTROOM_TEST_RABBITMQ_URL"), name) as url:
        yield url


@pytest.mark.requirement("C10")
@pytest.mark.requirement("C12")
@pytest.mark.requirement("C13")
async def test_it_declares_what_it_needs_and_gives_up_where_the_settings_say(
    commands: Commands, own_database_url: str, own_database: Database, empty_vhost_url: str
) -> None:
    worker = start_worker(commands, own_database_url, empty_vhost_url, **EAGER)
    server = serve(commands, FACTORY, DATABASE_URL=own_database_url, RABBITMQ_URL=empty_vhost_url)
    await worker.says("exchange news (polls every 0.2 s, listens on outbox_channel, batches of 7)")
    broker = Broker(empty_vhost_url)
    assert all(broker.exists(exchange=each) for each in ("news", "news.dlx"))
    assert all(broker.exists(queue=each) for each in (*QUEUES, "news.dlq"))

    async with account_at(server) as account:
        first = await account.group_message()
        await eventually(lambda: own_database.is_published(first["id"]))
        assert [broker.waiting(each) for each in QUEUES] == [1, 0, 1]
        broker.reject("group_message_processing")
        await eventually(lambda: broker.waiting("news.dlq") == 1)

        for queue in QUEUES:  # what is gone of the topology, the worker declares again
            broker.delete_queue(queue)
        second = await account.group_message()
        await eventually(lambda: own_database.is_published(second["id"]))
        assert [broker.waiting(each) for each in QUEUES] == [1, 0, 1]

        broker.queue("full", "#", exchange="news", max_length=0, overflow="reject-publish")
        third = await account.group_message()
        await worker.says("CRITICAL")
    broker.close()
    [record] = own_database.records(third["id"])
    assert (record.status, record.retry_count) == ("failed", 2)
    assert record.error_message is not None

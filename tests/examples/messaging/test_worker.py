"""The worker as its settings have it: what it declares, and when it gives up."""

import pytest

from tests.examples.messaging.conftest import FACTORY, account_at, start_worker
from tests.examples.messaging.database import Database
from tests.examples.server import serve
from tests.support.broker import Broker
from tests.support.command import Commands
from tests.support.waiting import eventually

pytestmark = pytest.mark.extended

QUEUES = ("group_message_processing", "scheduled_message_processing", "messaging_audit")
EAGER = {
    "RABBITMQ_AUDIT_QUEUE": "true",
    "RABBITMQ_EXCHANGE": "news",
    "OUTBOX_POLL_INTERVAL": "0.2",
    "OUTBOX_BATCH_SIZE": "7",
    "OUTBOX_MAX_RETRIES": "2",
}


@pytest.mark.requirement("C10")
@pytest.mark.requirement("C12")
@pytest.mark.requirement("C13")
async def test_it_declares_what_it_needs_and_gives_up_where_the_settings_say(
    commands: Commands, database_url: str, database: Database, rabbitmq_url: str, broker: Broker
) -> None:
    worker = start_worker(commands, database_url, rabbitmq_url, **EAGER)
    server = serve(commands, FACTORY, DATABASE_URL=database_url, RABBITMQ_URL=rabbitmq_url)
    await worker.says("exchange news (polls every 0.2 s, listens on outbox_channel, batches of 7)")
    assert all(broker.exists(exchange=each) for each in ("news", "news.dlx"))
    async with account_at(server) as account:
        for _ in range(2):  # what is gone of the topology, the worker declares again
            message = (await account.group_message())["id"]
            await eventually(lambda: database.is_published(message))  # noqa: B023
            assert [broker.waiting(each) for each in QUEUES] == [1, 0, 1]
            broker.reject("group_message_processing")
            await eventually(lambda: broker.waiting("news.dlq") == 1)
            for queue in (*QUEUES, "news.dlq"):
                broker.delete_queue(queue)

        broker.queue("full", "#", exchange="news", max_length=0, overflow="reject-publish")
        refused = await account.group_message()
        await worker.says("CRITICAL")
    [record] = database.records(refused["id"])
    assert (record.status, record.retry_count) == ("failed", 2)
    assert record.error_message is not None

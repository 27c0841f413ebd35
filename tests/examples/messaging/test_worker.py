"""The worker as its settings have it: what it declares, and when it gives up."""

from collections.abc import Iterator
from datetime import timedelta

import pytest

from tests.examples.messaging.account import SOON
from tests.examples.messaging.conftest import FACTORY, account_at, start_worker
from tests.examples.messaging.database import Database
from tests.support.broker import Broker
from tests.support.command import Commands
from tests.support.rabbitmq import temporary_vhost
from tests.support.server import serve
from tests.support.waiting import eventually

QUEUES = ("group_message_processing", "scheduled_message_processing", "messaging_audit")
EAGER = {
    "RABBITMQ_AUDIT_QUEUE": "true",
    "RABBITMQ_EXCHANGE": "news",
    "OUTBOX_POLL_INTERVAL": "0.2",
    "OUTBOX_BATCH_SIZE": "7",
    "OUTBOX_MAX_RETRIES": "2",
}


GROUP_MESSAGE_EVENTS = (*("created", "queued", "processing", "completed", "failed", "cancelled"),)


@pytest.fixture
def empty_vhost_url() -> Iterator[str]:
    with temporary_vhost() as url:
        yield url


@pytest.mark.requirement("C12")
async def test_without_the_audit_queue_every_event_is_delivered(
    commands: Commands, own_database_url: str, own_database: Database, empty_vhost_url: str
) -> None:
    worker = start_worker(commands, own_database_url, empty_vhost_url, RABBITMQ_AUDIT_QUEUE="false")
    server = serve(commands, FACTORY, DATABASE_URL=own_database_url, RABBITMQ_URL=empty_vhost_url)
    await worker.says("delivers from table")
    broker = Broker(empty_vhost_url)
    assert not broker.exists(queue="messaging_audit")
    async with account_at(server) as account:
        for steps in (["cancelled"], ["queued", "processing", "failed"]):
            await account.group_message(*steps)
        done = await account.group_message("queued", "processing", "completed")
        message = await account.scheduled_message("paused", "pending")
        later = (SOON + timedelta(days=1)).isoformat()
        await account.patch(f"/scheduled-messages/{message['id']}", scheduled_at=later)
        await account.patch(f"/scheduled-messages/{message['id']}", status="cancelled")
    unpublished = "SELECT event_type FROM outbox_events WHERE status <> 'published'"
    await eventually(lambda: not own_database.rows(unpublished))
    arrived = {each.routing_key for each in broker.take("group_message_processing")}
    arrived |= {each.routing_key for each in broker.take("scheduled_message_processing")}
    broker.close()
    assert own_database.events(done["id"])[-1] == "completed"
    assert arrived == {
        *(f"group_message.{each}" for each in GROUP_MESSAGE_EVENTS),
        *(
            f"scheduled_message.{each}"
            for each in ("created", "updated", "paused", "resumed", "cancelled")
        ),
    }


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

"""A cluster of RabbitMQ loses a node in the middle of deliveries."""

import asyncio
from collections import Counter
from collections.abc import Iterator

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from postroom import Status, UntypedEvent
from postroom.publishers.base import DELIVERED
from postroom.publishers.rabbitmq import RabbitMQPublisher
from postroom.relay.health import HealthStatus
from postroom.relay.relay import OutboxRelay
from tests.chaos.cluster import Cluster, private_cluster
from tests.chaos.ledger import out_of_order
from tests.chaos.mailbox import Mailbox, records_in
from tests.chaos.noting_publisher import NotingPublisher
from tests.chaos.outbox import has_status, records_of_keys, rows, running, save
from tests.support.claims import claimed
from tests.support.shop import outbox
from tests.support.waiting import FULL, eventually

pytestmark = pytest.mark.extended

MANY = 100 if FULL else 20


@pytest.fixture(scope="module")
def _cluster() -> Iterator[Cluster]:
    with private_cluster() as cluster:
        yield cluster


@pytest.fixture
def cluster(_cluster: Cluster) -> Cluster:
    """Three nodes, all of which run."""
    _cluster.heal()
    return _cluster


@pytest.mark.requirement("C17", "E2", "E15")
async def test_a_node_that_is_killed_loses_nothing_and_deliveries_go_on_by_another(
    engine: AsyncEngine, cluster: Cluster
) -> None:
    mailbox = Mailbox(cluster.url, type="quorum")
    publisher = mailbox.publisher()
    noting = NotingPublisher(publisher)
    records = records_of_keys(100, MANY)
    await save(engine, records)
    relay = OutboxRelay(outbox, engine, noting)
    async with running(relay):
        await noting.delivers(500)
        # It declared the queue there, so this is the node of the queue's leader too.
        killed = cluster.node_in(str(publisher))
        await asyncio.to_thread(killed.kill)
        assert len(noting.delivered) < len(records)
        await noting.delivers(len(records))
        await eventually(lambda: relay.health.status is HealthStatus.OK, "the relay is well again")
        survivor = cluster.node_in(str(publisher))
        await relay.stop()

    assert survivor is not killed
    found = await rows(engine)
    assert has_status(found, Status.PUBLISHED)
    assert {row.retry_count for row in found} == {0}
    mailbox.url = survivor.url
    arrived = await mailbox.empty()
    assert records_in(arrived) == {str(each.id) for each in records}
    assert out_of_order(arrived) == []
    assert noting.asked_again == []
    assert noting.sent_by_itself(Counter(each.record for each in arrived)) == []


@pytest.mark.requirement("E2", "E15")
async def test_a_channel_that_rejects_after_the_loss_of_another_node_is_replaced(
    cluster: Cluster,
) -> None:
    leader, other, _ = cluster.nodes
    mailbox = Mailbox(leader.url, type="quorum")
    declaring = mailbox.publisher()
    await declaring.open()
    await declaring.close()
    mailbox.url = other.url
    publisher = RabbitMQPublisher(other.url, exchange=mailbox.name)
    await publisher.open()
    record = claimed(UntypedEvent(event_type="thing.happened", aggregate_id="k", payload={}))

    async def is_delivered() -> bool:
        return await publisher.publish([record]) == [DELIVERED]

    await asyncio.to_thread(leader.kill)
    # At first, the channel asks for the queue's leader where it was, and rejects the message.
    await eventually(is_delivered, "a new channel finds the new leader")
    await publisher.close()
    assert await mailbox.count() == 1

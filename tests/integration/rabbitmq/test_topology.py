"""A topology on a real broker: declared, left alone when it is there, refused when it clashes."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from postroom import HealthStatus, OutboxRelay, UntypedEvent
from postroom.errors import ConfigurationError, OutageError
from postroom.publishers.base import DELIVERED
from postroom.publishers.rabbitmq import Binding, Exchange, Queue, RabbitMQPublisher, Topology
from tests.support.broker import Broker
from tests.support.claims import claimed
from tests.support.rows import save
from tests.support.services import BROKER_SECRET
from tests.support.shop import outbox
from tests.support.waiting import eventually

Opened = Callable[..., Awaitable[RabbitMQPublisher]]


@pytest.fixture
async def opened(rabbitmq_url: str) -> AsyncIterator[Opened]:
    """Open publishers with a topology, until the test ends."""
    publishers = []

    async def open_one(topology: Topology, exchange: str = "amq.topic") -> RabbitMQPublisher:
        publisher = RabbitMQPublisher(rabbitmq_url, exchange=exchange, topology=topology)
        publishers.append(publisher)
        await publisher.open()
        return publisher

    yield open_one
    for publisher in publishers:
        await publisher.close()


class Messaging:
    """The topology of the messaging example."""

    def __init__(self) -> None:
        own = self.own = "messaging"
        self.dlx, self.dlq, self.audit = f"{own}.dlx", f"{own}.dlq", f"{own}.audit"
        self.group, self.scheduled = f"{own}.group_message", f"{own}.scheduled_message"
        self.topology = Topology(
            exchanges=[Exchange(own), Exchange(self.dlx)],
            queues=[
                Queue(self.group, [Binding(own, "group_message.*")], dead_letter=self.dlx),
                Queue(self.scheduled, [Binding(own, "scheduled_message.*")], dead_letter=self.dlx),
                Queue(self.audit, [Binding(own, "#")]),
                Queue(self.dlq, [Binding(self.dlx, "#")]),
            ],
        )


@pytest.fixture
def messaging() -> Messaging:
    return Messaging()


def noted(event_type: str) -> UntypedEvent:
    return UntypedEvent(event_type=event_type, payload={})


@pytest.mark.requirement("C12")
async def test_the_messaging_topology_is_there_when_the_relay_starts(
    engine: AsyncEngine, broker: Broker, rabbitmq_url: str, messaging: Messaging
) -> None:
    publisher = RabbitMQPublisher(rabbitmq_url, exchange=messaging.own, topology=messaging.topology)
    types = ["group_message.created", "scheduled_message.paused", "something.else"]
    await save(engine, *map(noted, types))
    tally = await OutboxRelay(outbox, engine, publisher).run_once()
    assert (tally.delivered, tally.retried) == (3, 0)

    def took(queue: str) -> list[str]:
        return sorted(each.routing_key for each in broker.take(queue))

    assert took(messaging.group) == ["group_message.created"]
    assert took(messaging.scheduled) == ["scheduled_message.paused"]
    assert took(messaging.audit) == types
    assert took(messaging.dlq) == []
    # Declared once more, by another client: it would fail if anything were otherwise.
    for exchange in (messaging.own, messaging.dlx):
        broker.exchange(exchange, "topic")
    for queue in (messaging.group, messaging.scheduled):
        broker.queue(queue, dead_letter_exchange=messaging.dlx)
    for queue in (messaging.audit, messaging.dlq):
        broker.queue(queue)


@pytest.mark.requirement("C12")
@pytest.mark.parametrize("kind", ["group_message", "scheduled_message"])
async def test_what_a_consumer_rejects_arrives_in_the_dead_letter_queue(
    opened: Opened, broker: Broker, messaging: Messaging, kind: str
) -> None:
    publisher = await opened(messaging.topology, messaging.own)
    record = claimed(noted(f"{kind}.created"))
    assert await publisher.publish([record]) == [DELIVERED]
    broker.reject(f"{messaging.own}.{kind}")
    [dead] = await broker.consume(messaging.dlq, 1)
    assert (dead.exchange, dead.routing_key) == (messaging.dlx, f"{kind}.created")
    assert dead.message_id == str(record.id)
    assert dead.headers["x-death"][0]["queue"] == f"{messaging.own}.{kind}"


async def test_what_overflows_is_dead_lettered_too(opened: Opened, broker: Broker) -> None:
    name = "short"
    topology = Topology(
        exchanges=[Exchange(name), Exchange(f"{name}.dlx", "fanout")],
        queues=[
            Queue(name, [Binding(name)], dead_letter=f"{name}.dlx", max_length=1),
            Queue(f"{name}.dlq", [Binding(f"{name}.dlx", "")]),
        ],
    )
    publisher = await opened(topology, name)
    records = [claimed(noted(f"n.{number}")) for number in range(3)]
    for record in records:
        await publisher.publish([record])
    dead = await broker.consume(f"{name}.dlq", 2)
    assert [each.message_id for each in dead] == [str(each.id) for each in records[:2]]


@pytest.mark.requirement("C12")
async def test_declaring_it_again_changes_nothing(
    opened: Opened, broker: Broker, messaging: Messaging
) -> None:
    publisher = await opened(messaging.topology, messaging.own)
    await publisher.publish([claimed(noted("group_message.created"))])
    again = await opened(messaging.topology, messaging.own)
    assert broker.waiting(messaging.group) == 1
    assert broker.waiting(messaging.audit) == 1
    assert await again.publish([claimed(noted("group_message.created"))]) == [DELIVERED]
    assert broker.waiting(messaging.group) == 2


@pytest.mark.requirement("C12")
async def test_several_may_declare_it_at_once(
    opened: Opened, broker: Broker, messaging: Messaging
) -> None:
    publishers = await asyncio.gather(
        *(opened(messaging.topology, messaging.own) for _ in range(4))
    )
    for publisher in publishers:
        await publisher.publish([claimed(noted("group_message.created"))])
    assert broker.waiting(messaging.group) == 4


async def test_every_kind_of_exchange_and_queue_can_be_declared(
    opened: Opened, broker: Broker
) -> None:
    name = "all"
    topology = Topology(
        exchanges=[
            Exchange(f"{name}.topic", alternate=f"{name}.rest"),
            Exchange(f"{name}.rest", "fanout"),
            Exchange(f"{name}.direct", "direct", durable=False),
            Exchange(f"{name}.headers", "headers"),
        ],
        queues=[
            Queue(f"{name}.quorum", [Binding(f"{name}.topic", "wanted")], type="quorum"),
            Queue(f"{name}.rest", [Binding(f"{name}.rest")], durable=False),
            Queue(
                f"{name}.some",
                [
                    Binding(f"{name}.direct", "key"),
                    Binding(
                        f"{name}.headers", arguments={"x-match": "any", "event_type": "wanted"}
                    ),
                ],
                max_length=5,
                overflow="reject-publish",
                arguments={"x-single-active-consumer": True, "x-max-priority": 3},
            ),
        ],
    )
    publisher = await opened(topology, f"{name}.topic")
    records = [claimed(noted("wanted")), claimed(noted("unwanted"))]
    assert list(await publisher.publish(records)) == [DELIVERED, DELIVERED]
    await opened(topology, f"{name}.topic")
    by_headers = await opened(topology, f"{name}.headers")
    assert await by_headers.publish([records[0]]) == [DELIVERED]
    queues = [f"{name}.{each}" for each in ("quorum", "rest", "some")]
    taken = [(await broker.consume(queue, 1))[0].type for queue in queues]
    assert taken == ["wanted", "unwanted", "wanted"]
    broker.queue(queues[0], queue_type="quorum")  # fails if it is of another type


async def test_all_that_clashes_is_named_in_one_error_and_nothing_is_changed(
    rabbitmq_url: str, broker: Broker
) -> None:
    name = "clash"
    broker.exchange(f"{name}.direct", "direct")
    broker.queue(f"{name}.plain")
    broker.queue(f"{name}.short", max_length=1)
    broker.publish("", f"{name}.plain")
    topology = Topology(
        exchanges=[Exchange(f"{name}.direct", "topic"), Exchange(f"{name}.new")],
        queues=[
            Queue(f"{name}.plain", dead_letter=f"{name}.new"),
            Queue(f"{name}.short", max_length=2),
            Queue(f"{name}.fine", [Binding(f"{name}.new"), Binding(f"{name}.gone")]),
        ],
    )
    publisher = RabbitMQPublisher(rabbitmq_url, exchange="amq.topic", topology=topology)
    with pytest.raises(ConfigurationError) as caught:
        await publisher.open()
    await publisher.close()
    text = str(caught.value)
    for clash in (
        f"exchange `{name}.direct`",
        f"queue `{name}.plain`",
        f"queue `{name}.short`",
        f"exchange `{name}.gone` is not there",
    ):
        assert clash in text
    assert "inequivalent arg 'x-max-length'" in text
    assert f"`{name}.new`" not in text.replace(f"x-dead-letter-exchange' of value '{name}.new'", "")
    assert str(publisher.cluster) in text
    assert BROKER_SECRET not in text
    assert "Change the topology, or what is on the broker" in text
    assert broker.waiting(f"{name}.plain") == 1
    broker.exchange(f"{name}.direct", "direct")  # fails if it is of another type now


async def test_an_exchange_of_others_that_is_missing_is_named(
    opened: Opened, broker: Broker
) -> None:
    name = "mine"
    topology = Topology(
        exchanges=[Exchange(name, alternate=f"{name}.rest")],
        queues=[Queue(name, [Binding(f"{name}.theirs")], dead_letter=f"{name}.dlx")],
    )
    with pytest.raises(ConfigurationError) as caught:
        await opened(topology, name)
    for missing in ("theirs", "dlx", "rest"):
        assert f"exchange `{name}.{missing}` is not there" in str(caught.value)
        assert not broker.exists(exchange=f"{name}.{missing}")


async def test_an_exchange_of_others_is_left_as_it_is(opened: Opened, broker: Broker) -> None:
    name = "mine"
    theirs = broker.exchange(f"{name}.theirs", "fanout")
    topology = Topology(queues=[Queue(name, [Binding(theirs)], dead_letter=theirs)])
    publisher = await opened(topology, theirs)
    assert await publisher.publish([claimed(noted("x"))]) == [DELIVERED]
    assert broker.waiting(name) == 1
    broker.exchange(theirs, "fanout")  # fails if it is of another type now


@pytest.mark.parametrize(
    "part",
    [
        Topology(exchanges=[Exchange("größe")]),
        Topology(exchanges=[Exchange("x" * 256)]),
        Topology(exchanges=[Exchange("amq.mine")]),
        Topology(exchanges=[Exchange("mine", "no-such-type")]),
        Topology(queues=[Queue("mine", arguments={"x-odd": object()})]),
        Topology(queues=[Queue("mine", max_length=-1)]),
        Topology(queues=[Queue("mine", max_length=2**70)]),
        Topology(queues=[Queue("mine", [Binding("")])]),
        Topology(queues=[Queue("mine", [Binding("amq.topic", "k" * 256)])]),
    ],
    ids=[
        "no name that is sent",
        "too long a name",
        "a reserved name",
        "no type",
        "no value",
        "too little",
        "too much",
        "no exchange",
        "too long a key",
    ],
)
async def test_what_cannot_be_declared_is_a_mistake_in_the_set_up_that_is_named(
    rabbitmq_url: str, part: Topology
) -> None:
    publisher = RabbitMQPublisher(rabbitmq_url, exchange="amq.topic", topology=part)
    with pytest.raises(ConfigurationError) as caught:
        await publisher.open()
    await publisher.close()
    [name] = [each.name for each in part.exchanges] or [each.name for each in part.queues]
    assert name[:20] in str(caught.value)


async def test_a_relay_does_not_start_with_a_topology_that_clashes(
    engine: AsyncEngine, broker: Broker, rabbitmq_url: str
) -> None:
    name = broker.exchange("events", "direct")
    topology = Topology(exchanges=[Exchange(name)])
    publisher = RabbitMQPublisher(rabbitmq_url, exchange=name, topology=topology)
    relay = OutboxRelay(outbox, engine, publisher)
    with pytest.raises(ConfigurationError, match=f"exchange `{name}`"):
        await relay.run()
    assert relay.health.status == HealthStatus.STOPPED


async def test_without_a_topology_nothing_is_declared(broker: Broker, rabbitmq_url: str) -> None:
    name = "absent"
    publisher = RabbitMQPublisher(rabbitmq_url, exchange=name)
    with pytest.raises(OutageError, match=f"exchange `{name}` does not exist.*Declare it"):
        await publisher.open()
    await publisher.close()
    assert not broker.exists(exchange=name)


async def test_a_new_part_of_a_topology_is_added_to_what_is_there(
    opened: Opened, broker: Broker
) -> None:
    name = "grown"
    small = Topology(exchanges=[Exchange(name)], queues=[Queue(f"{name}.a", [Binding(name, "a")])])
    await opened(small, name)
    grown = replace(
        small,
        queues=[
            Queue(f"{name}.a", [Binding(name, "a"), Binding(name, "b")]),
            Queue(f"{name}.b", [Binding(name, "b")]),
        ],
    )
    publisher = await opened(grown, name)
    assert await publisher.publish([claimed(noted("b"))]) == [DELIVERED]
    await eventually(lambda: broker.waiting(f"{name}.a") == broker.waiting(f"{name}.b") == 1)

"""Records on their way through a real broker, to a consumer that others wrote."""

import asyncio
import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from postroom import (
    DomainEvent,
    Health,
    HealthStatus,
    OutboxEventPublisher,
    OutboxRecord,
    OutboxRelay,
    RetrySchedule,
    Status,
    UntypedEvent,
)
from postroom.identity import uuid7
from postroom.publishers.rabbitmq import (
    Binding,
    Exchange,
    Queue,
    RabbitMQPublisher,
    Route,
    Topology,
)
from postroom.publishers.rabbitmq.routing import Routes
from postroom.testing import FakeClock
from tests.support.broker import Broker, Received
from tests.support.rows import all_delivered, all_delivered_by, rows, save, until
from tests.support.shop import outbox
from tests.support.waiting import eventually

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
SOON = timedelta(seconds=20)
"""Longer than any of the first retries waits, and than a pause in an outage."""


@dataclass(frozen=True, kw_only=True)
class FamilyMemberInvited(
    DomainEvent, name="FamilyHub.FamilyMemberInvitedEvent", aggregate="invitation", key="invited"
):
    invited: UUID


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def noted(name: str, key: str | None = None, **payload: Any) -> UntypedEvent:
    kind = None if key is None else "note"
    return UntypedEvent(event_type=name, aggregate_type=kind, aggregate_id=key, payload=payload)


def numbers(messages: list[Received]) -> list[int]:
    return [json.loads(message.body)["n"] for message in messages]


@pytest.mark.requirement("C9")
@pytest.mark.requirement("E2")
@pytest.mark.requirement("C18")
async def test_a_consumer_finds_every_property_and_the_record_is_published_with_the_time(
    engine: AsyncEngine, broker: Broker, rabbitmq_url: str
) -> None:
    exchange = broker.exchange("messaging")
    queue = broker.queue("consumer", "group_message.*", exchange=exchange)
    headers = {"traceparent": TRACE, "correlation_id": "c-1", "user": {"id": 5, "roles": ["a"]}}
    record = OutboxRecord(
        event_type="group_message.created",
        event_version=2,
        aggregate_type="group_message",
        aggregate_id="7",
        payload={"text": "für dich", "n": 2**53},
        headers=headers,
        occurred_at=datetime(2026, 1, 5, 11, 59, 58, 999_999, tzinfo=UTC),
    )
    identity = record.id
    before = datetime.now(UTC) - timedelta(seconds=5)
    await save(engine, record)
    publisher = RabbitMQPublisher(rabbitmq_url, exchange=exchange)
    assert (await OutboxRelay(outbox, engine, publisher).run_once()).delivered == 1

    [message] = await broker.consume(queue, 1)
    [row] = await rows(engine)
    created_at = message.headers.pop("created_at")
    assert json.loads(message.body) == {"text": "für dich", "n": 2**53}
    assert datetime.fromisoformat(created_at) == row.created_at
    assert replace(message, body=b"") == Received(
        exchange=exchange,
        routing_key="group_message.created",
        body=b"",
        content_type="application/json",
        delivery_mode=2,
        message_id=str(identity),
        type="group_message.created",
        timestamp=int(datetime(2026, 1, 5, 11, 59, 58, tzinfo=UTC).timestamp()),
        correlation_id="c-1",
        headers={
            **headers,
            "aggregate_type": "group_message",
            "aggregate_id": "7",
            "event_type": "group_message.created",
            "event_version": 2,
            "position": row.position,
        },
    )
    assert (row.status, row.retry_count, row.error_message) == (Status.PUBLISHED, 0, None)
    assert row.published_at is not None
    assert before < row.published_at < datetime.now(UTC) + timedelta(seconds=5)


@pytest.mark.requirement("D8")
async def test_the_background_service_publishes_to_family_hub_events_by_event_type(
    engine: AsyncEngine, broker: Broker, rabbitmq_url: str
) -> None:
    exchange, queue = "family-hub.events", "family-hub.events.all"
    topology = Topology(
        exchanges=[Exchange(exchange)], queues=[Queue(queue, [Binding(exchange, "FamilyHub.#")])]
    )
    publisher = RabbitMQPublisher(rabbitmq_url, exchange=exchange, topology=topology)
    event = FamilyMemberInvited(invited=uuid7())
    async with OutboxEventPublisher(outbox, engine, publisher).running():
        await save(engine, event)
        await until(engine, all_delivered)
    [message] = await broker.consume(queue, 1)
    broker.exchange(exchange, "topic")  # fails if it is of another type
    assert message.exchange == exchange
    assert message.routing_key == "FamilyHub.FamilyMemberInvitedEvent"
    assert message.message_id == str(event.event_id)


async def test_a_consumer_of_cloud_events_finds_its_attributes(
    engine: AsyncEngine, broker: Broker, rabbitmq_url: str
) -> None:
    exchange = broker.exchange("events")
    queue = broker.queue("inbox", "#", exchange=exchange)
    event = noted("order.placed", key="7", n=1)
    await save(engine, event)
    publisher = RabbitMQPublisher(rabbitmq_url, exchange=exchange, cloud_events="/shop")
    await OutboxRelay(outbox, engine, publisher).run_once()
    [message] = await broker.consume(queue, 1)
    found = {name: message.headers[f"cloudEvents:{name}"] for name in ("id", "source", "type")}
    assert found == {"id": str(event.event_id), "source": "/shop", "type": "order.placed"}
    assert (message.content_type, numbers([message])) == ("application/json", [1])


@pytest.mark.requirement("C10")
@pytest.mark.requirement("E2")
async def test_what_no_queue_takes_is_refused_and_arrives_when_one_is_bound(
    engine: AsyncEngine, broker: Broker, rabbitmq_url: str, clock: FakeClock
) -> None:
    exchange = broker.exchange("events")
    queue = broker.queue("inbox", "wanted", exchange=exchange)
    publisher = RabbitMQPublisher(rabbitmq_url, exchange=exchange, unroutable="refuse")
    relay = OutboxRelay(outbox, engine, publisher, clock=clock)
    await save(engine, *(noted("unwanted" if n % 3 else "wanted", n=n) for n in range(9)))
    await relay.run_once()
    found = await rows(engine)
    refused = [each for each in found if each.event_type == "unwanted"]
    assert sorted(numbers(broker.take(queue))) == [0, 3, 6]
    assert [each.delivered for each in found] == [n % 3 == 0 for n in range(9)]
    assert {(each.status, each.retry_count) for each in refused} == {("pending", 2)}
    reason = f"no queue takes routing key `unwanted` at exchange `{exchange}` (312 NO_ROUTE)"
    assert all(str(each.error_message).startswith(reason) for each in refused)

    await relay.run_once()  # not due yet
    assert {each.retry_count for each in await rows(engine)} == {0, 2}
    broker.bind(queue, exchange, "unwanted")
    clock.advance(timedelta(seconds=1.5))
    await relay.run_once()
    assert sorted(numbers(broker.take(queue))) == [1, 2, 4, 5, 7, 8]
    assert all_delivered(await rows(engine))
    assert {each.error_message for each in await rows(engine)} == {None}


@pytest.mark.requirement("C10")
@pytest.mark.requirement("E2")
async def test_what_a_full_queue_refuses_is_kept_the_rest_flows_and_it_arrives_when_there_is_room(
    engine: AsyncEngine, broker: Broker, rabbitmq_url: str, clock: FakeClock
) -> None:
    exchange = broker.exchange("events")
    limits = {"max_length": 2, "overflow": "reject-publish"}
    full = broker.queue("full", "full", exchange=exchange, **limits)
    roomy = broker.queue("roomy", "roomy", exchange=exchange)
    publisher = RabbitMQPublisher(rabbitmq_url, exchange=exchange, rejected="refuse")
    relay = OutboxRelay(outbox, engine, publisher, clock=clock)
    await save(engine, *(noted("full", n=n) for n in range(4)))
    await save(engine, *(noted("roomy", n=n) for n in range(10, 20)))
    await relay.run_once()
    assert sorted(numbers(broker.take(roomy))) == list(range(10, 20))
    left = [each for each in await rows(engine) if not each.delivered]
    first = numbers(broker.take(full))
    assert len(first) == len(left) == 2
    for each in left:
        assert (each.status, each.retry_count) == (Status.PENDING, 2)
        assert "a queue is full" in str(each.error_message)

    clock.advance(SOON)
    await relay.run_once()
    assert all_delivered(await rows(engine))
    assert sorted(first + numbers(broker.take(full))) == [0, 1, 2, 3]


async def test_what_amqp_cannot_hold_fails_at_once_and_the_rest_flows(
    engine: AsyncEngine, broker: Broker, rabbitmq_url: str
) -> None:
    exchange = broker.exchange("events")
    queue = broker.queue("inbox", "#", exchange=exchange)
    bad = OutboxRecord(event_type="bad", payload={"n": 0}, headers={"h" * 256: 1})
    await save(engine, bad, *(noted("good", n=n) for n in (1, 2)))
    await OutboxRelay(outbox, engine, RabbitMQPublisher(rabbitmq_url, exchange=exchange)).run_once()
    assert sorted(numbers(broker.take(queue))) == [1, 2]
    [failed] = [each for each in await rows(engine) if not each.delivered]
    assert (failed.status, failed.retry_count) == (Status.FAILED, 1)
    assert "256 bytes" in str(failed.error_message)


@pytest.mark.requirement("E2")
async def test_an_exchange_that_goes_is_an_outage_and_a_topology_brings_it_back(
    engine: AsyncEngine, broker: Broker, rabbitmq_url: str, clock: FakeClock
) -> None:
    exchange, queue = "events", "inbox"
    topology = Topology(exchanges=[Exchange(exchange)], queues=[Queue(queue, [Binding(exchange)])])
    publisher = RabbitMQPublisher(rabbitmq_url, exchange=exchange, topology=topology)
    relay = OutboxRelay(outbox, engine, publisher, clock=clock)
    async with relay.running():
        await save(engine, noted("n", n=0))
        await until(engine, all_delivered)
        broker.delete_exchange(exchange)
        await save(engine, *(noted("n", key="a", n=n) for n in range(1, 5)))
        await degraded(relay, exchange)
        found = await until(engine, all_delivered_by(clock))
        await eventually(lambda: relay.health == Health(status=HealthStatus.OK))
    assert numbers(broker.take(queue)) == list(range(5))
    assert {(each.retry_count, each.error_message) for each in found} == {(0, None)}


@pytest.mark.requirement("E2")
async def test_without_a_topology_the_relay_waits_until_somebody_creates_the_exchange(
    engine: AsyncEngine, broker: Broker, rabbitmq_url: str, clock: FakeClock
) -> None:
    exchange = "events"
    queue = broker.queue("inbox")
    publisher = RabbitMQPublisher(rabbitmq_url, exchange=exchange)
    relay = OutboxRelay(outbox, engine, publisher, clock=clock)
    await save(engine, *(noted("n", key="a", n=n) for n in range(3)))
    async with relay.running():  # it was never there
        await degraded(relay, exchange)
        for _ in range(5):  # for longer than every schedule
            clock.advance(timedelta(hours=1))
            await asyncio.sleep(0)
        assert {(each.retry_count, each.status) for each in await rows(engine)} == {(0, "pending")}
        broker.exchange(exchange)
        broker.bind(queue, exchange, "#")
        await until(engine, all_delivered_by(clock))
        await eventually(lambda: relay.health == Health(status=HealthStatus.OK))

        broker.delete_exchange(exchange)  # it goes while the relay is at work
        await save(engine, *(noted("n", key="a", n=n) for n in range(3, 6)))
        await degraded(relay, exchange)
        assert {each.retry_count for each in (await rows(engine))[3:]} == {0}
        broker.exchange(exchange)
        broker.bind(queue, exchange, "#")
        await until(engine, all_delivered_by(clock))
    assert numbers(broker.take(queue)) == list(range(6))


async def degraded(relay: OutboxRelay, reason: str) -> None:
    await eventually(lambda: relay.health.status == HealthStatus.DEGRADED)
    assert reason in str(relay.health.reason)


@pytest.mark.requirement("E2")
async def test_each_event_type_goes_where_its_route_says(
    engine: AsyncEngine, broker: Broker, rabbitmq_url: str
) -> None:
    own, other = broker.exchange("own"), broker.exchange("other")
    queue = broker.queue("inbox", "#", exchange=own)
    broker.bind(queue, other, "#")
    direct = broker.queue("direct")
    routes: Routes = {
        "moved": Route(exchange=other),
        "renamed": Route(routing_key="new.name"),
        "asked": Route(routing_key=lambda record: f"asked.{record.aggregate_id}"),
        "straight": Route(exchange="", routing_key=direct),
        "both.*": [Route(), Route(exchange=other, routing_key="copy")],
    }
    publisher = RabbitMQPublisher(rabbitmq_url, exchange=own, routes=routes)
    types = ["moved", "renamed", "asked", "straight", "both.here", "plain"]
    await save(engine, *(noted(each, key="7") for each in types))
    tally = await OutboxRelay(outbox, engine, publisher).run_once()
    assert (tally.delivered, tally.retried) == (6, 0)
    found = broker.take(queue)
    assert [(each.type, each.exchange, each.routing_key) for each in found] == [
        ("moved", other, "moved"),
        ("renamed", own, "new.name"),
        ("asked", own, "asked.7"),
        ("both.here", own, "both.here"),
        ("both.here", other, "copy"),
        ("plain", own, "plain"),
    ]
    assert [each.type for each in broker.take(direct)] == ["straight"]


@pytest.mark.requirement("E2")
async def test_what_waits_for_one_place_is_not_sent_again_to_the_other(
    engine: AsyncEngine, broker: Broker, rabbitmq_url: str, clock: FakeClock
) -> None:
    own, other = broker.exchange("own"), broker.exchange("other")
    first = broker.queue("first", "#", exchange=own)
    second = broker.queue("second")
    routes = {"both": [Route(), Route(exchange=other)]}
    publisher = RabbitMQPublisher(rabbitmq_url, exchange=own, routes=routes)
    relay = OutboxRelay(outbox, engine, publisher, clock=clock)
    await save(engine, *(noted("both", key="a", n=n) for n in (1, 2)))
    await relay.run_once()
    found = await rows(engine)
    assert [(each.delivered, each.retry_count) for each in found] == [(False, 0), (False, 0)]
    assert f"exchange `{other}`" in str(found[0].error_message)
    assert own not in str(found[0].error_message)

    broker.bind(second, other, "#")
    clock.advance(SOON)
    await relay.run_once()
    assert all_delivered(await rows(engine))
    assert numbers(broker.take(first)) == numbers(broker.take(second)) == [1, 2]


@pytest.mark.requirement("C16")
async def test_the_order_of_each_key_holds_through_refusals_with_two_relays(
    engine: AsyncEngine, broker: Broker, rabbitmq_url: str
) -> None:
    exchange = broker.exchange("events")
    limits = {"max_length": 3, "overflow": "reject-publish"}
    queue = broker.queue("inbox", "#", exchange=exchange, **limits)
    each_key = [[ordered(str(key), number) for number in range(10)] for key in range(10)]
    for records in zip(*each_key, strict=True):
        await save(engine, *records)
    schedule = RetrySchedule.seconds(0, 0.01, forever=True)
    publishers = (
        RabbitMQPublisher(rabbitmq_url, exchange=exchange, rejected="refuse") for _ in range(2)
    )
    first, second = (OutboxRelay(outbox, engine, each, retry=schedule) for each in publishers)
    consumer = asyncio.create_task(broker.consume(queue, 100, prefetch=5))
    async with first.running(), second.running():
        messages = await consumer
        found = await until(engine, all_delivered)
    assert sum(record.retry_count for record in found) > 0
    seen: dict[str, list[int]] = {}
    for message in messages:
        arrived = seen.setdefault(message.headers["aggregate_id"], [])
        [number] = numbers([message])
        if number not in arrived:
            arrived.append(number)
    assert seen == {str(key): list(range(10)) for key in range(10)}


def ordered(key: str, number: int) -> OutboxRecord:
    return OutboxRecord(
        event_type="counted",
        aggregate_type="counter",
        aggregate_id=key,
        payload={"n": number},
        max_retries=None,
    )

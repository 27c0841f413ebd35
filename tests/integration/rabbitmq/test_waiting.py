"""A full or missing queue is not the record's fault: its records wait, and leave by themselves."""

import asyncio
import json
import logging
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from postroom import (
    ClaimedRecord,
    Delivered,
    HealthStatus,
    OutboxRecord,
    OutboxRelay,
    Postponed,
    RetrySchedule,
    UntypedEvent,
)
from postroom.publishers.rabbitmq import (
    Binding,
    Exchange,
    Queue,
    RabbitMQPublisher,
    Route,
    Topology,
)
from postroom.publishers.rabbitmq.parcel import NACKED
from postroom.publishers.rabbitmq.restore import DECLARE_EVERY
from postroom.publishers.rabbitmq.routing import Destination
from postroom.publishers.rabbitmq.waiting import describe
from postroom.relay import health
from postroom.testing import FakeClock
from tests.support.broker import Broker
from tests.support.claims import claimed
from tests.support.rabbitmq import User, temporary_user
from tests.support.rows import all_delivered_by, rows, save, until
from tests.support.shop import outbox
from tests.support.waiting import eventually

pytestmark = pytest.mark.requirement("E12")

KEYS, OF_A_KEY = 4, 5
HASTY = RetrySchedule.seconds(0.01)
"""A record that is refused twice fails: whatever counts an attempt would be noticed."""


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def user(rabbitmq_url: str) -> Iterator[User]:
    with temporary_user(rabbitmq_url) as user:
        yield user


def noted(name: str, key: int, number: int) -> UntypedEvent:
    return UntypedEvent(
        event_type=name, aggregate_type="note", aggregate_id=key, payload={"n": number}
    )


async def save_notes(engine: AsyncEngine, name: str) -> None:
    """Commit the notes of a few keys, and as many of other keys that go elsewhere."""
    for number in range(OF_A_KEY):
        await save(engine, *(noted(name, key, number) for key in range(KEYS)))
        await save(engine, *(noted("other", 100 + key, number) for key in range(KEYS)))


async def waits(
    engine: AsyncEngine, relay: OutboxRelay, clock: FakeClock, reason: str
) -> list[OutboxRecord]:
    """Let a minute pass, and many tries, while a route fails; all other records are delivered."""
    begun = clock.shift()
    tally = relay._tally

    def long_enough(found: list[OutboxRecord]) -> bool:
        clock.advance(timedelta(seconds=5))
        others = all(each.delivered for each in found if each.event_type == "other")
        return others and tally.postponed > 8 and clock.shift() - begun > timedelta(minutes=1)

    found = await until(engine, long_enough)
    left = [each for each in found if not each.delivered]
    assert {(each.status, each.retry_count) for each in found if not each.delivered} == {
        ("pending", 0)
    }
    assert any(reason in str(each.error_message) for each in left)
    return left


async def arrives_in_order(
    engine: AsyncEngine, broker: Broker, queue: str, clock: FakeClock, begun: list[str]
) -> None:
    """Take what arrives until all is delivered: each key in order, and nothing failed."""
    arrived: dict[str, list[int]] = {}

    def take(found: list[OutboxRecord]) -> bool:
        for message in broker.take(queue):
            note = arrived.setdefault(message.headers["aggregate_id"], [])
            number = json.loads(message.body)["n"]
            if number not in note:
                note.append(number)
        return all_delivered_by(clock)(found)

    found = await until(engine, take)
    take(found)
    assert {(each.status, each.retry_count) for each in found} == {("published", 0)}
    assert {key: arrived[key] for key in begun} == {key: list(range(OF_A_KEY)) for key in begun}


def route_lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    warnings = [each for each in caplog.records if each.levelno >= logging.WARNING]
    return [each.getMessage() for each in warnings if "route" in vars(each)]


ALL_KEYS = [str(key) for key in range(KEYS)]


async def test_a_full_queue_fails_nobody_however_long_it_is_full_and_order_holds_when_it_is_drained(
    engine: AsyncEngine,
    broker: Broker,
    rabbitmq_url: str,
    clock: FakeClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    exchange = broker.exchange("events")
    limits = {"max_length": 3, "overflow": "reject-publish"}
    queue = broker.queue("full", "full", exchange=exchange, **limits)
    broker.queue("other", "other", exchange=exchange)
    publisher = RabbitMQPublisher(rabbitmq_url, exchange=exchange)
    relay = OutboxRelay(outbox, engine, publisher, clock=clock, retry=HASTY)
    await save_notes(engine, "full")
    async with relay.running():
        await waits(engine, relay, clock, NACKED)
        [route] = relay.health.waiting_routes
        assert route.route == describe(Destination(exchange, "full"))
        assert route.reason == NACKED
        assert 0 < route.records <= KEYS
        assert len(route_lines(caplog)) == 1
        await arrives_in_order(engine, broker, queue, clock, ALL_KEYS)
        assert relay.health.waiting_routes == ()
    assert len(route_lines(caplog)) == 2
    assert all(route.route in line for line in route_lines(caplog))


async def test_what_no_queue_takes_waits_until_one_is_bound(
    engine: AsyncEngine,
    broker: Broker,
    rabbitmq_url: str,
    clock: FakeClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    exchange = broker.exchange("events")
    queue = broker.queue("inbox")
    broker.queue("other", "other", exchange=exchange)
    publisher = RabbitMQPublisher(rabbitmq_url, exchange=exchange)
    relay = OutboxRelay(outbox, engine, publisher, clock=clock, retry=HASTY)
    await save_notes(engine, "unwanted")
    async with relay.running():
        left = await waits(engine, relay, clock, "`unwanted`")
        assert len(left) == KEYS * OF_A_KEY
        assert "312 NO_ROUTE" in relay.health.waiting_routes[0].reason
        broker.bind(queue, exchange, "unwanted")
        await arrives_in_order(engine, broker, queue, clock, ALL_KEYS)
    assert len(route_lines(caplog)) == 2


async def test_a_missing_exchange_of_a_route_waits_until_it_is_created(
    engine: AsyncEngine,
    broker: Broker,
    rabbitmq_url: str,
    clock: FakeClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    own, later = broker.exchange("own"), "later"
    queue = broker.queue("inbox")
    broker.queue("other", "other", exchange=own)
    routes = {"elsewhere": Route(exchange=later)}
    publisher = RabbitMQPublisher(rabbitmq_url, exchange=own, routes=routes)
    relay = OutboxRelay(outbox, engine, publisher, clock=clock, retry=HASTY)
    await save_notes(engine, "elsewhere")
    async with relay.running():
        await waits(engine, relay, clock, f"no exchange '{later}'")
        assert [each.route for each in relay.health.waiting_routes] == [f"exchange `{later}`"]
        broker.exchange(later)
        broker.bind(queue, later, "#")
        await arrives_in_order(engine, broker, queue, clock, ALL_KEYS)
    assert len(route_lines(caplog)) in (2, 4)  # it exists for a moment without a queue


Permit = Callable[[User, str, bool], None]
"""Gives a user a permission, or takes it; what is named by the exchange `own` stays allowed."""


def the_other_exchange(user: User, own: str, allowed: bool) -> None:
    user.may(write=".*" if allowed else f"^{own}$")


def the_routing_key(user: User, own: str, allowed: bool) -> None:
    user.may_publish(own, ".*" if allowed else "^other$")


@pytest.mark.parametrize(
    ("permit", "name", "reason"),
    [
        (the_other_exchange, "shut", "access to exchange"),
        (the_routing_key, "secret", "access to topic"),
    ],
)
async def test_a_missing_permission_is_waited_for_until_it_is_given(
    engine: AsyncEngine,
    broker: Broker,
    user: User,
    clock: FakeClock,
    caplog: pytest.LogCaptureFixture,
    permit: Permit,
    name: str,
    reason: str,
) -> None:
    own, shut = broker.exchange("own"), broker.exchange("shut")
    queue = broker.queue("inbox", "#", exchange=shut)
    broker.bind(queue, own, "secret")
    broker.queue("other", "other", exchange=own)
    user.may(write=".*")
    publisher = RabbitMQPublisher(user.url, exchange=own, routes={"shut": Route(exchange=shut)})
    relay = OutboxRelay(outbox, engine, publisher, clock=clock, retry=HASTY)
    async with relay.running():
        await save(engine, noted(name, 50, 0))
        await until(engine, all_delivered_by(clock))
    permit(user, own, False)
    async with relay.running():  # anew: RabbitMQ remembers the permissions of a busy channel
        await save_notes(engine, name)
        await waits(engine, relay, clock, reason)
        assert len(relay.health.waiting_routes) == 1
        permit(user, own, True)
        await arrives_in_order(engine, broker, queue, clock, ALL_KEYS)
    assert len(route_lines(caplog)) == 2


async def test_a_relay_that_starts_anew_waits_as_the_one_before_it_did(
    engine: AsyncEngine, broker: Broker, rabbitmq_url: str, clock: FakeClock
) -> None:
    exchange = broker.exchange("events")
    queue = broker.queue("inbox")
    broker.queue("other", "other", exchange=exchange)
    await save_notes(engine, "unwanted")
    for _ in range(2):
        publisher = RabbitMQPublisher(rabbitmq_url, exchange=exchange)
        relay = OutboxRelay(outbox, engine, publisher, clock=clock, retry=HASTY)
        async with relay.running():
            await waits(engine, relay, clock, "`unwanted`")
    broker.bind(queue, exchange, "unwanted")
    publisher = RabbitMQPublisher(rabbitmq_url, exchange=exchange)
    async with OutboxRelay(outbox, engine, publisher, clock=clock, retry=HASTY).running():
        await arrives_in_order(engine, broker, queue, clock, ALL_KEYS)


async def test_health_is_degraded_while_a_route_waits_and_recovers(
    engine: AsyncEngine, broker: Broker, rabbitmq_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "REFUSED_FOR", 0.2)
    exchange = broker.exchange("events")
    queue = broker.queue("inbox")
    relay = OutboxRelay(outbox, engine, RabbitMQPublisher(rabbitmq_url, exchange=exchange))
    await save(engine, noted("unwanted", 1, 1))
    async with relay.running():
        await eventually(lambda: relay.health.status is HealthStatus.DEGRADED)
        [route] = relay.health.waiting_routes
        assert (route.records, relay.health.reason) == (1, str(route))
        assert route.route == describe(Destination(exchange, "unwanted"))
        broker.bind(queue, exchange, "#")
        await eventually(lambda: relay.health.status is HealthStatus.OK)
        assert relay.health.waiting_routes == ()
    assert await asyncio.to_thread(broker.waiting, queue) == 1


# -- what the settings say


async def outcomes(publisher: RabbitMQPublisher, *records: ClaimedRecord) -> list[str]:
    """Publish records in one call; give the names of their outcomes."""
    await publisher.open()
    try:
        return [type(each).__name__ for each in await publisher.publish(records)]
    finally:
        await publisher.close()


async def test_a_route_or_the_publisher_can_refuse_or_accept_what_no_queue_takes(
    broker: Broker, rabbitmq_url: str
) -> None:
    exchange = broker.exchange("events")
    routes = {
        "wait": Route(unroutable="wait"),
        "refuse": Route(unroutable="refuse"),
        "accept": Route(unroutable="accept"),
    }
    records = [claimed(noted(name, 1, 1)) for name in ("wait", "refuse", "accept", "default")]
    expected = ["Postponed", "Refused", "Delivered"]
    for choice, outcome in zip(routes, expected, strict=True):
        publisher = RabbitMQPublisher(
            rabbitmq_url,
            exchange=exchange,
            routes=routes,
            unroutable=choice,  # type: ignore[arg-type]
        )
        assert await outcomes(publisher, *records) == [*expected, outcome]


async def test_a_route_or_the_publisher_can_refuse_what_a_full_queue_rejects(
    broker: Broker, rabbitmq_url: str
) -> None:
    exchange = broker.exchange("events")
    limits = {"max_length": 0, "overflow": "reject-publish"}
    broker.queue("full", "#", exchange=exchange, **limits)
    records = [claimed(noted(name, 1, 1)) for name in ("wait", "refuse", "default")]
    routes = {"wait": Route(rejected="wait"), "refuse": Route(rejected="refuse")}
    waiting = RabbitMQPublisher(rabbitmq_url, exchange=exchange, routes=routes)
    assert await outcomes(waiting, *records) == ["Postponed", "Refused", "Postponed"]
    refusing = RabbitMQPublisher(rabbitmq_url, exchange=exchange, routes=routes, rejected="refuse")
    assert await outcomes(refusing, *records) == ["Postponed", "Refused", "Refused"]


async def test_a_message_has_the_priority_expiration_and_app_id_of_its_route(
    broker: Broker, rabbitmq_url: str
) -> None:
    exchange = broker.exchange("events")
    queue = broker.queue("inbox", "#", exchange=exchange)
    urgent = Route(priority=7, expiration=timedelta(minutes=5), app_id="shop")
    publisher = RabbitMQPublisher(rabbitmq_url, exchange=exchange, routes={"urgent": urgent})
    records = [
        claimed(noted(name, 1, 1), headers={"correlation_id": "c-1"}) for name in ("urgent", "b")
    ]
    assert await outcomes(publisher, *records) == ["Delivered"] * 2
    found = {each.type: (each, properties) for each, properties in broker.take_raw(queue)}
    message, properties = found["urgent"]
    assert (properties.priority, properties.expiration, properties.app_id) == (7, "300000", "shop")
    assert (message.correlation_id, message.delivery_mode) == ("c-1", 2)
    assert message.message_id == str(records[0].id)
    message, properties = found["b"]
    assert (properties.priority, properties.expiration, properties.app_id) == (None, None, None)


# -- one record tries a route for the others


async def test_while_a_route_fails_one_message_of_each_call_tries_it(
    broker: Broker, rabbitmq_url: str
) -> None:
    exchange = broker.exchange("events")
    limits = {"max_length": 0, "overflow": "reject-publish"}
    copies = broker.queue("copies", "#", exchange=exchange)
    full = broker.queue("full", "full.#", exchange=exchange, **limits)
    publisher = RabbitMQPublisher(rabbitmq_url, exchange=exchange)
    records = [claimed(noted(f"full.{n % 2}", n, n)) for n in range(100)]
    others = [claimed(noted("other", n, n)) for n in range(100)]
    await publisher.open()
    outcomes = await publisher.publish(records)
    assert {type(each) for each in outcomes} == {Postponed}
    assert len(broker.take(copies)) == 100  # the queue that is not full has got them all
    for _ in range(5):
        outcomes = await publisher.publish([*records, *others])
        assert [type(each) for each in outcomes] == [Postponed] * 100 + [Delivered] * 100
    arrived = [each.type for each in broker.take(copies)]
    assert (arrived.count("full.0"), arrived.count("full.1")) == (5, 5)
    assert [each.records for each in publisher.waiting_routes()] == [50, 50]

    broker.delete_queue(full)
    outcomes = await publisher.publish(records)
    assert {type(each) for each in outcomes} == {Delivered}
    assert publisher.waiting_routes() == ()
    await publisher.close()


# -- a topology of which a part is gone


async def test_what_is_deleted_of_the_topology_is_declared_again_and_nobody_notices(
    engine: AsyncEngine,
    broker: Broker,
    rabbitmq_url: str,
    clock: FakeClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    own, other = "own", "other"
    first, second = "first", "second"
    topology = Topology(
        exchanges=[Exchange(own), Exchange(other, "fanout")],
        queues=[Queue(first, [Binding(own, "a.*")]), Queue(second, [Binding(other)])],
    )
    routes = {"b": Route(exchange=other)}
    publisher = RabbitMQPublisher(rabbitmq_url, exchange=own, topology=topology, routes=routes)
    relay = OutboxRelay(outbox, engine, publisher, clock=clock, retry=HASTY)
    deletions: list[Callable[[], None]] = [
        lambda: broker.delete_queue(first),
        lambda: broker.unbind(second, other, "#"),
        lambda: broker.delete_exchange(other),
    ]
    async with relay.running():
        await save(engine, noted("a.n", 0, 0), noted("b", 1, 0))
        await until(engine, all_delivered_by(clock))
        broker.purge(first)
        broker.purge(second)
        for number, delete in enumerate(deletions):
            delete()
            name = "a.n" if number == 0 else "b"
            await save(engine, *(noted(name, key, number) for key in range(3)))
            await until(engine, all_delivered_by(clock))
            publisher._sender._restorer._began -= DECLARE_EVERY  # type: ignore[union-attr]
    found = await rows(engine)
    assert {(each.retry_count, each.status) for each in found} == {(0, "published")}
    assert len(broker.take(first)) == 3
    assert len(broker.take(second)) == 6
    lines = [each for each in caplog.messages if "declared again" in each]
    assert len(lines) == 3


async def test_a_topology_is_not_declared_again_for_a_key_that_it_does_not_take(
    broker: Broker, rabbitmq_url: str
) -> None:
    exchange, queue = "events", "inbox"
    topology = Topology(exchanges=[Exchange(exchange)], queues=[Queue(queue)])
    publisher = RabbitMQPublisher(rabbitmq_url, exchange=exchange, topology=topology)
    await publisher.open()
    broker.delete_queue(queue)
    [outcome] = await publisher.publish([claimed(noted("unwanted", 1, 1))])
    await publisher.close()
    assert isinstance(outcome, Postponed)
    assert not broker.exists(queue=queue)


async def test_a_topology_that_cannot_be_declared_again_is_logged_and_its_records_wait(
    broker: Broker, user: User, caplog: pytest.LogCaptureFixture
) -> None:
    exchange, queue = "events", "inbox"
    topology = Topology(exchanges=[Exchange(exchange)], queues=[Queue(queue, [Binding(exchange)])])
    user.may(configure=".*", write=".*", read=".*")
    publisher = RabbitMQPublisher(user.url, exchange=exchange, topology=topology)
    await publisher.open()
    broker.delete_queue(queue)
    user.may(write=".*", read=".*")
    record = claimed(noted("n", 1, 1))
    for _ in range(3):
        [outcome] = await publisher.publish([record])
        assert isinstance(outcome, Postponed)
        publisher._sender._restorer._began -= DECLARE_EVERY  # type: ignore[union-attr]
    [line] = [each for each in caplog.messages if "cannot declare the topology again" in each]
    assert f"`{queue}`" in line
    user.may(configure=".*", write=".*", read=".*")
    assert await publisher.publish([record]) == [Delivered()]
    await publisher.close()

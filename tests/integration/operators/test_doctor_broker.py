"""`postroom doctor` and RabbitMQ: what is missing, full or shut is found, and the remedy works."""

import asyncio
import shlex
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import insert, make_url
from yarl import URL

from postroom import UntypedEvent
from postroom.doctor import Level
from postroom.publishers.rabbitmq import (
    Binding,
    Exchange,
    Queue,
    RabbitMQPublisher,
    Route,
    Topology,
)
from tests.support.broker import Broker
from tests.support.doctor_checks import Checks, checks_at
from tests.support.in_process import InProcess
from tests.support.rabbitmq import temporary_user
from tests.support.waiting import eventually

pytestmark = [pytest.mark.requirement("E6"), pytest.mark.requirement("E12")]

CONNECTION = "publisher connection"
NAME = "letters"
"""What exchange and queue are called."""


@pytest.fixture
async def checks(tmp_path: Path) -> AsyncIterator[Checks]:
    async with checks_at(make_url(f"sqlite+aiosqlite:///{tmp_path / 'shop.db'}")) as checks:
        yield checks


@pytest.fixture
def publisher(rabbitmq_url: str) -> RabbitMQPublisher:
    queue = Queue(NAME, [Binding(NAME, "letter.*")], max_length=2, overflow="reject-publish")
    topology = Topology(exchanges=[Exchange(NAME)], queues=[queue])
    return RabbitMQPublisher(rabbitmq_url, exchange=NAME, topology=topology)


@pytest.fixture
def shell(
    run_postroom: InProcess, publisher: RabbitMQPublisher, rabbitmq_url: str
) -> Callable[[str], None]:
    """Run the command of a remedy."""
    queue = publisher.topology.queues[0] if publisher.topology else None
    run_postroom.write(
        "shop.py",
        "from postroom.publishers.rabbitmq import Binding, Exchange, Queue, Topology\n"
        f"TOPOLOGY = Topology(exchanges=[Exchange({publisher.exchange!r})], queues=[{queue!r}])\n",
    )

    def run(remedy: str) -> None:
        program, *words = shlex.split(remedy, comments=True)
        assert program == "postroom"
        done = run_postroom(*words, RABBITMQ_URL=rabbitmq_url)
        assert done.code == 0, done.err

    return run


async def test_what_the_topology_declares_and_is_missing_is_declared(
    checks: Checks, publisher: RabbitMQPublisher, shell: Callable[[str], None]
) -> None:
    options = {"publisher": publisher, "relay_name": "shop:TOPOLOGY"}
    exchange = await checks.problem("exchanges", **options)
    queue = await checks.problem("queues", **options)
    assert exchange.text == f"exchange `{NAME}` does not exist: records for it wait"
    assert queue.text == f"queue `{NAME}` does not exist: records for it wait"
    assert exchange.remedy == queue.remedy
    await asyncio.to_thread(shell, queue.remedy[0])
    for check in (CONNECTION, "exchanges", "queues", "bindings"):
        assert await checks.is_fine(check, **options), check


async def test_an_exchange_without_a_topology_is_declared_by_its_name(
    checks: Checks, rabbitmq_url: str, shell: Callable[[str], None]
) -> None:
    publisher = RabbitMQPublisher(rabbitmq_url, exchange=NAME)
    finding = await checks.problem("exchanges", publisher=publisher)
    await asyncio.to_thread(shell, finding.remedy[0].replace("URL", rabbitmq_url))
    assert await checks.is_fine("exchanges", publisher=publisher)


async def test_a_full_queue_is_named_until_there_is_room(
    checks: Checks, publisher: RabbitMQPublisher, broker: Broker
) -> None:
    await publisher.open()  # declares the topology
    await publisher.close()
    for _ in range(2):
        broker.publish(NAME, "letter.sent")
    await eventually(lambda: broker.waiting(NAME) == 2)
    finding = await checks.problem("queues", publisher=publisher)
    assert f"queue `{NAME}` is full: 2 messages, max_length is 2, 0 consumers" in finding.text
    broker.take(NAME)
    assert await checks.is_fine("queues", publisher=publisher)
    broker.publish(NAME, "letter.sent")
    await eventually(lambda: broker.waiting(NAME) == 1)
    finding = await checks.note("queues", publisher=publisher)
    assert finding.text == f"queue `{NAME}` has 1 messages and no consumer"


async def test_a_queue_that_is_not_as_the_topology_has_it_stops_every_worker(
    checks: Checks,
    publisher: RabbitMQPublisher,
    shell: Callable[[str], None],
    broker: Broker,
) -> None:
    broker.exchange(NAME)
    broker.queue(NAME)
    options = {"publisher": publisher, "relay_name": "shop:TOPOLOGY"}
    finding = await checks.problem("exchanges", **options)
    assert finding.text.startswith("no worker can start: RabbitMQ at 127.0.0.1:5672/")
    assert f"queue `{NAME}`: PRECONDITION_FAILED" in finding.text
    broker.delete_queue(NAME)
    await asyncio.to_thread(shell, finding.remedy[0].partition("then: ")[2])
    assert await checks.is_fine("exchanges", **options)


async def test_a_queue_that_a_route_names_has_to_exist(
    checks: Checks, rabbitmq_url: str, broker: Broker
) -> None:
    await save(checks, "letter.sent")
    routes = {"letter.sent": Route(exchange="", routing_key=NAME)}
    publisher = RabbitMQPublisher(rabbitmq_url, exchange="", routes=routes)
    assert f"`{NAME}`" in (await checks.problem("queues", publisher=publisher)).text
    broker.queue(NAME)
    assert await checks.is_fine("queues", publisher=publisher)


async def test_an_event_type_that_no_queue_of_the_topology_takes_is_noted(
    checks: Checks, publisher: RabbitMQPublisher
) -> None:
    await publisher.open()
    await publisher.close()
    await save(checks, "letter.sent", "parcel.sent")
    finding = await checks.note("bindings", publisher=publisher)
    assert "no queue of the topology takes parcel.sent" in finding.text
    assert finding.remedy == (f'In the topology: Queue(…, [Binding("{NAME}", "parcel.sent")])',)


async def test_a_broker_that_lets_nobody_in_is_one_problem(
    checks: Checks, rabbitmq_url: str
) -> None:
    with temporary_user(rabbitmq_url) as user:
        wrong = str(URL(user.url).with_password("s3cret"))
        for url in (wrong, "amqp://ann:s3cret@127.0.0.1:1/", user.url):
            publisher = RabbitMQPublisher(url, exchange="orders")
            found = await checks.findings(CONNECTION, publisher=publisher)
            [finding] = [each for each in found if each.level == Level.PROBLEM]
            assert "s3cret" not in finding.text


async def test_a_host_that_does_not_answer_beside_one_that_does_is_noted(
    checks: Checks, rabbitmq_url: str, broker: Broker
) -> None:
    broker.exchange(NAME)
    url = rabbitmq_url.replace("127.0.0.1:5672", "127.0.0.1:1,127.0.0.1:5672")
    publisher = RabbitMQPublisher(url, exchange=NAME)
    found = await checks.findings(CONNECTION, publisher=publisher)
    assert [each.level for each in found] == [Level.OK, Level.NOTE]
    assert "127.0.0.1:1/" in found[1].text


async def test_no_consumer_sees_the_message_that_asks_whether_the_broker_is_blocked(
    checks: Checks, rabbitmq_url: str, broker: Broker
) -> None:
    broker.exchange(NAME, "fanout")
    everything = broker.queue(NAME, "", exchange=NAME)
    publisher = RabbitMQPublisher(rabbitmq_url, exchange=NAME)
    for check in (CONNECTION, "exchanges", "queues"):
        assert await checks.is_fine(check, publisher=publisher)
    broker.publish(NAME, "a later one")
    await eventually(lambda: broker.waiting(everything) == 1)


@pytest.mark.parametrize(
    ("route", "reason", "remedy"),
    [
        (
            "routing key `parcel.sent` of exchange `shop`",
            "no queue takes routing key `parcel.sent` at exchange `shop` (312 NO_ROUTE)",
            'In the topology: Queue(…, [Binding("shop", "parcel.sent")])',
        ),
        (
            "routing key `parcel.sent` of exchange `shop`",
            "RabbitMQ rejected it: a queue is full (overflow=reject-publish)",
            "Start its consumers, or raise its max-length; records leave by themselves then.",
        ),
        (
            "exchange `shop`",
            "RabbitMQ refused it: NOT_FOUND - no exchange",
            "Or: postroom topology --broker URL --exchange shop --apply",
        ),
    ],
    ids=["no queue", "full", "no exchange"],
)
async def test_a_route_that_a_worker_reports_as_waiting_is_a_problem(
    checks: Checks, route: str, reason: str, remedy: str
) -> None:
    waiting = {"route": route, "reason": reason, "seconds": 600, "records": 12}
    now = datetime.now(UTC)
    row = {
        "worker": "host:1:x",
        "seen_until": now + timedelta(minutes=1),
        "reported_at": now,
        "report": {"waiting_routes": [waiting]},
    }
    async with checks.engine.begin() as connection:
        await connection.execute(insert(checks.outbox.tables.workers).values(row))
    finding = await checks.problem("routes")
    assert finding.text.startswith(f"{route} takes no records, for 10 min: ")
    assert remedy in finding.remedy


async def save(checks: Checks, *event_types: str) -> None:
    events = [
        UntypedEvent(event_type=each, aggregate_type="letter", aggregate_id=each, payload={})
        for each in event_types
    ]
    async with checks.engine.begin() as connection:
        await checks.outbox.save(connection, events)

"""`postroom topology`: shows what has to be on the broker, and puts it there."""

import asyncio
from urllib.parse import quote

import pytest
from yarl import URL

from tests.support.broker import Broker
from tests.support.in_process import InProcess
from tests.support.services import SECRET
from tests.support.waiting import eventually

USAGE, BROKER = 2, 5
NAME = "letters"
"""What exchange and queue are called."""


@pytest.fixture
def shop(run_postroom: InProcess, rabbitmq_url: str) -> None:
    """A module that holds a topology, and a relay whose publisher has it."""
    run_postroom.write(
        "shop.py",
        f"""
from sqlalchemy import MetaData
from sqlalchemy.ext.asyncio import create_async_engine

from postroom import MemoryPublisher, Outbox, OutboxRecord, OutboxRelay
from postroom.publishers.rabbitmq import Binding, Exchange, Queue, RabbitMQPublisher, Topology

TOPOLOGY = Topology(
    exchanges=[Exchange({NAME!r})],
    queues=[Queue({NAME!r}, [Binding({NAME!r}, "letter.*")], max_length=5)],
)
engine = create_async_engine("sqlite+aiosqlite:///shop.db")
outbox = Outbox(MetaData(), record=type("Record", (OutboxRecord,), {{}}))
relay = OutboxRelay(
    outbox, engine, RabbitMQPublisher({rabbitmq_url!r}, exchange={NAME!r}, topology=TOPOLOGY)
)
other = OutboxRelay(outbox, engine, MemoryPublisher())
""",
    )


def lines(text: str) -> list[str]:
    """Give the lines of a tree without its branches."""
    return [line.lstrip("│├└─ ") for line in text.splitlines()]


@pytest.mark.usefixtures("shop")
def test_a_topology_is_printed_and_nothing_is_declared(
    run_postroom: InProcess, broker: Broker
) -> None:
    url = str(URL("amqp://ann@mq.example:5673/shop").with_password(SECRET))
    command = run_postroom("topology", "shop:TOPOLOGY", RABBITMQ_URL=url)
    assert command.code == 0
    assert lines(command.out) == [
        "Topology for RabbitMQ at mq.example:5673/shop",
        f"exchange {NAME} (topic)",
        f"queue {NAME} (classic, x-max-length=5)",
        f"from {NAME} by letter.*",
    ]
    assert command.err == ""
    assert not broker.exists(exchange=NAME)


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize("target", ["TOPOLOGY", "relay"])
def test_a_topology_is_applied_and_once_more_changes_nothing(
    run_postroom: InProcess, broker: Broker, rabbitmq_url: str, target: str
) -> None:
    told = {"RABBITMQ_URL": rabbitmq_url} if target == "TOPOLOGY" else {}  # the relay knows
    first = run_postroom("topology", f"shop:{target}", "--apply", **told)
    assert first.code == 0, first.err
    assert "declared on RabbitMQ at 127.0.0.1:5672" in lines(first.out)[0]
    broker.publish(NAME, "letter.sent")
    asyncio.run(eventually(lambda: broker.waiting(NAME) == 1))
    again = run_postroom("topology", f"shop:{target}", "--apply", **told)
    assert again.code == 0, again.err
    assert again.out == first.out
    assert broker.waiting(NAME) == 1


def test_a_broker_may_have_several_hosts(
    run_postroom: InProcess, broker: Broker, rabbitmq_url: str
) -> None:
    url = rabbitmq_url.replace("127.0.0.1:5672", "127.0.0.1:1,127.0.0.1:5672")
    command = run_postroom("topology", "--apply", "--exchange", NAME, RABBITMQ_URL=url)
    assert command.code == 0, command.err
    vhost = URL(rabbitmq_url).path
    unwrapped = " ".join(command.out.split())
    assert f"RabbitMQ at 127.0.0.1:1{vhost} or 127.0.0.1:5672{vhost}" in unwrapped
    assert broker.exists(exchange=NAME)


def test_if_no_host_can_be_used_the_error_names_them_all(run_postroom: InProcess) -> None:
    url = f"amqp://ann:{quote(SECRET, safe='')}@127.0.0.1:1,127.0.0.1:2/shop"
    line = run_postroom("topology", "--apply", RABBITMQ_URL=url).error_line(BROKER)
    assert {f"127.0.0.1:{port}/shop:" for port in (1, 2)} <= set(line.split())


@pytest.mark.usefixtures("shop")
def test_a_broker_that_a_flag_names_wins_over_the_relays(run_postroom: InProcess) -> None:
    command = run_postroom("topology", "shop:relay", "--broker", "amqp://mq.example/")
    assert lines(command.out)[0].endswith("mq.example:5672/")


@pytest.mark.parametrize("with_queue", [False, True])
def test_an_exchange_and_a_queue_for_all_its_messages_need_no_code(
    run_postroom: InProcess, broker: Broker, rabbitmq_url: str, with_queue: bool
) -> None:
    words = ["--broker", rabbitmq_url, "--exchange", NAME, *(["--queue", NAME] * with_queue)]
    command = run_postroom("topology", "--apply", *words)
    assert command.code == 0, command.err
    queue = [f"queue {NAME} (classic)", f"from {NAME} by #"]
    assert lines(command.out)[1:] == [f"exchange {NAME} (topic)", *(queue * with_queue)]
    assert broker.exists(exchange=NAME)
    if with_queue:
        broker.publish(NAME, "anything.at.all")
        asyncio.run(eventually(lambda: broker.waiting(NAME) == 1))


def test_without_any_option_the_default_exchange_is_printed(run_postroom: InProcess) -> None:
    first, *declared = lines(run_postroom("topology").out)
    assert first.endswith(" localhost:5672/")
    assert declared == ["exchange messaging (topic)"]


@pytest.mark.usefixtures("shop")
def test_what_differs_on_the_broker_is_an_error_and_stays(
    run_postroom: InProcess, broker: Broker
) -> None:
    broker.exchange(NAME, "fanout")
    broker.queue(NAME)
    line = run_postroom("topology", "shop:relay", "--apply").error_line(BROKER)
    assert f"exchange `{NAME}`" in line
    assert f"queue `{NAME}`" in line
    broker.exchange(NAME, "fanout")  # would fail if it were otherwise now


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("shop:relay", "--queue", "more"), "--queue adds to --exchange"),
        (("shop:other",), "shop:other has no topology"),
        (("shop:TOPLOGY",), "It has TOPOLOGY, relay, other."),
        (("--broker", f"http://guest:{SECRET}@mq/"), "amqp://user:password@host"),
    ],
)
def test_what_cannot_be_understood_is_one_line(
    run_postroom: InProcess, words: tuple[str, ...], says: str
) -> None:
    assert says in run_postroom("topology", *words).error_line(USAGE)

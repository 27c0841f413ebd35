"""A topology as data: what it says, what it needs, what it refuses."""

from datetime import timedelta
from typing import Any

import pytest

from postroom.errors import ConfigurationError
from postroom.publishers.rabbitmq import Binding, Exchange, Queue, Topology


def test_an_exchange_is_a_durable_topic_and_a_queue_classic_unless_told_otherwise() -> None:
    exchange, queue = Exchange("messaging"), Queue("q")
    assert (exchange.type, exchange.durable, exchange.all_arguments()) == ("topic", True, {})
    assert (queue.type, queue.durable, queue.all_arguments()) == ("classic", True, {})
    assert queue.bindings == ()


def test_what_it_is_told_is_what_the_broker_is_told() -> None:
    exchange = Exchange("e", "fanout", alternate="rest", arguments={"x-own": 1})
    assert exchange.all_arguments() == {"alternate-exchange": "rest", "x-own": 1}
    queue = Queue(
        "q",
        type="quorum",
        dead_letter="dlx",
        max_length=5,
        overflow="reject-publish",
        message_ttl=timedelta(minutes=1.5),
        arguments={"x-single-active-consumer": True, "x-max-length": 0},  # these win
    )
    assert queue.all_arguments() == {
        "x-queue-type": "quorum",
        "x-dead-letter-exchange": "dlx",
        "x-max-length": 0,
        "x-overflow": "reject-publish",
        "x-message-ttl": 90_000,
        "x-single-active-consumer": True,
    }


@pytest.mark.parametrize("milliseconds", [0, 1, 57, 1001, 4035, 10**9 + 7])
def test_a_time_to_live_is_exact_to_the_millisecond(milliseconds: int) -> None:
    queue = Queue("q", message_ttl=timedelta(milliseconds=milliseconds))
    assert queue.all_arguments()["x-message-ttl"] == milliseconds


def test_one_binding_need_not_be_a_list() -> None:
    binding = Binding("e")
    assert Queue("q", binding).bindings == (binding,)  # type: ignore[arg-type]  # as people write
    assert binding.routing_key == "#"


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"type": "stream"}, r"queue `q` is of type 'stream': 'classic' or 'quorum'"),
        ({"type": "quorum", "durable": False}, "queue `q`: a quorum queue is durable"),
    ],
)
def test_a_queue_that_cannot_be_is_refused(options: dict[str, Any], error: str) -> None:
    with pytest.raises(ConfigurationError, match=error):
        Queue("q", **options)


@pytest.mark.parametrize(
    ("parts", "error"),
    [
        ({"exchanges": [Exchange("e"), Exchange("e", "direct")]}, "exchange `e` more than once"),
        ({"queues": [Queue("q"), Queue("p"), Queue("q")]}, "queue `q` more than once"),
        ({"exchanges": [Exchange("")]}, "exchange without a name"),
        ({"queues": [Queue("")]}, "queue without a name"),
    ],
)
def test_a_topology_that_cannot_be_is_refused(parts: dict[str, Any], error: str) -> None:
    with pytest.raises(ConfigurationError, match=error):
        Topology(**parts)


def test_what_it_needs_and_does_not_declare_is_foreign() -> None:
    topology = Topology(
        exchanges=[Exchange("own", alternate="rest"), Exchange("dlx", alternate="own")],
        queues=[
            Queue("a", [Binding("own"), Binding("theirs", "x"), Binding("theirs", "y")]),
            Queue("b", dead_letter="dlx"),
            Queue("c", dead_letter="graveyard"),
            Queue("d", dead_letter=""),  # the default exchange is always there
        ],
    )
    assert topology.foreign() == ["graveyard", "rest", "theirs"]


def test_it_can_be_told_line_by_line() -> None:
    topology = Topology(
        exchanges=[
            Exchange("messaging", alternate="rest"),
            Exchange("log", "fanout", durable=False),
        ],
        queues=[
            Queue("audit", [Binding("messaging"), Binding("log", "x.*")]),
            Queue("jobs", type="quorum", dead_letter="messaging.dlx", max_length=10),
        ],
    )
    assert topology.describe() == [
        "exchange messaging (topic, alternate-exchange=rest)",
        "exchange log (fanout, not durable)",
        "queue audit (classic)",
        "  from messaging by #",
        "  from log by x.*",
        "queue jobs (quorum, x-dead-letter-exchange=messaging.dlx, x-max-length=10)",
    ]


BOUND = Topology(
    exchanges=[
        Exchange("topic", alternate="spare"),
        Exchange("direct", "direct"),
        Exchange("fanout", "fanout"),
        Exchange("headers", "headers", alternate="loop"),
        Exchange("spare", "fanout", alternate="topic"),
        Exchange("loop", "direct", alternate="loop"),
        Exchange("bare"),
    ],
    queues=[
        Queue("q", [Binding("topic", "order.*"), Binding("direct", "order"), Binding("fanout")]),
        Queue("r", [Binding("headers", ""), Binding("foreign", "order"), Binding("spare", "x")]),
    ],
)


@pytest.mark.parametrize(
    ("exchange", "routing_key", "does"),
    [
        ("topic", "order.placed", True),
        ("topic", "invoice", True),  # by the alternate exchange
        ("direct", "order", True),
        ("direct", "order.placed", False),
        ("fanout", "anything", True),
        ("headers", "anything", True),  # its headers may fit
        ("foreign", "anything", True),  # of a type that is not known here
        ("spare", "anything", True),
        ("loop", "order", False),
        ("bare", "order", False),
        ("unknown", "order", False),
        ("", "q", True),
        ("", "other", False),
    ],
)
def test_a_topology_knows_which_messages_its_queues_should_take(
    exchange: str, routing_key: str, does: bool
) -> None:
    assert BOUND.routes(exchange, routing_key) is does

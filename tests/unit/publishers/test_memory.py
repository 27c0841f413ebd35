"""The broker in the process: its queues, and what it keeps."""

import asyncio
from typing import Any

import pytest

from postroom import UntypedEvent
from postroom.errors import ConfigurationError, OutageError
from postroom.publishers.base import (
    DELIVERED,
    Outcome,
    Postponed,
    Publisher,
    Refused,
    ReportsOutages,
    ReportsWaitingRoutes,
)
from postroom.publishers.memory import MemoryPublisher, MemoryQueue
from postroom.record import ClaimedRecord
from tests.support.claims import claimed
from tests.support.waiting import PATIENCE


def record(event_type: str = "order.placed", **values: Any) -> ClaimedRecord:
    return claimed(UntypedEvent(event_type=event_type, payload={"n": 1}), **values)


def waits(outcome: Outcome, reason: str) -> bool:
    return isinstance(outcome, Postponed) and outcome.reason == reason


def types(queue: MemoryQueue | MemoryPublisher) -> list[str]:
    return [message.event_type for message in queue.messages]


async def test_it_is_a_publisher() -> None:
    publisher: Publisher = MemoryPublisher()  # mypy proves the protocol
    assert (publisher.max_batch, publisher.max_in_flight) == (100, 1000)


async def test_without_a_queue_it_keeps_everything() -> None:
    publisher = MemoryPublisher()
    outcomes = await publisher.publish([record("order.placed"), record("x")])
    assert outcomes == [DELIVERED, DELIVERED]
    assert types(publisher) == ["order.placed", "x"]


async def test_a_message_goes_to_every_queue_that_takes_it_and_there_once() -> None:
    publisher = MemoryPublisher()
    orders = publisher.queue("orders", "order.*", "*.placed")
    audit = publisher.queue("audit", "#")
    lines = publisher.queue("lines", "order.line.*")
    await publisher.publish([record("order.placed"), record("order.line.added")])
    assert types(orders) == ["order.placed"]
    assert types(audit) == types(publisher) == ["order.placed", "order.line.added"]
    assert types(lines) == ["order.line.added"]


async def test_what_no_queue_takes_waits_until_one_does() -> None:
    publisher = MemoryPublisher()
    publisher.queue("orders", "order.*")
    invoice = record("invoice.sent")
    outcomes = await publisher.publish([invoice, record("order.placed")])
    assert waits(outcomes[0], "no queue takes `invoice.sent`")
    assert outcomes[1] is DELIVERED
    assert types(publisher) == ["order.placed"]
    [route] = publisher.waiting_routes()
    assert (route.route, route.records) == ("the route of `invoice.sent`", 1)
    publisher.queue("invoices", "invoice.*")
    assert await publisher.publish([invoice]) == [DELIVERED]
    assert publisher.waiting_routes() == ()
    assert isinstance(publisher, ReportsWaitingRoutes)


async def test_what_no_queue_takes_can_be_refused_or_accepted() -> None:
    refusing, accepting = MemoryPublisher(unroutable="refuse"), MemoryPublisher(unroutable="accept")
    for publisher in (refusing, accepting):
        publisher.queue("orders", "order.*")
    invoice = [record("invoice.sent")]
    [refused] = await refusing.publish(invoice)
    assert isinstance(refused, Refused)
    assert "`invoice.sent`" in refused.reason
    assert await accepting.publish(invoice) == [DELIVERED]
    assert refusing.waiting_routes() == accepting.waiting_routes() == ()


async def test_what_a_full_queue_or_one_that_is_bound_to_nothing_does_not_take() -> None:
    publisher = MemoryPublisher(rejected="refuse")
    publisher.queue("orders")
    [outcome] = await publisher.publish([record("orders")])
    assert waits(outcome, "no queue takes `orders`")
    publisher.queue("full", "#", max_length=0)
    assert await publisher.publish([record()]) == [Refused("queue `full` is full")]


async def test_what_a_full_queue_rejects_waits_until_there_is_room() -> None:
    publisher = MemoryPublisher()
    queue = publisher.queue("orders", "order.*", max_length=1)
    copies = publisher.queue("copies", "#")
    publisher.queue("orders", "invoice.*")  # its limit stays
    first, second = record("order.placed"), record("order.placed")
    outcomes = await publisher.publish([first, second])
    assert outcomes[0] is DELIVERED
    assert waits(outcomes[1], "queue `orders` is full")
    assert len(publisher.waiting_routes()) == 1
    await queue.get()
    assert await publisher.publish([second]) == [DELIVERED]
    assert types(copies) == ["order.placed"] * 2
    assert publisher.waiting_routes() == ()


@pytest.mark.parametrize("choice", [{"unroutable": "drop"}, {"rejected": "accept"}])
def test_a_choice_that_there_is_not_is_refused(choice: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="'wait'"):
        MemoryPublisher(**choice)


async def test_a_queue_that_is_declared_again_is_bound_to_more() -> None:
    publisher = MemoryPublisher()
    queue = publisher.queue("orders", "order.placed")
    await publisher.publish([record("order.placed")])
    assert publisher.queue("orders", "order.paid", "order.placed") is queue
    assert queue.patterns == ("order.placed", "order.paid")
    await publisher.publish([record("order.paid")])
    assert types(queue) == ["order.placed", "order.paid"]


async def test_a_queue_is_there_when_it_is_empty() -> None:
    assert MemoryPublisher().queue("orders")


async def test_who_takes_from_an_empty_queue_waits_for_a_message() -> None:
    publisher = MemoryPublisher()
    queue = publisher.queue("all", "#")
    takers = [asyncio.create_task(queue.get()) for _ in range(3)]
    await asyncio.sleep(0)
    takers[0].cancel()
    await publisher.publish([record("a"), record("b"), record("c")])
    async with asyncio.timeout(PATIENCE):
        taken = [message.event_type for message in await asyncio.gather(*takers[1:])]
    assert taken == ["a", "b"]
    assert types(queue) == ["c"]


async def test_it_keeps_the_newest_messages_and_no_more_than_it_is_told() -> None:
    publisher = MemoryPublisher(keep=2)
    queue = publisher.queue("all", "#")
    outcomes = await publisher.publish([record(name) for name in "abc"])
    assert outcomes == [DELIVERED] * 3
    assert types(publisher) == types(queue) == ["b", "c"]
    assert [(await queue.get()).event_type for _ in range(2)] == ["b", "c"]
    assert (len(queue), types(publisher)) == (0, ["b", "c"])


async def test_it_has_a_limit_unless_it_is_told_to_have_none() -> None:
    bounded, boundless = MemoryPublisher(), MemoryPublisher(keep=None)
    records = [record()] * 10_001
    for publisher in (bounded, boundless):
        await publisher.publish(records)
    assert (len(bounded.messages), len(boundless.messages)) == (10_000, 10_001)


async def test_receivers_share_nothing_that_can_be_changed() -> None:
    publisher = MemoryPublisher()
    first, second = publisher.queue("first", "#"), publisher.queue("second", "#")
    sent = record(headers={"trace": ["00-1"]})
    await publisher.publish([sent])
    message = await first.get()
    message.payload["n"] = 2
    message.headers["trace"].append("changed")
    other = await second.get()
    assert (other.payload, other.headers) == ({"n": 1}, {"trace": ["00-1"]})
    assert sent.headers == {"trace": ["00-1"]}


async def test_an_outage_and_its_end_are_reported_when_they_are_set() -> None:
    publisher = MemoryPublisher()
    reported: list[str | None] = []
    publisher.watch(lambda outage: reported.append(outage.reason if outage else None))
    publisher.outage = "the cable is out"
    with pytest.raises(OutageError, match="the cable is out"):
        await publisher.publish([record()])
    publisher.outage = None
    assert await publisher.publish([record()]) == [DELIVERED]
    assert reported == ["the cable is out", None]
    assert isinstance(publisher, ReportsOutages)

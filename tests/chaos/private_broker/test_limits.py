"""Messages that RabbitMQ will not have: it closes the channel on all, for the sake of one."""

from collections import Counter

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from postroom import OutboxRecord, Status
from postroom.relay.relay import OutboxRelay
from postroom.relay.settings import OnFailed
from tests.chaos.broker import MAX_MESSAGE_SIZE
from tests.chaos.ledger import out_of_order
from tests.chaos.mailbox import Mailbox, records_in
from tests.chaos.noting_publisher import NotingPublisher
from tests.chaos.outbox import (
    TABLES,
    blocked_keys,
    has_status,
    records_of,
    records_of_keys,
    row_of,
    rows,
    running,
    save,
)
from tests.support.shop import outbox
from tests.support.waiting import eventually

pytestmark = pytest.mark.extended

WAITING = (TABLES.records.c.status == Status.PENDING, TABLES.records.c.ready)
MOST_COPIES = 2
"""Of a message: one by the channel that the broker closed, one when the limit is known."""


def large(key: str, *, excess: int = 1) -> OutboxRecord:
    """Make a record whose message is over the limit by so many bytes."""
    (record,) = records_of(key, 1)
    frame = len('{"filling": ""}')
    record.payload = {"filling": "x" * (MAX_MESSAGE_SIZE + excess - frame)}
    return record


def amid(records: list[OutboxRecord], *culprits: OutboxRecord) -> list[OutboxRecord]:
    """Put the culprits among the others, evenly."""
    step = len(records) // (len(culprits) + 1)
    found = list(records)
    for number, culprit in enumerate(culprits, start=1):
        found.insert(number * step + number - 1, culprit)
    return found


async def deliver(
    engine: AsyncEngine,
    mailbox: Mailbox,
    records: list[OutboxRecord],
    *,
    on_failed: OnFailed = "hold",
) -> NotingPublisher:
    """Have a relay do all that there is to do."""

    async def done() -> bool:
        return not await rows(engine, *WAITING)

    await save(engine, records)
    noting = NotingPublisher(mailbox.publisher())
    relay = OutboxRelay(outbox, engine, noting, batch_size=500, on_failed=on_failed)
    async with running(relay):
        await eventually(done, "nothing waits any more")
        await relay.stop()
    return noting


async def assert_failed(engine: AsyncEngine, *culprits: OutboxRecord) -> None:
    for culprit in culprits:
        row = await row_of(engine, culprit)
        assert (row.status, row.retry_count) == (Status.FAILED, 1)
        assert f"RabbitMQ takes {MAX_MESSAGE_SIZE} at most" in row.error_message


async def assert_arrived(
    engine: AsyncEngine, mailbox: Mailbox, noting: NotingPublisher, others: list[OutboxRecord]
) -> None:
    """The others arrived, in order, and nothing was held against them."""
    arrived = await mailbox.empty()
    assert records_in(arrived) == {str(each.id) for each in others}
    assert out_of_order(arrived) == []
    assert max(Counter(each.record for each in arrived).values(), default=0) <= MOST_COPIES
    assert noting.asked_again == []
    found = await rows(engine, TABLES.records.c.id.in_([each.id for each in others]))
    assert has_status(found, Status.PUBLISHED)
    assert {(each.retry_count, each.error_message) for each in found} <= {(0, None)}


@pytest.mark.requirement("E1", "E2")
async def test_messages_over_the_limit_among_a_thousand_fail_and_the_rest_arrives_in_order(
    engine: AsyncEngine, mailbox: Mailbox
) -> None:
    culprits = [large(f"too-large-{number}", excess=10**number) for number in range(3)]
    others = records_of_keys(111, 9)

    noting = await deliver(engine, mailbox, amid(others, *culprits))

    await assert_failed(engine, *culprits)
    await assert_arrived(engine, mailbox, noting, others)
    assert noting.outages == []


@pytest.mark.requirement("E2")
async def test_a_message_of_exactly_the_limit_arrives(
    engine: AsyncEngine, mailbox: Mailbox
) -> None:
    record = large("just-right", excess=0)

    noting = await deliver(engine, mailbox, [record])

    await assert_arrived(engine, mailbox, noting, [record])


@pytest.mark.requirement("E1")
@pytest.mark.parametrize("on_failed", ["hold", "continue"])
async def test_a_message_over_the_limit_holds_back_its_own_key_only_as_long_as_it_is_told_to(
    engine: AsyncEngine, mailbox: Mailbox, on_failed: OnFailed
) -> None:
    before, culprit, behind = records_of("k", 3), large("k"), records_of("k", 3)
    others = records_of_keys(20, 3)
    records = [*before, *others[:30], culprit, *behind, *others[30:]]

    noting = await deliver(engine, mailbox, records, on_failed=on_failed)

    free = [*before, *others] if on_failed == "hold" else [*before, *others, *behind]
    await assert_failed(engine, culprit)
    await assert_arrived(engine, mailbox, noting, free)
    blocked = {each.aggregate_id for each in await blocked_keys(engine)}
    assert blocked == ({"k"} if on_failed == "hold" else set())

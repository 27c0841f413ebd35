"""Worker processes are killed while they publish to RabbitMQ at full speed."""

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from postroom import OutboxRecord, Status
from postroom.publishers.rabbitmq import RabbitMQPublisher
from tests.chaos.fleet import Fleet
from tests.chaos.ledger import out_of_order, repeats
from tests.chaos.mailbox import Mailbox, records_in
from tests.chaos.outbox import TABLES, blocked_keys, records_of_keys, rows, save, settled
from tests.support.waiting import FULL, eventually

pytestmark = pytest.mark.extended

KEYS = 200
EACH = 20 if FULL else 12
ROUNDS = 8 if FULL else 1
BATCH = 100
MOST_UNSETTLED = RabbitMQPublisher.max_in_flight + BATCH
"""What a worker may have sent and not settled. `test_killed_during_outage` has few in flight."""


async def kill_one(engine: AsyncEngine, mailbox: Mailbox, fleet: Fleet) -> tuple[set[str], bool]:
    """Have a worker killed on the way, and another one deliver the rest.

    Gives the records that the first had settled, and whether it left any to the other one: on a
    busy machine it may be done before it is killed.
    """

    async def flows() -> bool:
        return await mailbox.count() >= before + 100

    before = await mailbox.count()
    victim = fleet.start()
    await eventually(flows, "it is in full flow")
    victim.kill()
    done = await rows(engine, TABLES.records.c.status == Status.PUBLISHED)
    left_some = not await settled(engine)
    survivor = fleet.start()
    await eventually(lambda: settled(engine), "everything is settled")
    survivor.ask_to_stop()
    await eventually(lambda: survivor.dead, "it ends")
    return {str(row.id) for row in done}, left_some


@pytest.mark.requirement("C16", "E1", "E2")
async def test_workers_that_are_killed_at_full_speed_lose_nothing_and_repeat_what_was_in_flight(
    engine: AsyncEngine, distant_mailbox: Mailbox, fleet: Fleet
) -> None:
    records: list[OutboxRecord] = []
    done: set[str] = set()
    await distant_mailbox.declare()
    fleet.configure(
        broker=distant_mailbox.url,
        exchange=distant_mailbox.name,
        batch_size=BATCH,
        lease=2.0,
        poll=0.1,
    )
    kills = 0
    while kills < ROUNDS:
        more = records_of_keys(KEYS, EACH)
        records += more
        await save(engine, more)
        settled_before, left_some = await kill_one(engine, distant_mailbox, fleet)
        kills += left_some
        done |= settled_before & {str(each.id) for each in more}

    found = await distant_mailbox.empty()
    assert records_in(found) == {str(each.id) for each in records}
    assert out_of_order(found) == []
    again = [entry.record for _, entry in repeats(found)]
    assert len(again) <= ROUNDS * MOST_UNSETTLED
    assert len(again) == len(set(again))  # each is on its way in one killed worker only
    assert not done & set(again)
    assert await blocked_keys(engine) == []
    assert {row.retry_count for row in await rows(engine)} == {0}

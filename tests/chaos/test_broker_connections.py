"""The connection to RabbitMQ is cut, stalls or crawls in the middle of deliveries."""

import re
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from postroom import OutboxRecord, Status
from postroom.relay.health import HealthStatus
from postroom.relay.relay import OutboxRelay
from postroom.testing import FakeClock
from tests.chaos.ledger import out_of_order, repeats
from tests.chaos.mailbox import Mailbox, records_in
from tests.chaos.noting_publisher import NotingPublisher
from tests.chaos.outbox import blocked_keys, has_status, records_of_keys, rows, running, save
from tests.support.proxy import Fault, How, Proxy, proxy_to
from tests.support.shop import outbox
from tests.support.waiting import FULL, eventually

pytestmark = pytest.mark.extended

SENT = (5, 250, 600, 20_000, 100_000)
"""Bytes: in the greeting, the login, a declaration, the first batch, a later one."""
RECEIVED = (5, 515, 700, 820, 900)
"""Bytes: in the greeting, the login, a declaration, the first confirmation, a later one."""
KEYS, EACH = 100, 60 if FULL else 12
PAUSE = timedelta(seconds=30)
CUTS = [(How.RST, "after_sent"), (How.FIN, "after_received")]
if FULL:
    CUTS += [(How.FIN, "after_sent"), (How.RST, "after_received")]


def port_of(mailbox: Mailbox) -> int:
    found = re.search(r":(\d+)/", mailbox.url)
    return int(found[1]) if found else 5672


def through(proxy: Proxy, mailbox: Mailbox, options: str = "") -> str:
    """Give the URL of a mailbox, with the proxy before it."""
    url = re.sub(r"@[^/]+/", f"@127.0.0.1:{proxy.port}/", mailbox.url)
    return f"{url}?{options}" if options else url


def relay_by(engine: AsyncEngine, noting: NotingPublisher, clock: FakeClock) -> OutboxRelay:
    return OutboxRelay(outbox, engine, noting, batch_size=200, clock=clock)


async def see_through(
    relay: OutboxRelay, noting: NotingPublisher, clock: FakeClock, records: Sequence[OutboxRecord]
) -> None:
    """Wait until all has arrived; pauses are made short."""

    def all_arrived() -> bool:
        if relay.health.status is HealthStatus.DEGRADED or relay.idle:
            clock.advance(PAUSE)
        return len(noting.delivered) == len(records)

    await eventually(all_arrived, "everything is delivered")
    await eventually(lambda: relay.health.status is HealthStatus.OK, "the relay is well again")
    await relay.stop()


async def assert_nothing_lost(
    engine: AsyncEngine, mailbox: Mailbox, noting: NotingPublisher, records: Sequence[OutboxRecord]
) -> Counter[str]:
    """All is there, in order, and more than once only what nobody had confirmed; count it."""
    found = await rows(engine)
    assert has_status(found, Status.PUBLISHED)
    assert {(row.retry_count, row.error_message) for row in found} == {(0, None)}
    assert await blocked_keys(engine) == []
    arrived = await mailbox.empty()
    assert records_in(arrived) == {str(each.id) for each in records}
    assert out_of_order(arrived) == []
    assert noting.asked_again == []
    assert set(noting.delivered.values()) == {1}
    assert noting.sent_by_itself(Counter(each.record for each in arrived)) == []
    return Counter(again.record for _, again in repeats(arrived))


@pytest.mark.requirement("C17", "E2")
@pytest.mark.parametrize(("how", "direction"), CUTS)
async def test_a_connection_that_is_cut_anywhere_loses_nothing(
    engine: AsyncEngine, distant_mailbox: Mailbox, how: How, direction: str
) -> None:
    points = SENT if direction == "after_sent" else RECEIVED
    faults = [Fault(how=how, **{direction: count}) for count in points]
    records = records_of_keys(KEYS, EACH)
    await save(engine, records)
    async with proxy_to(port_of(distant_mailbox), *faults) as proxy:
        clock = FakeClock()
        noting = NotingPublisher(distant_mailbox.publisher(through(proxy, distant_mailbox)))
        relay = relay_by(engine, noting, clock)
        async with running(relay):
            await see_through(relay, noting, clock, records)

    assert proxy.faults_seen == len(points)
    again = await assert_nothing_lost(engine, distant_mailbox, noting, records)
    assert all(noting.asked[record] > 1 for record in again)


@pytest.mark.requirement("E2")
@pytest.mark.parametrize(
    ("options", "confirm_within"),
    [("heartbeat=1", 30.0), ("heartbeat=0", 30.0), ("heartbeat=0", 1.0)],
    ids=["by its heartbeat", "by its silence", "by what it does not confirm"],
)
async def test_a_connection_that_stalls_is_noticed_and_given_up(
    engine: AsyncEngine, distant_mailbox: Mailbox, options: str, confirm_within: float
) -> None:
    records = records_of_keys(KEYS, EACH)
    await save(engine, records)
    stall = Fault(how=How.STALL, after_sent=100_000)
    async with proxy_to(port_of(distant_mailbox), stall) as proxy:
        clock = FakeClock()
        publisher = distant_mailbox.publisher(
            through(proxy, distant_mailbox, options),
            confirm_within=timedelta(seconds=confirm_within),
        )
        noting = NotingPublisher(publisher)
        relay = relay_by(engine, noting, clock)
        async with running(relay):
            await see_through(relay, noting, clock, records)

    assert proxy.faults_seen == 1
    assert proxy.connections == 2
    await assert_nothing_lost(engine, distant_mailbox, noting, records)


@pytest.mark.requirement("E2")
async def test_a_connection_that_stalls_while_much_is_written_is_given_up(
    engine: AsyncEngine, distant_mailbox: Mailbox
) -> None:
    records = records_of_keys(200, 1)
    for record in records:
        record.payload = {"filling": "x" * 60_000}
    await save(engine, records)
    stall = Fault(how=How.STALL, after_sent=1_000_000)
    async with proxy_to(port_of(distant_mailbox), stall) as proxy:
        clock = FakeClock()
        publisher = distant_mailbox.publisher(
            through(proxy, distant_mailbox, "heartbeat=0"), confirm_within=timedelta(seconds=1)
        )
        noting = NotingPublisher(publisher)
        relay = relay_by(engine, noting, clock)
        async with running(relay):
            await see_through(relay, noting, clock, records)

    assert proxy.connections == 2
    assert noting.outages
    await assert_nothing_lost(engine, distant_mailbox, noting, records)


@pytest.mark.requirement("E2")
async def test_a_slow_connection_delivers_all_once(
    engine: AsyncEngine, distant_mailbox: Mailbox
) -> None:
    records = records_of_keys(KEYS, 4)
    await save(engine, records)

    def slow(proxy: Proxy) -> None:
        proxy.delay = 0.02

    async with proxy_to(port_of(distant_mailbox), prepare=slow) as proxy:
        clock = FakeClock()
        noting = NotingPublisher(distant_mailbox.publisher(through(proxy, distant_mailbox)))
        relay = relay_by(engine, noting, clock)
        async with running(relay):
            await see_through(relay, noting, clock, records)

    again = await assert_nothing_lost(engine, distant_mailbox, noting, records)
    assert not again
    assert noting.outages == []

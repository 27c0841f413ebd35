"""A worker is killed while the database is away: what it could not settle comes again."""

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from tests.chaos.fleet import Fleet
from tests.chaos.ledger import Ledger, out_of_order, repeats
from tests.chaos.open_transactions import port_of, through
from tests.chaos.outbox import records_of_keys, save
from tests.support.proxy import How, proxy_to
from tests.support.waiting import FULL, eventually, happens

pytestmark = pytest.mark.extended

IN_FLIGHT = 10
BATCH = 100
"""Much more than IN_FLIGHT: a worker without a bound has up to two batches unsettled."""
MOST_REPEATS = IN_FLIGHT + BATCH + 5
"""What is in flight, and what is answered and waits for its settlement; and a few to spare."""
KEYS = 200
RECORDS = 10_000 if FULL else 1_000
QUIET = 1.0
"""Seconds without a delivery, after which no more will come."""


async def falls_silent(ledger: Ledger) -> None:
    """Wait until nothing is delivered any more."""

    async def silent() -> bool:
        before = len(ledger.delivered())
        return not await happens(lambda: len(ledger.delivered()) > before, within=QUIET)

    await eventually(silent, "deliveries stop")


@pytest.mark.requirement("E1")
@pytest.mark.parametrize("how", [How.STALL, How.RST], ids=["hangs", "refuses"])
async def test_a_kill_while_the_database_is_away_repeats_what_was_in_flight_and_a_batch_at_most(
    engine: AsyncEngine, ledger: Ledger, fleet: Fleet, database_url: str, how: How
) -> None:
    await save(engine, records_of_keys(KEYS, RECORDS // KEYS))
    fleet.configure(lease=2.0, poll=0.2, latency=0.02, max_in_flight=IN_FLIGHT, batch_size=BATCH)
    async with proxy_to(port_of(database_url)) as proxy:
        worker = fleet.start(url=through(proxy, database_url))
        await eventually(lambda: len(ledger.delivered()) > 200, "deliveries flow")
        proxy.go_away(how)
        await falls_silent(ledger)
        worker.kill()
        fleet.start()
        await eventually(lambda: len(ledger.records()) == RECORDS, "everything is delivered")

    assert len(repeats(ledger.delivered())) <= MOST_REPEATS
    assert out_of_order(ledger.delivered()) == []

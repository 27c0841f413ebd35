"""What a claim costs in PostgreSQL: pages read, whatever else the table holds.

Pages and not time, so that a busy machine proves nothing. Each test compares an outbox of 1,000
ready records with the same one after a bulk load: in front of them what cannot leave, or behind
them what will leave later.
"""

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from sqlalchemy import Engine, MetaData, NullPool, TextClause, create_engine, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from postroom import Outbox, OutboxRecord
from postroom.database.database import as_rows
from postroom.record import PARTITIONS, Key
from postroom.store.store import Store

pytestmark = pytest.mark.no_cover  # others cover the same, for less time


class CostRecord(OutboxRecord):
    """A record whose claim is measured."""


outbox = Outbox(MetaData(), table="cost_outbox", record=CostRecord)

DEPTH = 4
KEYS = DEPTH * PARTITIONS
READY_FROM = 10_000_000
BLOCKED = "INSERT INTO cost_outbox_blocked_keys (aggregate_type, aggregate_id, position)"
LOADS = {
    "backlog": ["backlog"],
    "published": ["published"],
    "followers": ["followers", f"{BLOCKED} VALUES ('cost', 'blocked', 1)"],
    "backoff": [
        "backoff",
        f"{BLOCKED} SELECT 'cost', 'waiting' || n, n FROM generate_series(1, 10000) n",
    ],
}
ROWS = {
    # what: (how many, from which position, key, ready, status, due)
    "ready": (1000, READY_FROM, "'ready' || n", "true", "pending", "NULL"),
    "backlog": (20_000, 2 * READY_FROM, "'ready' || n", "true", "pending", "NULL"),
    "published": (20_000, 0, "'done' || n", "false", "published", "NULL"),
    "followers": (10_000, 0, "'blocked'", "false", "pending", "NULL"),
    "backoff": (10_000, 0, "'waiting' || n", "false", "pending", "now() + interval '1 hour'"),
}


def insert(what: str) -> str:
    """Write the INSERT of some rows, as many as PostgreSQL makes itself."""
    count, start, key, ready, status, due = ROWS[what]
    return f"""INSERT INTO cost_outbox (position, id, event_type, aggregate_type, aggregate_id,
            partition, payload, status, ready, due_at, occurred_at)
        SELECT {start} + n, gen_random_uuid(), 'cost.counted', 'cost', {key},
            n % {PARTITIONS}, '{{"some": "payload"}}', '{status}', {ready}, {due}, now()
        FROM generate_series(1, {count}) n"""


@pytest.fixture(scope="module")
def _tables(postgres_sync_url: str) -> Iterator[Engine]:
    engine = create_engine(postgres_sync_url, poolclass=NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        outbox.create_tables(connection)
        for table in outbox.tables:  # the tests say themselves when statistics are gathered
            connection.execute(text(f"ALTER TABLE {table.name} SET (autovacuum_enabled = false)"))
    yield engine
    with engine.connect() as connection:
        outbox.metadata.drop_all(connection)


@pytest.fixture
def database(_tables: Engine) -> Engine:
    """1,000 ready records, and statistics that know of nothing else."""
    names = ", ".join(table.name for table in outbox.tables)
    leases = f"SELECT n FROM generate_series(0, {PARTITIONS - 1}) n"
    run(
        _tables,
        f"TRUNCATE {names}",
        f"INSERT INTO cost_outbox_leases (partition) {leases}",
        insert("ready"),
        f"VACUUM ANALYZE {names}",
    )
    return _tables


@pytest.fixture
async def store(database: Engine, postgres_url: str) -> AsyncIterator[Store]:
    engine: AsyncEngine = create_async_engine(postgres_url)
    store = Store(engine, outbox.tables)
    store.database.sql.install(engine)  # as a relay does with its own
    yield store
    await engine.dispose()


def run(engine: Engine, *statements: str) -> None:
    with engine.connect() as connection:
        for statement in statements:
            connection.execute(text(statement))


def load(engine: Engine, what: str, *, analyze: bool) -> None:
    rows, *others = LOADS[what]
    run(engine, insert(rows), *others)
    if analyze:
        run(engine, "VACUUM ANALYZE cost_outbox, cost_outbox_blocked_keys")


async def explain(
    connection: AsyncConnection, statement: TextClause, **values: Any
) -> dict[str, Any]:
    """Run a statement, without leaving a trace, and give its plan."""
    explained = text(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement.text}")
    async with connection.begin() as transaction:
        found = await connection.scalar(explained, {"shift": 0.0, **values})
        await transaction.rollback()
    plan: dict[str, Any] = (found if isinstance(found, list) else json.loads(found))[0]["Plan"]
    return plan


def pages(plan: dict[str, Any]) -> int:
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


def scanned(plan: dict[str, Any]) -> list[str]:
    """Name the nodes of a plan that read the records from end to end, or sort them."""
    found = [node for each in plan.get("Plans", []) for node in scanned(each)]
    kind = plan["Node Type"]
    ours = plan.get("Relation Name") == "cost_outbox"
    return [*found, kind] if ours and kind in ("Seq Scan", "Bitmap Heap Scan") else found


async def plans(database: Engine, store: Store) -> dict[str, dict[str, Any]]:
    """Explain what a relay runs for each batch, by name."""
    # What was rolled back by the last poll that was explained is not to be counted.
    run(database, "VACUUM cost_outbox_leases, cost_outbox_workers")
    keys = [Key("cost", f"ready{number}") for number in range(1, KEYS + 1)]
    partitions = as_rows({"partition": each, "floor": 0} for each in range(PARTITIONS))
    window = {"partitions": partitions, "depth": DEPTH, "held": "{}"}
    look, look_up = store.leases._look, store.blocked_keys._look_up
    ann = {"worker": "ann", "presence": 5.0}
    async with store.database.engine.connect() as connection:
        return {
            "poll": await explain(connection, look, busy="{}", floors="[]", **ann),
            "window": await explain(connection, store.claims._ready_and_due, **window),
            "gates": await explain(connection, look_up, keys=as_rows(keys)),
        }


@pytest.mark.requirement("E1")
@pytest.mark.parametrize(
    "analyze",
    [
        pytest.param(True, marks=pytest.mark.extended, id="analysed"),
        pytest.param(False, id="stale"),
    ],
)
@pytest.mark.parametrize("what", LOADS)
async def test_a_claim_reads_hardly_more_pages(
    database: Engine, store: Store, what: str, analyze: bool
) -> None:
    before = await plans(database, store)
    load(database, what, analyze=analyze)
    after = await plans(database, store)
    for name in ("poll", "window"):
        assert pages(after[name]) <= 2 * pages(before[name]), name
        assert scanned(after[name]) == [], name
    # Nothing was blocked before. Two pages are the height of an index of 10,000 keys.
    assert pages(after["gates"]) <= 2 * KEYS + 10


@pytest.mark.requirement("E1")
async def test_a_burst_that_statistics_know_nothing_of_costs_hardly_more_pages(
    database: Engine, store: Store
) -> None:
    before = await plans(database, store)
    load(database, "published", analyze=True)
    load(database, "backlog", analyze=False)
    after = await plans(database, store)
    for name in ("poll", "window"):
        assert pages(after[name]) <= 2 * pages(before[name]), name


def rows_met(plan: dict[str, Any]) -> float:
    """Count the rows that all nodes of a plan gave, or left out."""
    kinds = ("Actual Rows", "Rows Removed by Filter", "Rows Removed by Join Filter")
    here = sum(plan.get(each, 0) for each in kinds) * plan["Actual Loops"]
    return float(here) + sum(map(rows_met, plan.get("Plans", [])))


@pytest.mark.requirement("E17")
async def test_to_park_the_followers_of_many_keys_each_is_looked_up_once(
    database: Engine, store: Store
) -> None:
    """Not compared with each of the keys, as a join without an index does."""
    keys = [Key("cost", f"ready{number}") for number in range(1, 1001)]
    block = f"{BLOCKED} SELECT 'cost', 'ready' || n, n FROM generate_series(1, 1000) n"
    run(database, block)
    partitions = as_rows({"partition": each, "floor": 0} for each in range(PARTITIONS))
    values = {"partitions": partitions, "keys": as_rows(keys), "ahead": 5000}
    async with store.database.engine.connect() as connection:
        plan = await explain(connection, store.blocked_keys._park, **values)
    assert rows_met(plan) < 20 * len(keys)

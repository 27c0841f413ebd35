"""`postroom doctor` on PostgreSQL: each defect of a table is found, and its remedy works."""

from datetime import timedelta

import psycopg
import pytest
from sqlalchemy import URL, text
from sqlalchemy.exc import DBAPIError

from postroom.doctor import Level
from tests.support.doctor_checks import Checks
from tests.support.waiting import eventually

pytestmark = pytest.mark.requirement("E6")

FILL = """INSERT INTO outbox (id, event_type, partition, payload, occurred_at)
    SELECT gen_random_uuid(), 'OrderPlaced', 0, '{}', now() FROM generate_series(1, 12000)"""
FLUSH = ("SELECT pg_stat_force_next_flush()", "SELECT 1")
"""Has the statistics count what was done in this connection."""


async def test_an_outbox_that_was_just_created_is_fine(checks: Checks) -> None:
    names = ("schema", "server", "clock", "permissions", "indexes", "storage", "dead rows")
    for name in (*names, "statistics", "transactions", "prepared", "records", "pauses"):
        assert await checks.is_fine(name), name


async def test_a_missing_index_is_a_drift_and_nothing_else_is_judged(checks: Checks) -> None:
    await checks.run("DROP INDEX ix_outbox_held")
    finding = await checks.problem("schema")
    assert "`ix_outbox_held`" in finding.text
    assert finding.remedy == ('postroom schema sql | psql "$DATABASE_URL"  # review it first',)
    [skipped] = await checks.findings("all")
    assert skipped.level == Level.NOTE


async def test_an_invalid_index_of_the_application_is_dropped(checks: Checks) -> None:
    await checks.run(FILL)
    with pytest.raises(DBAPIError):
        await checks.run("CREATE UNIQUE INDEX CONCURRENTLY mine ON outbox (event_type)")
    finding = await checks.problem("indexes")
    assert "index mine of outbox is invalid" in finding.text
    assert finding.remedy == ("DROP INDEX CONCURRENTLY mine;",)
    await checks.apply_remedy(finding)
    assert await checks.is_fine("indexes")


async def interrupt_build(checks: Checks, index: str) -> None:
    """Build an index concurrently while a writer holds the table, until that takes too long."""
    async with checks.admin.connect() as builder, checks.admin.begin() as writer:
        await builder.execution_options(isolation_level="AUTOCOMMIT")
        get_definition = text("SELECT pg_get_indexdef(CAST(:index AS regclass))")
        definition: str = await builder.scalar(get_definition, {"index": index})
        await builder.execute(text(f"DROP INDEX {index}"))
        await builder.execute(text("SET lock_timeout = '50ms'"))
        await writer.execute(text("LOCK TABLE outbox IN ROW EXCLUSIVE MODE"))
        with pytest.raises(DBAPIError, match="lock timeout"):
            await builder.execute(text(definition.replace("INDEX", "INDEX CONCURRENTLY", 1)))
        await builder.invalidate()  # with its setting


async def test_an_invalid_index_of_postroom_is_built_again(checks: Checks) -> None:
    await interrupt_build(checks, "ix_outbox_ready")
    finding = await checks.problem("indexes")
    assert finding.remedy == ("REINDEX INDEX CONCURRENTLY ix_outbox_ready;",)
    await checks.apply_remedy(finding)
    assert await checks.is_fine("indexes")


@pytest.mark.parametrize("name", ["autovacuum_enabled", "toast.autovacuum_enabled"])
async def test_autovacuum_that_is_off_for_a_table_is_switched_on(checks: Checks, name: str) -> None:
    await checks.run(f"ALTER TABLE outbox SET ({name} = off)")
    found = [each for each in await checks.findings("autovacuum") if "for outbox" in each.text]
    [finding] = found
    assert finding.level == Level.PROBLEM
    await checks.apply_remedy(finding)
    assert not any("for outbox" in each.text for each in await checks.findings("autovacuum"))


async def test_storage_parameters_that_are_missing_are_set(checks: Checks) -> None:
    await checks.run("ALTER TABLE outbox_leases RESET (fillfactor)")
    await checks.apply_remedy(await checks.note("storage"))
    assert await checks.is_fine("storage")


async def test_dead_rows_are_removed_and_the_planner_learns_of_the_table(checks: Checks) -> None:
    await checks.run("ALTER TABLE outbox SET (autovacuum_enabled = off)")  # it would be first
    await checks.run(FILL, *FLUSH)
    finding = await checks.note("statistics")
    assert "outbox was never analyzed" in finding.text
    await checks.apply_remedy(finding)
    assert await checks.is_fine("statistics")
    await checks.run("DELETE FROM outbox", *FLUSH)
    finding = await checks.problem("dead rows")
    assert finding.text.startswith("outbox has 12,000 dead rows beside 0 live ones")
    await checks.apply_remedy(finding)
    assert await checks.is_fine("dead rows")


async def test_a_transaction_that_is_open_for_long_is_ended(
    checks: Checks, doctor_database: URL
) -> None:
    address = doctor_database.render_as_string(hide_password=False)
    with psycopg.connect(address, application_name="reports") as other:
        other.execute("SELECT 'hunter2', pg_current_xact_id()")
        limit = {"transaction_limit": timedelta()}
        assert await checks.is_fine("transactions")
        finding = await checks.problem("transactions", **limit)
        assert f"pid {other.info.backend_pid} of reports" in finding.text
        assert "idle in transaction" in finding.text
        assert "Its last statement: SELECT …" in finding.text
        await checks.apply_remedy(finding)
        await eventually(lambda: checks.is_fine("transactions", **limit), "its backend has ended")
        with pytest.raises(psycopg.OperationalError):
            other.execute("SELECT 1")

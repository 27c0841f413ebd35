"""`postroom doctor` on a PostgreSQL server of its own, whose settings the tests change."""

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from datetime import timedelta

import psycopg
import pytest
from sqlalchemy import make_url

from postroom.doctor import Level
from tests.chaos.server import Server, private_server
from tests.support.doctor_checks import Checks, checks_at
from tests.support.in_process import InProcess
from tests.support.waiting import eventually

pytestmark = pytest.mark.requirement("E6")

NOW = {"transaction_limit": timedelta()}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with private_server() as server:
        with psycopg.connect(address(server), autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET max_prepared_transactions = 5")
        server.crash()
        server.start()
        yield server


@pytest.fixture
async def checks(server: Server) -> AsyncIterator[Checks]:
    async with checks_at(make_url(server.url)) as checks:
        yield checks


def address(server: Server) -> str:
    return make_url(server.url).set(drivername="postgresql").render_as_string()


@pytest.mark.usefixtures("checks")
def test_an_outbox_that_is_well_ends_with_code_0(run_postroom: InProcess, server: Server) -> None:
    done = run_postroom("doctor", "--database", address(server))
    assert done.code == 0, done.out
    assert done.out.splitlines()[-1] == "no problem, 2 notes"  # no worker, no broker


async def test_autovacuum_that_is_off_is_switched_on(checks: Checks) -> None:
    await checks.run("ALTER SYSTEM SET autovacuum = off", "SELECT pg_reload_conf()")
    await eventually(lambda: has_problem(checks, "autovacuum"))
    await checks.apply_remedy(await checks.problem("autovacuum"))
    await eventually(lambda: checks.is_fine("autovacuum"))


async def has_problem(checks: Checks, check: str) -> bool:
    return Level.PROBLEM in {each.level for each in await checks.findings(check)}


async def test_a_replication_slot_that_nobody_reads_is_dropped(checks: Checks) -> None:
    assert await checks.is_fine("slots")
    await checks.run("SELECT pg_create_physical_replication_slot('old_standby', true)")
    finding = await checks.note("slots")
    assert finding.text.startswith("nobody reads the physical replication slot old_standby")
    [remedy] = finding.remedy
    await checks.run(remedy.partition("or: ")[2])
    assert await checks.is_fine("slots")


async def test_a_prepared_transaction_that_nobody_ends_is_rolled_back(
    checks: Checks, server: Server
) -> None:
    with psycopg.connect(address(server)) as connection:
        connection.execute("DELETE FROM outbox")
        connection.execute("PREPARE TRANSACTION 'it''s mine'")
    assert await checks.is_fine("prepared")
    finding = await checks.problem("prepared", **NOW)
    assert 'transaction "it\'s mine" of postroom was prepared' in finding.text
    await checks.apply_remedy(finding)
    assert await checks.is_fine("prepared", **NOW)


async def test_too_few_connections_that_are_left_are_a_problem(
    checks: Checks, server: Server
) -> None:
    assert await checks.is_fine("connections")
    async with AsyncExitStack() as stack:
        for _ in range(14):
            await stack.enter_async_context(await psycopg.AsyncConnection.connect(address(server)))
        finding = await checks.problem("connections")
    assert "of 17 connections of the server are in use" in finding.text
    assert finding.remedy == ("ALTER SYSTEM SET max_connections = 34;  -- needs a restart",)


SETTINGS = {
    "idle_session_timeout": "60000",
    "default_transaction_read_only": "on",
}
"""Each by its name, with a value that is a problem."""


@pytest.mark.parametrize("name", SETTINGS)
async def test_a_setting_of_the_role_that_ends_its_connections_is_undone(
    server: Server, checks: Checks, name: str
) -> None:
    await checks.run(f"ALTER ROLE postroom SET {name} = '{SETTINGS[name]}'")
    await checks.engine.dispose()  # new connections have it
    finding = await checks.problem("server")
    assert finding.text.startswith(f"{name} is ")
    with psycopg.connect(address(server)) as other:
        other.read_only = False
        for each in finding.remedy:
            other.execute(each)
    await checks.engine.dispose()
    assert await checks.is_fine("server")
    await checks.run(f"ALTER ROLE postroom RESET {name}")

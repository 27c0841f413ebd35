"""`postroom doctor` and permissions: a role that gets what the remedies grant can do its work."""

from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import URL, Select, select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine, async_sessionmaker, create_async_engine

from postroom import (
    Outbox,
    OutboxRelay,
    RetrySchedule,
    UntypedEvent,
)
from postroom.doctor import Finding, Level
from postroom.inspection import PENDING, Inspector, RecordFilter, RecordState, RecordSummary
from postroom.operations import Operations
from postroom.relay.cleaner import clean
from postroom.store.store import Store
from postroom.testing import RecordingPublisher
from tests.support.doctor_checks import Checks
from tests.support.services import own_name
from tests.support.waiting import eventually

pytestmark = [pytest.mark.requirement("E6"), pytest.mark.requirement("E10")]

FAILED, PUBLISHED = frozenset({RecordState.FAILED}), frozenset({RecordState.PUBLISHED})
DELIVER, OPERATE, CAPTURE = "do all that a worker does", "operators' commands", "save events"
"""The work that a finding says a role cannot do."""


@pytest.fixture
async def role(checks: Checks, doctor_database: URL) -> AsyncIterator[Checks]:
    """The checks for a role that may log in, and nothing else."""
    name = own_name("role")
    create = f"CREATE ROLE {name} LOGIN PASSWORD '{name}'"
    await checks.run(create, f"GRANT {name} TO CURRENT_USER")  # who may then drop what it owns
    login = doctor_database.set(drivername="postgresql+asyncpg", username=name, password=name)
    engine = create_async_engine(login)
    yield Checks(checks.outbox, engine, checks.admin)
    await engine.dispose()
    await checks.run(f"DROP OWNED BY {name}", f"DROP ROLE {name}")


def event(number: int) -> UntypedEvent:
    return UntypedEvent(
        event_type="OrderPlaced", aggregate_type="order", aggregate_id=str(number), payload={}
    )


async def capture(outbox: Outbox, engine: AsyncEngine) -> None:
    """Save events, with the ORM and without."""
    async with async_sessionmaker(engine)() as session:
        await outbox.dispatcher(session).dispatch([event(1)])
        await session.commit()
        # SQLAlchemy reads the positions of several rows back.
        await outbox.dispatcher(session).dispatch([event(4), event(5)])
        await session.commit()
    async with engine.begin() as connection:
        await outbox.save(connection, [event(2), event(3)])


async def lacks(checks: Checks, what: str) -> list[Finding]:
    """Give what the check says of the role's permissions for some work."""
    found = await checks.findings("permissions")
    return [each for each in found if what in each.text and each.level != Level.OK]


async def test_a_role_that_may_nothing_is_told_what_to_grant(role: Checks) -> None:
    [deliver] = await lacks(role, DELIVER)
    [operate] = await lacks(role, OPERATE)
    [capture] = await lacks(role, CAPTURE)
    assert [deliver.level, operate.level, capture.level] == [Level.PROBLEM, Level.NOTE, Level.NOTE]
    name = role.engine.url.username
    assert f"GRANT SELECT, UPDATE, DELETE ON outbox TO {name};" in deliver.remedy
    assert f"GRANT USAGE ON SEQUENCE public.outbox_position_seq TO {name};" in capture.remedy


@pytest.mark.parametrize("work", [CAPTURE, OPERATE, "read"])
async def test_a_role_for_other_work_need_not_deliver(role: Checks, work: str) -> None:
    if work == "read":
        await role.run(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role.engine.url.username}")
    else:
        [finding] = await lacks(role, work)
        await role.apply_remedy(finding)
    [deliver] = await lacks(role, DELIVER)
    assert deliver.level == Level.NOTE


async def test_a_role_of_a_worker_that_lacks_something_is_a_problem(
    checks: Checks, role: Checks
) -> None:
    for work in (DELIVER, OPERATE):
        [finding] = await lacks(role, work)
        await role.apply_remedy(finding)
    await checks.run(f"REVOKE INSERT ON outbox_attempts FROM {role.engine.url.username}")
    [deliver] = await lacks(role, DELIVER)
    assert deliver.level == Level.PROBLEM


async def test_a_role_that_may_capture_captures(role: Checks) -> None:
    with pytest.raises(DBAPIError):
        await capture(role.outbox, role.engine)
    [finding] = await lacks(role, CAPTURE)
    await role.apply_remedy(finding)
    assert not await lacks(role, CAPTURE)
    assert await lacks(role, DELIVER)
    await capture(role.outbox, role.engine)


async def test_a_role_that_may_deliver_delivers(checks: Checks, role: Checks) -> None:
    await capture(checks.outbox, checks.engine)
    [finding] = await lacks(role, DELIVER)
    await role.apply_remedy(finding)
    assert not await lacks(role, DELIVER)
    operations = Operations(checks.outbox, checks.engine)
    await operations.pause(event_type="OrderPlaced")
    publisher, at_once = RecordingPublisher(), RetrySchedule.seconds(0)
    publisher.refuse("OrderPlaced")
    relay = OutboxRelay(role.outbox, role.engine, publisher, retry=at_once, retention=timedelta())
    records, workers = checks.outbox.tables.records, checks.outbox.tables.workers
    async with relay.running():
        await eventually(lambda: is_empty(checks, select(records).where(records.c.ready)))
        await operations.resume(event_type="OrderPlaced")
        await eventually(lambda: is_empty(checks, select(records)))
    assert await is_empty(checks, select(workers))
    await clean(relay.store, timedelta())
    inbox = role.outbox.inbox
    async with async_sessionmaker(role.engine)() as session:
        assert await inbox.accept(session, "message", consumer="mails")
        await session.commit()
    assert await inbox.clean(role.engine, older_than=timedelta()) == 1


async def test_a_role_that_may_operate_operates(checks: Checks, role: Checks) -> None:
    await capture(checks.outbox, checks.engine)
    publisher = RecordingPublisher()
    publisher.refuse("OrderPlaced", permanent=True)
    await OutboxRelay(checks.outbox, checks.engine, publisher).run_once()
    [finding] = await lacks(role, OPERATE)
    await role.apply_remedy(finding)
    assert not await lacks(role, OPERATE)
    operations = Operations(role.outbox, role.engine)
    inspector = Inspector(role.outbox, role.engine)
    assert (await inspector.overview()).failed == 1
    [failed] = (await inspector.records(RecordFilter(states=FAILED))).records
    assert await operations.retry([failed.id]) == 1
    assert await operations.pause()
    assert await operations.resume()
    await Store(checks.engine, checks.outbox.tables).leases.report("web1:42:aa", {})
    assert await operations.drain("web1:42:aa")
    assert await operations.undrain("web1:42:aa")
    assert await operations.replay([each.id for each in await delivered(inspector)]) == 4
    assert await operations.discard([failed.id]) == 1
    assert await operations.purge(older_than=timedelta()) == 0
    assert len(await inspector.audit()) == 7
    async with checks.engine.begin() as connection:
        await checks.outbox.save(connection, [event(number) for number in range(501)])
    page = await inspector.records(RecordFilter(states=PENDING), limit=1000)
    ids = [each.id for each in page.records]
    assert await operations.discard(ids) == len(ids)  # in two transactions, with one audit


async def delivered(inspector: Inspector) -> Sequence[RecordSummary]:
    return (await inspector.records(RecordFilter(states=PUBLISHED))).records


async def is_empty(checks: Checks, query: Select[Any]) -> bool:
    async with checks.admin.connect() as connection:
        return (await connection.execute(query)).first() is None


async def test_what_a_role_may_not_see_is_a_note(role: Checks) -> None:
    async with role.admin.connect() as other:
        await other.exec_driver_sql("SELECT pg_current_xact_id()")
        finding = await role.note("transactions")
        assert "may not see how old 1 transaction of other roles" in finding.text
        await role.apply_remedy(finding)
        assert await role.is_fine("transactions")


async def test_rows_that_row_level_security_hides_are_a_problem(role: Checks) -> None:
    name = role.engine.url.username
    await role.run(
        f"GRANT SELECT ON outbox TO {name}", "ALTER TABLE outbox ENABLE ROW LEVEL SECURITY"
    )
    finding = await role.problem("storage")
    await role.apply_remedy(finding)
    assert await role.is_fine("storage")

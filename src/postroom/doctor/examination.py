"""Runs all checks, one after the other: the database, the deliveries, the publisher, the relay."""

from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.pool import QueuePool

from postroom.database.database import own_engine
from postroom.database.postgres import is_behind_pgbouncer
from postroom.doctor import deliveries
from postroom.doctor.database_checks import (
    SUBJECT,
    postgres_checks,
    schema_check,
    sqlite_checks,
)
from postroom.doctor.finding import Check, Finding, Result, note, ok, problem, reason
from postroom.doctor.publisher_checks import check_publisher
from postroom.doctor.server import judge_connections
from postroom.doctor.settings import judge_settings
from postroom.inspection import Inspector, Overview
from postroom.inspection.database.server import read_connections
from postroom.inspection.leases import read_leases
from postroom.inspection.reading import Reader
from postroom.outbox import Outbox
from postroom.publishers.base import Publisher
from postroom.publishers.handlers.publisher import HandlersPublisher
from postroom.relay.heartbeat import postroom_version
from postroom.relay.relay import OutboxRelay

TRANSACTION_LIMIT: Final = timedelta(minutes=5)
"""A transaction that is open for longer is a problem."""
CONNECTIONS_PER_WORKER: Final = 4
"""How many a relay opens for itself; handlers have theirs besides."""
DELIVERIES: Final = "deliveries"
SKIPPED: Final = Result(
    subject=DELIVERIES,
    check="all",
    findings=(note("not checked, before the tables are as this version needs them"),),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What is examined.

    - `place`: the table and its database in words, without a password
    - `publisher`: the relay's, or one for a broker that was named; None checks no broker
    - `relay_name`: how a command names the relay: `app.outbox:relay`
    """

    outbox: Outbox
    engine: AsyncEngine
    place: str
    relay: OutboxRelay | None = None
    publisher: Publisher | None = None
    relay_name: str | None = None
    transaction_limit: timedelta = TRANSACTION_LIMIT

    @property
    def is_postgres(self) -> bool:
        """Whether the database is PostgreSQL; else it is SQLite."""
        return self.engine.dialect.name == "postgresql"

    @property
    def pool_size(self) -> int | None:
        """How many connections the engine may open; None without a limit."""
        pool = self.engine.pool
        if not isinstance(pool, QueuePool) or pool._max_overflow < 0:
            return None
        return pool.size() + pool._max_overflow

    @property
    def handlers(self) -> int | None:
        """How many handlers run at once; None if the publisher runs none."""
        publisher = self.publisher
        return publisher.max_in_flight if isinstance(publisher, HandlersPublisher) else None


async def examine(subject: Subject) -> AsyncIterator[Result]:
    """Run the checks, and give each result as soon as there is one. Nothing is changed."""
    reader = Reader(subject.outbox, subject.engine)
    overview: Overview | None = None
    reached = await _reach(subject, reader)
    yield reached
    if not reached.has_problem:
        schema = await schema_check(reader).run()
        yield schema
        for check in _database_checks(subject, reader):
            yield await check.run()
        found = SKIPPED if schema.has_problem else await _overview(subject)
        if isinstance(found, Result):
            yield found
        else:
            overview = found
            for result in _judged(overview):
                yield result
            yield await _leases(reader).run()
            if subject.is_postgres:
                yield await _connections(subject, reader, overview).run()
    event_types = [each.event_type for each in overview.event_types] if overview else []
    async for result in check_publisher(subject.publisher, subject.relay_name, event_types):
        yield result
    if subject.relay is not None:
        yield await _settings(subject, subject.relay).run()


async def _reach(subject: Subject, reader: Reader) -> Result:
    """Connect to the database. One that does not answer is a problem."""
    try:
        async with reader.ask("the database") as run:
            await reader.now(run)
        finding = ok(f"connected: {subject.place}")
    except Exception as error:
        finding = problem(
            f"cannot use {subject.place}: {reason(error)}",
            "Check the URL, the user and the password, and that the server runs.",
        )
    return Result(subject=SUBJECT, check="connection", findings=(finding,))


def _database_checks(subject: Subject, reader: Reader) -> list[Check]:
    if subject.is_postgres:
        return postgres_checks(reader, subject.transaction_limit)
    return sqlite_checks(reader)


async def _overview(subject: Subject) -> Overview | Result:
    try:
        return await Inspector(subject.outbox, subject.engine).overview()
    except Exception as error:
        finding = note(f"not checked: {reason(error)}")
        return Result(subject=DELIVERIES, check="overview", findings=(finding,))


def _judged(overview: Overview) -> Iterator[Result]:
    """Judge what the overview says, which takes no more I/O."""
    judged = {
        "records": deliveries.judge_records(overview),
        "workers": deliveries.judge_workers(overview, postroom_version()),
        "routes": deliveries.judge_routes(overview),
        "pauses": deliveries.judge_pauses(overview),
    }
    for name, findings in judged.items():
        yield Result(subject=DELIVERIES, check=name, findings=tuple(findings))


def _leases(reader: Reader) -> Check:
    async def leases() -> Iterable[Finding]:
        return deliveries.judge_leases(await read_leases(reader))

    return Check(DELIVERIES, "leases", leases)


def _connections(subject: Subject, reader: Reader, overview: Overview) -> Check:
    """Return the check of the room for the workers that there are, and one at least."""
    workers = sum(each.is_alive for each in overview.workers)
    handlers = min(subject.handlers or 0, subject.pool_size or subject.handlers or 0)
    per_worker = CONNECTIONS_PER_WORKER + handlers

    async def connections() -> Iterable[Finding]:
        return judge_connections(await read_connections(reader), max(1, workers), per_worker)

    return Check(DELIVERIES, "connections", connections)


def _settings(subject: Subject, relay: OutboxRelay) -> Check:
    async def settings() -> Iterable[Finding]:
        own = own_engine(subject.engine, subject.outbox.tables, relay.settings.lease)
        try:
            pooler = subject.is_postgres and await is_behind_pgbouncer(own)
        finally:
            await own.dispose()
        return judge_settings(
            relay.settings, pool=subject.pool_size, handlers=subject.handlers, pooler=pooler
        )

    return Check("relay", "settings", settings)

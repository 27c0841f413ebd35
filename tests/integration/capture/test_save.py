"""`outbox.save`: events in the caller's transaction, over every kind of connection."""

from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import Text, cast, select
from sqlalchemy.ext.asyncio import AsyncEngine

from postroom import Delayed, DomainEvent, Event, OutboxRelay, UntypedEvent
from postroom.identity import uuid7
from postroom.testing import RecordingPublisher
from tests.integration.capture.connections import KINDS, Kind, as_parameters, async_core, core, orm
from tests.support.rows import rows
from tests.support.shop import AccountRenamed, outbox

pytestmark = pytest.mark.requirement("E13")

SET_BY_DATABASE = ("position", "created_at", "updated_at")
EACH_WAY_TO_INSERT = ["AsyncSession", "asyncpg", "psycopg", "SQLite-AsyncConnection"]
MOMENT = datetime(2026, 1, 5, 12, 30, 15, 123456, tzinfo=timezone(timedelta(hours=5, minutes=45)))


@dataclass(frozen=True, kw_only=True)
class Measured(DomainEvent, aggregate="gauge", key="gauge_id", version=3, case="camel"):
    gauge_id: UUID
    exact_value: Decimal = Decimal("1.10")
    rough_value: float = 0.1 + 0.2
    large_value: int = 10**40
    taken_at: datetime = MOMENT
    note: str = "naïve “quotes” ' \" \\ % %s $1 :x \t\n\x7f 𝄞 ключ"
    tags: tuple[str, ...] = ("a", "ä")


def renamed(name: str, account_id: UUID | None = None) -> AccountRenamed:
    return AccountRenamed(account_id=account_id or uuid7(), name=name)


Place = tuple[Kind, AsyncEngine, str]


@pytest.fixture(params=as_parameters(KINDS))
def kind(request: pytest.FixtureRequest) -> Kind:
    """Each kind of connection to PostgreSQL, sessions of the ORM among them."""
    return KINDS[request.param]


@pytest.fixture(params=[*as_parameters([*KINDS, "SQLite-Connection"]), "SQLite-AsyncConnection"])
def place(request: pytest.FixtureRequest) -> Place:
    """Each kind of connection, on PostgreSQL and SQLite; an engine and a URL for its database."""
    if request.param in KINDS:
        engine: AsyncEngine = request.getfixturevalue("engine")
        return KINDS[request.param], engine, request.getfixturevalue("postgres_url")
    engine = request.getfixturevalue("sqlite_file")
    if request.param == "SQLite-Connection":
        return core, engine, f"sqlite:///{engine.url.database}"
    return async_core, engine, f"sqlite+aiosqlite:///{engine.url.database}"


async def names(engine: AsyncEngine) -> list[str]:
    return [record.payload["name"] for record in await rows(engine)]


async def test_events_are_committed_with_the_data(place: Place) -> None:
    kind, engine, url = place
    async with kind(url) as transaction:
        await transaction.execute("INSERT INTO notes (id, text) VALUES (1, 'x')")
        await transaction.save(renamed("first"), renamed("second"))
        await transaction.save(renamed("third"))
        assert await names(engine) == []
    assert await names(engine) == ["first", "second", "third"]


async def test_events_are_rolled_back_with_the_data(place: Place) -> None:
    kind, engine, url = place
    with suppress(ZeroDivisionError):
        async with kind(url) as transaction:
            await transaction.save(renamed("undone"))
            raise ZeroDivisionError
    assert await names(engine) == []


async def test_a_savepoint_takes_its_events_along(
    kind: Kind, engine: AsyncEngine, postgres_url: str
) -> None:
    async with kind(postgres_url) as transaction:
        async with transaction.savepoint():
            await transaction.save(renamed("released"))
        with suppress(ZeroDivisionError):
            async with transaction.savepoint():
                await transaction.save(renamed("undone"))
                raise ZeroDivisionError
        await transaction.save(renamed("last"))
    assert await names(engine) == ["released", "last"]


async def test_no_events_are_no_statement(kind: Kind, postgres_url: str) -> None:
    async with kind(postgres_url) as transaction:
        await transaction.save()


@pytest.mark.no_cover
@pytest.mark.parametrize("place", EACH_WAY_TO_INSERT, indirect=True)
async def test_thousands_of_events_keep_their_order(place: Place) -> None:
    kind, engine, url = place
    async with kind(url) as transaction:
        await transaction.save(*(renamed(str(number)) for number in range(1200)))
    assert await names(engine) == [str(number) for number in range(1200)]


@pytest.mark.parametrize("place", ["asyncpg", "SQLite-AsyncConnection"], indirect=True)
async def test_a_relay_delivers_what_was_saved(place: Place) -> None:
    kind, engine, url = place
    account = uuid7()
    async with kind(url) as transaction:
        await transaction.save(renamed("first", account), renamed("second", account))
    publisher = RecordingPublisher()
    await OutboxRelay(outbox, engine, publisher).run_once()
    assert [message.payload["name"] for message in publisher.messages] == ["first", "second"]


def all_sorts() -> list[Event]:
    return [
        Measured(gauge_id=uuid7(), occurred_at=MOMENT),
        UntypedEvent(
            event_type="größe.geändert",
            aggregate_type="Größe",
            aggregate_id="é",
            payload={"null": None, "nested": {"a": [1, 2.5, True]}},
        ),
        UntypedEvent(event_type="keyless", payload={}),
        Delayed(renamed("later"), until=datetime(1, 1, 2, tzinfo=UTC)),
        Delayed(renamed("latest"), until=datetime(9999, 12, 30, 23, 59, 59, 999999, tzinfo=UTC)),
    ]


async def test_the_same_events_give_equal_rows_whatever_the_connection(
    engine: AsyncEngine, postgres_url: str
) -> None:
    events = all_sorts()
    saved = {
        name: await saved_by(kind, postgres_url, engine, events) for name, kind in KINDS.items()
    }
    assert len(saved["Session"]) == len(events)
    for name, records in saved.items():
        assert records == saved["Session"], name


async def test_the_same_events_give_equal_rows_on_sqlite(sqlite_file: AsyncEngine) -> None:
    events, url = all_sorts(), f"sqlite:///{sqlite_file.url.database}"
    by_orm = await saved_by(orm, url, sqlite_file, events)
    assert len(by_orm) == len(events)
    assert await saved_by(core, url, sqlite_file, events) == by_orm


async def saved_by(kind: Kind, url: str, engine: AsyncEngine, events: list[Event]) -> list[Any]:
    """Save events; give their rows as they are stored, and delete them."""
    records = outbox.tables.records
    query = select(
        cast(records.c.payload, Text),
        cast(records.c.headers, Text),
        *(column for column in records.c if column.name not in SET_BY_DATABASE),
    )
    async with kind(url) as transaction:
        await transaction.save(*events)
    async with engine.begin() as connection:
        found = await connection.execute(query.order_by(records.c.position))
        await connection.execute(records.delete())
        return [tuple(row) for row in found]

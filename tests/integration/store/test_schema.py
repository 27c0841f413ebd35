"""The tables as a whole: what the check says when they are missing, how they come and go."""

from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from uuid import uuid4

import pytest
from sqlalchemy import Connection, MetaData, create_engine, inspect, text
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool
from sqlalchemy.schema import CreateSchema, DropSchema

from postroom.errors import SchemaError
from postroom.tables.check import check_schema, schema_drift, upgrade_schema
from postroom.tables.ddl import drop_all
from postroom.tables.tables import OutboxTables, define_tables

pytestmark = pytest.mark.requirement("E11")

VACUUMED_OFTEN = ["autovacuum_analyze_scale_factor=0.02", "autovacuum_vacuum_scale_factor=0.01"]


def create_by_metadata(connection: Connection, tables: OutboxTables) -> None:
    connection.execute(CreateSchema(str(tables.records.schema)))
    tables.records.metadata.create_all(connection)


@pytest.fixture
def connection(postgres_sync_url: str) -> Iterator[Connection]:
    with create_engine(postgres_sync_url, poolclass=NullPool).connect() as connection:
        yield connection


@pytest.fixture
def tables(connection: Connection) -> Iterator[OutboxTables]:
    """Tables in a schema that is not there yet."""
    schema = f"auth_{uuid4().hex[:12]}"
    yield define_tables(MetaData(), table="outbox_events", schema=schema)
    connection.rollback()
    connection.execute(DropSchema(schema, cascade=True, if_exists=True))
    connection.commit()


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[Connection]:
    engine = create_engine(f"sqlite:///{tmp_path / 'shop.db'}", poolclass=NullPool)
    with engine.connect() as connection:
        yield connection


def test_missing_tables_are_named_with_the_database_and_the_remedy(
    connection: Connection,
) -> None:
    tables = define_tables(MetaData(), table="nowhere", schema=None)
    url = connection.engine.url
    place = f"database `{url.database}` at {url.host}:{url.port}"
    assert schema_drift(connection, tables) == [
        f"no table `{name}` in {place}. Create it with `alembic upgrade head`."
        " Without Alembic: `postroom schema sql --apply --table nowhere`."
        for name in (table.name for table in tables)
    ]


@pytest.mark.requirement("D10")
def test_a_missing_schema_is_named_before_its_tables(
    connection: Connection, tables: OutboxTables
) -> None:
    schema = tables.records.schema
    first, *others = schema_drift(connection, tables)
    assert first.startswith(f"no schema `{schema}` in database `{connection.engine.url.database}`")
    assert first.endswith(
        ". Create it with `alembic upgrade head`:"
        f' `op.upgrade_outbox("outbox_events", schema="{schema}")` in a migration does that.'
    )
    for table, sentence in zip(tables, others, strict=True):
        assert sentence.startswith(f"no table `{table.fullname}` in database")


def test_the_check_raises_every_drift_at_once(connection: Connection, tables: OutboxTables) -> None:
    with pytest.raises(SchemaError) as raised:
        check_schema(connection, tables)
    assert list(raised.value.drift) == schema_drift(connection, tables)
    assert str(raised.value).count("\n") == len([*tables])


@pytest.mark.requirement("D10")
def test_a_schema_of_its_own_is_created_upgraded_and_left_behind(
    connection: Connection, tables: OutboxTables
) -> None:
    schema = tables.records.schema
    upgrade_schema(connection, tables)
    connection.exec_driver_sql(f"ALTER TABLE {schema}.outbox_events DROP COLUMN headers")
    connection.exec_driver_sql(f"DROP INDEX {schema}.ix_outbox_events_due")
    upgrade_schema(connection, tables)
    check_schema(connection, tables)
    for statement in [*drop_all(tables), *drop_all(tables)]:
        connection.execute(statement)
    assert inspect(connection).get_table_names(schema=schema) == []
    assert inspect(connection).has_schema(str(schema))


def storage_parameters(connection: Connection, tables: OutboxTables) -> dict[str, list[str]]:
    """Read the storage parameters of each table, by the part of the outbox that it is."""
    query = text("SELECT reloptions FROM pg_class WHERE oid = to_regclass(:name)")
    return {
        part.name: sorted(connection.scalar(query, {"name": table.fullname}) or [])
        for part, table in zip(fields(tables), tables, strict=True)
    }


@pytest.mark.parametrize("create", [upgrade_schema, create_by_metadata])
def test_the_tables_have_storage_parameters_for_a_queue(
    connection: Connection, tables: OutboxTables, create: Callable[..., None]
) -> None:
    create(connection, tables)
    assert storage_parameters(connection, tables) == {
        "records": VACUUMED_OFTEN,
        "leases": ["fillfactor=30"],
        "workers": ["fillfactor=30"],
        "blocked_keys": [*VACUUMED_OFTEN, "fillfactor=50"],
        "attempts": VACUUMED_OFTEN,
        "pauses": [],
        "audit": [],
        "inbox": [],
    }


async def test_the_check_runs_on_an_async_connection(
    postgres_url: str, tables: OutboxTables
) -> None:
    engine = create_async_engine(postgres_url, poolclass=NullPool)
    async with engine.begin() as connection:
        await connection.run_sync(upgrade_schema, tables)
    async with engine.connect() as connection:
        await connection.run_sync(check_schema, tables)


def test_a_schema_that_is_translated_away_is_not_missed(sqlite: Connection) -> None:
    tables = define_tables(MetaData(), table="outbox", schema="auth")
    translated = sqlite.execution_options(schema_translate_map={"auth": None})
    upgrade_schema(translated, tables)
    translated.exec_driver_sql("ALTER TABLE outbox DROP COLUMN error_message")
    upgrade_schema(translated, tables)
    check_schema(translated, tables)
    assert inspect(sqlite).has_table("outbox_leases")


def test_on_sqlite_a_schema_is_a_file_that_is_attached(sqlite: Connection, tmp_path: Path) -> None:
    tables = define_tables(MetaData(), table="outbox", schema="auth")
    with pytest.raises(SchemaError, match=r"no schema `auth` .* Attach a database file"):
        upgrade_schema(sqlite, tables)
    sqlite.rollback()
    sqlite.exec_driver_sql(f"ATTACH DATABASE '{tmp_path / 'auth.db'}' AS auth")
    upgrade_schema(sqlite, tables)
    check_schema(sqlite, tables)

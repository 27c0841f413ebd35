"""The table as the databases have it, and the record that is mapped to it."""

import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import Engine, MetaData, inspect, select, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session, registry

from postroom import ConfigurationError, Outbox, OutboxRecord, UntypedEvent, map_outbox_table
from tests.integration.store.private_schema import private_schema
from tests.support.program import run_program
from tests.support.shop import outbox
from tests.support.story import story

MOMENT = datetime(2026, 1, 5, 12, tzinfo=UTC)
COMPANIONS = ("leases", "workers", "blocked_keys", "attempts", "pauses", "audit", "inbox")


class MessagingRecord(OutboxRecord):
    pass


class AuthRecord(OutboxRecord):
    pass


class MappedRecord(OutboxRecord):
    pass


messaging = Outbox(MetaData(), table="outbox_events", record=MessagingRecord)
auth = Outbox(MetaData(), table="outbox_events", schema="auth", record=AuthRecord)
own_registry = registry()
mapped = map_outbox_table(own_registry, table="mapped_outbox", record=MappedRecord)

# OutboxRecord itself can be mapped once in a process: this is another one.
START_UP = """
import sys
from sqlalchemy import create_engine, select
from sqlalchemy.orm import Session, registry
from postroom import OutboxEventDispatcher, OutboxRecord, UntypedEvent, map_outbox_table

mapper_registry = registry()
outbox = map_outbox_table(mapper_registry)
assert map_outbox_table(mapper_registry) is outbox
assert list(mapper_registry.metadata.tables) == [table.name for table in outbox.tables]
assert {mapper.class_ for mapper in mapper_registry.mappers} == {OutboxRecord}
engine = create_engine(sys.argv[1])
mapper_registry.metadata.drop_all(engine)
mapper_registry.metadata.create_all(engine)
with Session(engine) as session:
    session.add(OutboxRecord(event_type="by.hand", payload={"n": 1}))
    OutboxEventDispatcher(session).dispatch_sync([UntypedEvent(event_type="x", payload={"n": 2})])
    session.commit()
    rows = session.scalars(select(OutboxRecord).where(~OutboxRecord.delivered))
    assert sorted(record.payload["n"] for record in rows) == [1, 2]
mapper_registry.metadata.drop_all(engine)
engine.dispose()
"""


@pytest.fixture(scope="session")
def _tables(postgres_sync_url: str, _shop_tables: Engine) -> Engine:
    with _shop_tables.begin() as connection:
        for one in (messaging, auth, mapped):
            one.create_tables(connection)
    return _shop_tables


@pytest.fixture
def database(sync_engine: Engine, _tables: Engine) -> Engine:
    """PostgreSQL with every table of this module, empty."""
    with sync_engine.begin() as connection:
        for one in (messaging, auth, mapped):
            connection.execute(text(f"TRUNCATE {one.tables.records.fullname}"))
    return sync_engine


def columns(engine: Engine, table: str, schema: str | None = None) -> dict[str, Any]:
    return {column["name"]: column for column in inspect(engine).get_columns(table, schema=schema)}


def insert(engine: Engine, table: str = "outbox", **values: Any) -> dict[str, Any]:
    """A raw INSERT of the columns that have no default, and these; gives the row."""
    required = {
        "id": str(uuid4()),
        "event_type": "x",
        "payload": json.dumps({"a": 1}),
        "occurred_at": MOMENT,
        "partition": 5,
    }
    row = required | values
    names = ", ".join(row)
    places = ", ".join(f":{name}" for name in row)
    with engine.begin() as connection:
        connection.execute(text(f"INSERT INTO {table} ({names}) VALUES ({places})"), row)
        query = text(f"SELECT * FROM {table} WHERE id = :id")
        return dict(connection.execute(query, {"id": row["id"]}).mappings().one())


@pytest.mark.requirement("A1")
def test_the_outbox_has_the_columns_and_types_that_it_should(sync_engine: Engine) -> None:
    found = columns(sync_engine, "outbox")
    kinds = {name: str(column["type"]) for name, column in found.items()}
    assert kinds == {
        "position": "BIGINT",
        "id": "UUID",
        "event_type": "VARCHAR(255)",
        "event_version": "INTEGER",
        "aggregate_type": "VARCHAR(128)",
        "aggregate_id": "VARCHAR(512)",
        "partition": "SMALLINT",
        "payload": "JSONB",
        "headers": "JSONB",
        "status": "VARCHAR(16)",
        "retry_count": "INTEGER",
        "max_retries": "INTEGER",
        "occurred_at": "TIMESTAMP",
        "created_at": "TIMESTAMP",
        "updated_at": "TIMESTAMP",
        "published_at": "TIMESTAMP",
        "error_message": "TEXT",
        "ready": "BOOLEAN",
        "due_at": "TIMESTAMP",
    }
    assert isinstance(found["payload"]["type"], JSONB)
    moments = [column["type"] for column in found.values() if str(column["type"]) == "TIMESTAMP"]
    assert all(moment.timezone for moment in moments)


@pytest.mark.requirement("A1")
def test_what_every_record_has_is_not_null(sync_engine: Engine) -> None:
    nullable = {name for name, one in columns(sync_engine, "outbox").items() if one["nullable"]}
    assert nullable == {
        "aggregate_type",
        "aggregate_id",
        "max_retries",
        "published_at",
        "error_message",
        "due_at",
    }


@pytest.mark.requirement("A1", "C3")
def test_the_database_fills_in_what_is_not_said(sync_engine: Engine) -> None:
    row = insert(sync_engine)
    assert (row["status"], row["retry_count"], row["event_version"]) == ("pending", 0, 1)
    assert (row["headers"], row["ready"], row["position"]) == ({}, True, 1)
    assert row["payload"] == {"a": 1}
    assert row["published_at"] is None
    assert row["created_at"] == row["updated_at"]
    assert abs(row["created_at"] - datetime.now(UTC)).total_seconds() < 60


@pytest.mark.requirement("A1")
def test_the_database_fills_in_the_same_on_sqlite(sqlite_engine: Engine) -> None:
    row = insert(sqlite_engine, id=uuid4().hex, occurred_at="2026-01-05 12:00:00")
    assert (row["status"], row["retry_count"], row["event_version"]) == ("pending", 0, 1)
    assert (row["headers"], row["ready"], row["position"]) == ("{}", 1, 1)
    assert row["created_at"] == row["updated_at"]
    assert row["created_at"] is not None


@pytest.mark.requirement("A1")
@pytest.mark.parametrize("name", ["id", "event_type", "payload", "occurred_at", "partition"])
def test_what_has_no_default_is_required(sync_engine: Engine, name: str) -> None:
    with pytest.raises(IntegrityError, match=f'null value in column "{name}"'):
        insert(sync_engine, "outbox", **{name: None})


@pytest.mark.requirement("A1")
def test_every_index_but_the_keys_serves_only_what_is_undelivered(sync_engine: Engine) -> None:
    waiting = insert(sync_engine)["id"]
    retried = insert(sync_engine, ready=False, due_at=MOMENT, retry_count=1)["id"]
    failed = insert(sync_engine, status="failed", ready=False)["id"]
    insert(sync_engine, status="published", ready=False, published_at=MOMENT)
    with sync_engine.connect() as connection:
        predicates = connection.execute(
            text(
                "SELECT i.relname, pg_get_expr(x.indpred, x.indrelid) FROM pg_index x"
                " JOIN pg_class i ON i.oid = x.indexrelid"
                " WHERE x.indrelid = 'outbox'::regclass AND NOT x.indisunique"
            )
        ).all()
        assert all(predicate for _, predicate in predicates)
        found = {
            name: connection.scalars(
                text(f"SELECT id FROM outbox WHERE {where} ORDER BY position")
            ).all()
            for name, where in predicates
        }
    assert found == {
        "ix_outbox_ready": [waiting],
        "ix_outbox_due": [retried],
        "ix_outbox_held": [retried, failed],
        "ix_outbox_failed": [failed],
    }


@pytest.mark.requirement("A1", "C3")
def test_polling_uses_the_partial_index(sync_engine: Engine) -> None:
    with sync_engine.connect() as connection:
        connection.execute(text("SET LOCAL enable_seqscan = off"))
        connection.execute(text("SET LOCAL enable_bitmapscan = off"))
        plan = connection.scalars(
            text("EXPLAIN SELECT id FROM outbox WHERE ready AND partition = 3 ORDER BY position")
        ).all()
    assert any("ix_outbox_ready" in line for line in plan)
    assert not any("Sort" in line for line in plan)


def test_positions_count_up_and_are_not_used_again_on_sqlite(sqlite_engine: Engine) -> None:
    for expected in (1, 2):
        row = insert(sqlite_engine, id=uuid4().hex, occurred_at="2026-01-05 12:00:00")
        assert row["position"] == expected
    with sqlite_engine.begin() as connection:
        connection.execute(text("DELETE FROM outbox"))
    row = insert(sqlite_engine, id=uuid4().hex, occurred_at="2026-01-05 12:00:00")
    assert row["position"] == 3


@pytest.mark.requirement("C3")
def test_the_table_has_the_application_s_name(database: Engine) -> None:
    found = columns(database, "outbox_events")
    assert set(found) >= {
        "event_type",
        "aggregate_type",
        "aggregate_id",
        "payload",
        "status",
        "retry_count",
        "max_retries",
        "published_at",
        "error_message",
        "created_at",
    }
    assert isinstance(found["payload"]["type"], JSONB)
    indexes = {one["name"] for one in inspect(database).get_indexes("outbox_events")}
    kinds = ("ready", "due", "held")
    assert {f"ix_outbox_events_{kind}" for kind in kinds} <= indexes
    companions = {f"outbox_events_{name}" for name in COMPANIONS}
    assert companions <= set(inspect(database).get_table_names())


@pytest.mark.requirement("D10")
def test_a_table_can_have_a_schema_of_its_own(database: Engine) -> None:
    found = columns(database, "outbox_events", schema="auth")
    assert str(found["event_version"]["type"]) == "INTEGER"
    assert found["updated_at"]["default"] is not None
    assert not found["updated_at"]["nullable"]
    with Session(database) as session:
        event = UntypedEvent(event_type="family.invited", payload={}, event_version=2)
        auth.dispatcher(session).dispatch_sync([event])
        session.commit()
        rows = session.execute(text("SELECT id, event_version, updated_at FROM auth.outbox_events"))
        [(record_id, version, updated_at)] = rows
        assert (record_id, version) == (event.event_id, 2)
        assert updated_at is not None
        assert session.scalars(select(MessagingRecord)).all() == []
    assert set(inspect(database).get_table_names(schema="auth")) == {
        "outbox_events",
        *(f"outbox_events_{name}" for name in COMPANIONS),
    }


@pytest.mark.requirement("D10")
def test_creating_the_tables_again_changes_nothing(database: Engine) -> None:
    with Session(database) as session:
        auth.dispatcher(session).dispatch_sync([UntypedEvent(event_type="x", payload={})])
        session.commit()
    with database.begin() as connection:
        auth.create_tables(connection)
        rows = connection.execute(text("SELECT count(*) FROM auth.outbox_events")).scalar_one()
    assert rows == 1


@pytest.mark.requirement("D10")
def test_the_metadata_s_schema_is_the_table_s() -> None:
    class SchemaRecord(OutboxRecord):
        pass

    made = Outbox(MetaData(schema="family"), record=SchemaRecord)
    assert [table.fullname for table in made.tables] == [
        "family.outbox",
        *(f"family.outbox_{name}" for name in COMPANIONS),
    ]


@pytest.mark.requirement("D10")
def test_the_update_time_follows_an_update(database: Engine) -> None:
    with Session(database) as session:
        session.add(AuthRecord(event_type="x", payload={}))
        session.commit()
        [record] = session.scalars(select(AuthRecord))
        before = record.updated_at
        record.retry_count += 1
        session.commit()
        assert before is not None
        assert record.updated_at is not None
        assert record.updated_at > before


@pytest.fixture
def own_schema_url(postgres_sync_url: str) -> Iterator[str]:
    with private_schema(postgres_sync_url) as url:
        yield url


@pytest.mark.requirement("A2")
@pytest.mark.parametrize("backend", ["sqlite", "postgresql"])
def test_mapping_at_start_up_makes_the_record_a_row(
    request: pytest.FixtureRequest, backend: str, tmp_path: Path
) -> None:
    url = "sqlite://"
    if backend == "postgresql":
        url = request.getfixturevalue("own_schema_url")  # the shop's outbox has the same name
    file = tmp_path / "script.py"
    file.write_text(START_UP)
    done = run_program(["-W", "error", file, url], folder=tmp_path, environment=os.environ)
    assert done.code == 0, done.err


@pytest.mark.requirement("A2")
def test_the_application_s_own_registry_maps_the_record() -> None:
    assert {mapper.class_ for mapper in own_registry.mappers} == {MappedRecord}
    assert inspect(MappedRecord).local_table is own_registry.metadata.tables["mapped_outbox"]
    assert mapped.metadata is own_registry.metadata


@pytest.mark.requirement("A2")
def test_mapping_a_second_time_gives_the_outbox_that_is_there() -> None:
    assert map_outbox_table(own_registry, table="mapped_outbox") is mapped
    assert map_outbox_table(own_registry, table="mapped_outbox", record=MappedRecord) is mapped


@pytest.mark.requirement("A2")
def test_mapping_in_a_schema_a_second_time_gives_the_outbox_that_is_there() -> None:
    class FirstRecord(OutboxRecord):
        pass

    for mapping in (registry(), registry(metadata=MetaData(schema="there"))):
        options = {} if mapping.metadata.schema else {"schema": "there"}

        class Record(FirstRecord):
            pass

        made = map_outbox_table(mapping, record=Record, **options)
        assert map_outbox_table(mapping, **options) is made
        assert made.tables.records.schema == "there"


@pytest.mark.requirement("A2")
def test_a_record_can_be_mapped_once() -> None:
    with pytest.raises(ConfigurationError, match=r"OutboxRecord is mapped to table `outbox`"):
        Outbox(MetaData(), record=OutboxRecord)
    with pytest.raises(ConfigurationError, match=r"OutboxRecord is mapped.*`outbox\.record`"):
        map_outbox_table(registry())


@pytest.mark.requirement("A2")
def test_what_was_mapped_can_be_mapped_again_when_its_mappers_are_cleared() -> None:
    class Record(OutboxRecord):
        pass

    mapping = registry()
    first = map_outbox_table(mapping, record=Record)
    mapping.dispose()
    second = map_outbox_table(mapping, record=Record)
    assert second is not first
    assert map_outbox_table(mapping) is second
    assert inspect(Record).local_table is mapping.metadata.tables["outbox"]
    session = Session()
    second.dispatcher(session).dispatch_sync([UntypedEvent(event_type="x", payload={})])
    assert [type(record) for record in session.new] == [Record]


def test_an_ordering_that_there_is_not_is_refused() -> None:
    class WrongRecord(OutboxRecord):
        pass

    with pytest.raises(ConfigurationError, match=r"ordering is 'loose'.*strict.*relaxed"):
        Outbox(MetaData(), ordering="loose", record=WrongRecord)  # type: ignore[arg-type]
    Outbox(MetaData(), ordering="relaxed", record=WrongRecord)  # nothing was mapped


@pytest.mark.requirement("A2")
@story
def test_the_synonyms_work_on_a_mapped_record_and_in_a_query(session: Session) -> None:
    waiting = OutboxRecord(event_type="waiting", payload={})
    failed = OutboxRecord(event_type="failed", payload={}, status="failed")
    done = OutboxRecord(event_type="done", payload={}, status="published")
    done.published_at = MOMENT
    assert [one.delivered for one in (waiting, failed, done)] == [False, False, True]
    assert done.delivered_at == done.processed_at == MOMENT
    session.add_all([waiting, failed, done])
    session.commit()
    session.expunge_all()

    event_type = outbox.tables.records.c.event_type
    types = select(event_type).order_by(event_type)
    assert session.scalars(types.where(OutboxRecord.delivered)).all() == ["done"]
    assert session.scalars(types.where(~OutboxRecord.delivered)).all() == ["failed", "waiting"]
    assert session.scalars(types.where(OutboxRecord.delivered_at == MOMENT)).all() == ["done"]
    assert session.scalars(types.where(OutboxRecord.processed_at.is_(None))).all() == [
        "failed",
        "waiting",
    ]
    [loaded] = session.scalars(select(OutboxRecord).where(OutboxRecord.delivered))
    assert loaded.delivered is True
    assert loaded.delivered_at == loaded.processed_at == MOMENT


@story
def test_a_record_comes_back_as_it_went_in(session: Session) -> None:
    record = OutboxRecord(
        event_type="x",
        payload={"a": [1, None, {"ü": "💌"}], "big": 2**70, "f": 1.5},
        aggregate_type="account",
        aggregate_id="42",
        headers={"traceparent": "00-1"},
        occurred_at=MOMENT,
        max_retries=None,
    )
    record.error_message = "boom"
    session.add(record)
    session.commit()
    session.expunge_all()
    [loaded] = session.scalars(select(OutboxRecord))
    assert loaded is not record
    assert isinstance(loaded.id, UUID)
    assert loaded.payload == {"a": [1, None, {"ü": "💌"}], "big": 2**70, "f": 1.5}
    assert loaded.headers == {"traceparent": "00-1"}
    assert (loaded.aggregate_id, loaded.partition) == ("42", 47)
    assert loaded.occurred_at == MOMENT
    assert (loaded.error_message, loaded.max_retries) == ("boom", None)

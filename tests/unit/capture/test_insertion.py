"""The INSERT of `outbox.save`, as each driver gets it."""

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from sqlalchemy import MetaData, make_url

from postroom import OutboxRecord
from postroom.capture.insertion import RecordInsertion
from postroom.tables.tables import define_tables

TABLE = define_tables(MetaData(), table="inserted", schema=None).records
strict = RecordInsertion(TABLE, lock_keys=True)
relaxed = RecordInsertion(TABLE, lock_keys=False)


def record(key: str | None = None) -> OutboxRecord:
    return OutboxRecord(event_type="x", aggregate_id=key, payload={"note": "é"})


def rows(parameters: dict[str, Any]) -> Any:
    return json.loads(parameters["records"])


@pytest.mark.parametrize("driver", ["asyncpg", "psycopg", "psycopg2", "pg8000"])
def test_the_array_of_stripes_has_a_type_for_every_driver(driver: str) -> None:
    """A driver may write an empty one as '{}', of which PostgreSQL does not know the type."""
    dialect = make_url(f"postgresql+{driver}://").get_dialect()()
    statement, _ = strict.for_sqlalchemy(dialect, [record()])
    sql = str(statement.compile(dialect=dialect))
    assert "AS integer[])" in sql
    assert sql.startswith("INSERT INTO inserted (position, ")


def test_parameters_are_ascii_and_in_the_order_of_the_records() -> None:
    _, parameters = strict.for_psycopg([record("1"), record(), record("2")])
    assert parameters["records"].isascii()
    assert [row["aggregate_id"] for row in rows(parameters)] == ["1", None, "2"]
    assert [row["place"] for row in rows(parameters)] == [0, 1, 2]


def test_stripes_are_sorted_and_each_is_locked_once() -> None:
    _, parameters = strict.for_psycopg([record(str(key)) for key in (*range(50), *range(50))])
    assert parameters["stripes"] == sorted(set(parameters["stripes"]))
    assert len(parameters["stripes"]) > 40


def test_a_relaxed_outbox_locks_nothing_and_leaves_positions_to_the_database() -> None:
    sql, _ = relaxed.for_psycopg([record("1")])
    assert b"pg_advisory_xact_lock" not in sql
    assert b"position" not in sql


def test_asyncpg_gets_its_parameters_in_the_order_of_their_numbers() -> None:
    sql, *parameters = strict.for_asyncpg([record("1")])
    [stripes, records] = parameters
    assert sql.index("$1") < sql.index("$2")
    assert len(stripes) == 1
    assert json.loads(records)[0]["aggregate_id"] == "1"


def test_a_time_is_written_in_utc() -> None:
    ahead = datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=1, seconds=1)))
    delayed = record()
    delayed.due_at = ahead
    [row] = rows(strict.for_psycopg([delayed])[1])
    assert datetime.fromisoformat(row["due_at"]) == ahead
    assert datetime.fromisoformat(row["due_at"]).tzinfo == UTC
    assert row["ready"] is False

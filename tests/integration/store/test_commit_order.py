"""What the database gives a record: its position, and locks for the order of commits."""

from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import Engine, bindparam, event, insert, select, text
from sqlalchemy.orm import Session

from postroom import OutboxRecord
from postroom.identity import uuid7
from tests.support.commit_order import something
from tests.support.shop import outbox

pytestmark = pytest.mark.no_cover  # others cover the same, for less time

HELD = text("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()")


def test_a_position_that_is_given_by_hand_is_kept(sync_database: Engine) -> None:
    """As a restore or a copy does."""
    records = outbox.tables.records
    row = {
        "id": uuid7(),
        "event_type": "x",
        "payload": {},
        "partition": 0,
        "occurred_at": datetime.now(UTC),
    }
    with sync_database.begin() as connection:
        connection.execute(insert(records).values(position=4711, **row))
        found = connection.scalars(select(records.c.position).where(records.c.position > 4710))
        assert found.all() == [4711]
        typed = bindparam("given", 4710, type_=records.c.position.type)
        assert connection.scalar(select(records.c.position).where(records.c.position > typed))


def test_a_saved_record_knows_its_position(sync_database: Engine) -> None:
    with Session(sync_database) as session:
        record = OutboxRecord(event_type="x", payload={}, aggregate_id="1")
        session.add(record)
        session.flush()
        assert record.position == 1


def test_the_locks_of_a_flush_are_taken_at_once_and_in_order(sync_engine: Engine) -> None:
    """Two transactions that took them in different orders could wait for each other for ever."""
    taken: list[list[int]] = []

    def note(_: Any, __: Any, statement: str, parameters: dict[str, Any], *___: Any) -> None:
        if statement.startswith("SELECT pg_advisory_xact_lock"):
            taken.append(parameters["stripes"])

    event.listen(sync_engine, "before_cursor_execute", note)
    with Session(sync_engine) as session:
        outbox.dispatcher(session).dispatch_sync([something(key) for key in range(300)])
        session.commit()
    event.remove(sync_engine, "before_cursor_execute", note)
    [stripes] = taken
    assert stripes == sorted(stripes)
    assert len(stripes) > 200


def test_a_savepoint_of_the_connection_gives_its_locks_back_too(sync_engine: Engine) -> None:
    with Session(sync_engine) as session:
        savepoint = session.connection().begin_nested()
        session.add(OutboxRecord(event_type="x", payload={}, aggregate_id="1"))
        session.flush()
        savepoint.rollback()
        session.add(OutboxRecord(event_type="x", payload={}, aggregate_id="1"))
        session.flush()
        assert session.scalar(HELD) == 1

"""The judgement about tables: from which numbers on something is a note or a problem."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from postroom.doctor.finding import Level
from postroom.doctor.tables import (
    judge_autovacuum,
    judge_dead_rows,
    judge_drift,
    judge_indexes,
    judge_statistics,
    judge_storage,
)
from postroom.inspection.database.server import ServerFacts
from postroom.inspection.database.tables import IndexFacts, TableFacts

TABLE = TableFacts(
    name="outbox",
    live_rows=100_000,
    dead_rows=0,
    changes=0,
    bytes=2**20,
    index_bytes=2**20,
    vacuumed_at=None,
    analyzed_at=datetime(2026, 1, 31, tzinfo=UTC),
    options={},
    hides_rows=False,
)
INDEX = IndexFacts(
    name="ix", quoted="ix", table="outbox", is_valid=True, is_building=False, entries=10, bytes=8192
)
SERVER = ServerFacts(
    role="app",
    is_standby=False,
    vacuums=0,
    settings={"autovacuum": "on", "track_counts": "on", "autovacuum_max_workers": "3"},
)
OK, NOTE, PROBLEM = Level.OK, Level.NOTE, Level.PROBLEM


@pytest.mark.parametrize(
    ("live", "dead", "level"),
    [
        (0, 9_999, OK),
        (0, 10_000, PROBLEM),
        (100_000, 20_000, OK),
        (100_000, 25_000, PROBLEM),
        (10_000_000, 1_000_000, OK),
    ],
)
def test_dead_rows_are_a_problem_if_they_are_many_and_a_fifth(
    live: int, dead: int, level: Level
) -> None:
    [finding] = judge_dead_rows(SERVER, [replace(TABLE, live_rows=live, dead_rows=dead)])
    assert finding.level == level


def test_autovacuum_workers_that_are_all_busy_are_named_beside_dead_rows() -> None:
    busy, dead = replace(SERVER, vacuums=3), replace(TABLE, dead_rows=1_000_000)
    behind, starved = judge_dead_rows(busy, [dead])
    assert behind.remedy == ("VACUUM (ANALYZE) outbox;",)
    assert starved.text == "all 3 autovacuum workers are busy with other tables"
    assert [each.level for each in judge_dead_rows(busy, [TABLE])] == [OK]


@pytest.mark.parametrize("name", ["autovacuum", "track_counts"])
def test_a_server_without_autovacuum_is_a_problem(name: str) -> None:
    server = replace(SERVER, settings={**SERVER.settings, name: "off"})
    [finding] = judge_autovacuum(server, [TABLE])
    assert finding.level == PROBLEM
    assert finding.remedy == (f"ALTER SYSTEM SET {name} = on;", "SELECT pg_reload_conf();")


def test_autovacuum_that_a_table_switches_on_itself_is_fine() -> None:
    table = replace(TABLE, options={"autovacuum_enabled": "true"})
    assert [each.level for each in judge_autovacuum(SERVER, [table])] == [OK]


@pytest.mark.parametrize(("changes", "level"), [(99_999, OK), (100_000, NOTE)])
def test_statistics_are_old_when_as_many_rows_changed_as_there_are(
    changes: int, level: Level
) -> None:
    [finding] = judge_statistics([replace(TABLE, changes=changes)])
    assert finding.level == level


def test_an_index_that_is_mostly_empty_or_being_built_is_noted() -> None:
    empty = replace(INDEX, bytes=65 * 2**20, entries=1000)
    note, _ = judge_indexes([empty], own={"ix"})
    assert note.level == NOTE
    assert note.text == "index ix takes 65.0 MB for 1,000 entries: most of it is empty"
    full = replace(INDEX, bytes=65 * 2**20, entries=1_000_000)
    assert [each.level for each in judge_indexes([full], own={"ix"})] == [OK]
    building = replace(INDEX, is_valid=False, is_building=True)
    assert [each.level for each in judge_indexes([building], own=())] == [NOTE]


def test_storage_parameters_that_an_operator_has_chosen_are_left_alone() -> None:
    chosen = replace(TABLE, options={"fillfactor": "90"})
    assert [each.level for each in judge_storage([chosen], {"outbox": {"fillfactor": 30}})] == [OK]


def test_the_remedy_for_drift_is_said_once() -> None:
    found = list(judge_drift(["no table `a`.", "no table `b`."], "psql"))
    assert [len(each.remedy) for each in found] == [0, 1]

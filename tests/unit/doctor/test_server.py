"""The judgement about a server: its version, clock, transactions, slots and connections."""

from datetime import timedelta

import pytest

from postroom.doctor.finding import Level
from postroom.doctor.server import (
    judge_clock,
    judge_connections,
    judge_server,
    judge_slots,
    judge_transactions,
)
from postroom.inspection.database.server import (
    ConnectionLimit,
    ServerFacts,
    SlotFacts,
    TransactionFacts,
    without_values,
)

OK, NOTE, PROBLEM = Level.OK, Level.NOTE, Level.PROBLEM


def server(*, is_standby: bool = False, **settings: str) -> ServerFacts:
    known = {"server_version_num": "150020", "server_version": "15.20 (Debian)"}
    return ServerFacts(role="app", is_standby=is_standby, vacuums=0, settings=known | settings)


def test_a_server_that_is_too_old_or_a_standby_is_a_problem() -> None:
    assert [each.level for each in judge_server(server())] == [OK]
    [old] = judge_server(server(server_version_num="110022"))
    assert old.text == "PostgreSQL 11 is too old: postroom needs 12 or newer"
    _, standby = judge_server(server(is_standby=True, default_transaction_read_only="on"))
    assert standby.text == "this server is a standby: it takes no writes"


@pytest.mark.parametrize(("limit", "levels"), [("0", [OK]), ("5000", [OK, NOTE]), ("60000", [OK])])
def test_a_short_limit_for_transactions_is_noted(limit: str, levels: list[Level]) -> None:
    found = judge_server(server(transaction_timeout=limit))
    assert [each.level for each in found] == levels


@pytest.mark.parametrize(
    ("seconds", "level", "says"),
    [
        (0, OK, "this machine and the database agree"),
        (1.9, OK, "1.9 s ahead of"),
        (-2, NOTE, "2.0 s behind"),
        (59, NOTE, "59 s ahead of"),
        (-60, PROBLEM, "60 s behind"),
    ],
)
def test_clocks_that_differ(seconds: float, level: Level, says: str) -> None:
    [finding] = judge_clock(timedelta(seconds=seconds))
    assert finding.level == level
    assert says in finding.text


def test_a_transaction_is_a_problem_from_its_limit_on() -> None:
    facts = TransactionFacts(
        pid=7, user="bi", application=None, state="active", age=timedelta(minutes=5), query=""
    )
    [finding] = judge_transactions([facts], "app", timedelta(minutes=5))
    assert finding.text.startswith("pid 7 (user bi, active) has had a transaction open for 5 min")
    assert finding.remedy[0] == "SELECT pg_terminate_backend(7);"
    [finding] = judge_transactions([facts], "app", timedelta(minutes=6))
    assert finding.level == OK


@pytest.mark.parametrize(
    ("active", "holds_rows", "wal", "level"),
    [
        (True, True, 2**40, OK),
        (False, False, 0, NOTE),
        (False, False, 2**30, PROBLEM),
        (False, True, 0, PROBLEM),
    ],
)
def test_slots_that_nobody_reads(active: bool, holds_rows: bool, wal: int, level: Level) -> None:
    slot = SlotFacts(
        name="it's", kind="physical", active=active, holds_rows=holds_rows, wal_bytes=wal
    )
    [finding] = judge_slots([slot])
    assert finding.level == level
    assert active or "pg_drop_replication_slot('it''s')" in finding.remedy[0]


@pytest.mark.parametrize(
    ("limit", "used", "workers", "level"),
    [(100, 96, 1, OK), (100, 97, 1, PROBLEM), (40, 1, 10, OK), (39, 1, 10, NOTE)],
)
def test_connections_that_are_left(limit: int, used: int, workers: int, level: Level) -> None:
    limits = [ConnectionLimit(what="the role", limit=limit, used=used)]
    [finding] = judge_connections(limits, workers, per_worker=4)
    assert finding.level == level


@pytest.mark.parametrize(
    ("statement", "shown"),
    [
        ("SELECT 'secret'", "SELECT …"),
        ("UPDATE a SET b = 4711, c2 = $1 WHERE d = 'x'", "UPDATE a SET b = ?, c2 = $1 WHERE d = …"),
        ("SELECT $$secret$$", "SELECT …"),
        ("SELECT $tag$secret$tag$", "SELECT …"),
        ("/* user: 'x' */ SELECT\n 1.5e3", "SELECT ?"),
        ("SELECT a -- secret", "SELECT a …"),
        ("SELECT 'a /* b', 'secret' /* c */", "SELECT …"),
        ("SELECT E'\\'secret'", "SELECT E…"),
        ("", ""),
        (f"SELECT {'a' * 100}", f"SELECT {'a' * 72}…"),
    ],
)
def test_a_statement_is_shown_without_values(statement: str, shown: str) -> None:
    assert without_values(statement) == shown

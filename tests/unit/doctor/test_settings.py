"""The judgement about a relay's settings, a SQLite file and a check that fails."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from postroom.doctor.finding import Check, Finding, Level, note, ok, problem
from postroom.doctor.settings import judge_settings
from postroom.doctor.sqlite import judge_file
from postroom.inspection.database.sqlite import FileFacts, file_system
from tests.unit.relay.settings import SECOND, relay_settings

SETTINGS = relay_settings(listen="outbox_channel", lease=10 * SECOND)
FILE = FileFacts(
    path="/srv/shop.db",
    version=(3, 40, 1),
    journal_mode="wal",
    bytes=2**30,
    free_bytes=0,
    wal_bytes=0,
    file_system="ext4",
    is_writable=True,
)
OK, NOTE, PROBLEM = Level.OK, Level.NOTE, Level.PROBLEM


@pytest.mark.parametrize(
    ("changed", "says", "level"),
    [
        ({}, "no setting contradicts another", OK),
        ({"lease": timedelta(seconds=3)}, "the lease is 3.0 s", NOTE),
        ({"retention": timedelta()}, "retention is 0", NOTE),
        ({"retention": None}, "retention is None", NOTE),
        ({"listen": None, "poll_interval": timedelta(minutes=5)}, "the relay only polls", NOTE),
    ],
)
def test_settings_that_fight(changed: dict[str, Any], says: str, level: Level) -> None:
    settings = replace(SETTINGS, **changed)
    [finding] = judge_settings(settings, pool=15, handlers=None, pooler=False)
    assert finding.level == level
    assert says in finding.text


def test_pgbouncer_and_a_relay_that_listens_are_a_problem() -> None:
    [finding] = judge_settings(SETTINGS, pool=None, handlers=None, pooler=True)
    assert finding.level == PROBLEM
    polling = replace(SETTINGS, listen=None)
    [finding] = judge_settings(polling, pool=None, handlers=None, pooler=True)
    assert finding.level == OK


@pytest.mark.parametrize(("handlers", "level"), [(15, OK), (16, NOTE)])
def test_more_handlers_than_connections_are_noted(handlers: int, level: Level) -> None:
    [finding] = judge_settings(SETTINGS, pool=15, handlers=handlers, pooler=False)
    assert finding.level == level


@pytest.mark.parametrize(
    ("changed", "says", "level"),
    [
        ({"version": (3, 34, 1)}, "SQLite 3.34.1 is too old", PROBLEM),
        ({"journal_mode": "delete"}, "the journal mode is delete", NOTE),
        ({"file_system": "nfs4"}, "is on a network file system (nfs4)", PROBLEM),
        ({"is_writable": False}, "this user may not write", PROBLEM),
        ({"free_bytes": 600 * 2**20}, "600.0 MB of 1.0 GB are empty", NOTE),
        ({"wal_bytes": 65 * 2**20}, "the write-ahead log has 65.0 MB", NOTE),
    ],
)
def test_what_is_wrong_with_a_file(changed: dict[str, Any], says: str, level: Level) -> None:
    found = list(judge_file(replace(FILE, **changed)))
    assert [each.level for each in found] == [level, OK]
    assert says in found[0].text
    assert [each.level for each in judge_file(FILE)] == [OK]


def test_the_file_system_is_that_of_the_innermost_mount(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text("/dev/sda / ext4 rw 0 0\nnas:/x /srv nfs4 rw 0 0\nnas:/y /srv2 cifs rw 0 0\n")
    assert file_system(Path("/srv/shop.db"), mounts) == "nfs4"
    assert file_system(Path("/home/shop.db"), mounts) == "ext4"
    assert file_system(Path("/home/shop.db"), tmp_path / "none") == ""


async def test_a_check_that_fails_is_a_note_without_a_password() -> None:
    async def find() -> list[Finding]:
        raise RuntimeError("cannot reach amqp://ann:s3cret@mq")

    result = await Check("database", "slots", find).run()
    [finding] = result.findings
    assert finding.level == NOTE
    assert finding.text.startswith("not checked: ")
    assert "s3cret" not in finding.text


@pytest.mark.requirement("E10")
def test_no_finding_shows_a_password() -> None:
    for finding in (ok, note, problem):
        assert finding("amqp://ann:s3cret@mq").text == "amqp://ann:***@mq"

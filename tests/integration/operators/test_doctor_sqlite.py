"""`postroom doctor` on SQLite: each defect of a file is found, and its remedy works."""

import asyncio
import sqlite3
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import make_url

from tests.support.doctor_checks import Checks, checks_at

pytestmark = pytest.mark.requirement("E6")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "shop.db"


@pytest.fixture
async def checks(file: Path) -> AsyncIterator[Checks]:
    async with checks_at(make_url(f"sqlite+aiosqlite:///{file}")) as checks:
        yield checks


async def follow(remedy: str) -> None:
    """Run a command as an operator does."""
    await asyncio.to_thread(subprocess.run, remedy, shell=True, check=True)  # noqa: S604


async def test_a_file_that_is_not_in_wal_mode_is_changed(checks: Checks, file: Path) -> None:
    for check in ("connection", "schema", "soundness", "write lock", "records", "leases"):
        assert await checks.is_fine(check), check
    finding = await checks.note("file")
    await checks.engine.dispose()
    await follow(finding.remedy[0])
    assert await checks.is_fine("file")


async def test_a_program_that_holds_the_write_lock_is_found(checks: Checks, file: Path) -> None:
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    finding = await checks.problem("write lock")
    assert finding.text.startswith("another program has held the write lock for 2 s")
    other.execute("ROLLBACK")
    other.close()
    assert await checks.is_fine("write lock")


async def test_a_damaged_file_is_found(checks: Checks, file: Path) -> None:
    await checks.engine.dispose()
    damage(file, "outbox_audit")
    finding = await checks.problem("soundness")
    assert "the file is damaged" in finding.text
    await checks.engine.dispose()
    recovered = file.with_name("recovered.db")
    await follow(f"cd {file.parent} && {finding.remedy[0]}")
    async with checks_at(make_url(f"sqlite+aiosqlite:///{recovered}")) as other:
        assert await other.is_fine("soundness")
    file.unlink()  # noqa: ASYNC240


def damage(file: Path, table: str) -> None:
    """Overwrite the page that a table begins with."""
    connection = sqlite3.connect(file)
    [[size]] = connection.execute("PRAGMA page_size")
    begins = "SELECT rootpage FROM sqlite_master WHERE name = ?"
    [[page]] = connection.execute(begins, [table])
    connection.close()
    sound, begin = file.read_bytes(), (page - 1) * size
    file.write_bytes(sound[:begin] + b"\xff" * size + sound[begin + size :])

"""The benchmark of the console works: every part is measured, and waits are noticed."""

import asyncio
import subprocess
import sys

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from benchmarks.lock_waits import watched_locks
from tests.support.command import ROOT
from tests.support.waiting import FULL, eventually

PARTS = {
    "pages": ("never analyzed", "analyzed"),
    "locks": ("locks, while a relay delivers",),
    "drain": ("drain, large outbox", "drain, backlog alone"),
}
SHORT = ("pages", "locks")
"""What is measured in short: the drain takes some ten processes."""


@pytest.mark.extended
def test_every_part_of_the_console_is_measured_and_nobody_waits_for_its_locks() -> None:
    parts = tuple(PARTS) if FULL else SHORT
    sizes = ["--quick", "--turns", "1", "--drain-turns", "1", "--only", *parts]
    command = [sys.executable, "-m", "benchmarks.console", *sizes]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    lines = ended.stdout.splitlines()
    rows = [row for part in parts for row in PARTS[part]]
    assert all(any(line.startswith(row) for line in lines) for row in rows)
    [waits] = (line for line in lines if "waits for it" in line)
    assert waits.endswith("ok")


async def test_a_wait_for_a_lock_of_the_console_is_noticed(postgres_url: str) -> None:
    lock = text("SELECT pg_advisory_xact_lock(20261118)")
    named = {"server_settings": {"application_name": "console under test"}}
    console = create_async_engine(postgres_url, connect_args=named)
    other = create_async_engine(postgres_url)
    async with (
        watched_locks(postgres_url, "console under test") as seen,
        other.connect() as waiting,
    ):
        async with console.connect() as holding:
            await holding.execute(lock)
            task = asyncio.create_task(waiting.execute(lock))
            await eventually(lambda: seen.waits)
        await task
    assert "pg_advisory_xact_lock" in seen.example
    await console.dispose()
    await other.dispose()

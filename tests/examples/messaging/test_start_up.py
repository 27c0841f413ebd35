"""What an operator sees who starts it with too little, or with nothing at all."""

import asyncio
import signal
import sqlite3
from contextlib import closing

import pytest

from tests.examples.applications import NO_BROKER
from tests.examples.messaging.conftest import FACTORY, RELAY, account_at
from tests.support.command import PYTHONPATH, ROOT, Commands
from tests.support.server import serve
from tests.support.waiting import eventually

pytestmark = pytest.mark.extended

INI = str(ROOT / "examples/messaging/alembic.ini")
STATUSES = "SELECT status, count(*) FROM {} GROUP BY status"


async def test_with_nothing_installed_it_is_one_process_and_loses_nothing(
    commands: Commands,
) -> None:
    assert await commands.python("-m", "alembic", "-c", INI, "upgrade", "head").code() == 0
    first = serve(commands, FACTORY)
    async with account_at(first) as account:
        await asyncio.gather(*(account.group_message("queued") for _ in range(20)))
        assert await first.command.stop() == -signal.SIGTERM
    second = serve(commands, FACTORY)
    with closing(sqlite3.connect(commands.directory / "messaging.db")) as connection:

        def statuses(table: str) -> list[tuple[str, int]]:
            return connection.execute(STATUSES.format(table)).fetchall()

        await eventually(lambda: statuses("group_messages") == [("completed", 20)])
        await eventually(lambda: statuses("outbox_events") == [("published", 80)])
        assert connection.execute("SELECT count(*) FROM deliveries").fetchall() == [(40,)]
    assert await second.command.stop() == -signal.SIGTERM
    assert "Traceback" not in first.command.err + second.command.err


@pytest.mark.parametrize(
    ("program", "urls", "error"),
    [
        ("worker", {"DATABASE_URL": "postgresql://db/messaging"}, "set RABBITMQ_URL"),
        ("messaging.consumer", {}, "set RABBITMQ_URL"),
        ("messaging.audit", {}, "set RABBITMQ_URL"),
        ("messaging.audit", {"RABBITMQ_URL": NO_BROKER}, "the broker cannot be used"),
    ],
)
async def test_without_a_broker_it_says_so_in_one_line(
    commands: Commands, program: str, urls: dict[str, str], error: str
) -> None:
    if program == "worker":
        command, code = commands("worker", RELAY, PYTHONPATH=PYTHONPATH, **urls), 2
    else:
        command, code = commands.python("-m", program, **urls), 1
    assert error in await command.error_line(code)

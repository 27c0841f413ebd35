"""What an operator sees when the application is started."""

import sqlite3
from contextlib import closing
from pathlib import Path

from tests.examples.accounts.conftest import FACTORY
from tests.examples.accounts.people import sign_up, sign_up_body
from tests.support.command import ROOT, Commands
from tests.support.server import serve
from tests.support.waiting import eventually

NOWHERE = "postgresql+asyncpg://app:hunter2@127.0.0.1:1/accounts"


async def test_with_nothing_installed_it_runs_on_a_sqlite_file(commands: Commands) -> None:
    ini = str(ROOT / "examples/accounts/alembic.ini")
    assert await commands.python("-m", "alembic", "-c", ini, "upgrade", "head").code() == 0
    server = serve(commands, FACTORY)
    async with server.client() as client:
        account = await sign_up(client)
        again = await client.post("/sign-up", json=sign_up_body(account["email"].upper()))
        await eventually(lambda: delivered_in(commands.directory / "accounts.db") == 1)
        profile = await client.get(f"/profiles/{account['account_id']}")
    assert again.status_code == 409
    assert profile.json()["display_name"] == account["email"].partition("@")[0]


def delivered_in(file: Path) -> int:
    """Count the records in a SQLite file that are delivered."""
    with closing(sqlite3.connect(file)) as connection:
        query = "SELECT count(*) FROM outbox WHERE status = 'published'"
        return int(connection.execute(query).fetchone()[0])


async def test_without_tables_it_says_which_and_ends(commands: Commands) -> None:
    command = commands.python("-m", "uvicorn", "--factory", FACTORY, "--port", "0")
    assert await command.code() != 0
    assert "no table `outbox` in database `accounts.db`" in command.err
    assert "alembic upgrade head" in command.err


async def test_without_a_database_it_starts_and_answers_that_it_is_unavailable(
    commands: Commands,
) -> None:
    server = serve(commands, FACTORY, DATABASE_URL=NOWHERE)
    async with server.client() as client:
        answer = await client.post("/sign-up", json=sign_up_body())
        await server.command.says("postroom: the database is unavailable")
        live, ready = await client.get("/health/live"), await client.get("/health/ready")
    assert (live.status_code, answer.status_code, ready.status_code) == (200, 503, 503)
    assert answer.json() == {"detail": "The database is unavailable. Please try again later."}
    assert ready.json()["relay"]["status"] == "degraded"
    assert "Traceback" not in server.command.err
    assert "hunter2" not in server.command.err + server.command.out + ready.text

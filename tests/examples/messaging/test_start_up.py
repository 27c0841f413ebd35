"""What an operator sees who starts it with too little, or with nothing at all."""

import asyncio
import signal
import sqlite3
from contextlib import closing

import pytest

from tests.examples.messaging.account import Account
from tests.examples.messaging.conftest import FACTORY, RELAY, account_at
from tests.support.broker import Broker
from tests.support.command import PYTHONPATH, ROOT, Commands
from tests.support.server import serve

AUDIT = ("-m", "messaging.audit")
INI = str(ROOT / "examples/messaging/alembic.ini")
NOWHERE = "postgresql://app:hunter2@127.0.0.1:1/messaging"
NO_BROKER = "amqp://app:hunter2@127.0.0.1:1/"


async def test_with_nothing_installed_it_is_one_process_and_loses_nothing(
    commands: Commands,
) -> None:
    assert await commands.python("-m", "alembic", "-c", INI, "upgrade", "head").code() == 0
    first = serve(commands, FACTORY)
    async with account_at(first) as account:
        sent = await asyncio.gather(*(account.group_message("queued") for _ in range(20)))
        assert await first.command.stop() == -signal.SIGTERM
    second = serve(commands, FACTORY)
    async with account_at(second) as again:
        account = Account(again.client, account.id, account.user_id)
        assert (await account.get("/group-messages"))["total"] == len(sent)
        relay = {"status": "ok", "reason": None}
        assert await account.get("/health/ready") == {
            "status": "ok",
            "database": "ok",
            "relay": relay,
        }
        late = await account.group_message()
        await second.command.prints(f"group_message.created      {late['id']}  draft\n")
        assert await second.command.stop() == -signal.SIGTERM
    for message in sent:
        for step in ("queued", "processing", "completed"):
            line = f"group_message.{step:<12} {message['id']}  {step}\n"
            assert line in first.command.out + second.command.out
    with closing(sqlite3.connect(commands.directory / "messaging.db")) as connection:
        query = "SELECT status, count(*) FROM outbox_events GROUP BY status"
        assert connection.execute(query).fetchall() == [("published", 81)]
        query = "SELECT status, count(*) FROM group_messages GROUP BY status ORDER BY status"
        assert connection.execute(query).fetchall() == [("completed", 20), ("draft", 1)]
        assert connection.execute("SELECT count(*) FROM deliveries").fetchall() == [(40,)]
    assert "Traceback" not in first.command.err + second.command.err


async def test_without_tables_it_says_which_and_ends(commands: Commands) -> None:
    command = commands.python("-m", "uvicorn", "--factory", FACTORY, "--port", "0")
    assert await command.code() != 0
    assert "no table `outbox_events` in database `messaging.db`" in command.err
    assert "Create it with `alembic upgrade head`." in command.err


async def test_without_a_database_it_starts_and_answers_that_it_is_away(
    commands: Commands,
) -> None:
    server = serve(commands, FACTORY, DATABASE_URL=NOWHERE, RABBITMQ_URL=NO_BROKER)
    async with account_at(server) as account:
        answer = await account.ask("GET", "/channels")
    assert answer.status_code == 503
    assert answer.json()["detail"].startswith("the database cannot be used at the moment")
    assert await server.command.stop() == -signal.SIGTERM
    assert "the database cannot be used" in server.command.err
    assert "Traceback" not in server.command.err
    assert "hunter2" not in server.command.err + server.command.out


@pytest.mark.requirement("C13")
async def test_a_worker_without_a_broker_does_not_start(commands: Commands) -> None:
    command = commands("worker", RELAY, DATABASE_URL=NOWHERE, PYTHONPATH=PYTHONPATH)
    assert "there is no broker to deliver to: set RABBITMQ_URL" in await command.error_line(2)


@pytest.mark.parametrize(
    ("url", "error"),
    [({}, "set RABBITMQ_URL"), ({"RABBITMQ_URL": NO_BROKER}, "the broker cannot be used")],
)
async def test_a_consumer_without_a_broker_says_so_in_one_line(
    commands: Commands, url: dict[str, str], error: str
) -> None:
    said = await commands.python(*AUDIT, **url).error_line(1)
    assert error in said
    assert "hunter2" not in said


async def test_the_audit_without_a_queue_says_how_to_make_it(
    commands: Commands, broker: Broker, rabbitmq_url: str
) -> None:
    broker.delete_queue("messaging_audit")
    command = commands.python(*AUDIT, RABBITMQ_URL=rabbitmq_url)
    assert "start the worker with RABBITMQ_AUDIT_QUEUE=true" in await command.error_line(1)

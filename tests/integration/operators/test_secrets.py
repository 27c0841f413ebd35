"""Secrets that no command, log line, error, answer or metric may show."""

import asyncio
import json
import signal
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
import typer
from sqlalchemy import make_url, text
from sqlalchemy.ext.asyncio import AsyncEngine

from postroom.cli.app import app
from tests.integration.operators import secrets_app
from tests.support.command import ROOT, Commands, commands_in
from tests.support.in_process import InProcess
from tests.support.listening import HOST
from tests.support.services import SECRETS
from tests.support.waiting import FULL, eventually

pytestmark = [pytest.mark.no_cover, pytest.mark.requirement("E10")]

RELAY = "tests.integration.operators.secrets_app:relay"
HIDDEN = (*secrets_app.HIDDEN, *SECRETS)
WORDS = {
    "worker": [RELAY, "--once", "--log-level", "DEBUG"],
    "topology": ["--exchange", "canaries"],
    "show": ["{failed}"],
    "why": ["order/7"],
    "retry": ["{failed}", "--yes"],
    "skip": ["{failed}", "--yes"],
    "discard": ["{failed}", "--yes"],
    "replay": ["{delivered}", "--yes"],
    "pause": ["--yes"],
    "resume": ["--yes"],
    "purge": ["--older-than", "1s", "--yes"],
    "failures retry": ["1", "--yes"],
    "failures discard": ["1", "--yes"],
    "workers drain": ["web1:42", "--yes"],
    "workers resume": ["web1:42", "--yes"],
}
"""What commands need besides the outbox. One that is not here is run without."""
REDACTED = "[redacted]"
STAYS = {"tail"}
"""Commands that run until Ctrl-C."""
SERVES = {"console"}
"""Commands that answer requests until Ctrl-C."""
SHOWS = {"show", "why", "list", "failures", "blocked"}
"""Commands that show the error of a record, so that they have something to hide."""


def walk(command: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every command of the application, so that a new one cannot be forgotten."""
    if not hasattr(command, "commands") or command.invoke_without_command:
        yield name, command
    for word, each in getattr(command, "commands", {}).items():
        yield from walk(each, f"{name} {word}".strip())


ALL = dict(walk(typer.main.get_command(app)))
OPTIONS = {name: {each.name for each in command.params} for name, command in ALL.items()}


async def save(engine: AsyncEngine, first: int = 7) -> None:
    """Commit events of three keys, `first` being the first one."""
    async with engine.begin() as connection:
        await secrets_app.outbox.save(connection, secrets_app.events(first))


@pytest.fixture
async def filled(engine: AsyncEngine) -> dict[str, str]:
    """Events in the shop's outbox; what is to become of them, by position."""
    await save(engine)
    async with engine.connect() as connection:
        positions = await connection.scalars(text("SELECT position FROM outbox ORDER BY position"))
        first, *_, last = positions
    return {"failed": str(first), "delivered": str(last)}


@pytest.fixture
def postroom(tmp_path: Path, filled: dict[str, str]) -> Iterator[Commands]:
    """Start the command; no process of it writes a secret."""
    with commands_in(tmp_path, *HIDDEN) as commands:
        yield commands


@pytest.fixture
def environment(database_url: str, rabbitmq_url: str) -> dict[str, str]:
    url = make_url(database_url).set(drivername="postgresql+asyncpg")
    return {
        "SECRETS_DATABASE_URL": url.render_as_string(hide_password=False),
        "PYTHONPATH": str(ROOT),
        "RABBITMQ_URL": rabbitmq_url,
    }


def deliver(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]) -> None:
    """Deliver what can be delivered."""
    monkeypatch.setenv("SECRETS_DATABASE_URL", environment["SECRETS_DATABASE_URL"])

    async def run() -> None:
        relay = secrets_app.relay()
        await relay.run_once()
        await relay.engine.dispose()

    asyncio.run(run())


def variants(name: str, database_url: str, filled: dict[str, str]) -> Iterator[list[str]]:
    """Yield the words for a command: with a relay and with a URL, as text and as JSON.

    In short: the relay's as text, and the URL's as JSON.
    """
    words = [each.format(**filled) for each in WORDS.get(name, [])]
    url = ["--database", database_url, "--redact", ",".join(secrets_app.REDACT)]
    of_an_operator = {"relay", "redact"} <= OPTIONS[name] and name != "worker"
    connections = [["--relay", RELAY], url] if of_an_operator else [[]]
    has_json, in_short = "json" in OPTIONS[name], of_an_operator and not FULL
    for connection in connections:
        if not (has_json and in_short and connection is url):
            yield [*name.split(), *words, *connection]
        if has_json and not (in_short and connection is not url):
            yield [*name.split(), *words, *connection, "--json"]


@pytest.mark.parametrize("name", [each for each in ALL if each not in STAYS | SERVES])
def test_no_command_shows_a_secret(
    name: str,
    run_postroom: InProcess,
    environment: dict[str, str],
    database_url: str,
    filled: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    deliver(monkeypatch, environment)
    for words in variants(name, database_url, filled):
        ended = run_postroom(*words, **environment)
        assert ended.code in (0, 1), ended.err
        written = ended.out + ended.err
        assert [each for each in HIDDEN if each in written] == []
        assert (REDACTED in written) == (name in SHOWS), written


@pytest.mark.extended
@pytest.mark.parametrize("name", [each for each in ALL if each in STAYS])
async def test_no_command_that_stays_shows_a_secret(
    name: str,
    postroom: Commands,
    environment: dict[str, str],
    database_url: str,
    filled: dict[str, str],
    engine: AsyncEngine,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    commands = [postroom(*words, **environment) for words in variants(name, database_url, filled)]
    keys = count(100, 3)

    async def all_show_it() -> bool:
        await save(engine, next(keys))  # what a command came too late for, it does not show
        await asyncio.to_thread(deliver, monkeypatch, environment)
        return all(REDACTED in each.out for each in commands)

    await eventually(all_show_it)
    for each in commands:
        each.tell(signal.SIGINT)
        assert await each.code() == 130


PAGES = (
    *("/", "/records", "/records?state=failed", "/records/{failed}", "/records/{delivered}"),
    *("/keys", "/key?type=order&id=7", "/failures", "/workers", "/events", "/doctor", "/audit"),
    f"/records/{{failed}}?search={quote(secrets_app.HIDDEN[0])}",
)


@pytest.mark.extended
@pytest.mark.parametrize("connection", ["relay", "url"])
async def test_no_page_of_the_console_shows_a_secret(
    connection: str,
    postroom: Commands,
    environment: dict[str, str],
    database_url: str,
    filled: dict[str, str],
    unused_tcp_port: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await asyncio.to_thread(deliver, monkeypatch, environment)
    token = "a-token-for-operators-only"
    broker = f"amqp://me:{secrets_app.PASSWORD}@127.0.0.1:1/shop"
    named = {"relay": ["--relay", RELAY], "url": ["--database", database_url, "--broker", broker]}
    words = ["console", "--port", str(unused_tcp_port), *named[connection]]
    variables = {**environment, "POSTROOM_CONSOLE_TOKEN": token}
    if connection == "url":
        words += ["--redact", ",".join(secrets_app.REDACT)]
    console = postroom(*words, **variables)
    await eventually(lambda: "http://" in console.out or console.ended)
    async with httpx.AsyncClient(
        base_url=f"http://{HOST}:{unused_tcp_port}",
        headers={"Authorization": f"Bearer {token}"},
        trust_env=False,
    ) as client:
        answers = {path: await client.get(path.format(**filled)) for path in PAGES}
        await eventually(lambda: _has_ended(client))
        answers["the doctor at its end"] = await client.get("/doctor")
    assert await console.stop() == 0
    assert {each.status_code for each in answers.values()} == {200}
    for path, answer in answers.items():
        shown = [each for each in (*HIDDEN, token) if each in answer.text]
        assert [each for each in shown if quote(each) not in path] == []  # what was typed is shown
    assert "<mark>" not in answers[PAGES[-1]].text
    assert REDACTED in answers["/records/{failed}"].text


async def _has_ended(client: httpx.AsyncClient) -> bool:
    """Tell whether the doctor has looked at everything."""
    return "Looking" not in (await client.get("/doctor")).text


AWAY = "postgresql://me:{}@127.0.0.1:1/shop"
UNREADABLE = ("x//me:{}@y", "x:{}@y")
OF_DATABASES = [each for each in ALL if "database" in OPTIONS[each]]


@pytest.mark.parametrize(
    ("name", "url"),
    [
        *((name, AWAY) for name in OF_DATABASES),
        *((name, url) for name in (OF_DATABASES if FULL else ["status"]) for url in UNREADABLE),
    ],
)
def test_no_error_shows_the_password_of_a_database(
    name: str, url: str, run_postroom: InProcess
) -> None:
    words = [each.format(failed=1, delivered=2) for each in WORDS.get(name, []) if each != RELAY]
    json_too = [[], ["--json"]] if "json" in OPTIONS[name] else [[]]
    for more in json_too:
        database = ["--database", url.format(secrets_app.PASSWORD)]
        ended = run_postroom(*name.split(), *words, *database, *more)
        assert ended.code in (1, 2, 3), ended  # 1: a finding of the doctor's
        assert ended.out + ended.err
        assert secrets_app.PASSWORD not in ended.out + ended.err


@pytest.mark.parametrize(
    "name", [each for each in ALL if "broker" in OPTIONS[each] and each not in SERVES]
)
def test_no_error_shows_the_password_of_a_broker(
    name: str, run_postroom: InProcess, database_url: str
) -> None:
    broker = ["--broker", f"amqp://me:{secrets_app.PASSWORD}@127.0.0.1:1/shop"]
    more = ["--apply"] if "apply" in OPTIONS[name] else ["--database", database_url]
    ended = run_postroom(*name.split(), *more, *broker)
    assert ended.code in (1, 5)
    assert "127.0.0.1:1" in ended.out + ended.err
    assert secrets_app.PASSWORD not in ended.out + ended.err


@pytest.mark.parametrize("style", ["text", pytest.param("json", marks=pytest.mark.extended)])
async def test_a_worker_shows_no_secret_in_logs_answers_metrics_and_rows(
    postroom: Commands,
    environment: dict[str, str],
    engine: AsyncEngine,
    style: str,
    unused_tcp_port: int,
) -> None:
    options = ["--log-format", style, "--log-level", "DEBUG", "--health-host", HOST]
    worker = postroom(
        "worker", RELAY, *options, "--health-port", str(unused_tcp_port), **environment
    )
    await eventually(lambda: worker.err.count("gave up on") == 2 or worker.ended)
    async with httpx.AsyncClient(
        base_url=f"http://{HOST}:{unused_tcp_port}", trust_env=False
    ) as client:
        answers = [await client.get(path) for path in ("/live", "/ready?verbose", "/metrics", "/x")]
    assert await worker.stop() == 0
    if style == "json":
        assert [json.loads(line) for line in worker.err.splitlines()]
    written = "\n".join(each.text for each in answers) + await rows(engine)
    assert [each for each in HIDDEN if each in written] == []
    assert REDACTED in written
    assert REDACTED in worker.err


async def rows(engine: AsyncEngine) -> str:
    """Return what a worker has written of its own: not payloads and headers."""
    statements = (
        "SELECT error_message FROM outbox",
        "SELECT reason FROM outbox_attempts",
        "SELECT report::text FROM outbox_workers",
    )
    async with engine.connect() as connection:
        found = [list(await connection.scalars(text(each))) for each in statements]
    return "\n".join(str(each) for column in found for each in column)

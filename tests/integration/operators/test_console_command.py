"""`postroom console`: as a process that a browser asks, and what it refuses to start with."""

import asyncio
import signal
import socket
import sys
from pathlib import Path

import httpx
import pytest
from sqlalchemy import Engine

from postroom.cli.errors import Exit
from scripts.servers import HOST
from tests.support.command import Command, Commands
from tests.support.in_process import InProcess
from tests.support.ports import free_ports
from tests.support.services import SECRET
from tests.support.waiting import PATIENCE

TOKEN, READER_TOKEN = "operators-token-4711", "readers-token-0815"
SHOP = "sqlite:///shop.db"
SAME_ORIGIN = {"sec-fetch-site": "same-origin"}


async def started(postroom: Commands, *words: str, **environment: str) -> tuple[Command, str]:
    """Start the console of the shop; give its process and its address."""
    [port] = free_ports(1)
    command = postroom("console", "--port", str(port), *words, DATABASE_URL=SHOP, **environment)
    await command.prints(f":{port}")
    return command, f"http://{HOST}:{port}"


def error_line(run_postroom: InProcess, code: int, *words: str, **environment: str) -> str:
    line = run_postroom("console", *words, **environment).error_line(code)
    assert line.startswith("postroom console: ")
    return line.removeprefix("postroom console: ")


# -- a process


@pytest.mark.parametrize("told", [signal.SIGINT, signal.SIGTERM], ids=str)
async def test_the_console_says_where_it_is_answers_and_ends_when_told(
    postroom: Commands, shop_file: Path, told: signal.Signals
) -> None:
    command, address = await started(postroom)
    async with httpx.AsyncClient(base_url=address) as visitor:
        page = await visitor.get("/")
        assert (page.status_code, "All is well" in page.text) == (200, True)
        assert "server" not in page.headers
        assert (await visitor.get("/", headers={"host": "evil.example"})).status_code == 403
        forwarded = {"x-forwarded-for": "127.0.0.1"}
        assert (await visitor.get("/", headers=forwarded)).status_code == 403
        assert (await visitor.post("/pause", headers=SAME_ORIGIN)).status_code == 303
        command.tell(told)  # while the browser's connection is open
        assert await command.code() == Exit.OK
    assert command.err == ""
    assert command.out.splitlines() == [
        f"The console of table `outbox` of database `shop.db`: {address}"
    ]


@pytest.mark.requirement("E10")
async def test_tokens_come_from_variables_and_are_shown_nowhere(
    postroom: Commands, shop_file: Path
) -> None:
    tokens = {"POSTROOM_CONSOLE_TOKEN": TOKEN, "POSTROOM_CONSOLE_READER_TOKEN": READER_TOKEN}
    command, address = await started(postroom, "--host", "0.0.0.0", **tokens)  # noqa: S104
    async with httpx.AsyncClient(base_url=address) as visitor:
        assert (await visitor.get("/records")).status_code == 303
        for token, status in ((f"{TOKEN}x", 403), (READER_TOKEN, 303)):
            answer = await visitor.post("/login", headers=SAME_ORIGIN, data={"token": token})
            assert answer.status_code == status
        assert (await visitor.get("/records")).status_code == 200
        assert (await visitor.post("/pause", headers=SAME_ORIGIN)).status_code == 403
        bearer = SAME_ORIGIN | {"authorization": f"Bearer {TOKEN}"}
        assert (await visitor.post("/pause", headers=bearer)).status_code == 303
    for odd in (b"GET /static/..%2fapp.py HTTP/1.1\r\nHost: [\r\n", b"nonsense\r\n"):
        assert (await status_of(address, odd)) in (b"400", b"404")
    assert await command.stop() == Exit.OK
    assert "Traceback" not in command.err
    for token in tokens.values():
        assert token not in command.out + command.err


async def status_of(address: str, request: bytes) -> bytes:
    """Send bytes as they are; return the status of the answer."""
    url = httpx.URL(address)
    reader, writer = await asyncio.open_connection(url.host, url.port)
    writer.write(request + b"Connection: close\r\n\r\n")
    answer = await asyncio.wait_for(reader.read(), PATIENCE)
    writer.close()
    await writer.wait_closed()
    return answer.split()[1]


async def test_a_read_only_console_changes_nothing(postroom: Commands, shop_file: Path) -> None:
    command, address = await started(postroom, "--read-only")
    async with httpx.AsyncClient(base_url=address) as visitor:
        assert "read only" in (await visitor.get("/workers")).text
        assert (await visitor.post("/pause", headers=SAME_ORIGIN)).status_code == 403
    assert await command.stop() == Exit.OK


# -- what it refuses to start with


@pytest.mark.requirement("E7")
@pytest.mark.parametrize("host", ["0.0.0.0", "::", "shop.example"])  # noqa: S104
def test_another_address_than_this_machines_own_needs_a_token(
    run_postroom: InProcess, shop_file: Path, host: str
) -> None:
    line = error_line(run_postroom, Exit.USAGE, "--host", host, DATABASE_URL=SHOP)
    assert "POSTROOM_CONSOLE_TOKEN" in line


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--token", "geheim42"), "the token of the operator is too short: it needs 16"),
        (("--reader-token", "geheim42"), "the token of the reader is too short: it needs 16"),
        (("--token", "geheim42" * 2, "--reader-token", "geheim42" * 2), "are the same"),
        (("--token", ""), "--token"),
        (("--trace-url", "https://traces.example.com"), "{trace_id}"),
    ],
)
def test_options_that_cannot_be_are_explained(
    run_postroom: InProcess, shop_file: Path, words: tuple[str, ...], problem: str
) -> None:
    line = error_line(run_postroom, Exit.USAGE, *words, DATABASE_URL=SHOP)
    assert problem in line
    assert "geheim42" not in line


def test_what_it_cannot_listen_on_is_named(run_postroom: InProcess, shop_file: Path) -> None:
    with socket.create_server((HOST, 0)) as other:
        port = str(other.getsockname()[1])
        line = error_line(run_postroom, Exit.USAGE, "--port", port, DATABASE_URL=SHOP)
    assert line.startswith(f"cannot listen on {HOST}:{port}: ")
    words = ("--host", "no-such-host.invalid", "--token", TOKEN)
    line = error_line(run_postroom, Exit.USAGE, *words, DATABASE_URL=SHOP)
    assert "no-such-host.invalid:8765: " in line
    assert TOKEN not in line


@pytest.mark.requirement("E10")
def test_a_database_that_is_away_is_named_without_its_password(run_postroom: InProcess) -> None:
    url = f"postgresql://ann:geheim42@{HOST}:1/shop"
    line = error_line(run_postroom, Exit.DATABASE, DATABASE_URL=url)
    assert "geheim42" not in line
    assert SECRET not in line


def test_tables_that_are_missing_are_named(run_postroom: InProcess, tmp_path: Path) -> None:
    (tmp_path / "empty.db").touch()
    line = error_line(run_postroom, Exit.SCHEMA, DATABASE_URL="sqlite:///empty.db")
    assert "outbox" in line


@pytest.mark.parametrize("hidden", ["starlette", "jinja2", "uvicorn"])
def test_a_missing_extra_is_named(
    run_postroom: InProcess, sqlite_engine: Engine, monkeypatch: pytest.MonkeyPatch, hidden: str
) -> None:
    for name in {*sys.modules, hidden}:
        if name.partition(".")[0] == hidden or name.startswith("postroom.console"):
            monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, hidden, None)
    line = error_line(run_postroom, Exit.USAGE, DATABASE_URL=SHOP)
    assert line.startswith(hidden)
    assert line.endswith("'postroom[console]'")

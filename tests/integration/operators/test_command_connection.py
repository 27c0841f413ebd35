"""Which outbox a command is about, and how it prints: on a terminal, again and again, read only."""

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from postroom.cli.connecting import connected
from postroom.cli.errors import CommandError
from postroom.cli.options import Connection
from tests.support.command import SCRIPT, Commands
from tests.support.in_process import InProcess
from tests.support.troubled_shop import Shop
from tests.support.waiting import eventually

# -- which outbox


@pytest.mark.parametrize(
    "words",
    [
        ("--relay", "shop_module:relay"),
        ("--relay", "shop_module:outbox", "--database", "sqlite:///shop.db"),
        ("--database", "sqlite:///shop.db", "--table", "outbox"),
    ],
)
def test_the_outbox_is_named_by_a_module_or_a_database(
    shop_module: InProcess, words: tuple[str, ...]
) -> None:
    assert shop_module("status", *words).code == 0


def test_the_outbox_is_named_in_a_file(shop_module: InProcess) -> None:
    shop_module.write("pyproject.toml", '[tool.postroom]\nrelay = "shop_module:relay"\n')
    assert shop_module("status").code == 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "which outbox? Name its database (--database URL, or DATABASE_URL)"),
        (("--relay", "shop_module:outbox"), "Name its database, too: --database URL."),
        (("--relay", "shop_module:relay", "--table", "x"), "--table and --relay: the code"),
        (("--relay", "shop_module:nothing"), "It has outbox, relay."),
        (("--database", "mysql://ann:hunter2@db/shop"), "no way to use 'mysql'"),
    ],
)
def test_an_outbox_that_is_not_named_rightly_ends_with_2(
    shop_module: InProcess, words: tuple[str, ...], says: str
) -> None:
    line = shop_module("status", *words).error_line(2)
    assert says in line
    assert "hunter2" not in line


def test_a_database_that_is_away_ends_with_3(run_postroom: InProcess) -> None:
    url = "postgresql://ann:hunter2@127.0.0.1:1/shop"
    line = run_postroom("status", DATABASE_URL=url).error_line(3)
    assert line.startswith("postroom status: cannot use database `shop` at 127.0.0.1:1: ")
    assert "hunter2" not in line


def test_tables_that_are_missing_end_with_4(empty_shop: Shop) -> None:
    line = empty_shop("list", "--table", "letters").error_line(4)
    assert line.startswith("postroom list: no table `letters` in ")


def test_errors_are_json_if_the_environment_says_so(run_postroom: InProcess) -> None:
    ended = run_postroom("status", POSTROOM_LOG_FORMAT="json")
    assert ended.code == 2
    assert json.loads(ended.err)["message"].startswith("which outbox?")


# -- on a terminal


@pytest.mark.no_cover
@pytest.mark.parametrize("width", [80, 160])
@pytest.mark.parametrize("coloured", [True, False])
def test_a_table_fits_the_terminal_and_colours_can_be_switched_off(
    shop: Shop, tmp_path: Path, width: int, coloured: bool
) -> None:
    url = shop.url if shop.url.startswith("postgresql") else f"sqlite:///{tmp_path}/shop.db"
    environment = {"DATABASE_URL": url, "TERM": "xterm-256color", "COLUMNS": str(width)}
    if not coloured:
        environment["NO_COLOR"] = "1"
    shown = on_terminal("list", **environment)
    assert ("\x1b[1;31mfailed" in shown) == coloured
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown)
    assert max(map(len, plain.splitlines())) <= width
    assert "order.shipped" in plain
    assert "─" in plain


def on_terminal(*words: str, **environment: str) -> str:
    """Run a command on a terminal of its own; return what it shows."""
    ours, theirs = os.openpty()
    variables = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path), **environment}
    with os.fdopen(ours, "rb", buffering=0) as screen:
        with os.fdopen(theirs, "wb") as terminal:
            process = subprocess.Popen(
                [sys.executable, str(SCRIPT), *words],
                stdout=terminal,
                stderr=terminal,
                env=variables,
            )
        shown = b""
        with suppress(OSError):  # on Linux, once nobody has the other end
            while part := screen.read(65536):
                shown += part
    assert process.wait() == 0, shown
    return shown.decode()


# -- again and again


@pytest.mark.no_cover
async def test_watch_prints_the_status_until_it_is_stopped(
    postroom: Commands, engine: AsyncEngine, database_url: str
) -> None:
    words = ["--watch", "--interval", "0.05", "--json"]
    watching = postroom("status", *words, DATABASE_URL=database_url, PYTHONUNBUFFERED="1")
    await eventually(lambda: watching.out.count("\n") >= 2 or watching.ended)
    assert all(json.loads(line)["healthy"] for line in watching.out.splitlines()[:2])
    watching.tell(signal.SIGINT)
    assert await watching.code() == 128 + signal.SIGINT
    assert watching.err == ""


# -- read only


@pytest.mark.parametrize(
    ("words", "variables", "text"),
    [
        (("--read-only",), {}, ""),
        ((), {"POSTROOM_READ_ONLY": "1"}, ""),
        ((), {}, "[tool.postroom]\nread_only = true\n"),
    ],
    ids=["option", "environment", "file"],
)
def test_read_only_lets_commands_look(
    shop_module: InProcess, words: tuple[str, ...], variables: dict[str, str], text: str
) -> None:
    shop_module.write("pyproject.toml", text)
    looked = shop_module(*words, "status", "--relay", "shop_module:relay", **variables)
    assert looked.code == 0, looked.err


async def test_read_only_refuses_a_change() -> None:
    connection = Connection(database="sqlite:///shop.db", read_only=True)
    with pytest.raises(CommandError, match="nothing was changed: --read-only is on"):
        async with connected(connection, change=True):
            pass

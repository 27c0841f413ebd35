"""Which outbox a command is about, and how it prints: on a terminal, again and again, read only."""

import json
import os
import re
import signal
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from postroom.cli.connecting import connected
from postroom.cli.errors import CommandError
from postroom.cli.options import Connection
from tests.support.command import SCRIPT, Commands
from tests.support.in_process import InProcess
from tests.support.program import Program
from tests.support.shop_with_failures import Shop
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
    assert line.startswith("postroom status: ")
    assert "`shop` at 127.0.0.1:1: " in line
    assert "hunter2" not in line


def test_tables_that_are_missing_end_with_4(empty_shop: Shop) -> None:
    line = empty_shop("list", "--table", "letters").error_line(4)
    assert line.startswith("postroom list: ")
    assert "`letters`" in line


def test_errors_are_json_if_the_environment_says_so(run_postroom: InProcess) -> None:
    ended = run_postroom("status", POSTROOM_LOG_FORMAT="json")
    assert ended.code == 2
    assert json.loads(ended.err)["message"].startswith("which outbox?")


# -- on a terminal


@pytest.mark.no_cover
@pytest.mark.parametrize(("width", "coloured"), [(80, True), (160, False)])
def test_a_table_fits_the_terminal_and_colours_can_be_switched_off(
    shop: Shop, tmp_path: Path, width: int, coloured: bool
) -> None:
    colours = {} if coloured else {"NO_COLOR": "1"}
    code, shown = on_terminal(shop, tmp_path, "list", COLUMNS=str(width), **colours)
    assert code == 0, shown
    assert ("\x1b[1;31mfailed" in shown) == coloured
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown)
    assert max(map(len, plain.splitlines())) <= width
    assert "order.shipped" in plain
    assert "─" in plain


def test_on_a_terminal_a_command_asks_before_it_changes_something(
    shop: Shop, tmp_path: Path
) -> None:
    code, shown = on_terminal(shop, tmp_path, "retry", "2", answer="n")
    assert code == 1
    assert "Retry 1 order.paid record" in shown
    assert "? [y/N]" in shown
    assert shop.json("show", "2")["state"] == "failed"
    code, shown = on_terminal(shop, tmp_path, "retry", "2", answer="y")
    assert (code, "Retried 1 record." in shown) == (0, True)
    assert shop.json("show", "2")["state"] == "waiting"


def on_terminal(
    shop: Shop, folder: Path, *words: str, answer: str = "", **environment: str
) -> tuple[int, str]:
    """Run a command on a terminal of its own, type an answer; return its code and the screen."""
    ours, theirs = os.openpty()
    variables = {"DATABASE_URL": shop.url, "TERM": "xterm-256color", "COLUMNS": "160"}
    with os.fdopen(ours, "r+b", buffering=0) as screen:
        with os.fdopen(theirs, "r+b", buffering=0) as terminal:
            process = Program(
                [SCRIPT, *words],
                folder=folder,
                environment={"PATH": os.environ["PATH"], **variables, **environment},
                stdin=terminal,
                stdout=terminal,
                stderr=terminal,
            )
        screen.write(f"{answer}\n".encode())
        shown = b""
        with suppress(OSError):  # on Linux, once nobody has the other end
            while part := screen.read(65536):
                shown += part
    return process.wait(), shown.decode()


def test_a_reader_that_goes_away_ends_a_command_without_a_word(shop: Shop, tmp_path: Path) -> None:
    reader, writer = os.pipe()
    with TemporaryFile() as err:
        with os.fdopen(reader, "rb") as ours:
            with os.fdopen(writer, "wb") as out:
                running = Program(
                    [SCRIPT, "status", "--watch", "--interval", "0.1"],
                    folder=tmp_path,
                    environment={"PATH": os.environ["PATH"], "DATABASE_URL": shop.url},
                    stdout=out,
                    stderr=err,
                )
            assert ours.readline()
        assert running.wait() == 1
        err.seek(0)
        assert err.read() == b""


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

"""The help: what it takes to print it, and what each command's says."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from postroom.cli.app import app
from tests.support.command import SCRIPT

HEAVY = {"sqlalchemy", "asyncpg", "aiosqlite", "alembic", "pamqp", "fastapi", "dishka"}
IMPORTED = """
import json, sys
from typer.testing import CliRunner
from postroom.cli.app import app
for words in json.load(sys.stdin):
    done = CliRunner().invoke(app, [*words, "--help"])
    assert done.exit_code == 0, done.output
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})))
"""


def commands(command: Any, *path: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Walk the commands, with the words that call each."""
    for name, each in getattr(command, "commands", {}).items():
        yield (*path, name), each
        yield from commands(each, *path, name)


COMMANDS = dict(commands(typer.main.get_command(app)))


def test_no_command_s_help_imports_a_database_or_a_broker() -> None:
    every = json.dumps([(), *COMMANDS])
    command = [sys.executable, "-c", IMPORTED]
    done = subprocess.run(command, input=every, check=True, capture_output=True, text=True)
    assert not HEAVY & set(json.loads(done.stdout))


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_command_s_help_says_what_it_does_with_examples_and_options(
    words: tuple[str, ...],
) -> None:
    text = COMMANDS[words].help or ""
    summary, _, rest = text.partition("\n\n")
    assert summary.endswith(".")
    assert "[bold]Examples[/bold]" in rest
    assert f"postroom {' '.join(words)}" in rest
    plain = [line.replace("[dim]", "").replace("[/dim]", "") for line in text.splitlines()]
    commands = [line for line in plain if line.lstrip().startswith("postroom")]
    assert max(map(len, commands)) <= 78  # they fit a terminal of 80 columns
    options = [each for each in COMMANDS[words].params if not getattr(each, "hidden", False)]
    assert [each.name for each in options if not each.help] == []


def test_the_version_is_printed() -> None:
    done = CliRunner().invoke(app, ["--version"])
    assert (done.exit_code, done.stdout) == (0, "postroom 0.1.0\n")


def test_shell_completion_knows_the_commands() -> None:
    variables = {"_POSTROOM_COMPLETE": "complete_bash", "COMP_WORDS": "postroom topo"}
    done = subprocess.run(
        [sys.executable, str(SCRIPT)],
        env={**os.environ, **variables, "COMP_CWORD": "1"},
        capture_output=True,
        check=True,
        text=True,
    )
    assert done.stdout.split() == ["topology"]


def test_without_a_command_the_help_is_printed() -> None:
    done = CliRunner().invoke(app, [])
    assert done.exit_code == 2
    assert "worker" in done.output

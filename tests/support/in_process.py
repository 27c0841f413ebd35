"""The command `postroom` in this process: for what it says, which takes no process of its own."""

import gc
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
import typer.testing
from typer.main import get_command
from typer.testing import CliRunner

from postroom.cli.app import app

# It would make all commands anew for each one that is run: 30 ms.
vars(typer.testing)["_get_command"] = cache(get_command)


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended, and what it wrote."""

    code: int
    out: str
    err: str

    def error_line(self, code: int) -> str:
        """Give the one line that it wrote, if it ended with this code."""
        assert self.code == code, self.err
        [line] = self.err.splitlines()
        assert self.out == ""
        assert "Traceback" not in line
        return line


class InProcess:
    """Runs commands in a directory of their own, with nobody's settings around."""

    def __init__(self, directory: Path, secrets: tuple[str, ...]) -> None:
        self.directory = directory
        self._secrets = secrets

    def __call__(self, *words: str, **environment: str) -> Ended:
        """Run `postroom` with these words, and these variables."""
        with own_logging():
            result = CliRunner().invoke(app, words, env=environment)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        ended = Ended(result.exit_code, result.stdout, result.stderr)
        for secret in self._secrets:
            assert secret not in ended.out + ended.err
        return ended

    def write(self, name: str, text: str) -> None:
        (self.directory / name).write_text(text, encoding="utf-8")


@contextmanager
def in_process(
    directory: Path, monkeypatch: pytest.MonkeyPatch, *secrets: str
) -> Iterator[InProcess]:
    """Run commands; nothing of what they change in this process stays."""
    gc.collect()  # or what an earlier test left behind would be in a command's log
    monkeypatch.chdir(directory)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in os.environ.keys() - {"PATH", "PGSSLMODE", "PYTEST_CURRENT_TEST"}:
        monkeypatch.delenv(name)
    before = set(sys.modules)
    yield InProcess(directory, secrets)
    for name in sys.modules.keys() - before:
        if Path(getattr(sys.modules[name], "__file__", None) or "/").parent == directory:
            del sys.modules[name]


@contextmanager
def own_logging() -> Iterator[None]:
    """Have the root logger as it was, afterwards."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    for handler in handlers:  # or they would be closed
        root.removeHandler(handler)
    try:
        yield
    finally:
        for handler in list(root.handlers):
            root.removeHandler(handler)
        for handler in handlers:
            root.addHandler(handler)
        root.setLevel(level)
        logging.captureWarnings(False)

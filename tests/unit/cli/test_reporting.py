"""How a command ends: one line on standard error, as text or as JSON, and its exit code."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from postroom.cli.app import app
from tests.support.in_process import own_logging

SECRET = "hunter2"


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, which modules are found in."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delenv("POSTROOM_LOG_FORMAT", raising=False)
    return tmp_path


def end_of(*words: str, **environment: str) -> tuple[int, str]:
    with own_logging():
        done = CliRunner().invoke(app, words, env=environment)
    assert done.stdout == ""
    return done.exit_code, done.stderr


def as_json(text: str) -> dict[str, Any]:
    [line] = text.splitlines()
    document: dict[str, Any] = json.loads(line)
    assert {"time", "level", "logger", "message"} <= document.keys()
    return document


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("worker", "--nope"), "No such option: --nope"),
        (("worker", "--batch-size"), "--batch-size"),
        (("worker", "--batch-size", "0"), "--batch-size is '0': it has to be"),
        (("worker", "a:b", "c:d"), "unexpected extra argument"),
        (("worker", "--once", "--wait", "a:b"), "leave one of them out"),
        (("worker",), "which outbox?"),
        (("worker", "--config", "nowhere.toml"), "cannot read nowhere.toml"),
        (("worker", "no_such_module_here:relay"), "there is no module"),
    ],
)
def test_an_error_is_one_line_of_text_or_of_json(words: tuple[str, ...], says: str) -> None:
    code, text = end_of(*words)
    assert code == 2
    [line] = text.splitlines()
    assert line.startswith("postroom worker: ")
    assert says in line
    for more, variables in (
        (("--log-format", "json"), {}),
        (("--log-format=json",), {}),
        ((), {"POSTROOM_LOG_FORMAT": "json"}),
    ):
        code, text = end_of(words[0], *more, *words[1:], **variables)
        assert code == 2
        assert says in as_json(text)["message"]
        assert as_json(text)["logger"] == "postroom.worker"


def test_a_file_says_how_errors_are_written(directory: Path) -> None:
    (directory / "pyproject.toml").write_text(
        '[tool.postroom]\nlog_format = "json"\nbatch_size = 0\n'
    )
    code, text = end_of("worker")
    assert code == 2
    message = "batch_size in pyproject.toml is 0: it has to be a whole number, 1 or more."
    assert as_json(text)["message"] == message


def test_a_log_format_that_is_none_is_named_as_text() -> None:
    code, text = end_of("worker", "--log-format", "xml")
    line = "postroom worker: --log-format is 'xml': it has to be one of text, json.\n"
    assert (code, text) == (2, line)


RAISES = {
    "at import": "raise LookupError('gone')",
    "exit": "import sys\nsys.exit('gone')",
    "exit with a code": "raise SystemExit(3)",
    "a base error": "class Gone(BaseException):\n    pass\nraise Gone('gone')",
    "in a factory": "def relay():\n    raise SystemExit('gone')",
    "in an async factory": "async def relay():\n    raise SystemExit('gone')",
    "a group": "def relay():\n    raise ExceptionGroup('gone', [ValueError('x')])",
}


@pytest.mark.parametrize("how", RAISES)
def test_whatever_the_users_module_raises_is_an_error_of_its_configuration(
    directory: Path, how: str
) -> None:
    name = f"app_{how.replace(' ', '_')}"
    (directory / f"{name}.py").write_text(RAISES[how])
    code, text = end_of("worker", f"{name}:relay", "--log-format", "json")
    assert code == 2
    assert as_json(text)["message"].startswith(f"cannot load {name}:relay: {name}.py, line ")


@pytest.mark.requirement("E10")
@pytest.mark.parametrize("kind", ["ValueError", "ConfigurationError"])
@pytest.mark.parametrize("level", ["INFO", "DEBUG"])
def test_what_the_users_module_raises_is_shown_without_passwords(
    directory: Path, kind: str, level: str
) -> None:
    name = f"app_{kind.lower()}_{level.lower()}"
    text = f"cannot use postgresql://app:{SECRET}@db/shop (password={SECRET})"
    (directory / f"{name}.py").write_text(
        f"from postroom import ConfigurationError\nraise {kind}({text!r})\n"
    )
    code, shown = end_of("worker", f"{name}:relay", "--log-level", level)
    assert code == 2
    assert "postgresql://app:***@db/shop" in shown
    assert SECRET not in shown


def test_a_warning_is_a_line_of_json_too(directory: Path) -> None:
    (directory / "app_warns.py").write_text(
        "import warnings\nwarnings.simplefilter('always')\nwarnings.warn('old')\nrelay = 5\n"
    )
    code, shown = end_of("worker", "app_warns:relay", "--log-format", "json")
    assert code == 2
    logged = [json.loads(line) for line in shown.splitlines()]
    assert [each["level"] for each in logged] == ["warning", "error"]

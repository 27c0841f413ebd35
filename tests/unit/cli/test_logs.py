"""How a log line looks."""

import json
import logging
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from postroom.cli.logs import JsonFormatter, TextFormatter, set_up_logging
from tests.support.in_process import own_logging

NOON = datetime(2026, 1, 31, 12, 0, 0, 250_000, tzinfo=UTC).timestamp()


def record_of(message: str, *args: object, **values: Any) -> logging.LogRecord:
    told = {"name": "postroom.relay", "levelname": "WARNING", "created": NOON}
    return logging.makeLogRecord({**told, "msg": message, "args": args, **values})


def as_json(record: logging.LogRecord) -> dict[str, Any]:
    """Write a record as JSON, and read it again as strictly as others might."""
    line = JsonFormatter().format(record)
    assert "\n" not in line

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    document: dict[str, Any] = json.loads(line, parse_constant=refuse)
    return document


def failure() -> Any:
    try:
        raise LookupError("gone")
    except LookupError:
        return sys.exc_info()


def test_a_line_of_text_has_time_level_logger_message_and_traceback() -> None:
    line = TextFormatter().format(record_of("%d records", 3))
    assert line == "2026-01-31T12:00:00.250Z WARNING postroom.relay: 3 records"
    line = TextFormatter().format(record_of("it failed", exc_info=failure()))
    assert line.splitlines()[-1] == "LookupError: gone"


def test_a_line_of_json_has_time_level_logger_and_message() -> None:
    assert as_json(record_of("%d records", 3)) == {
        "time": "2026-01-31T12:00:00.250Z",
        "level": "warning",
        "logger": "postroom.relay",
        "message": "3 records",
    }


def test_json_has_what_the_call_gave_besides() -> None:
    record_id = UUID(int=5)
    document = as_json(record_of("refused", record_id=record_id, event_type="x", facts={"n": 1}))
    assert document["record_id"] == str(record_id)
    assert (document["event_type"], document["facts"]) == ("x", {"n": 1})


def test_json_has_traceback_stack_and_any_text_in_one_line() -> None:
    document = as_json(record_of("it failed", exc_info=failure()))
    assert document["exception"].splitlines()[0] == "Traceback (most recent call last):"
    assert document["exception"].splitlines()[-1] == "LookupError: gone"
    document = as_json(record_of("Grüße,\n„世界“", stack_info="the stack"))
    assert document["message"] == "Grüße,\n„世界“"
    assert "the stack" in json.dumps(document)


@pytest.mark.parametrize("name", ["time", "level", "logger"])
def test_what_is_given_besides_hides_nothing(name: str) -> None:
    document = as_json(record_of("x", **{name: "mine"}))
    assert document[name] != "mine"


@pytest.mark.parametrize("value", [{(1, 2): 3}, float("nan"), {1: float("inf")}])
def test_what_json_cannot_hold_is_no_reason_to_lose_the_line(value: object) -> None:
    assert as_json(record_of("x", odd=value))["message"] == "x"


CANARY = "canary-5e1"


@pytest.mark.requirement("E10")
@pytest.mark.parametrize("formatter", [TextFormatter, JsonFormatter])
def test_no_line_shows_a_password(formatter: type[logging.Formatter]) -> None:
    url = f"postgresql://me:{CANARY}@db/shop"
    try:
        raise LookupError(url)
    except LookupError:
        error = sys.exc_info()
    extra = {"dsn": url, "settings": {"password": CANARY}, "api_key": CANARY}
    line = formatter().format(record_of("connects to %s", url, exc_info=error, **extra))
    assert "postgresql://me:***@db/shop" in line
    assert CANARY not in line


@pytest.mark.parametrize(
    ("style", "shows"),
    [("text", lambda line: line.split(" ", 1)[1]), ("json", lambda line: json.loads(line))],
)
def test_logs_go_to_standard_error_from_a_level_on(
    style: str, shows: Callable[[str], Any], capsys: pytest.CaptureFixture[str]
) -> None:
    with own_logging():
        set_up_logging(style, "WARNING")
        logging.getLogger("shop").info("quiet")
        logging.getLogger("shop").warning("loud")
    written = capsys.readouterr()
    [line] = written.err.splitlines()
    shown = shows(line)
    assert shown == "WARNING shop: loud" if style == "text" else shown["message"] == "loud"
    assert written.out == ""

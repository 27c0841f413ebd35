"""The page of settings has every setting, with the default that it has in the code."""

import inspect
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import typer
from sqlalchemy import MetaData
from sqlalchemy.ext.asyncio import create_async_engine

from postroom import (
    HandlersPublisher,
    Inbox,
    MemoryPublisher,
    Outbox,
    OutboxEventPublisher,
    OutboxRelay,
    RetrySchedule,
)
from postroom.cli.app import app
from postroom.console import console
from postroom.inspection import Inspector
from postroom.operations import Operations
from postroom.publishers.rabbitmq import RabbitMQPublisher
from tests.docs.markdown import code, table_under
from tests.docs.pages import ROOT

PAGE = ROOT / "docs/reference/settings.md"
NAMES = {"timedelta": timedelta, "RetrySchedule": RetrySchedule}
IN_WORDS = {"events": "the default registry"}
"""Defaults that are no value that a user could write."""
CONNECTION = ("relay", "database", "table", "schema", "redact", "config")


def value(cell: str) -> Any:
    [expression] = code(cell)
    return eval(expression, dict(NAMES))  # noqa: S307


def defaults(function: Callable[..., Any]) -> dict[str, Any]:
    parameters = inspect.signature(function).parameters.values()
    return {each.name: each.default for each in parameters}


@pytest.mark.parametrize(
    ("heading", "function"),
    [
        ("Outbox", Outbox),
        ("Relay", OutboxRelay),
        ("HandlersPublisher", HandlersPublisher),
        ("RabbitMQPublisher", RabbitMQPublisher),
        ("MemoryPublisher", MemoryPublisher),
        ("Inbox", Inbox),
        ("Console in an application", console),
    ],
)
def test_the_settings_of_a_class_are_those_of_its_signature(
    heading: str, function: Callable[..., Any]
) -> None:
    expected = defaults(function)
    documented = {code(row[0])[0]: row[1] for row in table_under(PAGE, heading).rows}
    assert list(documented) == list(expected)
    if function is OutboxRelay:
        expected["retry"] = RetrySchedule.backoff()  # for None
    for name, default in expected.items():
        if default is inspect.Parameter.empty:
            assert documented[name] == "required", name
        elif name in IN_WORDS:
            assert documented[name] == IN_WORDS[name]
        else:
            assert value(documented[name]) == default, name


def test_a_relay_without_a_schedule_has_the_documented_one() -> None:
    outbox, engine = Outbox(MetaData()), create_async_engine("sqlite+aiosqlite://")
    relay = OutboxRelay(outbox, engine, MemoryPublisher())
    assert relay.settings.retry == RetrySchedule.backoff()
    service = OutboxEventPublisher(outbox, engine, MemoryPublisher())
    assert f"`poll_interval={timedelta_text(service.settings.poll_interval)}`" in PAGE.read_text()


def timedelta_text(time: timedelta) -> str:
    return f"timedelta(seconds={time.seconds})"


def test_the_settings_of_inspection_and_operations_are_those_of_their_signatures() -> None:
    for setting, default, _ in table_under(PAGE, "Inspector and Operations").rows:
        [call] = code(setting)
        owner, _, name = call.removesuffix("=…)").partition("(")
        function = {"Inspector": Inspector, "Operations": Operations}[owner]
        assert value(default) == defaults(function)[name]


def test_the_limits_of_publishers_are_those_of_the_classes() -> None:
    [table] = [each for each in [table_under(PAGE, "Publishers")] if each.rows]
    numbers = {row[0].strip("`"): (row[1].split(",")[0], row[2]) for row in table.rows}
    classes = (HandlersPublisher(), RabbitMQPublisher, MemoryPublisher)
    expected = {
        getattr(each, "__name__", type(each).__name__): (
            str(each.max_in_flight),
            str(each.max_batch),
        )
        for each in classes
    }
    assert numbers == expected


def test_the_delays_of_the_schedules_are_those_of_the_code() -> None:
    rows = {row[0].strip("`"): row[1] for row in table_under(PAGE, "Retry schedules").rows}
    backoff = ", ".join(f"{each.total_seconds():.0f}" for each in delays(RetrySchedule.backoff()))
    assert rows["RetrySchedule.backoff()"] == f"{backoff} s"
    tiers = [None, None, None, *delays(RetrySchedule.tiers())]
    assert tiers == [*[None] * 3, *[timedelta(seconds=30)] * 3, *[timedelta(seconds=300)] * 3]
    assert RetrySchedule.polls() == RetrySchedule((None,), forever=True)


def delays(schedule: RetrySchedule) -> list[timedelta]:
    return [each for each in schedule.delays if each is not None]


@pytest.mark.parametrize("command", ["worker", "console", "doctor", "topology"])
def test_the_options_of_a_command_are_those_of_the_command_line(command: str) -> None:
    every = settings_of(command_line(command))
    if command in ("console", "doctor"):
        every = [each for each in every if each.name not in CONNECTION]
    assert documented(f"postroom {command}") == [described(each) for each in every]


def test_the_options_for_an_outbox_are_those_of_the_command_line() -> None:
    every = settings_of(command_line("status"))
    assert documented("Which outbox") == [described(each) for each in every]
    assert tuple(each.name for each in every) == CONNECTION


def test_the_options_before_a_command_are_those_of_the_command_line() -> None:
    every = settings_of(typer.main.get_command(app))
    assert documented("postroom") == [described(each) for each in every]


def test_no_setting_of_another_command_is_left_out() -> None:
    """A setting is an option with a variable."""
    page = PAGE.read_text()
    root: Any = typer.main.get_command(app)
    variables = {
        str(each.envvar) for found in walk(root) for each in found.params if each.envvar is not None
    }
    assert [each for each in sorted(variables) if f"`{each}`" not in page] == []


def walk(command: Any) -> list[Any]:
    return [
        command,
        *(each for sub in getattr(command, "commands", {}).values() for each in walk(sub)),
    ]


def command_line(name: str) -> Any:
    root: Any = typer.main.get_command(app)
    return root.commands[name]


def settings_of(command: Any) -> list[Any]:
    """Return the options with a variable, and that which names the file."""
    return [
        each
        for each in command.params
        if (each.envvar is not None or each.name == "config") and not getattr(each, "hidden", False)
    ]


def described(option: Any) -> tuple[list[str], str]:
    """Return option, variable and name in a file, and the default."""
    words = [] if option.param_type_name == "argument" else [option.opts[0]]
    if option.metavar is not None:
        words.append(option.metavar)
    elsewhere = [] if option.envvar is None else [str(option.envvar), str(option.name)]
    return [" ".join(words), *elsewhere], default_text(option.default)


def default_text(default: Any) -> str:
    if default is False:
        return "off"
    return "none" if default in (None, ()) else f"`{default}`"


def documented(heading: str) -> list[tuple[list[str], str]]:
    return [(code(row[0]), row[1]) for row in table_under(PAGE, heading).rows]

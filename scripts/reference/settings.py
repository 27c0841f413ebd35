"""docs/reference/settings.md: arguments with their defaults, and options with their variables."""

import inspect
import json
from collections.abc import Callable, Iterator
from typing import Any

from postroom import HandlersPublisher, Inbox, MemoryPublisher, Outbox, OutboxRelay, RetrySchedule
from postroom.console import console
from postroom.inspection import Inspector
from postroom.operations import Operations
from postroom.publishers.rabbitmq import RabbitMQPublisher
from scripts.reference.blocks import Block, Hand, Table, code
from scripts.reference.commands import commands, root, row_of

PUBLISHERS = HandlersPublisher, RabbitMQPublisher, MemoryPublisher
CALLABLES: tuple[Callable[..., Any], ...] = Outbox, OutboxRelay, *PUBLISHERS, Inbox, console
COLUMNS = "setting", "default", "meaning"
OPTIONS = "option, environment, `[tool.postroom]`", "default", "meaning"
WITHOUT_OUTBOX = ("worker", "topology")
"""The commands that do not take the options about an outbox of all others."""
IN_WORDS = {"events": "the default registry", "retry": "`RetrySchedule.backoff()`"}
NOT_SETTINGS = ("outbox", "engine", "shift")


def blocks() -> dict[str, Block]:
    """Return the tables of the settings."""
    found: dict[str, Block] = {it.__name__: Table(COLUMNS, _arguments(it)) for it in CALLABLES}
    of_operators = [
        (code(f"{it.__name__}({name.strip('`')}=…)"), default, meaning)
        for it in (Inspector, Operations)
        for name, default, meaning in _arguments(it)
        if name.strip("`") not in NOT_SETTINGS
    ]
    found["Inspector and Operations"] = Table(COLUMNS, of_operators)
    found["limits of publishers"] = _limits()
    found["retry schedules"] = _schedules()
    of_outbox = _settings(commands()["status"])
    tables = {"an outbox": of_outbox, "postroom": _settings(root())}
    for name, command in commands().items():
        known = () if name in WITHOUT_OUTBOX else of_outbox
        if own := [each for each in _settings(command) if each not in known]:
            tables[f"postroom {name}"] = own
    return found | {f"options of {name}": Table(OPTIONS, rows) for name, rows in tables.items()}


def _arguments(function: Callable[..., Any]) -> Iterator[tuple[str, str, str]]:
    for name, argument in inspect.signature(function).parameters.items():
        yield code(name), IN_WORDS.get(name) or _text(argument.default), Hand()


def _text(default: Any) -> str:
    """Return a default as Python writes it."""
    if default is inspect.Parameter.empty:
        return "required"
    if isinstance(default, type):
        return code(default.__name__)
    if isinstance(default, str):
        return code(json.dumps(default))
    if type(default) is int:
        return code(f"{default:_}")
    return code(repr(default).removeprefix("datetime."))


def _limits() -> Table:
    rows = []
    for publisher in (HandlersPublisher(), RabbitMQPublisher, MemoryPublisher):
        name = getattr(publisher, "__name__", type(publisher).__name__)
        rows.append((code(name), str(publisher.max_in_flight), str(publisher.max_batch)))
    return Table(("publisher", "`max_in_flight`", "`max_batch` (records per call)"), rows)


def _schedules() -> Table:
    delays = [each for each in RetrySchedule.backoff().delays if each is not None]
    listed = ", ".join(f"{each.total_seconds():.0f}" for each in delays)
    rows = [(code("RetrySchedule.backoff()"), f"{listed} s", Hand())]
    for call in ("tiers()", "polls()", "seconds(1, 5, 30)"):
        rows.append((code(f"RetrySchedule.{call}"), Hand(), Hand()))
    return Table(("schedule", "delays after each refusal", "then"), rows)


def _settings(command: Any) -> list[tuple[str, str, str]]:
    """Return a row for each option that the environment sets too, and for `--config`."""
    shown = [each for each in command.params if not getattr(each, "hidden", False)]
    return [row_of(each) for each in shown if each.envvar or each.name == "config"]

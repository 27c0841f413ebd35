"""The page of commands has every command, option and JSON field."""

import re
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from typing import Any

import pytest
import typer

from postroom.actions import ACTIONS
from postroom.cli.app import app
from postroom.doctor import Finding, Result
from postroom.inspection import (
    AttemptNote,
    BlockedKey,
    BlockedKeysPage,
    Change,
    EventType,
    FailureGroup,
    Failures,
    Happening,
    KeyReport,
    Overview,
    Pause,
    RecordDetail,
    RecordPage,
    RecordSummary,
    Report,
    ReportedRoute,
    TypeCounts,
    Wait,
    Worker,
    WorkerState,
)
from tests.docs.markdown import code, table_under, tables
from tests.docs.pages import ROOT

PAGE = ROOT / "docs/reference/commands.md"
SECTION = re.compile(r"^## (.+)\n((?:(?!^## ).*\n)*)", re.MULTILINE)
COMMON = {"json", "yes", "dry_run"}
SHARED = {
    "failures": ("failures", "failures retry", "failures discard"),
    "workers drain and workers resume": ("workers drain", "workers resume"),
    "retry, skip, discard": ("retry", "skip", "discard"),
    "pause and resume": ("pause", "resume"),
    "schema": ("schema check", "schema sql"),
}
"""Headings that are about several commands."""
JSON: dict[str, tuple[type, ...]] = {
    "status": (Overview, TypeCounts, ReportedRoute, Pause),
    "list": (RecordPage, RecordSummary),
    "show": (RecordDetail, AttemptNote, Wait),
    "why": (KeyReport,),
    "failures": (Failures, FailureGroup),
    "blocked": (BlockedKeysPage, BlockedKey),
    "workers": (Worker, Report),
    "events": (EventType,),
    "tail": (Happening,),
    "doctor": (Result, Finding),
    "audit": (Change,),
}


@cache
def commands() -> dict[str, Any]:
    """Return the commands by name; a group that only has commands is none."""
    root: Any = typer.main.get_command(app)

    def walk(command: Any, name: str) -> Iterator[tuple[str, Any]]:
        for word, each in getattr(command, "commands", {}).items():
            path = f"{name} {word}".strip()
            if each.params:
                yield path, each
            yield from walk(each, path)

    return dict(walk(root, ""))


def headings() -> dict[str, tuple[str, ...]]:
    """Return the headings that are about commands, with their commands."""
    every = [name for name, _ in SECTION.findall(PAGE.read_text())]
    found = {each: SHARED.get(each, (each,)) for each in every}
    return {each: names for each, names in found.items() if names[0] in commands()}


def own_options(command: Any) -> dict[str, str]:
    """Return options, with their defaults, that are neither settings nor common."""
    return {
        shown(each): default_of(each)
        for each in command.params
        if each.envvar is None and each.name not in COMMON and each.name != "config"
    }


def shown(option: Any) -> str:
    words = [] if option.param_type_name == "argument" else [option.opts[0]]
    return " ".join([*words, *([option.metavar] if option.metavar else [])])


def default_of(option: Any) -> str:
    if option.required:
        return "required"
    if option.default is False:
        return "off"
    return "none" if option.default is None else f"`{option.default}`"


def test_every_command_is_listed_with_its_section() -> None:
    [listed] = [each for each in tables(PAGE) if each.heading == "Commands"]
    names = [code(cell)[0].removeprefix("postroom ") for cell in listed.column("command")]
    assert sorted(names) == sorted(commands())
    assert sorted(each for names in headings().values() for each in names) == sorted(commands())


@pytest.mark.parametrize("heading", headings())
def test_the_options_of_a_command_are_documented(heading: str) -> None:
    expected: dict[str, str] = {}
    for name in headings()[heading]:
        expected |= own_options(commands()[name])
    documented = {
        option: row[1]
        for table in tables(PAGE)
        if table.heading == heading and table.columns[0] == "option"
        for row in table.rows
        for option in code(row[0])
    }
    assert documented == expected


def test_the_common_options_are_documented() -> None:
    documented = {
        option for row in table_under(PAGE, "Common options").rows for option in code(row[0])
    }
    root: Any = typer.main.get_command(app)
    expected = {option for each in root.params if each.envvar is None for option in each.opts}
    common = (each for command in commands().values() for each in command.params)
    expected |= {option for each in common if each.name in COMMON for option in each.opts}
    assert documented == expected


def test_the_commands_without_json_are_named() -> None:
    without = [
        name
        for name, each in commands().items()
        if not any(option.name == "json" for option in each.params)
    ]
    [row] = [row for row in table_under(PAGE, "Common options").rows if row[0] == "`--json`"]
    assert sorted(code(row[1])) == sorted(without)


@pytest.mark.parametrize("heading", JSON)
def test_the_fields_of_the_json_are_documented(heading: str) -> None:
    text = dict(SECTION.findall(PAGE.read_text()))[heading]
    if heading == "show":  # the record's own fields are those of a list
        text += "`record`"
    names = {field.name for each in JSON[heading] for field in fields(each)}
    assert [name for name in sorted(names) if f"`{name}`" not in text] == []


def test_the_states_of_workers_are_documented() -> None:
    [table] = [each for each in tables(PAGE) if each.columns[0] == "`state`"]
    assert [row[0].strip("`") for row in table.rows] == [str(each) for each in WorkerState]


def test_the_actions_are_for_the_records_that_the_page_names() -> None:
    [table] = [each for each in tables(PAGE) if each.columns[-1] == "which records"]
    documented = {row[0].strip("`"): code(row[2]) for row in table.rows}
    actions = {name: [str(state) for state in each.changes] for name, each in ACTIONS.items()}
    del actions["replay"]
    assert documented == actions

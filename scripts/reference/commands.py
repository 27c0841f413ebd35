"""docs/reference/commands.md: each command with its options and the fields of its JSON."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from typing import Any

import typer

from postroom import doctor
from postroom import inspection as seen
from postroom.cli.app import app
from postroom.cli.selection import Selection
from scripts.reference.blocks import Block, Hand, Table, code, paragraph

SHARED = {
    **dict.fromkeys(("failures", "failures retry", "failures discard"), "failures"),
    **dict.fromkeys(("workers drain", "workers resume"), "workers drain and workers resume"),
    **dict.fromkeys(("retry", "skip", "discard"), "retry, skip, discard"),
    **dict.fromkeys(("pause", "resume"), "pause and resume"),
    **dict.fromkeys(("schema check", "schema sql"), "schema"),
}
"""The commands of which several have one heading."""
JSON: dict[str, tuple[type, ...]] = {
    "status": (seen.Overview, seen.TypeCounts, seen.ReportedRoute, seen.Pause),
    "list": (seen.RecordPage, seen.RecordSummary),
    "show": (seen.AttemptNote, seen.Wait),
    "why": (seen.KeyReport,),
    "failures": (seen.Failures, seen.FailureGroup),
    "blocked": (seen.BlockedKeysPage, seen.BlockedKey),
    "workers": (seen.Worker, seen.Report),
    "events": (seen.EventType,),
    "tail": (seen.Happening,),
    "doctor": (doctor.Result, doctor.Finding),
    "audit": (seen.Change,),
}
"""What a command prints as JSON."""
WORDS = {"None": "none", "()": "none", "False": "off"}
COMMON = ("json", "yes", "dry_run", "config")
FILTERS = {each.name for each in fields(Selection)}


def blocks() -> dict[str, Block]:
    """Return the list of the commands, and the options and the JSON of each."""
    names = [
        (_link(name), Hand(str(it.help).partition(".\n")[0])) for name, it in commands().items()
    ]
    found: dict[str, Block] = {"commands": Table(("command", "what it does"), names, True)}
    options = defaultdict[str, list[tuple[str, str, str]]](list)
    for name, command in commands().items():
        for it in _own(name, command):
            options[SHARED.get(name, name)].append(row_of(it))
    for heading, rows in options.items():
        found[f"options {heading}"] = Table(("option", "default", "meaning"), dict.fromkeys(rows))
    for name, types in JSON.items():
        found[f"JSON of {name}, by hand"] = paragraph(
            each.name for it in types for each in fields(it)
        )
    return found


def _link(name: str) -> str:
    heading = SHARED.get(name, name).replace(",", "").replace(" ", "-")
    return f"[`postroom {name}`](#{heading})"


def _own(name: str, command: Any) -> list[Any]:
    """Return the options that are not settings, not common, and not filters as those of `list`."""
    own = [each for each in command.params if each.envvar is None and each.name not in COMMON]
    if name == "list" or len(own) < len(FILTERS):
        return own
    return [each for each in own if each.name not in FILTERS]


@cache
def root() -> Any:
    """Return `postroom`."""
    return typer.main.get_command(app)


@cache
def commands() -> dict[str, Any]:
    """Return the commands by name; a group that only has commands is none."""

    def walk(command: Any, name: str) -> Iterator[tuple[str, Any]]:
        for word, each in getattr(command, "commands", {}).items():
            path = f"{name} {word}".strip()
            if each.params:
                yield path, each
            yield from walk(each, path)

    return dict(walk(root(), ""))


def row_of(option: Any) -> tuple[str, str, str]:
    """Return an option, with what it takes and where else it is set; its default; its meaning."""
    words = [] if option.param_type_name == "argument" else [option.opts[0]]
    names = [" ".join([*words, *filter(None, [option.metavar])])]
    if option.envvar:
        names += [option.envvar, option.name]
    default = "required" if option.required else WORDS.get(str(option.default))
    return ", ".join(map(code, names)), default or code(option.default), Hand(option.help)

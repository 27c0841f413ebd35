"""Settings from `[tool.postroom]` in a file, as the defaults of a command's options."""

import os
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import typer

from postroom.cli.errors import CommandError
from postroom.cli.reporting import reporting

FILE: Final = Path("pyproject.toml")
SECTION: Final = "tool.postroom"
MAY_BE_EMPTY: Final = ("channel", "schema", "cloud_events")
"""Settings that an empty variable sets to none. Typer takes no notice of an empty variable."""


def use_file(context: typer.Context, value: Path | None) -> Path | None:
    """Make the settings of a file the defaults of the command's options."""
    if not context.resilient_parsing:  # as in shell completion
        with reporting(context):
            context.default_map = {**settings_in(value, known_settings(context)), **empty(context)}
    return value


def known_settings(context: typer.Context) -> frozenset[str]:
    """Return the names that a file may set: those of all options with a variable."""
    return frozenset(_settings_of(context.find_root().command))


def settings_in(named: Path | None, known: frozenset[str]) -> dict[str, Any]:
    """Read the section of a file. Only a file that is named must exist and have the section."""
    path = named or FILE
    if named is None and not path.exists():
        return {}
    document = _read(path)
    tool = document.get("tool", {})
    section = tool.get("postroom") if isinstance(tool, dict) else None
    if section is None and named is not None:
        raise CommandError(f"{path} has no table [{SECTION}].")
    if not isinstance(section or {}, dict):
        raise CommandError(f"{path}: [{SECTION}] has to be a table of settings.")
    if unknown := sorted((section or {}).keys() - known):
        raise CommandError(
            f"{path} has a setting {unknown[0]!r} in [{SECTION}]."
            f" There are: {', '.join(sorted(known))}."
        )
    return dict(section or {})


def empty(context: typer.Context) -> dict[str, str]:
    """Return the settings that an empty variable sets to none."""
    return {
        each.name: ""
        for each in context.command.params
        if each.name in MAY_BE_EMPTY and os.environ.get(str(each.envvar)) == ""
    }


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CommandError(f"cannot read {path}: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CommandError(f"{path} is no TOML: {error}.") from error


def _settings_of(command: Any) -> Iterator[str]:
    yield from (each.name for each in command.params if each.envvar)
    for each in getattr(command, "commands", {}).values():
        yield from _settings_of(each)

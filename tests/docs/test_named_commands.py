"""A command in a sentence or a block of shell exists, with the options that it is given."""

import re
from pathlib import Path
from typing import Any

import pytest
import typer

from postroom.cli.app import app
from tests.docs.pages import PAGES, name, named_commands

pytestmark = pytest.mark.extended
GROUP: Any = typer.main.get_command(app)
OPTION = re.compile(r"(?<!\S)(--[a-z-]+)")
WITH_COMMANDS = [page for page in PAGES if named_commands(page)]


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=name)
def test_the_commands_that_a_page_names_exist(page: Path) -> None:
    named = named_commands(page)
    assert [each for each in named if not exists(each)] == []


def exists(words: str) -> bool:
    """Tell whether a command, or one below it, has the options that a page gives it."""
    options = set(OPTION.findall(words))
    plain = [word for word in words.split() if word.islower() and not word.startswith("--")]
    command = GROUP.commands.get(plain[0]) if plain else GROUP
    below = () if command in (None, GROUP) else getattr(command, "commands", {}).values()
    return any(options <= options_of(each) for each in (command, *below) if each is not None)


def options_of(command: Any) -> set[str]:
    return {"--help"}.union(*(option.opts for option in command.params))

"""The commands of runbooks and how-to pages exist, with the options that they are shown with."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

from postroom.cli.app import app
from tests.docs.pages import CONTINUED, PAGES, ROOT, name

FOLDERS = {ROOT / "docs/runbooks", ROOT / "docs/how-to"}
WITH_COMMANDS = [page for page in PAGES if page.parent in FOLDERS]
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.DOTALL | re.MULTILINE)
INLINE = re.compile(r"`(postroom [^`…]+?)…?`")
LINE = re.compile(r"(?:^|\s)(postroom [a-z-].*)$", re.MULTILINE)
"""A command, after the variables that are set for it."""


def commands(page: str) -> list[str]:
    blocks = [CONTINUED.sub(" ", block) for block in BLOCK.findall(page)]
    return [line for block in blocks for line in LINE.findall(block)] + INLINE.findall(page)


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=name)
def test_each_command_of_a_page_exists(page: Path) -> None:
    for line in commands(page.read_text()):
        found: Any = typer.main.get_command(app)
        words = shlex.split(line)[1:]
        while words and words[0] in getattr(found, "commands", {}):
            found = found.commands[words.pop(0)]
        assert not (hasattr(found, "commands") and words and found.name != app.info.name), line
        is_command = found.name != app.info.name
        assert is_command or words[0].startswith("--"), line
        known = {option for each in found.params for option in each.opts}
        assert {word for word in words if word.startswith("--")} <= known, line

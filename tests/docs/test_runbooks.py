"""The commands of the runbooks and operators' pages exist, with the options shown there."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

from postroom.cli.app import app
from tests.docs.pages import PAGES, ROOT, name

FOLDERS = (ROOT / "docs/runbooks", ROOT / "docs/operate")
RUNBOOKS = [page for page in PAGES if page.parent in FOLDERS]
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.DOTALL | re.MULTILINE)
INLINE = re.compile(r"`(postroom [^`…]+?)…?`")


def commands(page: str) -> list[str]:
    lines = [line for block in BLOCK.findall(page) for line in block.splitlines()]
    return [line for line in lines if line.startswith("postroom ")] + INLINE.findall(page)


@pytest.mark.parametrize("page", RUNBOOKS, ids=name)
def test_each_command_of_a_runbook_exists(page: Path) -> None:
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

"""Every command of the examples' own pages runs, and prints what the page says."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

import pytest

from tests.docs.pages import CONSOLE, CONTINUED, PROMPT, ROOT, Command, name
from tests.support.ports import free_ports
from tests.support.waiting import PATIENCE, eventually

pytestmark = pytest.mark.extended
BIN = Path(sys.executable).parent
PAGES = sorted((ROOT / "examples").glob("*/README.md"))
OURS = re.compile(
    r"export |curl |psql |alembic |uvicorn |postroom |python (-c |-m (accounts|family|messaging))"
)
OF_OTHERS = re.compile(
    r"make |createdb |docker |pip |pytest|mypy|ruff |cp |cd |python -m venv|\. \.venv/bin/activate"
)
"""What sets up and tests everything: that is done, or being done."""
STAYING = {
    "uvicorn": "Uvicorn running",
    "worker": "postroom: delivers",
    "consumer": "consumer: consumes",
    "audit": "audit: waits",
}
"""What runs until it is stopped, and what it says when it has begun."""
DATABASE = re.compile(r"(postgresql[+a-z]*)://[^\s'\"]+")
BROKER = re.compile(r"amqp://[^\s'\"]+")
ID = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}")
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")


class Terminal:
    """Somebody who types what a page says, in a folder with all files of the example."""

    def __init__(self, folder: Path, page: Path, database_url: str, rabbitmq_url: str) -> None:
        for file in page.parent.iterdir():
            (folder / file.name).symlink_to(file)
        self.folder = folder
        self.urls = database_url, rabbitmq_url
        [self.port] = free_ports(1)
        self.exported = ""
        self.ids: dict[str, str] = {}
        """Those that the page shows, and what they are here."""
        self.staying: dict[str, subprocess.Popen[bytes]] = {}

    async def type(self, command: Command) -> None:
        words = self.here(command.words)
        kind = next((each for each in STAYING if each in words and "curl" not in words), None)
        if words.startswith("export "):
            self.exported += f"{words}; "
        elif kind is not None:
            await self.start(kind, words)
        else:
            await self.compare(words, command.printed)

    def here(self, words: str) -> str:
        """Put this test's servers, port and ids in the place of the page's."""
        database = self.urls[0].partition("://")[2]
        words = DATABASE.sub(rf"\1://{database}", BROKER.sub(self.urls[1], words))
        words = words.replace("localhost:8000", f"localhost:{self.port}")
        words = words.replace("uvicorn ", f"uvicorn --port {self.port} ")
        return ID.sub(lambda found: self.ids.get(found[0], found[0]), words)

    async def start(self, kind: str, words: str) -> None:
        """Start what stays; the one of its kind that runs already is ended first."""
        self.stop(kind)
        log = self.folder / f"{kind}.log"
        with log.open("wb") as output:
            process = self.staying[kind] = self._shell(f"exec {words}", output=output)
        await eventually(
            lambda: STAYING[kind] in log.read_text() or process.poll() is not None, within=PATIENCE
        )
        assert process.poll() is None, f"{words}\n{log.read_text()}"

    async def compare(self, words: str, expected: str) -> None:
        """Run a command until it prints what the page says: what is delivered takes a moment."""
        printed = ""

        def is_so() -> bool:
            nonlocal printed
            process = self._shell(words, output=subprocess.PIPE)
            printed = process.communicate(timeout=PATIENCE)[0].decode()
            assert process.returncode == 0, f"{words}\n{printed}"
            return not expected or without_ids(printed) == without_ids(expected)

        try:
            await eventually(is_so)
        except pytest.fail.Exception:
            assert printed == expected, words
        self.ids.update(zip(ID.findall(expected), ID.findall(printed), strict=False))

    def stop(self, kind: str) -> None:
        process = self.staying.pop(kind, None)
        if process is not None:
            process.terminate()
            process.wait(PATIENCE)

    def _shell(self, words: str, *, output: int | IO[bytes]) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            ["sh", "-c", self.exported + words],
            cwd=self.folder,
            env={**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"},
            stdout=output,
            stderr=subprocess.STDOUT,
        )


@contextmanager
def terminal(folder: Path, page: Path, database_url: str, rabbitmq_url: str) -> Iterator[Terminal]:
    with ExitStack() as stack:
        it = Terminal(folder, page, database_url, rabbitmq_url)
        for kind in STAYING:
            stack.callback(it.stop, kind)
        yield it


def typed(page: Path) -> list[Command]:
    blocks = "".join(match[1] for match in CONSOLE.finditer(page.read_text()))
    parts = [CONTINUED.sub(" ", each).partition("\n") for each in PROMPT.split(blocks) if each]
    return [Command(words, out) for words, _, out in parts if not OF_OTHERS.match(words)]


def without_ids(text: str) -> str:
    """Give what is printed with all ids and times alike, and without a last line's end."""
    return MOMENT.sub("a moment", ID.sub("an id", text)).strip()


def test_every_example_has_a_page() -> None:
    folders = {path.parent.name for path in (ROOT / "examples").glob("*/alembic.ini")}
    assert {page.parent.name for page in PAGES} == folders == {"accounts", "family", "messaging"}


@pytest.mark.parametrize("page", PAGES, ids=name)
async def test_the_commands_of_an_example_do_what_its_page_says(
    page: Path, tmp_path: Path, database_url: str, rabbitmq_url: str
) -> None:
    assert shutil.which("curl"), "the pages of the examples use curl: install it"
    commands = typed(page)
    assert commands
    assert [each.words for each in commands if not OURS.match(each.words)] == []
    with terminal(tmp_path, page, database_url, rabbitmq_url) as it:
        for command in commands:
            await it.type(command)

"""Does what a page says, as a reader does: saves its files, types its commands, compares.

README.md and the tutorial are such pages. A Python block whose first line is a comment with the
name of a file is that file; in a console block, a line that starts with `$` is a command, and what
follows is what it prints. There, a line with nothing but `…` stands for any lines.
"""

import asyncio
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from postroom.publishers.rabbitmq.amqp.address import parse
from tests.docs.pages import CONTINUED, NOTE, PROMPT, Command
from tests.support.waiting import PATIENCE, eventually

BLOCK = re.compile(r"^```(python|console)\n(.*?)^```", re.DOTALL | re.MULTILINE)
NAMED = re.compile(r"# (\w+\.py)\n")
BROKER = "amqp://guest:guest@localhost:5672/"
"""What the pages name: RabbitMQ as it comes."""
NOT_HERE = ("make ", "docker ", "cd ", "git ", "python -m venv", ". .venv")
"""What a reader does once, and other tests do."""
READING = ("postroom list", "postroom status", "postroom why")
VARYING = [
    (re.compile(r"\((refused|failed)[^)]*\)"), "(when)"),
    (re.compile(r"\d{4}-\d\d-\d\d[T ][\d:.]+Z"), "a moment"),
    (re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}"), "an id"),
    (re.compile(r"\d+(\.\d+)? (ms|s|min)\b"), "a while"),
    (re.compile(r"\S+:\d{2,}\b(?= +(retry|fail))"), "a worker"),
    (re.compile(r"[ \t]+"), " "),
]


@dataclass(frozen=True, slots=True)
class File:
    """What a reader saves."""

    name: str
    text: str


def steps(page: Path) -> Iterator[File | Command]:
    """List what a page tells to do, in its order."""
    for kind, text in BLOCK.findall(page.read_text()):
        if kind == "python":
            named = NAMED.match(text)
            assert named, (
                f"{page.name}: a block of Python that does not name its file: {text[:60]!r}"
            )
            yield File(named[1], text)
            continue
        for typed in PROMPT.split(text)[1:]:
            words, _, printed = CONTINUED.sub(" ", typed).partition("\n")
            yield Command(NOTE.sub("", words), printed)


@dataclass(slots=True)
class Reader:
    """Somebody who does what a page says, in an empty folder."""

    folder: Path
    programs: Path
    """The folder of `python`, `pip` and `postroom`."""
    variables: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    """What stands in for the servers that the page names."""
    install: Callable[[str], object] = str
    """Does what `pip install …` says."""
    staying: list["subprocess.Popen[str]"] = field(default_factory=list)

    @classmethod
    def of_broker(
        cls, url: str, folder: Path, programs: Path, install: Callable[[str], object] = str
    ) -> Self:
        """Have a reader use this vhost where a page names RabbitMQ as it comes."""
        return cls(
            folder,
            programs,
            variables={"RABBITMQ_URL": url, "PYTHONWARNINGS": "error"},
            names={BROKER: url, "at localhost:5672/": f"at {parse(url)[0]}"},
            install=install,
        )

    def follow(self, page: Path) -> int:
        """Do all that a page says; return how many commands printed what it shows."""
        compared = 0
        for step in steps(page):
            if isinstance(step, File):
                (self.folder / step.name).write_text(self._here(step.text))
            elif step.words.startswith("pip install"):
                self.install(step.words)
            elif not step.words.startswith(NOT_HERE):
                self._type(step)
                compared += bool(step.printed)
        return compared

    def _type(self, command: Command) -> None:
        if command.stays:
            self._start(command)
            return
        words, shown = self._here(command.words), self._here(command.printed)
        code, printed = self._run(words)
        if words.startswith(READING):  # what a worker has just sent is noted a moment later
            give_up = time.monotonic() + PATIENCE
            while not matches(printed, shown) and time.monotonic() < give_up:
                code, printed = self._run(words)
        if shown:
            assert matches(printed, shown), f"$ {words}\n{printed}\nbut the page says\n{shown}"
        else:
            assert code == 0, f"$ {words}\n{printed}"

    def _run(self, words: str) -> tuple[int, str]:
        done = subprocess.run(
            ["sh", "-c", words],
            cwd=self.folder,
            env=self._environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE,
        )
        return done.returncode, done.stdout

    def _start(self, command: Command) -> None:
        """Start what runs until Ctrl-C, and wait until it has printed what the page shows."""
        log = self.folder / f".printed.{len(self.staying)}"
        with log.open("w") as output:
            process = subprocess.Popen(
                ["sh", "-c", f"exec {self._here(command.words)}"],
                cwd=self.folder,
                env=self._environment(),
                stdout=output,
                stderr=subprocess.STDOUT,
                text=True,
            )
        self.staying.append(process)
        expected = self._here(command.printed) + "…\n"

        def begun() -> bool:
            return matches(log.read_text(), expected) or process.poll() is not None

        asyncio.run(eventually(begun, command.words))
        assert process.poll() is None, f"$ {command.words}\n{log.read_text()}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Type Ctrl-C wherever something still runs."""
        for process in self.staying:
            process.send_signal(signal.SIGINT)
            process.wait(PATIENCE)

    def _here(self, text: str) -> str:
        for name, here in self.names.items():
            text = text.replace(name, here)
        return text

    def _environment(self) -> dict[str, str]:
        path = f"{self.programs}{os.pathsep}{os.environ['PATH']}"
        as_in_a_terminal = {"PYTHONUNBUFFERED": "1", "HOME": str(self.folder)}
        return {"PATH": path, **as_in_a_terminal, **self.variables}


def matches(printed: str, shown: str) -> bool:
    """Whether a command printed what the page shows; ids, times and durations may differ."""
    parts = re.split(r"^…$\n?", shown, flags=re.MULTILINE)
    pattern = r"(?:.*\n)*".join(re.escape(settled(part)) for part in parts)
    return re.fullmatch(pattern, settled(printed)) is not None


def settled(text: str) -> str:
    """Return a text with the same word for all that differs from run to run."""
    for pattern, word in VARYING:
        text = pattern.sub(word, text)
    return "".join(f"{line.strip()}\n" for line in text.splitlines())

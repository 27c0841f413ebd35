"""Commands as processes: started, watched, signalled; none outlives its test."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from tests.support.program import Program
from tests.support.waiting import eventually

ROOT = Path(__file__).parents[2]
SCRIPT = Path(sys.executable).with_name("postroom")
APPLICATIONS = [ROOT / "examples" / name for name in ("accounts", "family", "messaging")]
PYTHONPATH = os.pathsep.join(map(str, [ROOT, *APPLICATIONS]))
"""Where processes find the tests' modules and the applications."""


Process = subprocess.Popen[bytes] | Program
Start = Callable[[IO[bytes], IO[bytes]], Process]


class Command:
    """One process, with what it writes."""

    def __init__(self, directory: Path, start: Start) -> None:
        number = len(list(directory.glob(".out.*")))
        self._out, self._err = directory / f".out.{number}", directory / f".err.{number}"
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = start(out, err)

    @property
    def out(self) -> str:
        return self._out.read_text(encoding="utf-8")

    @property
    def err(self) -> str:
        return self._err.read_text(encoding="utf-8")

    @property
    def ended(self) -> bool:
        return self.process.poll() is not None

    async def says(self, text: str) -> None:
        """Wait until it has written something to standard error."""
        await eventually(lambda: text in self.err or self.ended)
        assert text in self.err, f"ended with {self.process.returncode}: {self.err}"

    async def prints(self, text: str) -> None:
        """Wait until it has written something to standard output."""
        await eventually(lambda: text in self.out or self.ended)
        assert text in self.out, f"ended with {self.process.returncode}: {self.err}"

    async def code(self) -> int:
        """Wait for its end, and give its exit code."""
        await eventually(lambda: self.ended)
        return self.process.wait()

    def tell(self, number: signal.Signals) -> None:
        assert not self.ended, self.err
        self.process.send_signal(number)

    async def stop(self) -> int:
        """End it by SIGTERM, as an orchestrator does, and give its exit code."""
        self.tell(signal.SIGTERM)
        return await self.code()

    async def error_line(self, code: int) -> str:
        """Wait for its end with a code; give the one line that it wrote."""
        assert await self.code() == code, self.err
        [line] = self.err.splitlines()
        assert self.out == ""
        return line


class Commands:
    """Starts processes in a directory of their own, with nobody's settings around."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.everyone: list[Command] = []

    def __call__(self, *words: str, **environment: str) -> Command:
        """Start `postroom` with these words, and these variables."""
        return self._fork(str(SCRIPT), *words, **environment)

    def python(self, *words: str, **environment: str) -> Command:
        """Start Python with these words; it finds the examples, wherever it is started."""
        path = {"PYTHONPATH": PYTHONPATH, "PYTHONUNBUFFERED": "1"}
        return self._fork(*words, **path, **environment)

    def execute(self, *words: str, **environment: str) -> Command:
        """Start any program with these words, and these variables."""

        def start(out: IO[bytes], err: IO[bytes]) -> Process:
            return subprocess.Popen(
                words,
                cwd=self.directory,
                env={"PATH": os.environ["PATH"], **environment},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
            )

        return self._add(start)

    def _fork(self, *words: str, **environment: str) -> Command:
        variables = {"PATH": os.environ["PATH"], **environment}

        def start(out: IO[bytes], err: IO[bytes]) -> Process:
            return Program(
                words, folder=self.directory, environment=variables, stdout=out, stderr=err
            )

        return self._add(start)

    def _add(self, start: Start) -> Command:
        command = Command(self.directory, start)
        self.everyone.append(command)
        return command

    def write(self, name: str, text: str) -> Path:
        path = self.directory / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path


@contextmanager
def commands_in(directory: Path, *secrets: str) -> Iterator[Commands]:
    """Start processes; none is left, and none has written a secret."""
    commands = Commands(directory)
    try:
        yield commands
    finally:
        for each in commands.everyone:
            each.process.kill()
            each.process.wait()
    for each in commands.everyone:
        for secret in secrets:
            assert secret not in each.out + each.err

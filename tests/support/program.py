"""Python programs in processes of their own, without the second that importing libraries takes."""

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from tests.support.waiting import PATIENCE, TEST_LIMIT

SERVER = Path(__file__).with_name("program_server.py")


class Program:
    """One process, used like a subprocess.Popen."""

    def __init__(
        self,
        arguments: Sequence[str | Path],
        *,
        folder: Path,
        environment: Mapping[str, str],
        stdin: IO[bytes] | None = None,
        stdout: IO[bytes] | None = None,
        stderr: IO[bytes] | None = None,
    ) -> None:
        """Start what `python ARGUMENTS` would; environment variables are those that are given."""
        request = {
            "arguments": [str(each) for each in arguments],
            "folder": str(folder),
            "environment": dict(environment),
        }
        self.returncode: int | None = None
        self._said, end = os.pipe()
        with open(os.devnull, "r+b") as nothing, os.fdopen(end, "wb") as said:
            numbers = [(each or nothing).fileno() for each in (stdin, stdout, stderr, said)]
            socket.send_fds(_server(), [json.dumps(request).encode() + b"\n"], numbers)
        self._heard = b""
        while b"\n" not in self._heard:
            assert self._listen(PATIENCE), "the server of programs does not answer"
        self.pid = int(self._heard.partition(b"\n")[0])
        self._note_end()

    def poll(self) -> int | None:
        """Give its exit code, or minus the signal that ended it; None while it runs."""
        if self.returncode is None and self._listen(0):
            self._note_end()
        return self.returncode

    def wait(self, timeout: float = PATIENCE) -> int:
        """Wait for its end, and give its exit code."""
        if self.poll() is None and self._listen(timeout):
            self._note_end()
        if self.returncode is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout)
        return self.returncode

    def send_signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _listen(self, seconds: float) -> bool:
        """Hear the next thing that is told of it, if it comes in time."""
        ready, _, _ = select.select([self._said], [], [], seconds)
        if ready:
            heard = os.read(self._said, 100)
            assert heard, "the server of programs has ended"
            self._heard += heard
        return bool(ready)

    def _note_end(self) -> None:
        told = self._heard.split(b"\n")
        if len(told) == 3:
            self.returncode = int(told[1])
            os.close(self._said)


@dataclass(frozen=True, slots=True)
class Done:
    """How a program ended, and what it wrote."""

    code: int
    out: str
    err: str


def run_program(
    arguments: Sequence[str | Path], *, folder: Path, environment: Mapping[str, str]
) -> Done:
    """Run a program to its end; besides the given environment it has the PATH of this process."""
    variables = {"PATH": os.environ["PATH"], **environment}
    with TemporaryFile() as out, TemporaryFile() as err:
        program = Program(arguments, folder=folder, environment=variables, stdout=out, stderr=err)
        code = program.wait(TEST_LIMIT)
        written = [_text(each) for each in (out, err)]
    return Done(code, *written)


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


SERVERS: list[subprocess.Popen[bytes]] = []


def server_pids() -> list[int]:
    """Give the process that programs are forked from, once it was started."""
    return [server.pid for server in SERVERS]


@cache
def _server() -> socket.socket:
    """Start the server of this process; it ends when this process does."""
    ours, theirs = socket.socketpair()
    with theirs:
        command = [sys.executable, "-P", str(SERVER), str(theirs.fileno())]
        server = subprocess.Popen(
            command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, start_new_session=True
        )
    SERVERS.append(server)
    atexit.register(server.wait)
    atexit.register(ours.close)  # called first, and the server ends
    return ours

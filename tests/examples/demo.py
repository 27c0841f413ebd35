"""The demo in a process of its own, as `make demo` starts it."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import IO, Any

import httpx

from tests.support.command import Process
from tests.support.program import Program
from tests.support.waiting import PATIENCE, eventually, step

ROOT = Path(__file__).parents[2]
NOT_KEPT = httpx.Limits(max_keepalive_connections=0)  # a demo that ends closes them
WARNINGS = "error,ignore:unclosed:ResourceWarning"
"""asyncio's server does not close a connection that comes just when the broker is stopped."""
MODULE = "demo"
State = dict[str, Any]
Start = Callable[[dict[str, str], IO[bytes]], Process]


class Demo:
    """A running demo. What it prints is kept in `folder`."""

    def __init__(self, folder: Path, start: Start) -> None:
        self.temporary = Path(mkdtemp())  # its path is short enough for a socket in it
        self._printed = folder / "printed"
        self._client = httpx.Client(timeout=PATIENCE, limits=NOT_KEPT)
        environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": "examples/messaging",
            "TMPDIR": str(self.temporary),
            "PYTHONWARNINGS": WARNINGS,  # the worker inherits it
        }
        with self._printed.open("wb") as printed:
            self.process = start(environment, printed)

    @property
    def printed(self) -> list[str]:
        """What it has printed, errors too."""
        return self._printed.read_text().splitlines()

    @property
    def address(self) -> str:
        """The address that it prints first; waits until it has."""
        begun = time.monotonic()
        while not self.printed:
            waited = time.monotonic() - begun
            assert waited < PATIENCE, "the demo prints nothing"
            assert self.process.poll() is None, "the demo has ended"
            time.sleep(step(waited))
        [address] = re.findall(r"http://127\.0\.0\.1:\d+", self.printed[0])
        return str(address)

    def state(self) -> State:
        """What the page shows, as JSON."""
        state: State = self._client.get(f"{self.address}/demo/state").json()
        return state

    def press(self, action: str, **headers: str) -> httpx.Response:
        """Press a button, with these headers."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self._client.post(f"{self.address}/demo/{action}", headers=named)

    async def until(self, holds: Callable[[State], object], what: str) -> State:
        """Wait for something to be so; return the state in which it is."""
        seen: list[State] = []

        def look() -> bool:
            seen.append(self.state())
            return bool(holds(seen[-1]))

        await eventually(look, what)
        return seen[-1]

    async def until_all_is_delivered(self) -> State:
        """Wait until nothing waits; fail if anything was lost, out of order or doubled."""
        state = await self.until(lambda state: state["counters"]["waiting"] == 0, "all delivered")
        counters = state["counters"]
        assert (counters["lost"], counters["out_of_order"], counters["doubled"]) == (0, 0, 0)
        assert counters["delivered"] == counters["committed"]
        return state

    def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        """End it by a signal; nothing is left, and nothing went wrong."""
        worker = self.state()["worker"]["pid"]
        self.process.send_signal(number)
        assert self.process.wait(PATIENCE) == 0, self.printed
        assert self.printed[-1] == "The demo has stopped."
        assert [line for line in self.printed if "Traceback" in line] == []
        assert [*self.temporary.iterdir()] == []
        assert worker is None or not is_running(worker)

    def close(self) -> None:
        """Kill it, if it has not ended."""
        self._client.close()
        self.process.kill()
        self.process.wait()
        rmtree(self.temporary)


def is_running(pid: int) -> bool:
    """Return whether there is such a process."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@contextmanager
def running_demo(folder: Path, start: Start) -> Iterator[Demo]:
    """Start a demo; kill it at the end, if it has not ended."""
    demo = Demo(folder, start)
    try:
        yield demo
    finally:
        demo.close()


def as_make_does(environment: dict[str, str], printed: IO[bytes]) -> Process:
    """Start the demo as `make demo` does."""
    command = [sys.executable, "-m", MODULE]
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=printed, stderr=subprocess.STDOUT
    )


def forked(*words: str) -> Start:
    """Start the demo from a process that has imported the libraries, which is quicker."""

    def start(environment: dict[str, str], printed: IO[bytes]) -> Process:
        command = ["-m", MODULE, *words]
        return Program(
            command, folder=ROOT, environment=environment, stdout=printed, stderr=printed
        )

    return start

"""A console as a process, and a process of browsers that show its overview.

A browser does what `postroom/console/static/console.js` does: it reads the page again after the
seconds that the page names, or 20 times what the last answer took, if that is longer. While a page
is hidden, it asks for nothing.
"""

import asyncio
import multiprocessing
import os
import re
import signal
import socket
import sys
import threading
import time
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Final

import httpx

from benchmarks.worker import PATIENCE, process_cpu

SCRIPT: Final = Path(sys.executable).with_name("postroom")
REFRESH: Final = re.compile(r'<main [^>]*data-refresh="(\d+)"')
BROWSERS: Final = 3
FACTOR: Final = 20


class ConsoleProcess:
    """`postroom console`: its address, and its process."""

    def __init__(self, process: Process, address: str) -> None:
        self.address = address
        self._process = process

    def freeze(self) -> None:
        """Stop the process, as if there were none."""
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Let the process go on."""
        self._process.send_signal(signal.SIGCONT)

    def cpu(self) -> float:
        """The seconds of CPU time that it has used, without its database sessions."""
        return process_cpu(self._process.pid)

    def ports(self) -> set[int]:
        """Return the local ports of its connections, by which PostgreSQL knows its sessions."""
        process = Path("/proc") / str(self._process.pid)
        sockets = {each.readlink().name for each in (process / "fd").iterdir()}
        lines = (process / "net" / "tcp").read_text().splitlines()[1:]
        fields = (line.split() for line in lines)
        return {int(each[1][-4:], 16) for each in fields if f"socket:[{each[9]}]" in sockets}


@asynccontextmanager
async def console_process(url: str, table: str) -> AsyncIterator[ConsoleProcess]:
    """Run `postroom console` on a free port until the block ends."""
    port = _free_port()
    variables = {**os.environ, "DATABASE_URL": url, "OUTBOX_TABLE": table}
    command = [str(SCRIPT), "console", "--port", str(port)]
    process = await asyncio.create_subprocess_exec(*command, env=variables, stdout=DEVNULL)
    running = ConsoleProcess(process, f"http://127.0.0.1:{port}")
    try:
        await _answers(running.address)
        yield running
    finally:
        running.go_on()
        process.terminate()
        await process.wait()


class Browsers:
    """Some browsers that show the overview, all of them or none."""

    def __init__(self, shown: Event, answers: Connection) -> None:
        self._shown, self._answers = shown, answers

    def show(self) -> None:
        """Bring the page to the front."""
        self._shown.set()

    def hide(self) -> None:
        """Put the page behind others."""
        self._shown.clear()

    def answers(self) -> list[float]:
        """Return what each answer since the last call took, in milliseconds."""
        taken = []
        while self._answers.poll():
            taken.append(1000 * self._answers.recv())
        return taken


@contextmanager
def browsers_of(address: str) -> Iterator[Browsers]:
    """Open the overview in three browsers, hidden, in a process of their own."""
    spawned = multiprocessing.get_context("spawn")
    shown = spawned.Event()
    receiving, sending = spawned.Pipe(duplex=False)
    process = spawned.Process(target=_browse, args=(address, shown, sending), daemon=True)
    process.start()
    try:
        yield Browsers(shown, receiving)
    finally:
        process.terminate()
        process.join()


def _browse(address: str, shown: Event, answers: Connection) -> None:
    sending = threading.Lock()
    browsers = [
        threading.Thread(target=_keep_fresh, args=(address, shown, answers, sending))
        for _ in range(BROWSERS)
    ]
    for browser in browsers:
        browser.start()
    for browser in browsers:
        browser.join()


def _keep_fresh(address: str, shown: Event, answers: Connection, sending: threading.Lock) -> None:
    """Do what the function of the same name in console.js does."""
    with httpx.Client(base_url=address, timeout=PATIENCE) as client:
        refresh = _refresh(client)
        time.sleep(refresh)
        while True:
            took = 0.0
            if shown.is_set():
                began = time.perf_counter()
                refresh = _refresh(client)
                took = time.perf_counter() - began
                with sending:
                    answers.send(took)
            time.sleep(max(refresh, FACTOR * took))


def _refresh(client: httpx.Client) -> float:
    """Read the overview; return the seconds until it wants to be read again."""
    response = client.get("/", headers={"accept": "text/html"}).raise_for_status()
    found = REFRESH.search(response.text)
    assert found is not None, "the overview does not refresh itself"
    return float(found[1])


async def _answers(address: str) -> None:
    """Wait until a console answers."""
    async with httpx.AsyncClient(base_url=address) as client, asyncio.timeout(PATIENCE):
        while True:
            try:
                (await client.get("/static/icon.svg")).raise_for_status()
            except httpx.TransportError:
                await asyncio.sleep(0.05)
            else:
                return


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port

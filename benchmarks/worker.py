"""The process of a contender: started, told to begin, watched from outside, stopped."""

import asyncio
import json
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from benchmarks.contender import ROOT, Contender
from benchmarks.contenders.control import Task

PATIENCE = 60.0
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, kw_only=True)
class Services:
    """The URLs of the database (without a driver) and the broker of a run."""

    database: str
    broker: str


class Worker:
    """One process of a contender."""

    def __init__(self, name: str, process: Process) -> None:
        self._name = name
        self._process = process

    async def go(self) -> None:
        """Have it begin."""
        await self.tell("go")

    async def tell(self, words: str) -> None:
        """Write a line to its input."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{words}\n".encode())
        await self._process.stdin.drain()

    async def says(self, word: str, *, within: float = PATIENCE) -> None:
        """Wait until it writes this word."""
        assert self._process.stdout is not None
        async with asyncio.timeout(within):
            line = (await self._process.stdout.readline()).decode().strip()
        if line != word:
            raise RuntimeError(f"{self._name} ended, or wrote {line!r} instead of {word!r}")

    async def stop(self) -> None:
        """Have it stop, and wait until it has ended."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        async with asyncio.timeout(PATIENCE):
            await self._process.wait()

    async def ended(self) -> int:
        """Wait for its end; give its exit status, negative for a signal."""
        async with asyncio.timeout(PATIENCE):
            return await self._process.wait()

    def kill(self) -> None:
        if self._process.returncode is None:
            self._process.kill()

    def kill_all(self) -> None:
        """Kill it and its children, of a process that was started in a group of its own."""
        if self._process.returncode is None:
            os.killpg(self._process.pid, signal.SIGKILL)

    def cpu(self) -> float:
        """The seconds of CPU time that it has used, in user and system mode."""
        return process_cpu(self._process.pid)


@asynccontextmanager
async def started(
    contender: Contender, services: Services, settings: Mapping[str, Any]
) -> AsyncIterator[Worker]:
    """Start a process and wait until it is ready; stop it at the end."""
    worker = Worker(contender.name, await _start(contender, services, settings))
    try:
        await worker.says("ready")
        yield worker
        await worker.stop()
    finally:
        worker.kill()


@asynccontextmanager
async def running(
    contender: Contender, services: Services, settings: Mapping[str, Any], log: Path
) -> AsyncIterator[Worker]:
    """Start a process and wait until it is ready; kill it at the end.

    What it writes to standard error goes to the end of a file.
    """
    with log.open("ab") as errors:
        process = await _start(contender, services, settings, stderr=errors, alone=True)
    worker = Worker(contender.name, process)
    try:
        await worker.says("ready")
        yield worker
    finally:
        worker.kill_all()
        await worker.ended()


async def create_table(contender: Contender, services: Services) -> None:
    """Have a contender's own code create its table."""
    process = await _start(contender, services, contender.settings, "create")
    if await process.wait():
        raise RuntimeError(f"{contender.name} could not create its table")


async def _start(
    contender: Contender,
    services: Services,
    settings: Mapping[str, Any],
    *words: str,
    stderr: IO[bytes] | None = None,
    alone: bool = False,
) -> Process:
    task = Task(**asdict(services), table=contender.table, settings=dict(settings))
    module = f"benchmarks.contenders.{contender.module}"
    command = [contender.python, "-m", module, json.dumps(asdict(task)), *words]
    return await asyncio.create_subprocess_exec(
        *command, stdin=PIPE, stdout=PIPE, stderr=stderr, cwd=ROOT, start_new_session=alone
    )


def process_cpu(pid: int) -> float:
    """The seconds of CPU time that a process has used, 0 if it is gone."""
    return _cpu(Path("/proc") / str(pid))


def server_cpu(name: str) -> float:
    """The seconds of CPU time of all processes with this name, 0 if there are none here."""
    return sum(_cpu(each.parent) for each in Path("/proc").glob("[0-9]*/comm") if _is(each, name))


def _is(comm: Path, name: str) -> bool:
    try:
        return comm.read_text().strip() == name
    except OSError:
        return False


def _cpu(process: Path) -> float:
    try:
        fields = (process / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICKS

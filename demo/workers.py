"""The supervisor: keeps one worker running, and starts another one when that was killed."""

import asyncio
import signal
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from demo.story import Story

RESTART_AFTER = 1.0
"""Seconds until a killed worker is replaced, as by systemd or Kubernetes."""
END_WITHIN = 5.0
"""Seconds that a worker may take to end when the demo does; its grace period is shorter."""


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker that was started. They are numbered; their processes' ids are anything."""

    number: int
    process: Process

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self.process.pid

    @property
    def is_running(self) -> bool:
        """Whether the process has not ended."""
        return self.process.returncode is None


class Workers:
    """Runs one worker at a time, each in a process of its own."""

    def __init__(self, story: Story, arguments: Sequence[str]) -> None:
        self._story, self._arguments = story, arguments
        self._workers: list[Worker] = []
        self._next_start = time.monotonic()

    async def run(self) -> None:
        """Keep a worker running until cancelled."""
        try:
            while True:
                worker = await self._start()
                code = await worker.process.wait()
                if code != -signal.SIGKILL:
                    self._story.tell(f"Worker {worker.number} ended by itself, with code {code}.")
                self._next_start = time.monotonic() + RESTART_AFTER
                await asyncio.sleep(RESTART_AFTER)
        finally:
            await self._end()

    @property
    def latest(self) -> Worker | None:
        """The worker that was started last; None before the first one."""
        return self._workers[-1] if self._workers else None

    @property
    def current(self) -> Worker | None:
        """The worker that runs, if one does."""
        latest = self.latest
        return latest if latest and latest.is_running else None

    @property
    def starts_in(self) -> float:
        """The seconds until the next worker is started."""
        return max(0.0, self._next_start - time.monotonic())

    def number_of(self, pid: int | None) -> int | None:
        """Return the number of the worker with this process, if it is one of these."""
        found = (each.number for each in reversed(self._workers) if each.pid == pid)
        return next(found, None)

    async def kill(self) -> Worker | None:
        """Kill the worker, with SIGKILL; return it, or None if none runs."""
        worker = self.current
        if worker is not None:
            with suppress(ProcessLookupError):
                worker.process.send_signal(signal.SIGKILL)
            await worker.process.wait()
        return worker

    async def _start(self) -> Worker:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "demo.worker", *self._arguments),
            stdin=PIPE,  # it is closed when the demo ends, even by SIGKILL; the worker then ends
            start_new_session=True,  # so Ctrl-C reaches the demo only
        )
        worker = Worker(len(self._workers) + 1, process)
        self._workers.append(worker)
        return worker

    async def _end(self) -> None:
        """Have the worker finish what is in flight, and end."""
        worker = self.current
        if worker is None:
            return
        if worker.process.stdin is not None:
            worker.process.stdin.close()
        try:
            async with asyncio.timeout(END_WITHIN):
                await worker.process.wait()
        except TimeoutError:
            await self.kill()

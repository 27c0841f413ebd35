"""Worker processes, and what a test does to them; none outlives its test."""

import itertools
import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from tests.chaos.worker import WorkerOptions
from tests.support.program import Program

ROOT = Path(__file__).parents[2]


class Worker:
    """One process."""

    def __init__(self, options: WorkerOptions, log: Path) -> None:
        self.options = options
        self.name = options.name
        self.log = log
        self._out = log.with_suffix(".out")
        stdin, self._stdin = os.pipe()  # a worker ends when the other end of this does
        with log.open("wb") as errors, self._out.open("wb") as out, os.fdopen(stdin, "rb") as end:
            self.process = Program(
                ["-m", "tests.chaos.worker", json.dumps(asdict(options))],
                folder=ROOT,
                environment=os.environ,
                stdin=end,
                stdout=out,
                stderr=errors,
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def dead(self) -> bool:
        return self.process.poll() is not None

    @property
    def ready(self) -> bool:
        """Whether it has come as far as to open its way out."""
        assert not self.dead, f"{self.name} ended: {self.log.read_text()[-2000:]}"
        return b"ready" in self._out.read_bytes()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def freeze(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def ask_to_stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def close(self) -> None:
        """Have it gone, whatever state it is in; SIGKILL ends a frozen one too."""
        self.kill()
        os.close(self._stdin)


class Fleet:
    """Starts workers with the options in common and those of their own."""

    def __init__(self, common: WorkerOptions, directory: Path) -> None:
        self.common = common
        self.everyone: list[Worker] = []
        self._directory = directory
        self._numbers = itertools.count(1)

    def configure(self, **options: Any) -> None:
        """Change what the workers to come have in common."""
        self.common = replace(self.common, **options)

    def start(self, **own: Any) -> Worker:
        name = f"w{next(self._numbers)}"
        options = replace(self.common, name=name, **own)
        worker = Worker(options, self._directory / f"{name}.log")
        self.everyone.append(worker)
        return worker

    @property
    def alive(self) -> list[Worker]:
        return [worker for worker in self.everyone if not worker.dead]

    @property
    def dead(self) -> list[Worker]:
        return [worker for worker in self.everyone if worker.dead]


@contextmanager
def fleet_of(common: WorkerOptions, directory: Path) -> Iterator[Fleet]:
    fleet = Fleet(common, directory)
    try:
        yield fleet
    finally:
        for worker in fleet.everyone:
            worker.close()

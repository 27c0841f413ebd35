"""The broker of the demo: a server on a Unix socket, in the demo's process, that can be stopped.

A worker connects for each record and sends it as a line of JSON; the answer is a line, too. A
connection on which nothing is sent is for noticing that the broker stops.
"""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

from demo.consumer import Consumer
from demo.story import Names, Story

CONFIRM_AFTER = 0.35
"""Seconds until a record is confirmed: long enough to watch it, and to kill a worker meanwhile."""
RETRY_AFTER = 4
"""Seconds until a refused record is tried again."""
LONGEST_PATH = 100
"""How long the path of a Unix socket may be: some systems allow 103 characters, some 107."""
FULL = "the queue is full"


class Broker:
    """Gives each record to the consumer, then confirms it. It can be stopped, and refuse."""

    def __init__(self, path: Path, consumer: Consumer, names: Names, story: Story) -> None:
        self.in_flight: set[str] = set()
        """The ids of the records that it has not answered yet."""
        self.to_refuse = 0
        """How many of the next records it refuses."""
        self.delivered_by: int | None = None
        """The process of the worker that sent the latest record."""
        self._path, self._consumer, self._names, self._story = path, consumer, names, story
        self._starting = asyncio.Lock()
        self._server: asyncio.Server | None = None
        self._connections: dict[asyncio.StreamWriter, asyncio.Task[None] | None] = {}
        self._refused: set[str] = set()

    @property
    def is_running(self) -> bool:
        """Whether it accepts connections."""
        return self._server is not None

    async def start(self) -> bool:
        """Accept connections; return False if it does already."""
        async with self._starting:  # two may press the button at once
            if self._server is not None:
                return False
            self._server = await asyncio.start_unix_server(self._serve, self._path)
            return True

    def stop(self) -> None:
        """Refuse connections, and break those that there are."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in self._connections:
            writer.close()

    async def close(self) -> None:
        """Stop, and wait until nothing is in flight."""
        self.stop()
        await asyncio.gather(*(task for task in self._connections.values() if task is not None))
        self._path.unlink(missing_ok=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections[writer] = asyncio.current_task()
        try:
            line = await reader.readline()
            if line:
                answer = await self._take(json.loads(line))
                if not writer.is_closing():  # else nobody learns that it was confirmed
                    writer.write(json.dumps(answer).encode() + b"\n")
        except (ConnectionError, ValueError):  # the worker was killed, perhaps within a line
            pass
        finally:
            del self._connections[writer]
            writer.close()

    async def _take(self, record: dict[str, Any]) -> dict[str, Any]:
        self.in_flight.add(record["id"])
        try:
            self.delivered_by = record["worker"]
            if self.to_refuse:
                return await self._refuse(record)
            await self._consumer.receive(record)
            await asyncio.sleep(CONFIRM_AFTER)
            self._tell_of_retry(record)
            return {"refused": None}
        finally:
            self.in_flight.discard(record["id"])

    async def _refuse(self, record: dict[str, Any]) -> dict[str, Any]:
        self.to_refuse -= 1
        self._refused.add(record["id"])
        await asyncio.sleep(CONFIRM_AFTER)
        message = self._names.name(record["aggregate_type"], record["aggregate_id"])
        self._story.tell(
            f"The broker refused “{step(record)}” of {message}: {FULL}. It is tried again in"
            f" {RETRY_AFTER} s; later records of {message} wait for it, other messages do not."
        )
        return {"refused": FULL}

    def _tell_of_retry(self, record: dict[str, Any]) -> None:
        if record["id"] in self._refused:
            self._refused.discard(record["id"])
            message = self._names.name(record["aggregate_type"], record["aggregate_id"])
            self._story.tell(f"“{step(record)}” of {message} was delivered when tried again.")


def socket_path(folder: Path) -> Path:
    """Return where the broker of a demo listens, also if the path of its folder is too long."""
    path = folder / "broker"
    is_short = len(os.fsencode(path)) <= LONGEST_PATH
    return path if is_short else Path(f"/tmp/{folder.name}.broker")  # noqa: S108 - a name by chance


def step(record: dict[str, Any]) -> str:
    """Return what happened to a message, without the message: `group_message.queued` is queued."""
    return str(record["event_type"]).rpartition(".")[2]

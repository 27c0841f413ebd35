"""The publisher that sends from the worker to the broker, as in docs/how-to/own-publisher.md."""

import asyncio
import json
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from postroom import ClaimedRecord, Delivered, Outage, OutageError, Outcome, Refused
from postroom.publishers.base import OutageWatcher

LOOK_EVERY = 0.3
"""Seconds between two looks whether a stopped broker is back."""
STOPPED = "the broker is stopped"


class BrokerPublisher:
    """Sends each record to the broker, and waits until the broker confirms or refuses it."""

    max_batch = 1
    max_in_flight = 20

    def __init__(self, path: Path) -> None:
        self._path = path
        self._changed: OutageWatcher = lambda _: None
        self._watching: asyncio.Task[None] | None = None

    def __str__(self) -> str:
        return "the demo's broker"

    def watch(self, changed: OutageWatcher) -> None:
        """Report at once that the broker has stopped, or is back."""
        self._changed = changed

    async def open(self) -> None:
        """Connect, to see whether the broker is there."""
        if self._watching is None:
            self._watching = asyncio.create_task(self._watch())
        _, writer = await self._connect()
        writer.close()

    async def publish(self, records: Sequence[ClaimedRecord]) -> Sequence[Outcome]:
        """Deliver records."""
        return [await self._send(record) for record in records]

    async def close(self) -> None:
        """Stop watching the broker."""
        if self._watching is not None:
            self._watching.cancel()
            with suppress(asyncio.CancelledError):
                await self._watching
            self._watching = None

    async def _send(self, record: ClaimedRecord) -> Outcome:
        reader, writer = await self._connect()
        try:
            writer.write(message(record))
            answer = await reader.readline()
        except OSError as error:
            raise OutageError(STOPPED) from error
        finally:
            writer.close()
        if not answer:
            raise OutageError(STOPPED)
        refused = json.loads(answer)["refused"]
        return Refused(refused) if refused else Delivered()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        try:
            return await asyncio.open_unix_connection(self._path)
        except OSError as error:
            raise OutageError(STOPPED) from error

    async def _watch(self) -> None:
        """Hold a connection, on which nothing is sent; it breaks when the broker stops."""
        while True:
            try:
                reader, writer = await self._connect()
            except OutageError:
                await asyncio.sleep(LOOK_EVERY)
                continue
            self._changed(None)
            try:
                with suppress(OSError):
                    await reader.read()
                self._changed(Outage(STOPPED))
            finally:
                writer.close()


def message(record: ClaimedRecord) -> bytes:
    """Write a record as a line of JSON."""
    fields = {
        "id": str(record.id),
        "position": record.position,
        "event_type": record.event_type,
        "aggregate_type": record.aggregate_type,
        "aggregate_id": record.aggregate_id,
        "worker": os.getpid(),
    }
    return json.dumps(fields).encode() + b"\n"

"""The way to the broker, which can be shut: connections break, and new ones are refused."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from yarl import URL

HOST = "127.0.0.1"
CHUNK = 64 * 1024
NACK = bytes([0, 60, 0, 120])
"""Class and method of `basic.nack`, in the frames of AMQP."""


class Gate:
    """Stands before the broker, on a port of its own; sees when the broker refuses a message."""

    def __init__(self, broker: str) -> None:
        self.refusal = asyncio.Event()
        self._broker = URL(broker)
        self._server: asyncio.Server | None = None
        self._port = 0
        self._streams: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        """The broker's URL, by way of this port."""
        return str(self._broker.with_host(HOST).with_port(self._port))

    async def open(self) -> None:
        """Listen; on the same port as before."""
        self._server = await asyncio.start_server(self._serve, HOST, self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    async def shut(self) -> None:
        """Break every connection, and refuse new ones."""
        assert self._server is not None
        self._server.close()
        for stream in tuple(self._streams):
            stream.transport.abort()
        await asyncio.gather(*self._tasks)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Connect a client with the broker, until one of them ends it."""
        broker = await asyncio.open_connection(self._broker.host, self._broker.port or 5672)
        ends = {writer, broker[1]}
        self._streams |= ends
        there = asyncio.create_task(self._forward(reader, broker[1]))
        back = asyncio.create_task(self._forward(broker[0], writer, looked_at=True))
        self._tasks |= {there, back}
        await asyncio.wait([there, back])
        self._tasks -= {there, back}
        self._streams -= ends

    async def _forward(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        looked_at: bool = False,
    ) -> None:
        try:
            while data := await reader.read(CHUNK):
                if looked_at and NACK in data:
                    self.refusal.set()
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()


@asynccontextmanager
async def gate_to(broker: str) -> AsyncIterator[Gate]:
    """An open gate before a broker."""
    gate = Gate(broker)
    await gate.open()
    try:
        yield gate
    finally:
        await gate.shut()

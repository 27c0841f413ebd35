"""A proxy for TCP that a test can have cut, stall or delay what goes through it."""

import asyncio
import socket
import struct
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum

from tests.support.listening import HOST, serving

CHUNK = 64 * 1024
RESET = struct.pack("ii", 1, 0)
"""For SO_LINGER: closing sends RST."""


class How(StrEnum):
    """What becomes of a connection."""

    FIN = "FIN"
    RST = "RST"
    STALL = "stall"
    """It stays open, and nothing goes through any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Comes after so many bytes have gone through, in one direction or the other."""

    how: How
    after_sent: int | None = None
    """Bytes to the server."""
    after_received: int | None = None
    """Bytes from the server."""


class Link:
    """One connection, in two halves."""

    def __init__(self, *streams: asyncio.StreamWriter, fault: Fault | None) -> None:
        self.stalled = False
        self.over = asyncio.Event()
        self.fault = fault
        self._streams = streams

    def suffer(self, how: How) -> None:
        """Have it happen now."""
        self.stalled = how is How.STALL
        if not self.stalled:
            self.end(reset=how is How.RST)

    def end(self, *, reset: bool) -> None:
        for stream in self._streams:
            raw = stream.get_extra_info("socket")
            if reset and raw is not None and raw.fileno() >= 0:
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            stream.transport.abort() if reset else stream.close()
        self.over.set()


def ignore(link: Link, data: bytes) -> None:
    """Take no notice of what goes through."""


class Proxy:
    """Stands before a server. Each of `faults` befalls one connection, in the order they come."""

    def __init__(self, port: int) -> None:
        self.port = 0
        self.faults: deque[Fault | None] = deque()
        self.delay = 0.0
        """Seconds that each piece is late by."""
        self.connections = 0
        """How many there have been."""
        self.faults_seen = 0
        self.swallowed = 0
        """How many pieces have come by connections that are stalled."""
        self.away: How | None = None
        """What becomes of every new connection."""
        self.on_sent: Callable[[Link, bytes], None] = ignore
        """Called with each piece for the server, before the piece goes through."""
        self._server_port = port
        self._links: set[Link] = set()

    def suffer(self, how: How) -> None:
        """Do this to every connection there is, now."""
        for link in tuple(self._links):
            self.faults_seen += 1
            link.suffer(how)

    def go_away(self, how: How) -> None:
        """Do this to every connection, now and later."""
        self.away = how
        self.suffer(how)

    def come_back(self) -> None:
        """Serve new connections again, and reset the stalled ones."""
        self.away = None
        self.suffer(How.RST)

    def lead_to(self, port: int) -> None:
        """Lead connections to another server, from now on; cut those that there are."""
        self._server_port = port
        self.come_back()

    async def serve(
        self, client_reader: asyncio.StreamReader, client_writer: asyncio.StreamWriter
    ) -> None:
        """Take a connection, and see it to its end."""
        self.connections += 1
        if self.away in (How.FIN, How.RST):
            client_writer.transport.abort()
            return
        fault = self.faults.popleft() if self.faults else None
        try:
            reader, writer = await asyncio.open_connection(HOST, self._server_port)
        except OSError:
            client_writer.transport.abort()
            return
        link = Link(client_writer, writer, fault=fault)
        link.stalled = self.away is How.STALL
        self._links.add(link)
        sent = fault.after_sent if fault else None
        received = fault.after_received if fault else None
        halves = [
            asyncio.ensure_future(self._forward(link, client_reader, writer, sent, self.on_sent)),
            asyncio.ensure_future(self._forward(link, reader, client_writer, received)),
        ]
        over = asyncio.ensure_future(link.over.wait())
        try:
            await asyncio.wait([over, *halves], return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._links.discard(link)
            link.end(reset=False)
            for task in (over, *halves):
                task.cancel()
            await asyncio.gather(over, *halves, return_exceptions=True)

    async def _forward(
        self,
        link: Link,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        left: int | None,
        notice: Callable[[Link, bytes], None] = ignore,
    ) -> None:
        """Hand on what comes, up to the fault, if there is to be one in this direction."""
        while data := await reader.read(CHUNK if left is None else max(1, min(CHUNK, left))):
            if self.delay:
                await asyncio.sleep(self.delay)
            notice(link, data)
            if link.stalled:
                self.swallowed += 1
                await link.over.wait()
            writer.write(data)
            await writer.drain()
            if left is not None:
                left -= len(data)
                if left <= 0 and link.fault is not None:
                    self.faults_seen += 1
                    link.suffer(link.fault.how)
                    left = None

    def close(self) -> None:
        for link in tuple(self._links):
            link.end(reset=True)


@asynccontextmanager
async def proxy_to(
    port: int, *faults: Fault | None, prepare: Callable[[Proxy], None] = lambda _: None
) -> AsyncIterator[Proxy]:
    """Have a proxy listen before a port of this machine."""
    proxy = Proxy(port)
    proxy.faults.extend(faults)
    prepare(proxy)
    async with serving(proxy.serve) as proxy.port:
        try:
            yield proxy
        finally:
            proxy.close()

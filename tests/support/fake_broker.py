"""A broker that lets everybody in, and then says what a test has it say."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from pamqp import commands, frame, header, heartbeat
from pamqp.base import Frame

from tests.support.listening import HOST, serving

ANSWERS: dict[type[Any], Callable[[], Frame]] = {
    header.ProtocolHeader: lambda: commands.Connection.Start(
        0, 9, {"product": "fake", "version": "0"}, "PLAIN", "en_US"
    ),
    commands.Connection.StartOk: lambda: commands.Connection.Tune(2047, 131072, 0),
    commands.Connection.Open: commands.Connection.OpenOk,
    commands.Connection.Close: commands.Connection.CloseOk,
    commands.Channel.Open: commands.Channel.OpenOk,
    commands.Channel.Close: commands.Channel.CloseOk,
    commands.Confirm.Select: commands.Confirm.SelectOk,
    commands.Exchange.Declare: commands.Exchange.DeclareOk,
}


class Silence:
    """From here on, it says nothing more by this connection."""


SILENCE = Silence()
Raw = Callable[[int], bytes]
Reply = bytes | Raw | Frame | Silence | None
"""Bytes as they are, or for a channel; a method; nothing more; or the end of the connection."""
Script = Callable[[int, int], Sequence[Reply]]
"""Gives the replies to a message, by its channel and its number there."""


class FakeBroker:
    """Answers questions as RabbitMQ does; `instead` has it answer some otherwise."""

    def __init__(self, script: Script, instead: dict[type[Any], Sequence[Reply]]) -> None:
        self.port = 0
        self.connections = 0
        """How many there have been."""
        self.greetings = 0
        """How many of them have said that they speak AMQP."""
        self.clients = 0
        """How many there are."""
        self.channels = 0
        """How many are open, over all connections."""
        self.messages = 0
        self._script = script
        self._instead = instead

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@{HOST}:{self.port}/?heartbeat=0"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Talk to one client until it goes, or the script says so."""
        self.connections += 1
        self.clients += 1
        tags: dict[int, int] = {}
        silent = False
        try:
            async for channel, received in _frames(reader):
                self.greetings += isinstance(received, header.ProtocolHeader)
                for reply in () if silent else self._replies(channel, received, tags):
                    if reply is None:
                        return
                    if isinstance(reply, Silence):
                        silent = True
                    else:
                        writer.write(_encoded(reply, channel))
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client has gone
        finally:
            self.clients -= 1

    def _replies(self, channel: int, received: Any, tags: dict[int, int]) -> Sequence[Reply]:
        if isinstance(received, commands.Channel.Open):
            tags[channel] = 0
            self.channels += 1
        if isinstance(received, commands.Channel.Close):
            self.channels -= 1
        if isinstance(received, header.ContentHeader):
            self.messages += 1
            tags[channel] = tags.get(channel, 0) + 1
            return self._script(channel, tags[channel])
        if type(received) in self._instead:
            return self._instead[type(received)]
        answer = ANSWERS.get(type(received))
        return [answer()] if answer else []


def _encoded(reply: bytes | Raw | Frame, channel: int) -> bytes:
    if isinstance(reply, bytes):
        return reply
    return frame.marshal(reply, channel) if isinstance(reply, Frame) else reply(channel)


async def _frames(reader: asyncio.StreamReader) -> AsyncIterator[tuple[int, Any]]:
    """Take what a client sends apart: channels and frames."""
    _, _, greeting = frame.unmarshal(await reader.readexactly(8))
    yield 0, greeting
    while True:
        start = await reader.readexactly(7)
        rest = await reader.readexactly(int.from_bytes(start[3:7], "big") + 1)
        _, channel, received = frame.unmarshal(start + rest)
        if not isinstance(received, heartbeat.Heartbeat):
            yield channel, received


@asynccontextmanager
async def fake_broker(
    script: Script, instead: dict[type[Any], Sequence[Reply]] | None = None
) -> AsyncIterator[FakeBroker]:
    """Have one listen on a port of this machine."""
    broker = FakeBroker(script, instead or {})
    async with serving(broker.serve) as broker.port:
        yield broker

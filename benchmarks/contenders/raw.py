"""The floor: frames that were encoded before the clock starts, written in pieces to a socket.

2,000 messages at most are unconfirmed, as many as postroom's publisher may have, unless `in_flight`
says otherwise. There is no database, no order to keep and nothing to write down.
"""

import asyncio
from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote, urlsplit

from pamqp import body, commands, constants, frame, header

from benchmarks.contenders.control import (
    EXCHANGE,
    ROUTING_KEY,
    go,
    read_task,
    run_until_stopped,
)
from benchmarks.contenders.messages import EVENT_TYPE, Letter, letters

PIECE = 250
IN_FLIGHT = 2000
DISTINCT = 20_000
"""Messages that are encoded; longer runs send them again."""
ACK = b"\x00\x3c\x00\x50"
ACK_LENGTH = 21
CHANNEL = 1


class Raw(asyncio.Protocol):
    """One channel with confirms: writes encoded messages, and counts what the broker confirms."""

    def __init__(self) -> None:
        self._received = b""
        self._replies: asyncio.Queue[Any] = asyncio.Queue()
        self._single: set[int] = set()
        self._up_to = 0
        self._moved = asyncio.Event()
        self._lost: Exception | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = exc or ConnectionError("RabbitMQ closed the connection")
        self._moved.set()

    def data_received(self, data: bytes) -> None:
        received, start = self._received + data, 0
        while len(received) - start >= ACK_LENGTH and received[start + 7 : start + 11] == ACK:
            tag = int.from_bytes(received[start + 11 : start + 19], "big")
            self._confirm(tag, multiple=bool(received[start + 19] & 1))
            start += ACK_LENGTH
        self._received = received[start:]
        if len(self._received) >= ACK_LENGTH or not start:
            self._read_replies()
        self._moved.set()

    async def open(self, user: str, password: str, vhost: str) -> None:
        """Log in, and open a channel that confirms."""
        self._transport.write(b"AMQP\x00\x00\x09\x01")
        await self._replies.get()
        self._send(
            commands.Connection.StartOk(
                client_properties={}, mechanism="PLAIN", response=f"\0{user}\0{password}"
            )
        )
        tune = await self._replies.get()
        self._send(commands.Connection.TuneOk(tune.channel_max, tune.frame_max, 0))
        for request, channel in (
            (commands.Connection.Open(vhost), 0),
            (commands.Channel.Open(), CHANNEL),
            (commands.Confirm.Select(), CHANNEL),
        ):
            self._send(request, channel)
            await self._replies.get()

    async def deliver(self, encoded: Sequence[bytes], messages: int, in_flight: int) -> None:
        """Write messages again and again, in pieces, until so many are confirmed."""
        size = min(PIECE, -(-in_flight // 2))
        starts = range(0, len(encoded), size)
        pieces = [b"".join(encoded[start : start + size]) for start in starts]
        for sent in range(0, messages, size):
            await self._until(sent + size - in_flight)
            self._transport.write(pieces[sent // size % len(pieces)])
        await self._until(messages)

    def close(self) -> None:
        self._transport.close()

    async def _until(self, confirmed: int) -> None:
        while self._up_to + len(self._single) < confirmed:
            if self._lost is not None:
                raise self._lost
            self._moved.clear()
            await self._moved.wait()

    def _confirm(self, tag: int, *, multiple: bool) -> None:
        if not multiple:
            self._single.add(tag)
            return
        self._up_to = max(self._up_to, tag)
        self._single = {each for each in self._single if each > self._up_to}

    def _read_replies(self) -> None:
        """Read what is no confirmation: only the login has such replies."""
        while len(self._received) > constants.FRAME_HEADER_SIZE:
            length = int.from_bytes(self._received[3:7], "big") + constants.FRAME_HEADER_SIZE + 1
            if len(self._received) < length:
                return
            self._replies.put_nowait(frame.unmarshal(self._received[:length])[2])
            self._received = self._received[length:]

    def _send(self, request: Any, channel: int = 0) -> None:
        self._transport.write(frame.marshal(request, channel))


def encode(letter: Letter) -> bytes:
    """A message as the bytes of its three frames."""
    properties = commands.Basic.Properties(
        content_type="application/json",
        headers=letter.headers,
        delivery_mode=2,
        message_id=letter.message_id,
        timestamp=letter.timestamp,
        message_type=EVENT_TYPE,
    )
    frames = (
        commands.Basic.Publish(exchange=EXCHANGE, routing_key=ROUTING_KEY, mandatory=True),
        header.ContentHeader(body_size=len(letter.body), properties=properties),
        body.ContentBody(letter.body),
    )
    return b"".join(frame.marshal(each, CHANNEL) for each in frames)


async def main() -> None:
    task = read_task()
    records, keys = task.settings["records"], task.settings["keys"]
    encoded = [encode(letter) for letter in letters(min(records, DISTINCT), keys)]
    address = urlsplit(task.broker)
    loop = asyncio.get_running_loop()
    _, raw = await loop.create_connection(
        Raw, address.hostname or "localhost", address.port or 5672
    )
    user, password = unquote(address.username or "guest"), unquote(address.password or "guest")
    await raw.open(user, password, unquote(address.path[1:]))
    await go()
    await raw.deliver(encoded, records, task.settings.get("in_flight", IN_FLIGHT))
    await run_until_stopped()
    raw.close()


if __name__ == "__main__":
    asyncio.run(main())

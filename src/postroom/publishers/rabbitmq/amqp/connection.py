"""A connection: heartbeats, blocked or not, frames for each channel."""

import asyncio
from collections.abc import Callable
from typing import Any, Final, Protocol, TypeVar, cast

from pamqp import commands, frame, header, heartbeat
from pamqp.base import Frame
from pamqp.exceptions import PAMQPException

from postroom.publishers.rabbitmq.amqp.address import Address
from postroom.publishers.rabbitmq.amqp.errors import BlockedError, ClosedError, one_line
from postroom.publishers.rabbitmq.amqp.frames import FRAME, OVERHEAD, confirmation
from postroom.publishers.rabbitmq.amqp.login import FRAME_MAX, server_name, start_ok, tune_ok

F = TypeVar("F", bound=Frame)
ANSWER_WITHIN: Final = 5.0
"""Seconds for the broker to answer in, when it is asked for something: fewer than a relay waits."""
CLOSE_WITHIN: Final = 2.0


class Channel(Protocol):
    """What gets the frames of one channel."""

    def take(self, received: Any) -> None: ...
    def confirm(self, tag: int, *, multiple: bool, ack: bool) -> None: ...
    def lose(self, error: ClosedError) -> None: ...
    def block(self) -> None: ...


class Connection(asyncio.Protocol):
    """One connection. It tells its channels when it is lost, or when the broker blocks it."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.changed: Callable[[], None] = lambda: None
        """Called when the connection is lost, and when the broker blocks or unblocks it."""
        self.frame_max = FRAME_MAX
        self.blocked: str | None = None
        """Why the broker has blocked publishers; None if it has not."""
        self.lost: ClosedError | None = None
        self.server = ""
        self.answers = 0
        """How many messages the broker has answered, on any channel."""
        self.heard = 0.0
        """When data was last received, by the event loop's clock."""
        self._channels: dict[int, Channel] = {}
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[Any] | None = None
        self._paused = False
        self._writable = asyncio.Event()
        self._closed = asyncio.Event()
        self._beats: asyncio.Task[None] | None = None

    # -- open and close

    async def log_in(self) -> None:
        """Log in, and enter the vhost. Raises ClosedError; ConnectError for want of a mechanism."""
        start = await self._ask(header.ProtocolHeader(), commands.Connection.Start)
        self.server = server_name(start)
        tune = await self._ask(start_ok(self.address, start), commands.Connection.Tune)
        agreed = tune_ok(self.address, tune)
        self.frame_max = agreed.frame_max
        self._send(agreed)
        await self._ask(
            commands.Connection.Open(virtual_host=self.address.vhost), commands.Connection.OpenOk
        )
        if agreed.heartbeat:
            self._beats = asyncio.create_task(self._beat(agreed.heartbeat), name="AMQP heartbeat")

    async def close(self) -> None:
        """Close it in an orderly way if the broker answers within CLOSE_WITHIN, else abort it.

        A call that is cancelled aborts it at once.
        """
        try:
            if self.lost is None:
                async with asyncio.timeout(CLOSE_WITHIN):
                    await self._ask(
                        commands.Connection.Close(200, "the client stops", 0, 0),
                        commands.Connection.CloseOk,
                    )
        except (TimeoutError, ClosedError):
            pass  # it is gone all the same
        finally:
            self.abort()
        if self._transport is not None:
            await self._closed.wait()

    def abort(self) -> None:
        """Let go at once."""
        if self._beats is not None:
            self._beats.cancel()
        if self._transport is not None:
            self._transport.abort()

    # -- for channels

    def register(self, channel: Channel) -> int:
        """Give a channel its number."""
        number = next(n for n in range(1, 65536) if n not in self._channels)
        self._channels[number] = channel
        return number

    def forget(self, number: int) -> None:
        """Take a number back."""
        self._channels.pop(number, None)

    def write(self, data: bytes) -> None:
        """Write frames. Raises ClosedError if the connection is lost."""
        if self.lost is not None or self._transport is None:
            raise self.lost or ClosedError(0, "the connection was never open", connection=True)
        self._transport.write(data)

    @property
    def unsent(self) -> int:
        """How many bytes wait to be taken by the operating system."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def send(self, method: Frame, channel: int) -> None:
        """Write a method of a channel."""
        self.write(frame.marshal(method, channel))

    async def drain(self) -> None:
        """Wait until there is room for more, or it is of no use to wait."""
        if not self._writable.is_set():
            await self._writable.wait()

    def check_blocked(self) -> None:
        """Raise BlockedError if the broker has blocked publishers."""
        if self.blocked is not None:
            raise self.blocked_error()

    def blocked_error(self) -> BlockedError:
        """Return the error that says that the broker has blocked publishers, and why."""
        return BlockedError(f"RabbitMQ at {self.address} has blocked publishers: {self.blocked}")

    # -- what asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is none by its class
        self._wake_writers()
        self.heard = asyncio.get_running_loop().time()

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        reason = "the broker closed the connection" if exc is None else one_line(exc)
        self._lose(ClosedError(0, reason, connection=True))
        self._closed.set()

    def pause_writing(self) -> None:
        """See asyncio.Protocol."""
        self._paused = True
        self._wake_writers()

    def resume_writing(self) -> None:
        """See asyncio.Protocol."""
        self._paused = False
        self._wake_writers()

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol: cut the bytes into frames, and hand those on."""
        self.heard = asyncio.get_running_loop().time()
        self._buffer += data
        begin, end = 0, len(self._buffer)
        try:
            while end - begin >= OVERHEAD and self.lost is None:
                _, channel, size = FRAME.unpack_from(self._buffer, begin)
                if self._buffer.startswith(b"AMQP") or size > max(FRAME_MAX, self.frame_max):
                    raise ClosedError(0, "the server does not speak AMQP 0-9-1", connection=True)
                if end - begin < size + OVERHEAD:
                    break
                self._take(channel, bytes(self._buffer[begin : begin + size + OVERHEAD]))
                begin += size + OVERHEAD
        except (PAMQPException, ValueError) as error:
            reason = f"the broker sent data that is not AMQP 0-9-1: {error}"
            self._break(ClosedError(0, reason, connection=True))
        except ClosedError as error:
            self._break(error)
        del self._buffer[:begin]

    # -- frames

    def _take(self, number: int, data: bytes) -> None:
        if confirmed := confirmation(data):
            if (channel := self._channels.get(number)) is not None:
                tag, multiple, ack = confirmed
                channel.confirm(tag, multiple=multiple, ack=ack)
            return
        _, _, received = frame.unmarshal(data)
        if number:
            if (channel := self._channels.get(number)) is not None:
                channel.take(received)
        else:
            self._take_own(received)

    def _take_own(self, received: Any) -> None:
        """Take a frame about the connection itself."""
        match received:
            case heartbeat.Heartbeat():
                pass
            case commands.Connection.Blocked():
                self.blocked = received.reason or "the broker gave no reason"
                self._wake_writers()
                for channel in tuple(self._channels.values()):
                    channel.block()
                self.changed()
            case commands.Connection.Unblocked():
                self.blocked = None
                self._wake_writers()
                self.changed()
            case commands.Connection.Close():
                self._send(commands.Connection.CloseOk())
                code, text = received.reply_code or 0, received.reply_text or ""
                raise ClosedError(code, text, connection=True)
            case _ if self._answer is not None and not self._answer.done():
                self._answer.set_result(received)
            case _:
                unasked = f"the broker sent {received.name} without being asked"
                raise ClosedError(0, unasked, connection=True)

    async def _ask(self, request: Any, expected: type[F]) -> F:
        """Send something about the connection itself, and wait for what comes back."""
        self._send(request)
        self._answer = asyncio.get_running_loop().create_future()
        answer = await self._answer
        if not isinstance(answer, expected):
            other = f"the broker sent {answer.name} instead of {expected.name}"
            raise ClosedError(0, other, connection=True)
        return answer

    def _send(self, request: Any) -> None:
        self.write(frame.marshal(request, 0))

    def _wake_writers(self) -> None:
        """Let those go on who wait for room: there is some, or it is of no use to wait."""
        if self._paused and self.blocked is None and self.lost is None:
            self._writable.clear()
        else:
            self._writable.set()

    # -- the end, and signs of life

    def give_up(self, error: ClosedError) -> None:
        """Take it for lost: the other side does not answer."""
        self._lose(error)
        self.abort()

    def _break(self, error: ClosedError) -> None:
        self._lose(error)
        if self._transport is not None:
            self._transport.close()

    def _lose(self, error: ClosedError) -> None:
        if self.lost is not None:
            return
        self.lost = error
        self._wake_writers()
        if self._beats is not None:
            self._beats.cancel()
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)
        for channel in tuple(self._channels.values()):
            channel.lose(error)
        self._channels.clear()
        self.changed()

    async def _beat(self, seconds: int) -> None:
        """Give signs of life, and notice when the other side gives none."""
        loop = asyncio.get_running_loop()
        while self.lost is None:
            await asyncio.sleep(seconds / 2)
            if loop.time() - self.heard > 2 * seconds:
                reason = f"nothing was received from the broker for {2 * seconds} s"
                self.give_up(ClosedError(0, reason, connection=True))
            else:
                self._send(heartbeat.Heartbeat())

"""A channel: one question at a time; knows when it was closed."""

import asyncio
from typing import Any, Self, TypeVar

from pamqp import commands
from pamqp.base import Frame

from postroom.publishers.rabbitmq.amqp.connection import ANSWER_WITHIN, Connection
from postroom.publishers.rabbitmq.amqp.errors import ClosedError

F = TypeVar("F", bound=Frame)


class Channel:
    """For questions; see `ConfirmChannel` for one that publishes."""

    def __init__(self, connection: Connection) -> None:
        self.closed: ClosedError | None = None
        self.connection = connection
        self.number = connection.register(self)
        self._reply: asyncio.Future[Any] | None = None

    async def open(self) -> Self:
        """Open it, and get it ready. Raises ClosedError."""
        try:
            await self.ask(commands.Channel.Open(), commands.Channel.OpenOk)
            await self.prepare()
        except asyncio.CancelledError:
            self.close()
            raise
        return self

    async def prepare(self) -> None:
        """Get ready, once it is open."""

    async def ask(self, request: Frame, expected: type[F]) -> F:
        """Ask for one thing at a time, and wait for the answer.

        Raises ClosedError; BlockedError if the broker does not answer because it has blocked us.
        """
        if self.closed is not None:
            raise self.closed
        self.connection.send(request, self.number)
        self._reply = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(ANSWER_WITHIN):
                answer = await self._reply
        except TimeoutError:
            self.connection.check_blocked()
            silent = f"the broker did not answer {request.name} within {ANSWER_WITHIN:.0f} s"
            error = ClosedError(0, silent, connection=True)
            self.connection.give_up(error)
            raise error from None
        if not isinstance(answer, expected):
            other = f"the broker answered {request.name} with {answer.name}"
            raise ClosedError(0, other, connection=True)
        return answer

    def close(self) -> None:
        """Close it, if the broker has not; when that has heard of it, its number is free again."""
        if self.closed is None:
            self.connection.send(commands.Channel.Close(200, "done", 0, 0), self.number)
            self.lose(ClosedError(200, "the client closed the channel"))

    # -- what the connection calls

    def take(self, received: Any) -> None:
        """Take a frame."""
        match received:
            case commands.Channel.Close():
                self.connection.send(commands.Channel.CloseOk(), self.number)
                self.connection.forget(self.number)
                self.lose(ClosedError(received.reply_code or 0, received.reply_text or ""))
            case commands.Channel.CloseOk():
                self.connection.forget(self.number)
            case Frame() if self._reply is not None and not self._reply.done():
                self._reply.set_result(received)

    def confirm(self, tag: int, *, multiple: bool, ack: bool) -> None:
        """Take a confirmation, of which there is none for a question."""

    def lose(self, error: ClosedError) -> None:
        """Take note that nothing more will come."""
        self.closed = error
        if self._reply is not None and not self._reply.done():
            self._reply.set_exception(error)

    def block(self) -> None:
        """Take note that the broker has blocked publishers."""

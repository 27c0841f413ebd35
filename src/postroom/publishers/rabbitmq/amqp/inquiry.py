"""Declares exchanges and queues, and asks whether they exist."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple, Self, TypeVar

from pamqp import commands
from pamqp.base import Frame

from postroom.publishers.rabbitmq.amqp.channel import Channel
from postroom.publishers.rabbitmq.amqp.connection import Connection
from postroom.publishers.rabbitmq.amqp.errors import ClosedError, EncodeError, ReplyCode

F = TypeVar("F", bound=Frame)


class QueueState(NamedTuple):
    """How many messages a queue has that no consumer has yet, and how many consumers."""

    messages: int
    consumers: int


class Inquiry:
    """Asks a broker for things that it may refuse: a "no" closes the channel, so there is another.

    Every method raises ClosedError, and EncodeError for what AMQP cannot say.
    It is for one block: `async with Inquiry(connection) as inquiry`.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._channel: Channel | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._channel is not None and self.connection.lost is None:
            self._channel.close()

    async def declare_exchange(
        self, name: str, kind: str, *, durable: bool, arguments: Mapping[str, Any]
    ) -> None:
        """Declare an exchange."""
        method = partial(
            commands.Exchange.Declare,
            exchange=name,
            exchange_type=kind,
            durable=durable,
            arguments=dict(arguments),
        )
        await self._ask(method, commands.Exchange.DeclareOk)

    async def declare_queue(
        self, name: str, *, durable: bool, arguments: Mapping[str, Any]
    ) -> None:
        """Declare a queue."""
        method = partial(
            commands.Queue.Declare, queue=name, durable=durable, arguments=dict(arguments)
        )
        await self._ask(method, commands.Queue.DeclareOk)

    async def bind(
        self, queue: str, exchange: str, routing_key: str, arguments: Mapping[str, Any]
    ) -> None:
        """Bind a queue to an exchange."""
        method = partial(
            commands.Queue.Bind,
            queue=queue,
            exchange=exchange,
            routing_key=routing_key,
            arguments=dict(arguments),
        )
        await self._ask(method, commands.Queue.BindOk)

    async def exists(self, exchange: str) -> bool:
        """Tell whether an exchange is there, of whatever type."""
        if not exchange:  # the default exchange, which cannot be asked for
            return True
        passive = partial(commands.Exchange.Declare, exchange=exchange, passive=True)
        try:
            await self._ask(passive, commands.Exchange.DeclareOk)
        except ClosedError as error:
            if error.code != ReplyCode.NOT_FOUND:
                raise
            return False
        return True

    async def queue(self, name: str) -> QueueState | None:
        """Return how full a queue is; None if there is none."""
        passive = partial(commands.Queue.Declare, queue=name, passive=True)
        try:
            found = await self._ask(passive, commands.Queue.DeclareOk)
        except ClosedError as error:
            if error.code != ReplyCode.NOT_FOUND:
                raise
            return None
        return QueueState(found.message_count or 0, found.consumer_count or 0)

    async def _ask(self, method: Callable[[], Frame], answer: type[F]) -> F:
        if self._channel is None or self._channel.closed is not None:
            self._channel = await Channel(self.connection).open()
        try:
            return await self._channel.ask(method(), answer)
        except (ValueError, TypeError) as error:  # from pamqp
            raise EncodeError(str(error)) from error

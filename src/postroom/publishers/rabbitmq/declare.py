"""Puts a topology on a broker; finds out what is there."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Self

from pamqp import commands
from pamqp.base import Frame

from postroom.errors import ConfigurationError, Outage
from postroom.publishers.rabbitmq.address import Address
from postroom.publishers.rabbitmq.channel import Channel
from postroom.publishers.rabbitmq.closed import ClosedError
from postroom.publishers.rabbitmq.connection import Connection
from postroom.publishers.rabbitmq.topology import Topology
from postroom.publishers.rabbitmq.verdict import ACCESS_REFUSED, NOT_FOUND, PRECONDITION_FAILED

INVALID, NOT_IMPLEMENTED = 503, 540
"""How a broker closes the connection for what makes no sense, such as an exchange's type."""
Step = tuple[str, Callable[[], Frame], type[Frame]]
"""What is declared, in words; the method, and its answer."""


class Inquiry:
    """Asks a broker for things that it may refuse: a "no" closes the channel, so there is another.

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

    async def ask(self, what: str, method: Callable[[], Frame], answer: type[Frame]) -> None:
        """Ask for something. Raises ClosedError, or ConfigurationError for what AMQP cannot say."""
        if self._channel is None or self._channel.closed is not None:
            self._channel = await Channel(self.connection).open()
        try:
            await self._channel.ask(method(), answer)
        except (ValueError, TypeError) as error:
            raise ConfigurationError(f"{what} cannot be declared: {error}") from error

    async def exists(self, exchange: str) -> bool:
        """Tell whether an exchange is there, of whatever type."""
        if not exchange:  # the default exchange, which cannot be asked for
            return True
        passive = partial(commands.Exchange.Declare, exchange=exchange, passive=True)
        try:
            await self.ask(f"exchange `{exchange}`", passive, commands.Exchange.DeclareOk)
        except ClosedError as error:
            if error.code != NOT_FOUND:
                raise
            return False
        return True


async def declare(inquiry: Inquiry, topology: Topology) -> None:
    """Declare what is missing, and leave what is there alike.

    Raises ConfigurationError, which names everything that is there otherwise, and ClosedError.
    """
    clashes = []
    for name in topology.foreign():
        if not await inquiry.exists(name):
            clashes.append(f"exchange `{name}` is not there, and the topology does not declare it")
    for what, method, answer in _steps(topology):
        try:
            await inquiry.ask(what, method, answer)
        except ClosedError as error:
            if error.code in (INVALID, NOT_IMPLEMENTED):
                raise ConfigurationError(f"{what} cannot be declared: {error.reason}") from error
            if error.code not in (ACCESS_REFUSED, NOT_FOUND, PRECONDITION_FAILED):
                raise
            clashes.append(f"{what}: {error.reason}")
    if clashes:
        raise ConfigurationError(
            f"RabbitMQ at {inquiry.connection.address} and the topology do not agree. "
            + "; ".join(clashes)
            + ". Change the topology, or what is on the broker."
        )


def _steps(topology: Topology) -> Iterator[Step]:
    for exchange in topology.exchanges:
        yield (
            f"exchange `{exchange.name}`",
            partial(
                commands.Exchange.Declare,
                exchange=exchange.name,
                exchange_type=exchange.type,
                durable=exchange.durable,
                arguments=exchange.all_arguments(),
            ),
            commands.Exchange.DeclareOk,
        )
    for queue in topology.queues:
        yield (
            f"queue `{queue.name}`",
            partial(
                commands.Queue.Declare,
                queue=queue.name,
                durable=queue.durable,
                arguments=queue.all_arguments(),
            ),
            commands.Queue.DeclareOk,
        )
    for queue in topology.queues:
        for binding in queue.bindings:
            yield (
                f"binding of queue `{queue.name}` to `{binding.exchange}`",
                partial(
                    commands.Queue.Bind,
                    queue=queue.name,
                    exchange=binding.exchange,
                    routing_key=binding.routing_key,
                    arguments=dict(binding.arguments),
                ),
                commands.Queue.BindOk,
            )


async def apply(address: Address, topology: Topology) -> None:
    """Connect and declare a topology. Raises ConfigurationError and Outage."""
    connection = await Connection.open(address)
    try:
        async with Inquiry(connection) as inquiry:
            await declare(inquiry, topology)
    except ClosedError as error:
        raise Outage(f"RabbitMQ at {connection.address}: {error.reason}") from error
    finally:
        await connection.close()

"""Declares a topology on a broker."""

from collections.abc import Awaitable, Callable, Iterator
from functools import partial

from postroom.errors import ConfigurationError
from postroom.publishers.rabbitmq.amqp.cluster import Cluster
from postroom.publishers.rabbitmq.amqp.errors import ClosedError, EncodeError, ReplyCode
from postroom.publishers.rabbitmq.amqp.inquiry import Inquiry
from postroom.publishers.rabbitmq.outages import client_errors
from postroom.publishers.rabbitmq.topology import Topology

INVALID = (ReplyCode.COMMAND_INVALID, ReplyCode.NOT_IMPLEMENTED)
"""How a broker closes the connection for what makes no sense, such as an exchange's type."""
CLASHES = (ReplyCode.ACCESS_REFUSED, ReplyCode.NOT_FOUND, ReplyCode.PRECONDITION_FAILED)
Step = tuple[str, Callable[[], Awaitable[None]]]
"""What is declared, in words, and what declares it."""


async def declare(inquiry: Inquiry, topology: Topology) -> None:
    """Declare what is missing, and leave what is there alike.

    Raises ConfigurationError, which names everything that is there otherwise, and ClosedError.
    """
    clashes, remedy = [], "Change the topology, or what is on the broker."
    for name in topology.foreign():
        if not await inquiry.exists(name):
            clashes.append(f"exchange `{name}` is not there, and the topology does not declare it")
    for what, step in _steps(inquiry, topology):
        try:
            await step()
        except EncodeError as error:
            raise ConfigurationError(f"{what} cannot be declared: {error}") from error
        except ClosedError as error:
            if error.code in INVALID:
                raise ConfigurationError(f"{what} cannot be declared: {error.reason}") from error
            if error.code not in CLASHES:
                raise
            if error.code == ReplyCode.ACCESS_REFUSED:
                remedy = "Give the user the permission, with rabbitmqctl set_permissions."
            clashes.append(f"{what}: {error.reason}")
    if clashes:
        raise ConfigurationError(
            f"RabbitMQ at {inquiry.connection.address} and the topology do not agree. "
            + "; ".join(clashes)
            + f". {remedy}"
        )


def _steps(inquiry: Inquiry, topology: Topology) -> Iterator[Step]:
    for exchange in topology.exchanges:
        yield (
            f"exchange `{exchange.name}`",
            partial(
                inquiry.declare_exchange,
                exchange.name,
                exchange.type,
                durable=exchange.durable,
                arguments=exchange.all_arguments(),
            ),
        )
    for queue in topology.queues:
        arguments = queue.all_arguments()
        yield (
            f"queue `{queue.name}`",
            partial(inquiry.declare_queue, queue.name, durable=queue.durable, arguments=arguments),
        )
    for queue in topology.queues:
        for binding in queue.bindings:
            exchange_name, key = binding.exchange, binding.routing_key
            yield (
                f"binding of queue `{queue.name}` to `{exchange_name}`",
                partial(inquiry.bind, queue.name, exchange_name, key, binding.arguments),
            )


async def apply(cluster: Cluster, topology: Topology) -> None:
    """Connect and declare a topology. Raises ConfigurationError and OutageError."""
    with client_errors(cluster):
        connection = await cluster.connect()
        try:
            async with Inquiry(connection) as inquiry:
                await declare(inquiry, topology)
        finally:
            await connection.close()

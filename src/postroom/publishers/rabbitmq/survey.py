"""Reads a broker for `postroom doctor`: its hosts, exchanges and queues. It changes nothing."""

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final
from uuid import uuid4

from postroom.errors import ConfigurationError
from postroom.publishers.rabbitmq.amqp.confirms import ConfirmChannel
from postroom.publishers.rabbitmq.amqp.connection import ANSWER_WITHIN, Connection
from postroom.publishers.rabbitmq.amqp.errors import BlockedError, ClosedError
from postroom.publishers.rabbitmq.amqp.frames import short
from postroom.publishers.rabbitmq.amqp.inquiry import Inquiry, QueueState
from postroom.publishers.rabbitmq.amqp.outgoing import Outgoing
from postroom.publishers.rabbitmq.declare import declare
from postroom.publishers.rabbitmq.message import MESSAGE_ID
from postroom.publishers.rabbitmq.outages import client_errors
from postroom.publishers.rabbitmq.publisher import RabbitMQPublisher
from postroom.publishers.rabbitmq.routing import Target
from postroom.publishers.rabbitmq.topology import Topology

ONLY_AN_ID: Final = struct.Struct(">HHQH")
"""The header of a message without a body: class 60, weight 0, size 0, flags."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFacts:
    """What is on a broker, of what a publisher needs."""

    address: str
    server: str
    blocked: str | None
    """Why the broker takes no messages; None if it does."""
    refusals: tuple[str, ...]
    """Why other hosts of the broker cannot be used."""
    exchanges: dict[str, bool]
    """By name, whether they exist."""
    queues: dict[str, QueueState | None]
    """By name; None for one that does not exist. Those of the topology and of the routes."""
    clash: str | None
    """What a worker would object to: something is there, but not as the topology has it."""
    topology: Topology | None
    targets: dict[str, tuple[Target, ...]]
    """Where the records of each event type go, as far as the type alone decides that."""


async def survey(publisher: RabbitMQPublisher, event_types: Iterable[str]) -> BrokerFacts:
    """Look at the broker of a publisher. Raises OutageError and ConfigurationError."""
    cluster = publisher.cluster
    with client_errors(cluster):
        refusals = await cluster.refusals() if len(cluster.addresses) > 1 else []
        connection = await cluster.connect()
        try:
            return await _look(connection, publisher, event_types, refusals)
        finally:
            await connection.close()


async def _look(
    connection: Connection,
    publisher: RabbitMQPublisher,
    event_types: Iterable[str],
    refusals: Sequence[Exception],
) -> BrokerFacts:
    topology = publisher.topology
    targets = {each: tuple(publisher.routing.fixed(each)) for each in event_types}
    async with Inquiry(connection) as inquiry:
        exchanges = await _exchanges(inquiry, publisher)
        queues = await _queues(inquiry, topology, targets.values())
        is_complete = all(exchanges.values()) and None not in queues.values()
        clash = await _clash(inquiry, topology) if topology and is_complete else None
    return BrokerFacts(
        address=str(connection.address),
        server=connection.server,
        refusals=tuple(map(str, refusals)),
        exchanges=exchanges,
        queues=queues,
        clash=clash,
        blocked=await _blocked(connection),
        topology=topology,
        targets=targets,
    )


async def _exchanges(inquiry: Inquiry, publisher: RabbitMQPublisher) -> dict[str, bool]:
    declared = () if publisher.topology is None else publisher.topology.exchanges
    names = (publisher.exchange, *publisher.routing.exchanges(), *(each.name for each in declared))
    return {name: await inquiry.exists(name) for name in dict.fromkeys(names)}


async def _queues(
    inquiry: Inquiry, topology: Topology | None, targets: Iterable[tuple[Target, ...]]
) -> dict[str, QueueState | None]:
    declared = [] if topology is None else [each.name for each in topology.queues]
    places = [each.place for some in targets for each in some]
    by_name = [place.routing_key for place in places if not place.exchange]
    return {name: await inquiry.queue(name) for name in dict.fromkeys(declared + by_name)}


async def _clash(inquiry: Inquiry, topology: Topology) -> str | None:
    """Declare what is there already, which changes nothing; say what is there otherwise."""
    unbound = [replace(queue, bindings=()) for queue in topology.queues]
    try:
        await declare(inquiry, replace(topology, queues=unbound))
    except ConfigurationError as error:
        return str(error)
    return None


async def _blocked(connection: Connection) -> str | None:
    """Return why the broker takes no messages, which it says only when it is sent one.

    The message goes to a queue that does not exist, so that no consumer sees it.
    """
    name = f"postroom.doctor.{uuid4().hex}"
    header = ONLY_AN_ID.pack(60, 0, 0, MESSAGE_ID) + short(name, "its id")
    try:
        channel = await ConfirmChannel(connection).open()
        await channel.deliver([Outgoing(name, (header, b""), ("", name))], within=ANSWER_WITHIN)
    except (BlockedError, ClosedError, TimeoutError):  # closed: this user may not write there
        pass
    return connection.blocked

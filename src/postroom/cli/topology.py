"""Prints and declares a topology."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from rich.markup import escape
from rich.tree import Tree

from postroom.cli.errors import CommandError, Exit, missing_extra
from postroom.cli.loading import load
from postroom.errors import ConfigurationError, OutageError
from postroom.relay.relay import OutboxRelay

if TYPE_CHECKING:
    from postroom.publishers.rabbitmq import Topology
    from postroom.publishers.rabbitmq.amqp.cluster import Cluster


class Found(NamedTuple):
    """A topology, and the broker that it is for."""

    topology: "Topology"
    cluster: "Cluster"


async def topology_of(
    target: str | None, broker: str, exchange: str, *, queues: Sequence[str], broker_wins: bool
) -> Found:
    """Load a topology, or that of a relay; without either, make one of an exchange and queues.

    If `broker_wins`, the topology is for that broker, and not for the one of the relay.
    """
    try:
        from postroom.publishers.rabbitmq import (
            Binding,
            Exchange,
            Queue,
            RabbitMQPublisher,
            Topology,
        )
        from postroom.publishers.rabbitmq.outages import cluster_of
    except ModuleNotFoundError as error:
        raise missing_extra(error) or error from error
    try:
        cluster = cluster_of(broker)
    except ConfigurationError as error:
        raise CommandError(str(error)) from error
    if target is None:
        bound = [Queue(name, [Binding(exchange)]) for name in queues]
        return Found(Topology(exchanges=[Exchange(exchange)], queues=bound), cluster)
    if queues:
        raise CommandError(f"--queue adds to --exchange. The queues of {target} are in its code.")
    found: Topology | OutboxRelay = await load(target, Topology, OutboxRelay)
    if isinstance(found, Topology):
        return Found(found, cluster)
    publisher = found.publisher
    if not isinstance(publisher, RabbitMQPublisher) or publisher.topology is None:
        raise CommandError(f"the publisher of {target} has no topology. Give it one: topology=…")
    return Found(publisher.topology, cluster if broker_wins else publisher.cluster)


async def apply_topology(found: Found) -> None:
    """Declare it."""
    from postroom.publishers.rabbitmq.declare import apply

    try:
        await apply(found.cluster, found.topology)
    except (OutageError, ConfigurationError) as error:
        raise CommandError(str(error), Exit.BROKER) from error


def tree(found: Found, *, applied: bool) -> Tree:
    """Draw a topology."""
    state = "declared on" if applied else "for"
    root = Tree(f"Topology {state} RabbitMQ at {escape(str(found.cluster))}")
    for line in found.topology.describe():
        if line.startswith(" "):
            root.children[-1].add(escape(line.strip()))
        else:
            root.add(escape(line))
    return root

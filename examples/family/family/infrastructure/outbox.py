"""The outbox, and what carries it to RabbitMQ. Nothing else in the application knows of it."""

from datetime import timedelta

from postroom import Outbox, OutboxEventPublisher
from postroom.publishers.rabbitmq import Binding, Exchange, Queue, RabbitMQPublisher, Topology
from sqlalchemy.ext.asyncio import AsyncEngine

from family.infrastructure.tables import metadata

outbox = Outbox(metadata, table="outbox_events", max_retries=None)  # the schedule never ends


def event_publisher(engine: AsyncEngine, rabbitmq_url: str, prefix: str) -> OutboxEventPublisher:
    """Make the background service: it polls every 5 s, and a commit wakes it at once."""
    topology = topology_of(prefix)
    return OutboxEventPublisher(
        outbox,
        engine,
        RabbitMQPublisher(
            rabbitmq_url,
            exchange=topology.exchanges[0].name,
            topology=topology,
            unroutable="refuse",  # counted, and tried on the schedule, which never ends
            rejected="refuse",
        ),
        retention=timedelta(days=1),  # payloads hold tokens: keep them no longer than of use
    )


def topology_of(prefix: str) -> Topology:
    """Name the exchange, and a queue for each kind of event; the publisher declares them."""
    exchange = f"{prefix}.events"
    return Topology(
        exchanges=[Exchange(exchange)],
        queues=[
            Queue(f"{prefix}.invitations", [Binding(exchange, "#.FamilyMemberInvitedEvent")]),
            Queue(f"{prefix}.members", [Binding(exchange, "#.FamilyMemberJoinedEvent")]),
        ],
    )

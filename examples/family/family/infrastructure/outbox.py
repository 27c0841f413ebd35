"""The outbox, and what carries it to RabbitMQ. Nothing else in the application knows of it."""

from datetime import timedelta

from sqlalchemy.ext.asyncio import AsyncEngine

from family.infrastructure.tables import metadata
from postroom import Outbox, OutboxEventPublisher
from postroom.publishers.rabbitmq import Binding, Exchange, Queue, RabbitMQPublisher, Topology

EXCHANGE = "family-hub.events"

TOPOLOGY = Topology(
    exchanges=[Exchange(EXCHANGE)],
    queues=[
        Queue("family-hub.invitations", [Binding(EXCHANGE, "#.FamilyMemberInvitedEvent")]),
        Queue("family-hub.members", [Binding(EXCHANGE, "#.FamilyMemberJoinedEvent")]),
    ],
)

outbox = Outbox(metadata, table="outbox_events", max_retries=None)  # the schedule never ends


def event_publisher(engine: AsyncEngine, rabbitmq_url: str) -> OutboxEventPublisher:
    """Make the background service: every 5 s, and at once for a commit of this process."""
    return OutboxEventPublisher(
        outbox,
        engine,
        RabbitMQPublisher(
            rabbitmq_url,
            exchange=EXCHANGE,
            topology=TOPOLOGY,
            unroutable="refuse",  # counted, and tried on the schedule, which never ends
            rejected="refuse",
        ),
        retention=timedelta(days=1),  # payloads hold tokens: keep them no longer than of use
    )

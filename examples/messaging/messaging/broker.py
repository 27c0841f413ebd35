"""The exchange and its queues, on RabbitMQ, or in memory if there is no RabbitMQ."""

from typing import Final

from postroom import ConfigurationError, MemoryPublisher
from postroom.publishers.rabbitmq import (
    Binding,
    Exchange,
    Queue,
    RabbitMQPublisher,
    Route,
    Topology,
)

from messaging.settings import Settings

PROCESSING: Final = {
    "group_message_processing": "group_message.*",
    "scheduled_message_processing": "scheduled_message.*",
}
"""The queues that the consumer consumes, each with its routing key."""
AUDIT_QUEUE: Final = "messaging_audit"


def topology(
    exchange: str = "messaging", *, queue_prefix: str = "", audit: bool = True
) -> Topology:
    """Return what the worker declares on the broker.

    - `queue_prefix`: the beginning of the names of queues, but of that for dead letters
    - `audit`: whether there is a queue for all events
    """
    dead = f"{exchange}.dlx"
    processing = [
        Queue(f"{queue_prefix}{name}", [Binding(exchange, key)], dead_letter=dead)
        for name, key in PROCESSING.items()
    ]
    auditing = [Queue(f"{queue_prefix}{AUDIT_QUEUE}", [Binding(exchange, "#")])] if audit else []
    return Topology(
        exchanges=[Exchange(exchange), Exchange(dead)],
        queues=[*processing, *auditing, Queue(f"{exchange}.dlq", [Binding(dead, "#")])],
    )


def make_publisher(settings: Settings) -> RabbitMQPublisher:
    """Make the publisher of a worker. Raises ConfigurationError without RABBITMQ_URL."""
    if settings.rabbitmq_url is None:
        raise ConfigurationError("there is no broker to deliver to: set RABBITMQ_URL")
    exchange = settings.rabbitmq_exchange
    return RabbitMQPublisher(
        settings.rabbitmq_url,
        exchange=exchange,
        topology=topology(
            exchange,
            queue_prefix=settings.rabbitmq_queue_prefix,
            audit=settings.rabbitmq_audit_queue,
        ),
        # Events of messages have to reach their processing queue: each publish that no queue takes
        # is refused, which counts, and at OUTBOX_MAX_RETRIES the record fails. An event of another
        # kind is delivered also if no queue wants it, as may be the case without the audit queue.
        routes={key: Route(unroutable="refuse") for key in PROCESSING.values()},
        unroutable="accept",
        rejected="refuse",
    )


def in_memory(topology: Topology) -> MemoryPublisher:
    """Make a broker in this process, with the queues behind the first exchange of a topology."""
    publisher = MemoryPublisher(unroutable="accept")
    exchange = topology.exchanges[0].name
    for queue in topology.queues:
        keys = [binding.routing_key for binding in queue.bindings if binding.exchange == exchange]
        if keys:
            publisher.queue(queue.name, *keys)
    return publisher

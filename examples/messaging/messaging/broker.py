"""The way out: the exchange and its queues, on RabbitMQ, or in memory where there is none."""

from postroom import ConfigurationError, MemoryPublisher
from postroom.publishers.rabbitmq import Binding, Exchange, Queue, RabbitMQPublisher, Topology

from messaging.settings import Settings

AUDIT_QUEUE = "messaging_audit"


def topology(exchange: str = "messaging") -> Topology:
    """Say what has to be on the broker: whoever processes messages has a queue of its own."""
    dead = f"{exchange}.dlx"
    return Topology(
        exchanges=[Exchange(exchange), Exchange(dead)],
        queues=[
            Queue(
                "group_message_processing",
                [Binding(exchange, "group_message.*")],
                dead_letter=dead,
            ),
            Queue(
                "scheduled_message_processing",
                [Binding(exchange, "scheduled_message.*")],
                dead_letter=dead,
            ),
            Queue(AUDIT_QUEUE, [Binding(exchange, "#")]),
            Queue(f"{exchange}.dlq", [Binding(dead, "#")]),
        ],
    )


def make_publisher(settings: Settings) -> RabbitMQPublisher:
    """Make the publisher of a worker; one without a broker would deliver into nothing."""
    if settings.rabbitmq_url is None:
        raise ConfigurationError("there is no broker to deliver to: set RABBITMQ_URL")
    exchange = settings.rabbitmq_exchange
    return RabbitMQPublisher(
        settings.rabbitmq_url,
        exchange=exchange,
        topology=topology(exchange),
        unroutable="refuse",  # a refused publish counts; at OUTBOX_MAX_RETRIES the record fails
        rejected="refuse",
    )


def in_memory(topology: Topology) -> MemoryPublisher:
    """Make a broker in this process, with the queues behind the first exchange of a topology."""
    publisher = MemoryPublisher()
    exchange = topology.exchanges[0].name
    for queue in topology.queues:
        keys = [binding.routing_key for binding in queue.bindings if binding.exchange == exchange]
        if keys:
            publisher.queue(queue.name, *keys)
    return publisher

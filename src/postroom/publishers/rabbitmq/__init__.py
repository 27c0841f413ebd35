"""The publisher for RabbitMQ. Needs the extra `rabbitmq`."""

from postroom.publishers.rabbitmq.amqp.cluster import Credentials
from postroom.publishers.rabbitmq.publisher import RabbitMQPublisher
from postroom.publishers.rabbitmq.routing import Route
from postroom.publishers.rabbitmq.topology import Binding, Exchange, Queue, Topology

__all__ = [
    "Binding",
    "Credentials",
    "Exchange",
    "Queue",
    "RabbitMQPublisher",
    "Route",
    "Topology",
]

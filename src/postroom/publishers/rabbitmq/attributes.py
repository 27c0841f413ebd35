"""The destination of a record, for OpenTelemetry."""

from collections.abc import Sequence

from postroom.publishers.rabbitmq.amqp.address import Address
from postroom.publishers.rabbitmq.routing import Destination, Target


def messaging_attributes(
    targets: Sequence[Target], address: Address | None
) -> dict[str, str | int]:
    """Return the attributes of a span that sends a message to these targets."""
    attributes: dict[str, str | int] = {
        "messaging.system": "rabbitmq",
        "messaging.destination.name": ", ".join(destination_name(each.place) for each in targets),
    }
    if len(targets) == 1 and targets[0].place.routing_key:
        key = targets[0].place.routing_key
        attributes["messaging.rabbitmq.destination.routing_key"] = key
    if address is not None:
        attributes |= {"server.address": address.host, "server.port": address.port}
    return attributes


def destination_name(place: Destination) -> str:
    """Name a destination: `exchange:routing key`, or the one of them that is not empty."""
    return ":".join(filter(None, place)) or "amq.default"

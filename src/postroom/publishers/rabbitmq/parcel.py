"""A record's message to one destination, and the outcome that the broker's answer means."""

from uuid import UUID

from postroom.publishers.base import DELIVERED, Delivered, Outcome, Refused
from postroom.publishers.rabbitmq.amqp.frames import Message
from postroom.publishers.rabbitmq.amqp.outgoing import Answer, Outgoing
from postroom.publishers.rabbitmq.routing import Destination

NACKED = (
    "RabbitMQ did not take it: a queue is full (overflow=reject-publish), or could not store it"
)
Name = tuple[UUID, Destination]
"""Of a parcel: the id of its record, and where it goes."""


class Parcel(Outgoing):
    """The message of one record to one destination, and its outcome."""

    __slots__ = ("outcome",)
    id: UUID
    place: Destination

    def __init__(self, record_id: UUID, message: Message, place: Destination) -> None:
        super().__init__(record_id, message, place)
        self.outcome: Outcome | None = None

    @property
    def name(self) -> Name:
        """What tells it from all others."""
        return self.id, self.place

    def settle(self, answer: Answer, reason: str = "") -> None:
        """Set the outcome that the broker's answer means."""
        self.outcome = DELIVERED if answer is Answer.ACK else _outcome(self, answer, reason)
        super().settle(answer, reason)


def is_answer(outcome: Outcome | None) -> bool:
    """Tell whether an outcome is what the broker said, and not what we made of its silence."""
    return isinstance(outcome, Delivered | Refused)


def undeliverable(error: object) -> Refused:
    """Return the outcome of a record that AMQP cannot hold."""
    return Refused(f"it cannot be a message of AMQP: {error}", permanent=True)


def _outcome(parcel: Parcel, answer: Answer, reason: str) -> Refused:
    """Return the outcome of a message that was not taken, or came back before its ack."""
    if answer is Answer.UNFIT:
        return undeliverable(reason)
    if answer is Answer.NACK:
        return Refused(NACKED)
    exchange, routing_key = parcel.place
    where = f"exchange `{exchange}`" if exchange else "the default exchange"
    return Refused(
        f"no queue takes routing key `{routing_key}` at {where} ({reason}). Bind a queue to it"
    )

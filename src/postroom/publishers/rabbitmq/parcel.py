"""One message to one destination, and its outcome."""

from collections.abc import Iterable
from uuid import UUID

from postroom.publishers.base import DELIVERED, Delivered, Outcome, Postponed, Refused
from postroom.publishers.rabbitmq.amqp.frames import Message
from postroom.publishers.rabbitmq.amqp.outgoing import Answer, Outgoing
from postroom.publishers.rabbitmq.routing import Destination, Target

NACKED = "RabbitMQ rejected it: a queue is full (overflow=reject-publish), or could not store it"
ACCEPTED = Delivered()
"""The outcome of a message that no queue took, and that nobody has to want."""
Name = tuple[UUID, Destination]
"""Of a parcel: the id of its record, and where it goes."""


class Parcel(Outgoing):
    """The message of one record to one target, and its outcome."""

    __slots__ = ("outcome", "target", "waits_for")
    id: UUID
    place: Destination

    def __init__(self, record_id: UUID, message: Message, target: Target) -> None:
        super().__init__(record_id, message, target.place)
        self.target = target
        self.outcome: Outcome | None = None
        self.waits_for: str | Destination | None = None
        """The exchange that cannot be used, or the destination, if the outcome is Postponed."""

    @property
    def name(self) -> Name:
        """What tells it from all others."""
        return self.id, self.place

    def settle(self, answer: Answer, reason: str = "") -> None:
        """Set the outcome that the broker's answer means."""
        self.outcome = DELIVERED if answer is Answer.ACK else _outcome(self, answer, reason)
        super().settle(answer, reason)

    def reset(self) -> None:
        """Forget the answer, so that it is sent again."""
        self.outcome = self.answer = self.returned = self.waits_for = None


def all_delivered(parcels: Iterable[Parcel]) -> bool:
    """Tell whether each parcel has arrived, as nearly always."""
    return all(parcel.outcome is DELIVERED for parcel in parcels)


def is_answer(outcome: Outcome | None) -> bool:
    """Tell whether an outcome is what the broker said, and not what we made of its silence."""
    return isinstance(outcome, Delivered | Refused)


def undeliverable(error: object) -> Refused:
    """Return the outcome of a record that AMQP cannot hold."""
    return Refused(f"it cannot be a message of AMQP: {error}", permanent=True)


def _outcome(parcel: Parcel, answer: Answer, reason: str) -> Outcome:
    """Return the outcome of a message that was not taken, or came back before its ack."""
    if answer is Answer.UNFIT:
        return undeliverable(reason)
    parcel.waits_for = parcel.place
    if answer is Answer.NACK:
        return Refused(NACKED) if parcel.target.rejected == "refuse" else Postponed(NACKED)
    exchange, routing_key = parcel.place
    where = f"exchange `{exchange}`" if exchange else "the default exchange"
    why = f"no queue takes routing key `{routing_key}` at {where} ({reason}). Bind a queue to it"
    match parcel.target.unroutable:
        case "wait":
            return Postponed(why)
        case "refuse":
            return Refused(why)
        case "accept":
            return ACCEPTED

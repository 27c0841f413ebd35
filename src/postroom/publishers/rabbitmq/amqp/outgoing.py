"""Messages that were sent, and the answer to each."""

import asyncio
from collections.abc import Sequence
from enum import Enum, auto

from postroom.publishers.rabbitmq.amqp import frames


class Answer(Enum):
    """What has become of a message."""

    ACK = auto()
    """The broker has taken it."""
    NACK = auto()
    """The broker has not taken it."""
    RETURNED = auto()
    """The broker has sent it back, because no queue takes it."""
    UNFIT = auto()
    """It was not sent, because AMQP cannot hold it."""


class Outgoing:
    """A message to one destination, and the broker's answer.

    A subclass may override `settle`, to translate the answer.

    - `id`: as text it is the `message_id` of the message
    - `place`: exchange and routing key
    """

    __slots__ = ("answer", "batch", "id", "in_flight", "message", "place", "returned")

    def __init__(self, id: object, message: frames.Message, place: tuple[str, str]) -> None:  # noqa: A002
        self.id = id
        self.message = message
        self.place = place
        self.answer: Answer | None = None
        self.in_flight = False
        """Whether it was sent, and the broker may still answer."""
        self.returned: str | None = None
        """Why the broker sent it back, with the reply code; its ack follows."""
        self.batch: Batch | None = None

    def settle(self, answer: Answer, reason: str = "") -> None:
        """Set the answer, and count it for the `deliver` that waits for it."""
        self.answer = answer
        self.in_flight = False
        batch = self.batch
        if batch is not None:
            batch.missing -= 1
            if not batch.missing:
                batch.woken.set()

    def wake(self) -> None:
        """Wake the `deliver` that waits for it, answered or not."""
        if self.batch is not None:
            self.batch.woken.set()


class Batch:
    """The messages that one call of `deliver` waits for."""

    def __init__(self, messages: Sequence[Outgoing]) -> None:
        self.woken = asyncio.Event()
        self.missing = 0
        """How many of them have no answer."""
        for each in messages:
            if each.answer is None:
                each.batch = self
                self.missing += 1
        if not self.missing:
            self.woken.set()

    async def complete(self) -> bool:
        """Wait for the last answer, or to be woken before it; tell whether all are answered."""
        await self.woken.wait()
        self.woken.clear()
        return not self.missing

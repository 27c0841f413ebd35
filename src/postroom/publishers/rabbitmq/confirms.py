"""A channel that publishes: it knows what was sent, and how the broker answered each message."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, Final
from uuid import UUID

from pamqp import commands, header

from postroom.errors import Outage, UndeliverableError
from postroom.publishers.base import DELIVERED, Delivered, Outcome, Refused
from postroom.publishers.rabbitmq import frames
from postroom.publishers.rabbitmq.channel import Channel, blocked
from postroom.publishers.rabbitmq.closed import ClosedError
from postroom.publishers.rabbitmq.connection import Connection
from postroom.publishers.rabbitmq.routing import Destination

CHUNK: Final = 256 * 1024
"""Bytes to gather before they are written."""
NACKED: Final = (
    "RabbitMQ did not take it: a queue is full (overflow=reject-publish), or could not store it"
)


Name = tuple[UUID, Destination]
"""Of a parcel: the id of its record, and where it goes."""


class Parcel:
    """The message of one record to one destination, and its outcome."""

    __slots__ = ("batch", "in_flight", "message", "outcome", "place", "record_id", "returned")

    def __init__(self, record_id: UUID, message: frames.Message, place: Destination) -> None:
        self.record_id = record_id
        self.message = message
        self.place = place
        self.outcome: Outcome | None = None
        self.in_flight = False
        """Whether it was sent, and the broker may still answer."""
        self.returned: str | None = None
        self.batch: Batch | None = None

    @property
    def name(self) -> Name:
        """What tells it from all others."""
        return self.record_id, self.place

    def wake(self) -> None:
        """Wake the `deliver` that waits for it, answered or not."""
        if self.batch is not None:
            self.batch.woken.set()

    def answer(self, outcome: Outcome) -> None:
        """Set the outcome, and count it for the `deliver` that waits for it."""
        self.outcome = outcome
        self.in_flight = False
        batch = self.batch
        if batch is not None:
            batch.missing -= 1
            if not batch.missing:
                batch.woken.set()


class Batch:
    """The parcels that one call of `deliver` waits for."""

    def __init__(self, parcels: Sequence[Parcel]) -> None:
        self.woken = asyncio.Event()
        self.missing = 0
        """How many of them have no answer."""
        for parcel in parcels:
            if parcel.outcome is None:
                parcel.batch = self
                self.missing += 1
        if not self.missing:
            self.woken.set()

    async def complete(self) -> bool:
        """Wait for the last answer, or to be woken before it; tell whether all are answered."""
        await self.woken.wait()
        self.woken.clear()
        return not self.missing


class ConfirmChannel(Channel):
    """Publishes with confirms. A parcel in flight, on whichever channel, is never sent twice."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._tags: dict[int, Parcel] = {}
        self._last_tag = 0
        self._lowest = 1
        self._return: commands.Basic.Return | None = None

    async def prepare(self) -> None:
        """Have messages confirmed."""
        await self.ask(commands.Confirm.Select(), commands.Confirm.SelectOk)

    # -- sending

    async def deliver(self, parcels: Sequence[Parcel], *, within: float) -> None:
        """Send parcels, and wait until each is answered.

        Raises ClosedError, Outage if the broker blocks, TimeoutError if answers take too long.
        """
        batch = Batch(parcels)
        await self._send(parcels, within)
        async with asyncio.timeout(within):  # begins here: the broker is at work meanwhile
            while not await batch.complete():  # some went by a channel that has been closed since
                await self._send(parcels, within)

    async def _send(self, parcels: Iterable[Parcel], within: float) -> None:
        """Send those that are not in flight."""
        gathered: list[Parcel] = []
        data: list[bytes] = []
        size = 0
        for parcel in parcels:
            if parcel.in_flight or parcel.outcome is not None or not self._encode(parcel, data):
                continue
            gathered.append(parcel)
            size += len(parcel.message[0]) + len(parcel.message[1])
            if size >= CHUNK:
                self._write(gathered, data)
                gathered, data, size = [], [], 0
                async with asyncio.timeout(within):
                    await self.connection.drain()
        self._write(gathered, data)
        self._check()

    def _check(self) -> None:
        if self.closed is not None:
            raise self.closed
        if self.connection.blocked is not None:
            raise Outage(blocked(self.connection))

    def _encode(self, parcel: Parcel, data: list[bytes]) -> bool:
        """Add the frames of a parcel to `data`, or refuse it."""
        try:
            where = frames.publish(self.number, *parcel.place)
            what = frames.message(self.number, parcel.message, self.connection.frame_max)
        except (UndeliverableError, UnicodeError) as error:
            parcel.answer(undeliverable(error))
            return False
        data.append(where)
        data += what
        return True

    def _write(self, parcels: Sequence[Parcel], data: Sequence[bytes]) -> None:
        """Write whole messages: tags count them in the order in which the broker sees them."""
        if not parcels:
            return
        self._check()
        self.connection.write(b"".join(data))
        for parcel in parcels:
            self._last_tag += 1
            self._tags[self._last_tag] = parcel
            parcel.in_flight = True

    # -- what the connection calls

    def confirm(self, tag: int, *, multiple: bool, ack: bool) -> None:
        """Take an ack or a nack, of one message or of all up to it."""
        if not 0 < tag <= self._last_tag:
            never = f"the broker confirmed message {tag}, which was never sent"
            raise ClosedError(0, never, connection=True)
        for each in range(self._lowest, tag + 1) if multiple else (tag,):
            parcel = self._tags.pop(each, None)
            if parcel is not None:
                self.connection.answers += 1
                usual = ack and parcel.returned is None
                parcel.answer(DELIVERED if usual else _outcome(parcel, ack=ack))
        if multiple:
            self._lowest = max(self._lowest, tag + 1)

    def take(self, received: Any) -> None:
        """Take any other frame."""
        match received:
            case commands.Basic.Return():
                self._return = received
            case header.ContentHeader():
                self._returned(received.properties.message_id)
            case _:
                super().take(received)

    def lose(self, error: ClosedError) -> None:
        """Take note that nothing more will come: what is not answered has to be sent again."""
        super().lose(error)
        lost, self._tags = self._tags, {}
        for parcel in lost.values():
            parcel.in_flight, parcel.returned = False, None
            parcel.wake()

    def block(self) -> None:
        """Wake every `deliver` that waits: there will be no answer for a while."""
        for parcel in self._tags.values():
            parcel.wake()

    def _returned(self, message_id: str | None) -> None:
        """Note that a message came back; its ack follows."""
        back, self._return = self._return, None
        if back is None:
            return
        name = (message_id, (back.exchange, back.routing_key))
        sent = (each for each in self._tags.values() if (str(each.record_id), each.place) == name)
        parcel = next(sent, None)
        if parcel is None:  # whose ack is then not to be believed?
            never = f"the broker returned message {name}, which was never sent"
            raise ClosedError(0, never, connection=True)
        parcel.returned = f"{back.reply_code} {back.reply_text}"


def is_answer(outcome: Outcome | None) -> bool:
    """Tell whether an outcome is what the broker said, and not what we made of its silence."""
    return isinstance(outcome, Delivered | Refused)


def undeliverable(error: Exception) -> Refused:
    """Return the outcome of a record that AMQP cannot hold."""
    return Refused(f"it cannot be a message of AMQP: {error}", permanent=True)


def _outcome(parcel: Parcel, *, ack: bool) -> Refused:
    """Return the outcome of a message that was refused, or came back before its ack."""
    if not ack:
        return Refused(NACKED)
    exchange, routing_key = parcel.place
    where = f"exchange `{exchange}`" if exchange else "the default exchange"
    return Refused(
        f"no queue takes routing key `{routing_key}` at {where} ({parcel.returned})."
        " Bind a queue to it"
    )

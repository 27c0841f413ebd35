"""A channel that publishes: it knows what was sent, and what the broker said of each message."""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar

from pamqp import commands, header
from pamqp.base import Frame

from postroom.errors import Outage, UndeliverableError
from postroom.publishers.base import DELIVERED, Delivered, Outcome, Refused
from postroom.publishers.rabbitmq import frames
from postroom.publishers.rabbitmq.connection import ANSWER_WITHIN, ClosedError, Connection

F = TypeVar("F", bound=Frame)
CHUNK: Final = 256 * 1024
"""Bytes to gather before they are written."""
REMEMBERED: Final = 10_000
NACKED: Final = (
    "RabbitMQ did not take it: a queue is full (overflow=reject-publish), or could not store it"
)


class Parcel:
    """One message on its way to one place."""

    __slots__ = ("batch", "exchange", "message", "name", "outcome", "returned", "routing_key")

    def __init__(self, message: frames.Message, exchange: str, routing_key: str) -> None:
        self.message = message
        self.exchange = exchange
        self.routing_key = routing_key
        # What tells it from others that are on their way.
        self.name = (message.message_id, exchange, routing_key)
        self.outcome: Outcome | None = None
        self.returned: str | None = None
        self.batch: Batch | None = None

    @property
    def place(self) -> tuple[str, str]:
        """Where it goes."""
        return self.exchange, self.routing_key

    def answer(self, outcome: Outcome) -> None:
        """Note how it fared, and tell whoever waits for it."""
        self.outcome = outcome
        if self.batch is not None:
            self.batch.answered()


class Batch:
    """Parcels that somebody waits for together."""

    def __init__(self, parcels: Sequence[Parcel]) -> None:
        self.woken = asyncio.Event()
        self._missing = 0
        for parcel in parcels:
            if parcel.outcome is None:
                parcel.batch = self
                self._missing += 1
        if not self._missing:
            self.woken.set()

    async def complete(self) -> bool:
        """Wait for the last answer, or until somebody wakes it before; tell which it was."""
        await self.woken.wait()
        self.woken.clear()
        return not self._missing

    def answered(self) -> None:
        """Note an answer; the last one wakes."""
        self._missing -= 1
        if not self._missing:
            self.woken.set()


class ConfirmChannel:
    """Publishes with confirms. What the broker has not yet answered is never sent twice on it."""

    def __init__(self, connection: Connection) -> None:
        self.closed: ClosedError | None = None
        self.answered = 0
        """How many answers there have been."""
        self._connection = connection
        self._number = connection.register(self)
        self._tags: dict[int, Parcel] = {}
        self._last_tag = 0
        self._lowest = 1
        self._known: dict[tuple[str, str, str], Parcel] = {}  # on their way, or not asked for since
        self._reply: asyncio.Future[Any] | None = None
        self._return: commands.Basic.Return | None = None

    @classmethod
    async def open(cls, connection: Connection) -> "ConfirmChannel":
        """Open a channel whose messages are confirmed. Raises ClosedError."""
        channel = cls(connection)
        await channel.ask(commands.Channel.Open(), commands.Channel.OpenOk)
        await channel.ask(commands.Confirm.Select(), commands.Confirm.SelectOk)
        return channel

    async def ask(self, request: Frame, expected: type[F]) -> F:
        """Ask for one thing at a time, and wait for the answer. Raises ClosedError."""
        if self.closed is not None:
            raise self.closed
        self._reply = asyncio.get_running_loop().create_future()
        self._connection.send(request, self._number)
        try:
            async with asyncio.timeout(ANSWER_WITHIN):
                answer = await self._reply
        except TimeoutError:
            if self._connection.blocked is not None:
                raise Outage(blocked(self._connection)) from None
            silent = f"it did not answer {request.name} within {ANSWER_WITHIN:.0f} s"
            error = ClosedError(0, silent, connection=True)
            self._connection.give_up(error)
            raise error from None
        if not isinstance(answer, expected):
            raise ClosedError(0, f"it answered {request.name} by {answer.name}", connection=True)
        return answer

    async def close(self) -> None:
        """Close it, if the broker has not."""
        if self.closed is None:
            with suppress(ClosedError):
                await self.ask(commands.Channel.Close(200, "done", 0, 0), commands.Channel.CloseOk)
            self._connection.forget(self._number)

    # -- sending

    def known(self, parcel: Parcel) -> Parcel:
        """Give the parcel of that name that is on its way already, or this one.

        One that was answered when nobody waited for it any more has its answer.
        """
        name = parcel.name
        found = self._known.get(name, parcel)
        if isinstance(found.outcome, Delivered | Refused):
            del self._known[name]
        return found

    async def deliver(self, parcels: Sequence[Parcel], *, within: float) -> None:
        """Send parcels, and wait until each is answered.

        Raises ClosedError, Outage if the broker blocks, TimeoutError if answers take too long.
        """
        batch = Batch(parcels)
        try:
            async with asyncio.timeout(within):
                await self._send([each for each in parcels if each.name not in self._known])
                self._check()
                while not await batch.complete():
                    self._check()
        finally:
            for parcel in parcels:
                parcel.batch = None
                if parcel.outcome is not None:
                    self._known.pop(parcel.name, None)
            self._prune()

    def _check(self) -> None:
        if self.closed is not None:
            raise self.closed
        if self._connection.blocked is not None:
            raise Outage(blocked(self._connection))

    async def _send(self, parcels: Iterable[Parcel]) -> None:
        gathered: list[Parcel] = []
        data: list[bytes] = []
        size = 0
        for parcel in parcels:
            if (encoded := self._encode(parcel)) is None:
                continue
            gathered.append(parcel)
            data.append(encoded)
            size += len(encoded)
            if size >= CHUNK:
                self._write(gathered, data)
                gathered, data, size = [], [], 0
                await self._connection.drain()
        self._write(gathered, data)

    def _encode(self, parcel: Parcel) -> bytes | None:
        try:
            where = frames.publish(self._number, parcel.exchange, parcel.routing_key)
            what = frames.message(self._number, parcel.message, self._connection.frame_max)
        except (UndeliverableError, UnicodeError, RecursionError) as error:
            parcel.answer(Refused(f"it cannot be a message of AMQP: {error}", permanent=True))
            return None
        return b"".join((where, *what))

    def _write(self, parcels: Sequence[Parcel], data: Sequence[bytes]) -> None:
        """Write whole messages: tags count them in the order in which the broker sees them."""
        self._check()
        for parcel in parcels:
            self._last_tag += 1
            parcel.returned = None
            self._tags[self._last_tag] = self._known[parcel.name] = parcel
        self._connection.write(b"".join(data))

    def _prune(self) -> None:
        """Forget answers that nobody has asked for, when there are many."""
        if len(self._known) > len(self._tags) + REMEMBERED:
            self._known = {name: each for name, each in self._known.items() if not each.outcome}

    # -- what the connection calls

    def confirm(self, tag: int, *, multiple: bool, ack: bool) -> None:
        """Take an ack or a nack, of one message or of all up to it."""
        if not 0 < tag <= self._last_tag:
            never = f"it confirmed message {tag}, which was never sent"
            raise ClosedError(0, never, connection=True)
        for each in range(self._lowest, tag + 1) if multiple else (tag,):
            parcel = self._tags.pop(each, None)
            if parcel is not None:
                self.answered += 1
                parcel.answer(_outcome(parcel, ack=ack))
        if multiple:
            self._lowest = max(self._lowest, tag + 1)

    def take(self, received: Any) -> None:
        """Take any other frame."""
        match received:
            case commands.Basic.Return():
                self._return = received
            case header.ContentHeader():
                self._returned(received.properties.message_id)
            case commands.Channel.Close():
                self._connection.send(commands.Channel.CloseOk(), self._number)
                self._connection.forget(self._number)
                self.lose(ClosedError(received.reply_code or 0, received.reply_text or ""))
            case Frame() if self._reply is not None and not self._reply.done():
                self._reply.set_result(received)

    def lose(self, error: ClosedError) -> None:
        """Take note that nothing more will come."""
        self.closed = error
        arrived = {name: each for name, each in self._known.items() if each.outcome is DELIVERED}
        self._known = arrived  # the others are to be sent again
        if self._reply is not None and not self._reply.done():
            self._reply.set_exception(error)
        self.block()

    def block(self) -> None:
        """Wake whoever waits: there will be no answer for a while, or none at all."""
        for parcel in self._tags.values():
            if parcel.batch is not None:
                parcel.batch.woken.set()

    def _returned(self, message_id: str | None) -> None:
        """Note that a message came back; its ack follows."""
        back, self._return = self._return, None
        if back is None:
            return
        name = (message_id or "", back.exchange or "", back.routing_key or "")
        if name not in self._known:  # whose ack is then not to be believed?
            raise ClosedError(
                0, f"it returned message {name}, which was never sent", connection=True
            )
        self._known[name].returned = f"{back.reply_code} {back.reply_text}"


def blocked(connection: Connection) -> str:
    """Say that a broker takes nothing."""
    return f"RabbitMQ at {connection.address} takes nothing at the moment: {connection.blocked}"


def _outcome(parcel: Parcel, *, ack: bool) -> Outcome:
    if not ack:
        return Refused(NACKED)
    if parcel.returned is None:
        return DELIVERED
    where = f"exchange `{parcel.exchange}`" if parcel.exchange else "the default exchange"
    return Refused(
        f"no queue takes routing key `{parcel.routing_key}` at {where} ({parcel.returned})."
        " Bind a queue to it"
    )

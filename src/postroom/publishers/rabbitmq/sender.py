"""Sends messages over one connection, and finds the one for which a channel was closed."""

import asyncio
import logging
from collections.abc import Sequence

from postroom.errors import ConnectionLostError, OutageError
from postroom.publishers.base import Outcome, Postponed, Refused
from postroom.publishers.rabbitmq.amqp.confirms import ConfirmChannel
from postroom.publishers.rabbitmq.amqp.connection import Connection
from postroom.publishers.rabbitmq.amqp.errors import ClosedError, ReplyCode
from postroom.publishers.rabbitmq.amqp.inquiry import Inquiry
from postroom.publishers.rabbitmq.outages import client_errors
from postroom.publishers.rabbitmq.parcel import Parcel, all_delivered
from postroom.publishers.rabbitmq.restore import Restorer
from postroom.publishers.rabbitmq.routing import Destination
from postroom.publishers.rabbitmq.topology import Topology
from postroom.publishers.rabbitmq.verdict import (
    is_about_one_key,
    named_by,
    size_limit,
    unanswered,
)

logger = logging.getLogger("postroom.publishers")

ABOUT_A_DESTINATION = (ReplyCode.NOT_FOUND, ReplyCode.ACCESS_REFUSED)
Doubtful = set[str | Destination]
"""Exchanges, and destinations, for which RabbitMQ has closed a channel."""


class Sender:
    """Sends over one connection, by two channels: a shared one, and one for doubtful messages.

    - `exchange`: the publisher's own; if it is gone, no message can be sent
    - `confirm_within`: seconds that the broker may take to confirm a message
    - `doubtful`: the publisher's; it outlives the connection
    - `topology`: is declared again when a part of it is found to be gone
    """

    def __init__(
        self,
        connection: Connection,
        *,
        exchange: str,
        confirm_within: float,
        doubtful: Doubtful,
        topology: Topology,
    ) -> None:
        self.connection = connection
        self._exchange = exchange
        self._confirm_within = confirm_within
        self._doubtful = doubtful
        self._channel: ConfirmChannel | None = None
        self._opening = asyncio.Lock()
        self._apart: ConfirmChannel | None = None
        self._alone = asyncio.Lock()
        self._restorer = Restorer(connection, topology)
        self._max_size: int | None = None
        """The broker's max_message_size, once a message was too large for it."""

    async def open_channel(self) -> ConfirmChannel:
        """Return the shared channel; open another one if that is not usable."""
        if self._channel is not None and self._channel.usable:
            return self._channel
        async with self._opening:
            self._channel = await self._usable(self._channel)
            return self._channel

    async def _usable(self, channel: ConfirmChannel | None) -> ConfirmChannel:
        """Return a channel if it is usable, else one in its place."""
        if channel is not None and channel.usable:
            return channel
        opened = await ConfirmChannel(self.connection).open()
        if channel is not None:
            channel.retire()
        return opened

    async def deliver(self, parcels: Sequence[Parcel]) -> None:
        """Send the unanswered parcels, and wait for the answers.

        What the topology should have taken is sent again, once the topology is declared again.
        Raises OutageError if nothing can be sent, or the answers stay out.
        """
        await self._deliver(parcels)
        if all_delivered(parcels):
            return
        with client_errors(self.connection.address):
            again = await self._restorer.restore(parcels)
        for parcel in again:
            parcel.reset()
        await self._deliver(again)
        if again and all_delivered(again):
            text = "postroom: a part of the topology was gone, and is declared again (%s, %s)"
            logger.warning(text, *again[0].place)

    async def _deliver(self, parcels: Sequence[Parcel]) -> None:
        """Send the unanswered parcels, and wait for the answers; doubtful ones go apart."""
        self._refuse_too_large(parcels)
        given, parcels = parcels, unanswered(parcels)
        late = len(parcels) < len(given) and any(isinstance(p.outcome, Postponed) for p in given)
        if not parcels and not late:
            return
        sure, doubtful = self._divide(parcels)
        with client_errors(self.connection.address):
            self._check_connection()
            if late:  # answers are missing: does the broker respond at all?
                async with Inquiry(self.connection) as inquiry:
                    await inquiry.exists(self._exchange)
            await self._send_shared(sure)
            await self._send_apart(doubtful)
        for parcel in doubtful:
            if parcel.answer is not None:
                self._doubtful -= {parcel.place.exchange, parcel.place}

    def _check_connection(self) -> None:
        if self.connection.lost is not None:
            raise self.connection.lost
        self.connection.check_blocked()

    async def _send_shared(self, parcels: Sequence[Parcel]) -> None:
        """Send by the shared channel; the broker may close it for another call's message."""
        if not parcels:
            return
        closed = await self._send(await self.open_channel(), parcels)
        if closed is not None:
            self._blame_named(unanswered(parcels), closed)
            await self._send_apart(unanswered(parcels))

    async def _send_apart(self, parcels: Sequence[Parcel]) -> None:
        """Send by a channel of their own. If that is closed too, find out for whom, by halves."""
        if not parcels:
            return
        async with self._alone:
            self._apart = await self._usable(self._apart)
            closed = await self._send(self._apart, parcels)
        if closed is None:
            return
        found = self._blame_named(unanswered(parcels), closed)
        left = unanswered(parcels)
        if found:
            await self._send_apart(left)
        elif len(left) == 1:
            left[0].outcome = self._blame(left[0], closed)
        else:
            await self._send_apart(left[: len(left) // 2])
            await self._send_apart(left[len(left) // 2 :])

    async def _send(self, channel: ConfirmChannel, parcels: Sequence[Parcel]) -> ClosedError | None:
        """Send by a channel and wait for the answers; return why the broker closed it, or None."""
        before = self.connection.answers
        try:
            await channel.deliver(parcels, within=self._confirm_within)
        except TimeoutError:
            self._too_late(unanswered(parcels), others_came=self.connection.answers != before)
        except ClosedError as error:
            if error.connection:
                raise
            return error
        return None

    def _too_late(self, parcels: Sequence[Parcel], *, others_came: bool) -> None:
        """Postpone the unconfirmed parcels. Raises OutageError if none at all was confirmed."""
        patience = f"{self._confirm_within:.0f} s"
        if not others_came:
            address = self.connection.address
            raise OutageError(f"RabbitMQ at {address} has not confirmed any message for {patience}")
        for parcel in parcels:
            parcel.waits_for = parcel.place
            parcel.outcome = Postponed(f"RabbitMQ has not confirmed it within {patience}")

    # -- finding the message for which a channel was closed

    def _divide(self, parcels: Sequence[Parcel]) -> tuple[Sequence[Parcel], Sequence[Parcel]]:
        """Return the others, and those for whose destination the broker has closed a channel."""
        if not self._doubtful:
            return parcels, ()
        sure: list[Parcel] = []
        doubtful: list[Parcel] = []
        for parcel in parcels:
            doubts = self._doubtful & {parcel.place.exchange, parcel.place}
            (doubtful if doubts else sure).append(parcel)
        return sure, doubtful

    def _blame_named(self, parcels: Sequence[Parcel], error: ClosedError) -> bool:
        """Answer the parcels that the broker names in its error; tell whether there are any."""
        limit = size_limit(error)
        if limit is not None:
            self._max_size = limit
            return self._refuse_too_large(parcels)
        named = named_by(error, parcels)
        for parcel in named:
            parcel.outcome = self._blame(parcel, error)
        return bool(named)

    def _blame(self, parcel: Parcel, error: ClosedError) -> Outcome:
        """Return the outcome of a message for which the broker closed a channel."""
        reason = f"RabbitMQ refused it: {error.reason}"
        address = self.connection.address
        if error.code == ReplyCode.PRECONDITION_FAILED:
            return Refused(reason, permanent=True)
        if error.code not in ABOUT_A_DESTINATION:  # it may be about anything
            raise ConnectionLostError(f"RabbitMQ at {address} closed a channel: {error.reason}")
        if is_about_one_key(error):
            parcel.waits_for = parcel.place
        elif parcel.place.exchange == self._exchange:
            raise OutageError(f"RabbitMQ at {address}: {error.reason}")
        else:
            parcel.waits_for = parcel.place.exchange
        self._doubtful.add(parcel.waits_for)
        return Postponed(reason)

    def _refuse_too_large(self, parcels: Sequence[Parcel]) -> bool:
        """Refuse the parcels above max_message_size, if it is known; tell whether there are any."""
        limit = self._max_size
        if limit is None:
            return False
        large = [each for each in unanswered(parcels) if len(each.message[1]) > limit]
        for parcel in large:
            reason = f"its payload takes {len(parcel.message[1])} bytes, and RabbitMQ takes"
            parcel.outcome = Refused(f"{reason} {limit} at most (max_message_size)", permanent=True)
        return bool(large)

"""The publisher for RabbitMQ: persistent messages, each confirmed by the broker."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Final
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncEngine

from postroom.errors import ConnectionLostError, Outage
from postroom.outbox import Outbox
from postroom.publishers.base import DELIVERED, OutageWatcher, Outcome, Postponed, Refused
from postroom.publishers.rabbitmq.address import Address
from postroom.publishers.rabbitmq.channel import blocked
from postroom.publishers.rabbitmq.closed import FORCED, ClosedError
from postroom.publishers.rabbitmq.confirms import ConfirmChannel, Known, Parcel, is_answer
from postroom.publishers.rabbitmq.connection import Connection
from postroom.publishers.rabbitmq.declare import Inquiry, declare
from postroom.publishers.rabbitmq.frames import Message
from postroom.publishers.rabbitmq.message import cloud_event, plain_message
from postroom.publishers.rabbitmq.routing import Destination, Routes, Routing
from postroom.publishers.rabbitmq.topology import Topology
from postroom.publishers.rabbitmq.verdict import (
    ACCESS_REFUSED,
    NOT_FOUND,
    PRECONDITION_FAILED,
    is_about_one_key,
    named_by,
    size_limit,
    unanswered,
    verdict,
)
from postroom.record import ClaimedRecord

logger = logging.getLogger(__name__)

REMEMBERED: Final = 10_000


class RabbitMQPublisher:
    """Delivers records to exchanges of RabbitMQ, and waits for the broker to confirm each.

    - `url`: `amqp://user:password@host:5672/vhost`, or `amqps://` for TLS
    - `exchange`: where records go; the routing key is their event type
    - `routes`: other places, by event type or pattern; several for one type if need be
    - `topology`: what to declare on connecting. Without one the exchange has to be there
    - `cloud_events`: the source to name, for messages that are CloudEvents 1.0 (binary mode) too
    - `confirm_within`: how long the broker may take to confirm a message
    """

    max_batch: Final = 125
    max_in_flight: Final = 2000

    def __init__(
        self,
        url: str,
        *,
        exchange: str,
        routes: Routes | None = None,
        topology: Topology | None = None,
        cloud_events: str | None = None,
        confirm_within: timedelta = timedelta(seconds=30),
    ) -> None:
        self.address = Address.parse(url)
        self.exchange = exchange
        self.topology = topology
        self._routing = Routing(exchange, routes or {})
        self._message = _maker(cloud_events)
        self._confirm_within = confirm_within.total_seconds()
        self._watcher: OutageWatcher = lambda _: None
        self._connection: Connection | None = None
        self._channel: ConfirmChannel | None = None
        self._apart: ConfirmChannel | None = None
        self._unused = False
        """Whether nothing has been sent since it was found to be all right."""
        self._known: Known = {}
        self._max_size: int | None = None
        self._arrived: dict[UUID, set[Destination]] = {}
        self._doubtful: set[str | Destination] = set()

    def __str__(self) -> str:
        return f"RabbitMQ at {self.address}, exchange {self.exchange or '(default)'}"

    async def open(self, outbox: Outbox, engine: AsyncEngine) -> None:
        """Connect, unless it is; declare the topology, or see that the exchange is there."""
        if self._connection is None or self._connection.lost is not None:
            await self.close()
            self._opening, self._alone = asyncio.Lock(), asyncio.Lock()  # of this very loop
            self._connection = await Connection.open(self.address)
            self._connection.changed = partial(self._report, self._connection)
            self._max_size = None
        connection = self._connection
        if connection.blocked is not None:
            raise Outage(blocked(connection))
        if self._unused:
            return
        try:
            async with Inquiry(connection) as inquiry:
                await self._prepare(inquiry)
            await self._open_channel(connection)
        except ClosedError as error:
            raise self._trouble(error) from error
        self._unused = True

    async def close(self) -> None:
        """Disconnect."""
        connection, self._connection = self._connection, None
        self._channel, self._apart, self._unused = None, None, False
        if connection is not None:
            await connection.close()

    async def publish(self, records: Sequence[ClaimedRecord]) -> Sequence[Outcome | Outage]:
        """Send the records and wait for what the broker says of each."""
        self._unused = False
        parcels = [self._parcels(record) for record in records]
        trouble: Outage | None = None
        try:
            await self._deliver([each for some in parcels for each in some])
        except Outage as outage:
            trouble = outage
        answers = [
            self._verdict(record, some, trouble)
            for record, some in zip(records, parcels, strict=True)
        ]
        if trouble is not None and all(answer is trouble for answer in answers):
            raise trouble
        return answers

    def watch(self, changed: OutageWatcher) -> None:
        """Call `changed` when the connection is lost, and when RabbitMQ blocks or unblocks it."""
        self._watcher = changed

    # -- connecting

    async def _prepare(self, inquiry: Inquiry) -> None:
        if self.topology is not None:
            await declare(inquiry, self.topology)
        if not await inquiry.exists(self.exchange):
            raise Outage(_missing(self.exchange, self.address))
        for exchange in self._routing.exchanges():
            if not await inquiry.exists(exchange):
                self._doubtful.add(exchange)
                missing = _missing(exchange, self.address)
                logger.warning("postroom: what goes there has to wait: %s", missing)

    async def _open_channel(self, connection: Connection) -> ConfirmChannel:
        """Give the channel that records go out by; the broker may have closed the last one."""
        async with self._opening:
            if self._channel is None or self._channel.closed is not None:
                self._channel = await ConfirmChannel(connection, self._known).open()
            return self._channel

    def _connected(self) -> Connection:
        if self._connection is None:
            raise Outage(f"not connected to RabbitMQ at {self.address}")
        if self._connection.lost is not None:
            raise self._trouble(self._connection.lost)
        if self._connection.blocked is not None:
            raise Outage(blocked(self._connection))
        return self._connection

    def _report(self, connection: Connection) -> None:
        """Tell the watcher what has become of a connection, unless `close` let go of it."""
        if connection is not self._connection:
            return
        if connection.lost is not None:
            self._watcher(Outage(self._loss(connection.lost)))
        elif connection.blocked is not None:
            self._watcher(Outage(blocked(connection)))
        else:
            self._watcher(None)

    def _loss(self, error: ClosedError) -> str:
        return f"the connection to RabbitMQ at {self.address} was lost: {error.reason}"

    def _trouble(self, error: ClosedError) -> Outage:
        """Say what a lost connection means: a record may be the cause, unless the broker knows."""
        reason = self._loss(error)
        return Outage(reason) if error.code == FORCED else ConnectionLostError(reason)

    # -- sending

    def _parcels(self, record: ClaimedRecord) -> list[Parcel]:
        """Make what is to be sent for a record; what is on its way already is not made again."""
        try:
            message = self._message(record)
            places = self._routing.destinations(record)
        except Exception as error:  # of a function that tells the routing key, say
            logger.exception("postroom: no message can be made of record %s", record.id)
            refused = Parcel(Message.empty(str(record.id)), "", "")
            refused.outcome = Refused(f"no message can be made of it: {error!r}")
            return [refused]
        arrived = self._arrived.get(record.id, ())
        parcels = [Parcel(message, *place) for place in places if place not in arrived]
        parcels = [self._underway(parcel) for parcel in parcels]
        self._refuse_too_large(parcels)
        return parcels

    def _underway(self, parcel: Parcel) -> Parcel:
        """Give the one of that name that is on its way already, or was answered since; or this."""
        found = self._known.get(parcel.name, parcel)
        if is_answer(found.outcome):
            del self._known[parcel.name]
        return found

    async def _deliver(self, parcels: Sequence[Parcel]) -> None:
        """Send parcels; those that may close a channel, by one that is not for the others."""
        late = any(isinstance(parcel.outcome, Postponed) for parcel in parcels)
        parcels = unanswered(parcels)
        if not parcels and not late:
            return
        connection = self._connected()
        doubtful = [parcel for parcel in parcels if self._doubts(parcel)]
        try:
            if late:  # the answers that do not come: is anybody there?
                async with Inquiry(connection) as inquiry:
                    await inquiry.exists(self.exchange)
            await self._send_shared(connection, [each for each in parcels if each not in doubtful])
            await self._send_apart(connection, doubtful)
        except ClosedError as error:
            raise self._trouble(error) from error
        for parcel in doubtful:
            if is_answer(parcel.outcome):
                self._doubtful -= {parcel.exchange, Destination(*parcel.place)}

    async def _send_shared(self, connection: Connection, parcels: Sequence[Parcel]) -> None:
        """Send by the channel of all; the broker may close it for another call's message."""
        if not parcels:
            return
        channel = await self._open_channel(connection)
        closed = await self._send(channel, parcels)
        if closed is not None:
            self._blame_named(unanswered(parcels), closed)
            await self._send_apart(connection, unanswered(parcels))

    async def _send_apart(self, connection: Connection, parcels: Sequence[Parcel]) -> None:
        """Send by a channel of their own. If that is closed too, find out for whom, by halves."""
        if not parcels:
            return
        async with self._alone:
            if self._apart is None or self._apart.closed is not None:
                self._apart = await ConfirmChannel(connection, self._known).open()
            closed = await self._send(self._apart, parcels)
        if closed is None:
            return
        found = self._blame_named(unanswered(parcels), closed)
        left = unanswered(parcels)
        if found:
            await self._send_apart(connection, left)
        elif len(left) == 1:
            left[0].answer(self._blame(left[0], closed))
        else:
            await self._send_apart(connection, left[: len(left) // 2])
            await self._send_apart(connection, left[len(left) // 2 :])

    async def _send(self, channel: ConfirmChannel, parcels: Sequence[Parcel]) -> ClosedError | None:
        """Send by a channel, and wait for the answers; give why the broker closed it, if it did."""
        before = self._answers()
        try:
            await channel.deliver(parcels, within=self._confirm_within)
        except TimeoutError:
            self._too_late(unanswered(parcels), others_came=self._answers() != before)
        except ClosedError as error:
            if error.connection:
                raise
            return error
        return None

    def _blame_named(self, parcels: Sequence[Parcel], error: ClosedError) -> bool:
        """Answer those whom the broker names; tell whether there are any."""
        limit = size_limit(error)
        if limit is not None:
            self._max_size = limit
            return self._refuse_too_large(parcels)
        named = named_by(error, parcels)
        for parcel in named:
            parcel.answer(self._blame(parcel, error))
        return bool(named)

    def _blame(self, parcel: Parcel, error: ClosedError) -> Outcome:
        """Say what becomes of a message that the broker closes a channel for."""
        reason = f"RabbitMQ refused it: {error.reason}"
        if error.code == PRECONDITION_FAILED:
            return Refused(reason, permanent=True)
        if error.code not in (NOT_FOUND, ACCESS_REFUSED):  # it may be about anything
            raise ConnectionLostError(
                f"RabbitMQ at {self.address} closed a channel: {error.reason}"
            )
        if is_about_one_key(error):
            self._doubtful.add(Destination(*parcel.place))
        elif parcel.exchange == self.exchange:
            raise Outage(f"RabbitMQ at {self.address}: {error.reason}")
        else:
            self._doubtful.add(parcel.exchange)
        return Postponed(reason)

    def _doubts(self, parcel: Parcel) -> bool:
        """Tell whether the last message to that place closed a channel."""
        doubtful = self._doubtful
        return bool(doubtful) and (parcel.exchange in doubtful or parcel.place in doubtful)

    def _answers(self) -> int:
        """Count the answers that have come, by either channel."""
        return sum(each.answered for each in (self._channel, self._apart) if each is not None)

    def _too_late(self, parcels: Sequence[Parcel], *, others_came: bool) -> None:
        """Have those wait whose answers do not come while those of others do."""
        patience = f"{self._confirm_within:.0f} s"
        if not others_came:
            raise Outage(f"RabbitMQ at {self.address} has not confirmed any message for {patience}")
        for parcel in parcels:
            parcel.outcome = Postponed(f"RabbitMQ has not confirmed it within {patience}")

    def _refuse_too_large(self, parcels: Sequence[Parcel]) -> bool:
        """Refuse what is above the limit that the broker has told, if it has; tell if any is."""
        limit = self._max_size
        if limit is None:
            return False
        large = [each for each in unanswered(parcels) if len(each.message.body) > limit]
        for parcel in large:
            reason = f"its payload takes {len(parcel.message.body)} bytes, and RabbitMQ takes"
            parcel.answer(Refused(f"{reason} {limit} at most (max_message_size)", permanent=True))
        return bool(large)

    # -- what came of it

    def _verdict(
        self, record: ClaimedRecord, parcels: Sequence[Parcel], trouble: Outage | None
    ) -> Outcome | Outage:
        """Give the answer to a record: it is delivered when it has arrived everywhere."""
        if all(parcel.outcome is DELIVERED for parcel in parcels):
            self._arrived.pop(record.id, None)
            return DELIVERED
        if len(parcels) > 1 or record.id in self._arrived:
            self._note_arrivals(record, parcels)
        if unanswered(parcels) and trouble is not None:
            return trouble
        return verdict(parcels)

    def _note_arrivals(self, record: ClaimedRecord, parcels: Sequence[Parcel]) -> None:
        """Remember where a record has arrived, so that it is not sent there again."""
        here = {Destination(*p.place) for p in parcels if p.outcome is DELIVERED}
        self._arrived[record.id] = self._arrived.pop(record.id, set()) | here
        if len(self._arrived) > REMEMBERED:
            del self._arrived[next(iter(self._arrived))]


def _maker(source: str | None) -> Callable[[ClaimedRecord], Message]:
    return plain_message if source is None else partial(cloud_event, source=source)


def _missing(exchange: str, address: Address) -> str:
    return (
        f"exchange `{exchange}` does not exist on RabbitMQ at {address}. Declare it in the topology"
        " (`postroom topology --apply`), or create it there."
    )

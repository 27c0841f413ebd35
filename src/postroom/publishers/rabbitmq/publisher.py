"""The publisher for RabbitMQ: makes a message of each record, and says what came of it."""

import logging
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Final
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncEngine

from postroom.errors import Outage
from postroom.outbox import Outbox
from postroom.publishers.base import DELIVERED, OutageWatcher, Outcome, Refused
from postroom.publishers.rabbitmq.address import Address
from postroom.publishers.rabbitmq.channel import blocked
from postroom.publishers.rabbitmq.closed import ClosedError, connection_lost, loss
from postroom.publishers.rabbitmq.confirms import Known, Parcel, is_answer
from postroom.publishers.rabbitmq.connection import Connection
from postroom.publishers.rabbitmq.declare import Inquiry, declare
from postroom.publishers.rabbitmq.frames import Message
from postroom.publishers.rabbitmq.message import cloud_event, plain_message
from postroom.publishers.rabbitmq.routing import Destination, Routes, Routing
from postroom.publishers.rabbitmq.sender import Doubtful, Sender
from postroom.publishers.rabbitmq.topology import Topology
from postroom.publishers.rabbitmq.verdict import unanswered, verdict
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
        self._sender: Sender | None = None
        self._unused = False
        """Whether nothing has been sent since it was found to be all right."""
        self._known: Known = {}
        self._doubtful: Doubtful = set()
        self._arrived: dict[UUID, set[Destination]] = {}

    def __str__(self) -> str:
        return f"RabbitMQ at {self.address}, exchange {self.exchange or '(default)'}"

    async def open(self, outbox: Outbox, engine: AsyncEngine) -> None:
        """Connect, unless it is; declare the topology, or see that the exchange is there."""
        if self._sender is None or self._sender.connection.lost is not None:
            await self.close()
            self._sender = await self._connect()
        sender = self._sender
        if sender.connection.blocked is not None:
            raise Outage(blocked(sender.connection))
        if self._unused:
            return
        try:
            async with Inquiry(sender.connection) as inquiry:
                await self._prepare(inquiry)
            await sender.open_channel()
        except ClosedError as error:
            raise connection_lost(self.address, error) from error
        self._unused = True

    async def close(self) -> None:
        """Disconnect."""
        sender, self._sender = self._sender, None
        self._unused = False
        if sender is not None:
            await sender.connection.close()

    async def publish(self, records: Sequence[ClaimedRecord]) -> Sequence[Outcome | Outage]:
        """Send the records and wait for what the broker says of each."""
        self._unused = False
        parcels = [self._parcels(record) for record in records]
        outage: Outage | None = None
        try:
            await self._send([each for some in parcels for each in some])
        except Outage as error:
            outage = error
        answers = [
            self._verdict(record, some, outage)
            for record, some in zip(records, parcels, strict=True)
        ]
        if outage is not None and all(answer is outage for answer in answers):
            raise outage
        return answers

    def watch(self, changed: OutageWatcher) -> None:
        """Call `changed` when the connection is lost, and when RabbitMQ blocks or unblocks it."""
        self._watcher = changed

    # -- connecting

    async def _connect(self) -> Sender:
        connection = await Connection.open(self.address)
        connection.changed = partial(self._report, connection)
        return Sender(
            connection,
            exchange=self.exchange,
            confirm_within=self._confirm_within,
            known=self._known,
            doubtful=self._doubtful,
        )

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

    def _report(self, connection: Connection) -> None:
        """Tell the watcher what has become of a connection, unless `close` let go of it."""
        if self._sender is None or connection is not self._sender.connection:
            return
        if connection.lost is not None:
            self._watcher(Outage(loss(self.address, connection.lost)))
        elif connection.blocked is not None:
            self._watcher(Outage(blocked(connection)))
        else:
            self._watcher(None)

    # -- sending

    def _parcels(self, record: ClaimedRecord) -> list[Parcel]:
        """Make a parcel for each destination of a record; reuse those that are in flight."""
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
        return [self._underway(parcel) for parcel in parcels]

    def _underway(self, parcel: Parcel) -> Parcel:
        """Return the parcel of that name that is in flight or was answered late; else this one."""
        found = self._known.get(parcel.name, parcel)
        if is_answer(found.outcome):
            del self._known[parcel.name]
        return found

    async def _send(self, parcels: Sequence[Parcel]) -> None:
        if self._sender is not None:
            await self._sender.deliver(parcels)
        elif unanswered(parcels):
            raise Outage(f"not connected to RabbitMQ at {self.address}")

    # -- what came of it

    def _verdict(
        self, record: ClaimedRecord, parcels: Sequence[Parcel], outage: Outage | None
    ) -> Outcome | Outage:
        """Give the answer to a record: it is delivered when it has arrived everywhere."""
        if all(parcel.outcome is DELIVERED for parcel in parcels):
            self._arrived.pop(record.id, None)
            return DELIVERED
        if len(parcels) > 1 or record.id in self._arrived:
            self._note_arrivals(record, parcels)
        if unanswered(parcels) and outage is not None:
            return outage
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

"""`RabbitMQPublisher`: makes messages of records, and answers for each."""

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Final
from uuid import UUID

from postroom.errors import OutageError
from postroom.publishers.base import (
    DELIVERED,
    Delivered,
    Outage,
    OutageWatcher,
    Outcome,
    Refused,
    WaitingRoute,
)
from postroom.publishers.rabbitmq.amqp.cluster import CONNECT_WITHIN, Credentials
from postroom.publishers.rabbitmq.amqp.connection import Connection
from postroom.publishers.rabbitmq.amqp.errors import EncodeError
from postroom.publishers.rabbitmq.amqp.frames import Message
from postroom.publishers.rabbitmq.amqp.inquiry import Inquiry
from postroom.publishers.rabbitmq.attributes import destination_name, messaging_attributes
from postroom.publishers.rabbitmq.declare import declare
from postroom.publishers.rabbitmq.message import Properties, cloud_event, plain_message
from postroom.publishers.rabbitmq.outages import client_errors, cluster_of, loss, missing_exchange
from postroom.publishers.rabbitmq.parcel import (
    Name,
    Parcel,
    all_delivered,
    is_answer,
    undeliverable,
)
from postroom.publishers.rabbitmq.routing import Destination, Route, Routes, Routing, Target
from postroom.publishers.rabbitmq.sender import Doubtful, Sender
from postroom.publishers.rabbitmq.topology import Topology
from postroom.publishers.rabbitmq.verdict import unanswered, verdict
from postroom.publishers.rabbitmq.waiting import (
    Waiting,
    describe,
    divide,
    failing,
    hold_back,
    hold_together,
    note,
)
from postroom.publishers.waiting import Rejected, Unroutable, check_choice
from postroom.record import ClaimedRecord

logger = logging.getLogger("postroom.publishers")

REMEMBERED: Final = 10_000


class RabbitMQPublisher:
    """A publisher for RabbitMQ: persistent messages, each confirmed by the broker.

    Raises ConfigurationError for a wrong URL or option.

    - `url`: `amqp://user:password@host:5672/vhost`, or `amqps://` for TLS; several hosts as
      `host1,host2`, or several URLs
    - `exchange`: the default exchange of records; their routing key is the event type
    - `routes`: other destinations, by event type or pattern: one `Route`, or several. Which of
      several have confirmed a record is remembered, in memory, for 10,000 records
    - `topology`: the exchanges and queues to declare when it connects. Without one the exchange has
      to exist
    - `cloud_events`: the `source` of CloudEvents 1.0 (binary mode); messages get their headers then
    - `confirm_within`: how long the broker may take to confirm a message (30 s)
    - `connect_within`: how long a host may take to accept a connection and the login, before the
      next host is tried (5 s)
    - `credentials`: a function, sync or async, that returns user and password. It is called for
      each connection, so the password can change
    - `unroutable`: what happens to a record that no queue takes: "wait" (it waits until a queue is
      bound), "refuse" (it counts as an attempt) or "accept" (it counts as delivered)
    - `rejected`: what happens to a record that a full queue rejects: "wait" or "refuse"
    """

    max_batch: Final = 500
    max_in_flight: Final = 2000

    def __init__(
        self,
        url: str | Sequence[str],
        *,
        exchange: str,
        routes: Routes | None = None,
        topology: Topology | None = None,
        cloud_events: str | None = None,
        confirm_within: timedelta = timedelta(seconds=30),
        connect_within: timedelta = CONNECT_WITHIN,
        credentials: Credentials | None = None,
        unroutable: Unroutable = "wait",
        rejected: Rejected = "wait",
    ) -> None:
        self.cluster = cluster_of(url, connect_within, credentials)
        self.exchange = exchange
        self.topology = topology
        check_choice("unroutable", unroutable, Unroutable)
        check_choice("rejected", rejected, Rejected)
        default = Route(unroutable=unroutable, rejected=rejected)
        self.routing = Routing(exchange, routes or {}, default)
        self._message = _maker(cloud_events)
        self._confirm_within = confirm_within.total_seconds()
        self._watcher: OutageWatcher = lambda _: None
        self._sender: Sender | None = None
        self._unused = False
        """Whether nothing has been sent since it was found to be all right."""
        self._late: dict[Name, Parcel] = {}
        """What was sent and not answered before `publish` stopped waiting."""
        self._doubtful: Doubtful = set()
        self._arrived: dict[UUID, set[Destination]] = {}
        self._waiting = Waiting(describe)

    def __str__(self) -> str:
        where: object = self.cluster
        if self._sender is not None and self._sender.connection.lost is None:
            where = self._sender.connection.address
        return f"RabbitMQ at {where}, exchange {self.exchange or '(default)'}"

    async def open(self) -> None:
        """Connect, if it is not connected; declare the topology; check that the exchange exists.

        Raises OutageError, and ConfigurationError if a queue or an exchange differs from the
        topology.
        """
        if self._sender is None or self._sender.connection.lost is not None:
            await self.close()
            with client_errors(self.cluster):
                self._sender = await self._connect()
        sender = self._sender
        with client_errors(sender.connection.address):
            sender.connection.check_blocked()
            if self._unused:
                return
            async with Inquiry(sender.connection) as inquiry:
                await self._prepare(inquiry)
            await sender.open_channel()
        self._unused = True

    async def close(self) -> None:
        """Disconnect."""
        sender, self._sender = self._sender, None
        self._unused = False
        if sender is not None:
            await sender.connection.close()

    async def publish(self, records: Sequence[ClaimedRecord]) -> Sequence[Outcome | Outage]:
        """Send the records, and return the broker's answer for each."""
        self._unused = False
        parcels = [self._parcels(record) for record in records]
        all_parcels = [each for some in parcels for each in some]
        outage: Outage | None = None
        try:
            await self._send(all_parcels)
        except OutageError as error:
            outage = Outage.of(error)
        finally:
            self._keep_late(all_parcels)
        if not self._arrived and all_delivered(all_parcels):
            return [DELIVERED] * len(records)
        return [
            self._verdict(record, some, outage)
            for record, some in zip(records, parcels, strict=True)
        ]

    def watch(self, changed: OutageWatcher) -> None:
        """Call `changed` when the connection is lost, and when RabbitMQ blocks or unblocks it."""
        self._watcher = changed

    def waiting_routes(self) -> Sequence[WaitingRoute]:
        """Return the exchanges and routing keys that records wait for."""
        return self._waiting.report()

    def messaging_attributes(self, record: ClaimedRecord) -> Mapping[str, str | int]:
        """Return the destination of a record, as attributes of a span."""
        connection = None if self._sender is None else self._sender.connection
        address = None if connection is None else connection.address
        return messaging_attributes(self.routing.targets(record), address)

    def routes_of(self, event_type: str) -> Sequence[str]:
        """Return the exchanges and routing keys of an event type, as texts."""
        return [destination_name(each.place) for each in self.routing.fixed(event_type)]

    # -- connecting

    async def _connect(self) -> Sender:
        connection = await self.cluster.connect()
        if len(self.cluster.addresses) > 1:
            logger.info("postroom: connected to RabbitMQ at %s", connection.address)
        connection.changed = partial(self._report, connection)
        return Sender(
            connection,
            exchange=self.exchange,
            confirm_within=self._confirm_within,
            doubtful=self._doubtful,
            topology=self.topology or Topology(),
        )

    async def _prepare(self, inquiry: Inquiry) -> None:
        if self.topology is not None:
            await declare(inquiry, self.topology)
        if not await inquiry.exists(self.exchange):
            raise OutageError(missing_exchange(self.exchange, inquiry.connection.address))
        for exchange in self.routing.exchanges():
            if not await inquiry.exists(exchange):
                self._doubtful.add(exchange)
                missing = missing_exchange(exchange, inquiry.connection.address)
                logger.warning("postroom: what goes there has to wait: %s", missing)

    def _report(self, connection: Connection) -> None:
        """Tell the watcher what has become of a connection, unless `close` let go of it."""
        if self._sender is None or connection is not self._sender.connection:
            return
        if connection.lost is not None:
            self._watcher(Outage(loss(connection.address, connection.lost)))
        elif connection.blocked is not None:
            self._watcher(Outage(str(connection.blocked_error())))
        else:
            self._watcher(None)

    # -- sending

    def _parcels(self, record: ClaimedRecord) -> list[Parcel]:
        """Make a parcel for each destination of a record; reuse those that are in flight."""
        try:
            targets: Sequence[Target] = self.routing.targets(record)
        except Exception as error:  # of a function that tells the routing key, say
            problem = f"no message can be made of it: {error!r}"
            return [_refused(record, Refused(problem, error=error))]
        if self._arrived:
            arrived = self._arrived.get(record.id, ())
            targets = [each for each in targets if each.place not in arrived]
        make = self._message
        try:
            parcels = [Parcel(record.id, make(record, each.properties), each) for each in targets]
        except (EncodeError, UnicodeError, RecursionError) as error:
            return [_refused(record, undeliverable(error))]
        if self._late:
            parcels = [self._underway(parcel) for parcel in parcels]
        if len(parcels) > 1 and len(self._arrived) >= REMEMBERED:
            hold_together(self._waiting, parcels)  # where it arrived could not be remembered
        return parcels

    def _underway(self, parcel: Parcel) -> Parcel:
        """Return the parcel of that name that is in flight or was answered late; else this one."""
        late = self._late.pop(parcel.name, parcel)
        return late if late.in_flight or is_answer(late.outcome) else parcel

    def _keep_late(self, parcels: Sequence[Parcel]) -> None:
        """Keep the parcels in flight, so that they are not sent again while an answer may come."""
        for parcel in parcels:
            if parcel.in_flight:
                self._late[parcel.name] = parcel
        if len(self._late) > REMEMBERED:
            self._late = {name: each for name, each in self._late.items() if each.in_flight}

    async def _send(self, parcels: Sequence[Parcel]) -> None:
        """Send parcels. Of a route that cannot be used, send one, and others if it is taken."""
        if not self._waiting:
            await self._deliver(parcels)
            return
        first, held = divide(self._waiting, parcels)
        await self._deliver(first)
        await self._deliver([each for each in held if failing(self._waiting, each) is None])
        hold_back(self._waiting, held)

    async def _deliver(self, parcels: Sequence[Parcel]) -> None:
        """Send parcels, and note which routes took them."""
        if self._sender is None and unanswered(parcels):
            raise OutageError(f"not connected to RabbitMQ at {self.cluster}")
        if self._sender is None:
            return
        try:
            await self._sender.deliver(parcels)
        finally:
            if self._waiting or not all_delivered(parcels):
                note(self._waiting, parcels)

    # -- what came of it

    def _verdict(
        self, record: ClaimedRecord, parcels: Sequence[Parcel], outage: Outage | None
    ) -> Outcome | Outage:
        """Give the answer to a record: it is delivered when it has arrived everywhere."""
        if all(isinstance(parcel.outcome, Delivered) for parcel in parcels):
            self._arrived.pop(record.id, None)
            return DELIVERED
        if len(parcels) > 1 or record.id in self._arrived:
            self._note_arrivals(record, parcels)
        if unanswered(parcels) and outage is not None:
            return outage
        return verdict(parcels)

    def _note_arrivals(self, record: ClaimedRecord, parcels: Sequence[Parcel]) -> None:
        """Remember where a record has arrived, so that it is not sent there again."""
        here = {p.place for p in parcels if isinstance(p.outcome, Delivered)}
        self._arrived[record.id] = self._arrived.pop(record.id, set()) | here
        if len(self._arrived) > REMEMBERED:
            del self._arrived[next(iter(self._arrived))]


def _maker(source: str | None) -> Callable[[ClaimedRecord, Properties], Message]:
    return plain_message if source is None else partial(cloud_event, source=source)


def _refused(record: ClaimedRecord, outcome: Refused) -> Parcel:
    """Make the parcel of a record that cannot be sent."""
    parcel = Parcel(record.id, (b"", b""), Target(Destination("", "")))
    parcel.outcome = outcome
    return parcel

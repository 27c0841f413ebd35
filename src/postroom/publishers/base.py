"""What a publisher is, and what it answers to the relay."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final, Protocol, Self, runtime_checkable

from sqlalchemy.ext.asyncio import AsyncEngine

from postroom.errors import ConnectionLostError, OutageError
from postroom.outbox import Outbox
from postroom.record import ClaimedRecord


@dataclass(frozen=True, slots=True)
class Delivered:
    """The record has arrived: its handlers have succeeded, or the broker has confirmed it."""


@dataclass(frozen=True, slots=True)
class Refused:
    """This record was refused, for this reason.

    It counts as an attempt, and the record is tried again on the retry schedule; `permanent` fails
    it at once. `error` is logged with its traceback.
    """

    reason: str
    permanent: bool = False
    error: BaseException | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Postponed:
    """This record cannot be delivered now, through no fault of its own: a queue is full or missing.

    It counts as no attempt, so it never fails the record. The record is tried again after `delay`;
    its key waits.
    """

    reason: str
    delay: timedelta = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class Outage:
    """No record can be delivered now.

    It counts as no attempt. The relay pauses, opens the publisher again, and resumes by itself.
    `connection_lost`: the connection broke during the delivery, so that a record may be the cause.
    """

    reason: str
    connection_lost: bool = False

    @classmethod
    def of(cls, error: OutageError) -> Self:
        """Return the outage that an error reports."""
        return cls(str(error), connection_lost=isinstance(error, ConnectionLostError))


DELIVERED: Final = Delivered()
Outcome = Delivered | Refused | Postponed


class Publisher(Protocol):
    """Delivers records to a broker, to handlers or to anything else.

    An error that it raises is about all records; what it returns is about each of them.

    - `max_batch`: how many records one call of `publish` takes at most. The records of a call are
      settled together, so a publisher with slow records takes 1
    - `max_in_flight`: how many records may be in flight at once, over all calls
    """

    @property
    def max_batch(self) -> int: ...
    @property
    def max_in_flight(self) -> int: ...

    async def open(self) -> None:
        """Connect, or raise OutageError. Called at the start and after each outage.

        `OutboxRelay.run` allows 30 seconds; more than that counts as an outage.
        """

    async def publish(self, records: Sequence[ClaimedRecord]) -> Sequence[Outcome | Outage]:
        """Deliver records of different keys, in any order; return their outcomes, in their order.

        Raises OutageError when no record can be delivered; none of the batch is then counted. If an
        outage begins when some records have been answered, return an Outage for the others.
        Calls overlap. A call that is cancelled may or may not have delivered.
        """

    async def close(self) -> None:
        """Close all connections. A publisher that was never opened may be closed too."""


OutageWatcher = Callable[[Outage | None], None]
"""Takes an Outage when deliveries have become impossible, None when they are possible again."""


@runtime_checkable
class ReportsOutages(Protocol):
    """A publisher that notices by itself when deliveries become impossible, and possible again."""

    def watch(self, changed: OutageWatcher) -> None:
        """Call `changed` at each outage, and with None when it ends. The latest watcher counts.

        Call it in the event loop. The end of an outage needs no report if only `open` can end it.
        """


@runtime_checkable
class UsesOutbox(Protocol):
    """A publisher that needs the outbox of its relay, or the relay's database."""

    def use(self, outbox: Outbox, engine: AsyncEngine) -> None:
        """Take the outbox and the engine of the relay. Called when the relay is made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingRoute:
    """A route that cannot be used, so that its records wait."""

    route: str
    """Its name: an exchange and a routing key, say."""
    reason: str
    seconds: float
    """How long records have been waiting for it."""
    records: int
    """How many records wait that the publisher has seen; others wait behind them in their keys."""

    def __str__(self) -> str:
        some = "1 record waits" if self.records == 1 else f"{self.records} records wait"
        return f"{self.route} cannot be used: {self.reason}. {some}"


@runtime_checkable
class ReportsWaitingRoutes(Protocol):
    """A publisher that knows which of its routes cannot be used."""

    def waiting_routes(self) -> Sequence[WaitingRoute]:
        """Return the routes that records wait for. Called in the event loop, for health."""


@runtime_checkable
class NamesDestinations(Protocol):
    """A publisher that can tell, for traces, where it sends a record."""

    def messaging_attributes(self, record: ClaimedRecord) -> Mapping[str, str | int]:
        """Return the attributes of OpenTelemetry's messaging conventions that say where it goes.

        `messaging.system` and `messaging.destination.name` at least. Called in the event loop, for
        records whose trace is recorded.
        """


@runtime_checkable
class RoutesEventTypes(Protocol):
    """A publisher that can tell where the records of an event type go."""

    def routes_of(self, event_type: str) -> Sequence[str]:
        """Name the places, for operators; none that depends on more than the type."""

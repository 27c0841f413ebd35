"""The protocol `Publisher`, and its answers."""

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
    """An outcome: all handlers of the record succeeded, or the broker confirmed its message."""


@dataclass(frozen=True, slots=True)
class Refused:
    """An outcome: the record was refused. It counts as an attempt.

    The record is tried again on the retry schedule.
    """

    reason: str
    """Why: for logs, commands and the record's `error_message`."""
    permanent: bool = False
    """Whether the record fails at once."""
    error: BaseException | None = field(default=None, compare=False, repr=False)
    """An error that is logged with its traceback."""


@dataclass(frozen=True, slots=True)
class Postponed:
    """An outcome: the record cannot be delivered now, because its queue is full or missing.

    It counts as no attempt, so the record never fails because of it. Later records of its key wait.
    """

    reason: str
    delay: timedelta = timedelta(seconds=30)
    """The time until the next attempt."""


@dataclass(frozen=True, slots=True)
class Outage:
    """An answer in place of an outcome: no record can be delivered now.

    It counts as no attempt. The relay pauses, opens the publisher again, and resumes by itself.
    """

    reason: str
    connection_lost: bool = False
    """Whether the connection broke during the delivery, so that a record may be the cause."""

    @classmethod
    def of(cls, error: OutageError) -> Self:
        """Return the outage of an OutageError."""
        return cls(str(error), connection_lost=isinstance(error, ConnectionLostError))


DELIVERED: Final = Delivered()
Outcome = Delivered | Refused | Postponed
"""The answer of a publisher about one record."""


class Publisher(Protocol):
    """The protocol of publishers: what delivers records to a broker, to handlers or elsewhere.

    An error that it raises is about all records of a call. What it returns is about each record.
    """

    @property
    def max_batch(self) -> int:
        """How many records a call of `publish` gets at most.

        The records of a call are settled together, so a publisher with slow records takes 1.
        """

    @property
    def max_in_flight(self) -> int:
        """How many records may be in flight at once, over all calls."""

    async def open(self) -> None:
        """Connect, or raise OutageError. Called at the start, and again after each outage.

        `OutboxRelay.run` allows 30 seconds; more than that counts as an outage. Raises
        ConfigurationError for a mistake that waiting does not correct: the relay ends.
        """

    async def publish(self, records: Sequence[ClaimedRecord]) -> Sequence[Outcome | Outage]:
        """Deliver records, and return an outcome for each, in the order of the records.

        The records have different keys and may be delivered in any order. Calls overlap. A call may
        be cancelled. Raises OutageError if no record can be delivered: no attempt is counted. If an
        outage begins after some records were answered, return an Outage for each of the others.
        """

    async def close(self) -> None:
        """Close all connections. May be called on a publisher that was never opened."""


OutageWatcher = Callable[[Outage | None], None]
"""Takes an Outage when deliveries have become impossible, None when they are possible again."""


@runtime_checkable
class ReportsOutages(Protocol):
    """The protocol of publishers that notice the start and the end of an outage by themselves."""

    def watch(self, changed: OutageWatcher) -> None:
        """Call `changed` with an Outage when one begins, and with None when it ends.

        Call it in the event loop. A new watcher replaces the one before. The end of an outage need
        not be reported if only `open` can end it.
        """


@runtime_checkable
class UsesOutbox(Protocol):
    """The protocol of publishers that need the outbox of their relay, or its database."""

    def use(self, outbox: Outbox, engine: AsyncEngine) -> None:
        """Take the outbox and the engine of the relay. Called when the relay is made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingRoute:
    """A route that cannot be used, so that its records wait."""

    route: str
    """The name of the route: for RabbitMQ, an exchange and a routing key."""
    reason: str
    """Why it cannot be used."""
    seconds: float
    """For how many seconds records have waited for it."""
    records: int
    """How many records wait for it. Later records of their keys are not counted."""

    def __str__(self) -> str:
        some = "1 record waits" if self.records == 1 else f"{self.records} records wait"
        return f"{self.route} cannot be used: {self.reason}. {some}"


@runtime_checkable
class ReportsWaitingRoutes(Protocol):
    """The protocol of publishers that know which of their routes cannot be used."""

    def waiting_routes(self) -> Sequence[WaitingRoute]:
        """Return the routes that cannot be used. The relay calls it in its event loop."""


@runtime_checkable
class NamesDestinations(Protocol):
    """The protocol of publishers that name the destination of a record, for traces."""

    def messaging_attributes(self, record: ClaimedRecord) -> Mapping[str, str | int]:
        """Return the destination of a record, as attributes of OpenTelemetry's conventions.

        At least `messaging.system` and `messaging.destination.name`. Called in the event loop, for
        records whose trace is recorded.
        """


@runtime_checkable
class RoutesEventTypes(Protocol):
    """A publisher that can tell where the records of an event type go."""

    def routes_of(self, event_type: str) -> Sequence[str]:
        """Name the places, for operators; none that depends on more than the type."""

"""The seam between the relay and the ways out: what a publisher is, and what it answers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from sqlalchemy.ext.asyncio import AsyncEngine

from postroom.errors import Outage
from postroom.outbox import Outbox
from postroom.record import ClaimedRecord


@dataclass(frozen=True, slots=True)
class Delivered:
    """The record has arrived: the handlers are done, or the broker has confirmed it."""


@dataclass(frozen=True, slots=True)
class Refused:
    """An answer about this very record: it did not arrive, and why.

    It counts as an attempt, and the schedule says what comes next; `permanent` fails it at once.
    """

    reason: str
    permanent: bool = False


@dataclass(frozen=True, slots=True)
class Postponed:
    """This record cannot arrive now, through no fault of its own: what it needs is not there.

    It is tried again after a while, holds back its key, and is not counted as an attempt.
    """

    reason: str


DELIVERED: Final = Delivered()
Outcome = Delivered | Refused | Postponed


class Publisher(Protocol):
    """A way out. What it raises is about the way out itself; what it returns, about records.

    - `max_batch`: how many records one call of `publish` takes at most. The records of a call are
      settled together, so a publisher with slow records takes 1
    - `max_in_flight`: how many records may be on their way at once, over all calls
    """

    @property
    def max_batch(self) -> int: ...
    @property
    def max_in_flight(self) -> int: ...

    async def open(self, outbox: Outbox, engine: AsyncEngine) -> None:
        """Get ready: connect, or raise Outage. Called at the start and after each outage."""

    async def publish(self, records: Sequence[ClaimedRecord]) -> Sequence[Outcome | Outage]:
        """Deliver records of different keys, in any order; give an outcome for each, in theirs.

        Raises Outage when nobody can be delivered to; no record of the batch is then counted. An
        outage that comes when some have been answered is given as the answer to the others.
        Calls overlap. A call that is cancelled may or may not have delivered.
        """

    async def close(self) -> None:
        """Let go of everything. A publisher that was never opened is closed too."""

"""`MemoryPublisher`: topics and queues in the process, for tests and demos."""

import asyncio
from collections import deque
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from postroom.errors import OutageError
from postroom.events.topics import topic_matches
from postroom.publishers.base import (
    DELIVERED,
    Outage,
    OutageWatcher,
    Outcome,
    Refused,
    WaitingRoute,
)
from postroom.publishers.waiting import Rejected, Unroutable, WaitingRoutes, check_choice
from postroom.record import ClaimedRecord

KEEP: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A delivered record, as a consumer receives it."""

    id: UUID
    event_type: str
    payload: Any
    headers: dict[str, Any]
    aggregate_type: str | None
    aggregate_id: str | None
    position: int
    event_version: int
    occurred_at: datetime

    @classmethod
    def of(cls, record: ClaimedRecord) -> "Message":
        """Return the message of a record."""
        return cls(
            id=record.id,
            event_type=record.event_type,
            payload=record.payload,
            headers=deepcopy(dict(record.headers)),
            aggregate_type=record.aggregate_type,
            aggregate_id=record.aggregate_id,
            position=record.position,
            event_version=record.event_version,
            occurred_at=record.occurred_at,
        )


class MemoryQueue:
    """A queue of a `MemoryPublisher`. `MemoryPublisher.queue` makes it.

    It takes messages whose event type matches one of its patterns. It holds the newest 10,000
    messages by default; with `max_length` it rejects new ones while it is full.
    """

    def __init__(self, name: str, *, keep: int | None = KEEP) -> None:
        self.name = name
        self.patterns: tuple[str, ...] = ()
        self.max_length: int | None = None
        self._waiting: deque[Message] = deque(maxlen=keep)
        self._arrival = asyncio.Event()

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages in the queue, the oldest first."""
        return tuple(self._waiting)

    def __len__(self) -> int:
        return len(self._waiting)

    def __bool__(self) -> bool:
        return True  # it is there, be it empty

    async def get(self) -> Message:
        """Remove and return the oldest message; wait for one if the queue is empty."""
        while not self._waiting:
            self._arrival.clear()
            await self._arrival.wait()
        return self._waiting.popleft()

    @property
    def full(self) -> bool:
        """Whether the queue rejects new messages."""
        return self.max_length is not None and len(self) >= self.max_length

    def takes(self, event_type: str) -> bool:
        """Return whether the queue takes messages of an event type."""
        return any(topic_matches(pattern, event_type) for pattern in self.patterns)

    def _put(self, message: Message) -> None:
        self._waiting.append(message)
        self._arrival.set()


class MemoryPublisher:
    """A publisher that keeps messages in this process, for tests and demos.

    `messages` lists everything that was delivered. `queue` declares queues for event types.

    - `keep`: how many messages the list and each queue hold (10,000); the oldest are dropped. None
      keeps all
    - `unroutable`: what happens to a record that no queue takes: "wait" (it waits for a queue),
      "refuse" (it counts as an attempt) or "accept" (it counts as delivered)
    - `rejected`: what happens to a record that a full queue rejects: "wait" or "refuse"
    """

    max_batch = 100
    max_in_flight = 1000

    def __init__(
        self,
        *,
        keep: int | None = KEEP,
        unroutable: Unroutable = "wait",
        rejected: Rejected = "wait",
    ) -> None:
        check_choice("unroutable", unroutable, Unroutable)
        check_choice("rejected", rejected, Rejected)
        self._unroutable, self._rejected = unroutable, rejected
        self._waiting: WaitingRoutes[str] = WaitingRoutes(lambda each: f"the route of `{each}`")
        self._outage: str | None = None
        self._watcher: OutageWatcher = lambda _: None
        self._keep = keep
        self._queues: dict[str, MemoryQueue] = {}
        self._delivered: deque[Message] = deque(maxlen=keep)

    def __str__(self) -> str:
        return "queues in this process"

    @property
    def outage(self) -> str | None:
        """The reason of a simulated outage; None if there is none.

        Set it in the relay's event loop, to a text or to None: the relay pauses or resumes at once.
        """
        return self._outage

    @outage.setter
    def outage(self, reason: str | None) -> None:
        self._outage = reason
        self._watcher(None if reason is None else Outage(reason))

    def watch(self, changed: OutageWatcher) -> None:
        """Call `changed` whenever `outage` is set."""
        self._watcher = changed

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages that were delivered, with or without a queue, in order."""
        return tuple(self._delivered)

    def waiting_routes(self) -> Sequence[WaitingRoute]:
        """Return the event types whose records wait for a queue, as routes."""
        return self._waiting.report()

    def queue(self, name: str, *patterns: str, max_length: int | None = None) -> MemoryQueue:
        """Declare a queue, or bind the queue of that name to more patterns: `order.*`, `order.#`.

        Once there is a queue, a record that no queue takes is `unroutable`. With `max_length` the
        queue rejects messages while it holds so many.
        """
        queue = self._queues.setdefault(name, MemoryQueue(name, keep=self._keep))
        queue.patterns = tuple(dict.fromkeys([*queue.patterns, *patterns]))
        queue.max_length = queue.max_length if max_length is None else max_length
        return queue

    async def open(self) -> None:
        """Raise OutageError if `outage` is set; do nothing otherwise."""
        self._check_outage()

    async def publish(self, records: Sequence[ClaimedRecord]) -> Sequence[Outcome]:
        """Put each record into every queue that takes its event type."""
        self._check_outage()
        return [self._deliver(record) for record in records]

    async def close(self) -> None:
        """Do nothing: the messages stay."""

    def _deliver(self, record: ClaimedRecord) -> Outcome:
        takers = [queue for queue in self._queues.values() if queue.takes(record.event_type)]
        full = [queue.name for queue in takers if queue.full]
        if self._queues and not takers and self._unroutable != "accept":
            return self._not_taken(
                record, f"no queue takes `{record.event_type}`", self._unroutable
            )
        if full:
            return self._not_taken(record, f"queue `{full[0]}` is full", self._rejected)
        self._delivered.append(Message.of(record))
        for queue in takers:
            queue._put(Message.of(record))
        self._waiting.delivered(record.event_type, record.id)
        return DELIVERED

    def _not_taken(self, record: ClaimedRecord, reason: str, choice: str) -> Outcome:
        if choice == "refuse":
            return Refused(reason)
        return self._waiting.postpone(record.event_type, record.id, reason)

    def _check_outage(self) -> None:
        if self.outage is not None:
            raise OutageError(self.outage)

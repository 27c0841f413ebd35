"""What the relays of this process do, measured as they do it."""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from operator import attrgetter
from threading import Lock
from typing import Final, get_args

from postroom.integrations.metrics.distribution import RECORDS, SECONDS, Distribution
from postroom.integrations.metrics.names import Page
from postroom.publishers.base import Delivered
from postroom.record import ClaimedRecord
from postroom.relay.observer import Answer, BreakerState, RelayObserver
from postroom.relay.relay import OutboxRelay
from postroom.store.base import Verdict

MAX_TYPES: Final = 50
"""Event types that have series of their own. More are counted together, as "other"."""
COUNTERS: Final = (
    *("postroom_deliveries", "postroom_refusals"),
    *("postroom_postponements", "postroom_failures"),
)
STATEMENTS: Final = "postroom_statement_duration_seconds"
EVENT_TYPE: Final = attrgetter("event_type")
STATES: Final = get_args(BreakerState)
Watching = Callable[[OutboxRelay], AbstractAsyncContextManager[None]]


class EventTypes:
    """The event types that are used as labels: the first 50. A series never changes its label."""

    def __init__(self) -> None:
        self._known: set[str] = set()

    def label(self, event_type: str) -> str:
        """Return the label of an event type: its name or "other"."""
        if event_type not in self._known:
            if len(self._known) >= MAX_TYPES:
                return "other"
            self._known.add(event_type)
        return event_type


class RelayMetrics(RelayObserver):
    """Counts what the relay of an outbox does in this process.

    The relay adds in its event loop; `write` reads in the thread of a scrape.
    """

    def __init__(self, types: EventTypes, watching: Watching) -> None:
        self._types, self._watching = types, watching
        self._lock = Lock()
        self._counts: dict[str, Counter[str]] = {name: Counter() for name in COUNTERS}
        self._durations, self._ages = Distribution(SECONDS), Distribution(SECONDS)
        self._batches, self._claims = Distribution(RECORDS), Distribution(RECORDS)
        self._running: list[OutboxRelay] = []
        self._leased = self._connections = 0
        self._connected: bool | None = None
        """None if the relay does not listen."""
        self._breakers: dict[str, BreakerState] = {"publisher": "closed", "database": "closed"}
        self._statements: dict[str, tuple[int, float]] = {}

    @asynccontextmanager
    async def running(self, relay: OutboxRelay) -> AsyncIterator[None]:
        """See RelayObserver."""
        self._running.append(relay)
        try:
            async with self._watching(relay):
                yield
        finally:
            self._running.remove(relay)
            self._leased, self._connected = 0, None

    def leased(self, partitions: int) -> None:
        """See RelayObserver."""
        self._leased = partitions

    def claimed(self, records: int, seconds: float) -> None:
        """See RelayObserver."""
        if records:
            with self._lock:
                self._claims.add(records)

    def published(
        self, records: Sequence[ClaimedRecord], answers: Sequence[Answer], seconds: float
    ) -> None:
        """See RelayObserver."""
        now = datetime.now(UTC)
        ages = [
            (now - record.created_at).total_seconds()
            for record, answer in zip(records, answers, strict=True)
            if isinstance(answer, Delivered)
        ]
        if ages and min(ages) < 0:  # the clock of the database is ahead
            ages = [max(0.0, each) for each in ages]
        with self._lock:
            self._batches.add(len(records))
            self._durations.add(seconds, times=len(records))
            self._ages.add_all(ages)

    def delivered(self, records: Sequence[ClaimedRecord]) -> None:
        """See RelayObserver."""
        for event_type, count in Counter(map(EVENT_TYPE, records)).items():
            self._count("postroom_deliveries", event_type, count)

    def not_delivered(self, record: ClaimedRecord, verdict: Verdict, reason: str | None) -> None:
        """See RelayObserver."""
        if verdict in (Verdict.POSTPONED, Verdict.QUARANTINED):
            self._count("postroom_postponements", record.event_type)
        else:
            self._count("postroom_refusals", record.event_type)
        if verdict is Verdict.FAILED:
            self._count("postroom_failures", record.event_type)

    def breaker_changed(self, name: str, state: BreakerState) -> None:
        """See RelayObserver."""
        self._breakers[name.removeprefix("the ")] = state

    def listener_changed(self, *, connected: bool) -> None:
        """See RelayObserver."""
        self._connections += connected and not self._connected
        self._connected = connected

    def statement_run(self, name: str, seconds: float) -> None:
        """See RelayObserver."""
        with self._lock:
            count, total = self._statements.get(name, (0, 0.0))
            self._statements[name] = count + 1, total + seconds

    def _count(self, counter: str, event_type: str, times: int = 1) -> None:
        with self._lock:
            self._counts[counter][self._types.label(event_type)] += times

    def write(self, page: Page, outbox: str) -> None:
        """Add everything to the metrics of a scrape."""
        with self._lock:
            for name, counts in self._counts.items():
                for event_type, count in counts.items():
                    page.add(name, outbox, count, event_type)
            page.add_distribution("postroom_delivery_duration_seconds", outbox, self._durations)
            page.add_distribution("postroom_end_to_end_duration_seconds", outbox, self._ages)
            page.add_distribution("postroom_publish_batch_records", outbox, self._batches)
            page.add_distribution("postroom_claim_batch_records", outbox, self._claims)
            for statement, (count, total) in self._statements.items():
                page.add_summary(STATEMENTS, outbox, count, total, statement)
        page.add("postroom_relay_running", outbox, len(self._running))
        in_flight = sum(each.in_flight for each in self._running)
        page.add("postroom_in_flight_records", outbox, in_flight)
        page.add("postroom_leased_partitions", outbox, self._leased)
        for breaker, current in self._breakers.items():
            for state in STATES:
                page.add("postroom_breaker_state", outbox, state == current, breaker, state)
        if self._connected is not None:
            page.add("postroom_listener_connected", outbox, self._connected)
            page.add("postroom_listener_reconnects", outbox, max(0, self._connections - 1))

"""Traces of deliveries: a span for each attempt and each handler, in the trace of the capture."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from opentelemetry import baggage, trace
from opentelemetry.context import attach, detach
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON
from opentelemetry.trace import SpanKind, StatusCode
from sqlalchemy import MetaData
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from postroom import (
    ClaimedRecord,
    DomainEvent,
    Event,
    EventRegistry,
    HandlersPublisher,
    MemoryPublisher,
    Outbox,
    OutboxRelay,
    Outcome,
    Publisher,
    RetrySchedule,
    Tally,
    UntypedEvent,
)
from postroom.testing import RecordingPublisher
from tests.support.traces import Traces, context_of, id_of
from tests.support.waiting import eventually

pytestmark = pytest.mark.requirement("E8")

AT_ONCE = RetrySchedule.seconds(0, 0, 3600)


@dataclass(frozen=True, kw_only=True)
class OrderPlaced(DomainEvent, aggregate="order", key="order_id"):
    order_id: str


@dataclass(frozen=True, kw_only=True)
class OrderShipped(DomainEvent, aggregate="order", key="order_id"):
    order_id: str


def placed(order_id: str = "o-4711") -> OrderPlaced:
    return OrderPlaced(order_id=order_id)


@pytest.fixture
def traces() -> Traces:
    return Traces()


@pytest.fixture
def registry() -> EventRegistry:
    return EventRegistry()


class Shop:
    """An instrumented outbox, requests that capture events in it, and a relay that is observed."""

    def __init__(self, outbox: Outbox, engine: AsyncEngine, traces: Traces) -> None:
        self.outbox, self.engine, self.traces = outbox, engine, traces

    async def request(self, *events: Event) -> None:
        """Save events within the span of a request."""
        with self.traces.tracer.start_as_current_span("POST /orders"):
            await self.save(*events)

    async def save(self, *events: Event) -> None:
        async with AsyncSession(self.engine) as session, session.begin():
            await self.outbox.dispatcher(session).dispatch(events)

    def relay(self, publisher: Publisher, **options: Any) -> OutboxRelay:
        relay = OutboxRelay(self.outbox, self.engine, publisher, **{"retry": AT_ONCE, **options})
        self.traces.telemetry().instrument(relay)
        return relay

    async def deliver(self, publisher: Publisher, **options: Any) -> Tally:
        return await self.relay(publisher, **options).run_once()


@pytest.fixture
async def shop(sqlite_file: AsyncEngine, traces: Traces, registry: EventRegistry) -> Shop:
    """A shop on SQLite: a span is the same whatever the database."""
    outbox = Outbox(MetaData(), table="traced", events=registry)
    traces.telemetry().instrument(outbox)
    async with sqlite_file.begin() as connection:
        await connection.run_sync(outbox.create_tables)
    return Shop(outbox, sqlite_file, traces)


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


async def test_a_delivery_is_a_span_in_the_trace_of_the_request(shop: Shop, traces: Traces) -> None:
    event = placed()
    await shop.request(event)
    await shop.deliver(MemoryPublisher())
    span = traces.one("send")
    assert traces.path(span) == ["POST /orders", "create OrderPlaced", "send OrderPlaced"]
    assert span.status.status_code is StatusCode.UNSET
    assert attributes(span) == {
        "messaging.system": "postroom",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": "OrderPlaced",
        "messaging.message.id": str(event.event_id),
        "postroom.attempt": 1,
    }


async def test_each_record_of_a_batch_has_a_span_in_its_own_trace(
    shop: Shop, traces: Traces
) -> None:
    for number in range(5):
        await shop.request(placed(f"o-{number}"))
    await shop.deliver(MemoryPublisher())
    assert len(traces.named("send")) == 5
    assert len({context_of(span).trace_id for span in traces.named("send")}) == 5
    for span in traces.named("send"):
        assert traces.path(span) == ["POST /orders", "create OrderPlaced", "send OrderPlaced"]


async def test_each_attempt_is_a_span_and_says_why_it_was_refused(
    shop: Shop, traces: Traces
) -> None:
    publisher = RecordingPublisher()
    publisher.refuse("OrderPlaced", "the stock is empty", times=2)
    await shop.request(placed())
    await shop.deliver(publisher)
    spans = traces.named("send")
    assert [attributes(span)["postroom.attempt"] for span in spans] == [1, 2, 3]
    assert [attributes(span).get("error.type") for span in spans] == ["refused", "refused", None]
    assert [span.status.description for span in spans] == ["the stock is empty"] * 2 + [None]
    assert len({span.parent and span.parent.span_id for span in spans}) == 1


async def test_an_outage_and_a_postponed_record_are_errors_of_their_own_type(
    shop: Shop, traces: Traces
) -> None:
    publisher = RecordingPublisher()
    publisher.queue("others", "something.else")
    relay = shop.relay(publisher)
    await shop.request(placed())
    async with relay.running():
        await eventually(lambda: traces.named("send"))
        assert attributes(traces.named("send")[0])["error.type"] == "postponed"
        publisher.outage = "the broker is away"
        await shop.request(placed("o-2"))
        await eventually(lambda: relay.health.reason)
        publisher.queue("orders", "OrderPlaced")
        publisher.outage = None
        await eventually(lambda: publisher.messages)


async def test_an_outage_during_a_delivery_ends_its_span_with_the_reason(
    shop: Shop, traces: Traces
) -> None:
    class Down(MemoryPublisher):
        async def open(self) -> None: ...

        async def publish(self, records: Sequence[ClaimedRecord]) -> Sequence[Outcome]:
            self.outage = "the broker is away"
            return await super().publish(records)

    await shop.request(placed())
    async with shop.relay(Down()).running():
        await eventually(lambda: traces.named("send"))
    span = traces.named("send")[0]
    assert attributes(span)["error.type"] == "outage"
    assert span.status.description == "the broker is away"


async def test_a_delivery_that_is_cancelled_ends_its_span(shop: Shop, traces: Traces) -> None:
    begun = asyncio.Event()

    class Hanging(MemoryPublisher):
        async def publish(self, records: Sequence[ClaimedRecord]) -> Sequence[Outcome]:
            begun.set()
            await asyncio.Event().wait()
            return []

    await shop.request(placed())
    async with shop.relay(Hanging(), grace=timedelta()).running():
        await begun.wait()
    assert attributes(traces.one("send"))["error.type"] == "cancelled"


async def test_a_record_without_a_trace_begins_one_at_its_delivery(
    shop: Shop, traces: Traces
) -> None:
    shop.outbox.settings.callbacks.clear()
    await shop.save(placed())
    with traces.tracer.start_as_current_span("main"):
        await shop.deliver(MemoryPublisher())
    assert traces.one("send").parent is None


@pytest.mark.parametrize("traces", [Traces(ALWAYS_OFF)], ids=["off"])
async def test_a_trace_that_is_not_recorded_has_no_delivery(shop: Shop, traces: Traces) -> None:
    await shop.request(placed("o-1"), placed("o-2"))
    await shop.request(placed("o-3"))
    shop.traces = Traces(ALWAYS_ON)  # whatever the worker's own sampler says
    assert (await shop.deliver(MemoryPublisher())).delivered == 3
    assert shop.traces.spans == []


async def test_a_publisher_that_cannot_name_a_destination_is_traced_all_the_same(
    shop: Shop, traces: Traces
) -> None:
    class Unsure(MemoryPublisher):
        def messaging_attributes(self, record: ClaimedRecord) -> dict[str, str | int]:
            raise LookupError(record.event_type)

    await shop.request(placed())
    await shop.deliver(Unsure())
    assert attributes(traces.one("send"))["messaging.destination.name"] == "OrderPlaced"


async def test_instrumenting_a_relay_twice_makes_one_span(shop: Shop, traces: Traces) -> None:
    relay = shop.relay(MemoryPublisher())
    traces.telemetry().instrument(relay)
    await shop.request(placed())
    await relay.run_once()
    assert len(traces.named("send")) == 1


# -- handlers


async def test_a_handler_runs_within_a_span_of_its_own(
    shop: Shop, traces: Traces, registry: EventRegistry
) -> None:
    @registry.handles(OrderPlaced, name="reserve")
    class Reserve:
        async def handle(self, event: OrderPlaced) -> None:
            with traces.tracer.start_as_current_span("SELECT stock"):
                pass

    event = placed()
    await shop.request(event)
    await shop.deliver(HandlersPublisher())
    span = traces.one("process")
    assert traces.path(traces.one("SELECT")) == [
        "POST /orders",
        "create OrderPlaced",
        "send OrderPlaced",
        "process OrderPlaced:reserve",
        "SELECT stock",
    ]
    assert span.kind is SpanKind.CONSUMER
    assert traces.one("send").kind is SpanKind.INTERNAL
    assert [link.context.span_id for link in span.links] == [id_of(traces.one("create"))]
    assert attributes(span) == {
        "messaging.system": "postroom",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": "OrderPlaced:reserve",
        "messaging.message.id": str(event.event_id),
    }


async def test_what_a_handler_captures_continues_the_trace_with_its_baggage(
    shop: Shop, traces: Traces, registry: EventRegistry
) -> None:
    tenants: list[object] = []

    @registry.handles(OrderPlaced, name="ship")
    class Ship:
        async def handle(self, event: OrderPlaced) -> None:
            await shop.save(OrderShipped(order_id=event.order_id))

    @registry.handles(OrderShipped, name="tell")
    class Tell:
        async def handle(self, event: OrderShipped) -> None:
            tenants.append(baggage.get_baggage("tenant"))

    token = attach(baggage.set_baggage("tenant", "blue"))
    try:
        await shop.request(placed())
    finally:
        detach(token)
    await shop.deliver(HandlersPublisher())
    await shop.deliver(HandlersPublisher())
    assert traces.path(traces.one("process OrderShipped")) == [
        "POST /orders",
        *("create OrderPlaced", "send OrderPlaced", "process OrderPlaced:ship"),
        *("create OrderShipped", "send OrderShipped", "process OrderShipped:tell"),
    ]
    assert tenants == ["blue"]


async def test_each_attempt_of_a_handler_is_a_span_and_shows_what_was_raised(
    shop: Shop, traces: Traces, registry: EventRegistry
) -> None:
    fails = [True, False]

    @registry.handles(OrderPlaced, name="charge")
    class Charge:
        async def handle(self, event: OrderPlaced) -> None:
            if fails.pop(0):
                raise LookupError("no such customer")

    @registry.handles(OrderPlaced, name="reserve")
    class Reserve:
        async def handle(self, event: OrderPlaced) -> None: ...

    await shop.request(placed())
    await shop.deliver(HandlersPublisher())
    first, second = traces.named("process OrderPlaced:charge")
    assert len(traces.named("process OrderPlaced:reserve")) == 1  # it is not run again
    assert first.status.status_code is StatusCode.ERROR
    assert first.status.description == "LookupError: no such customer"
    assert attributes(first)["error.type"] == "LookupError"
    [event] = first.events
    shown = dict(event.attributes or {})
    assert shown["exception.type"] == "LookupError"
    assert shown["exception.message"] == "no such customer"
    assert "in handle" in str(shown["exception.stacktrace"])
    assert second.status.status_code is StatusCode.UNSET
    assert attributes(traces.named("send")[0])["error.type"] == "refused"


async def test_a_handler_that_takes_too_long_ends_its_span_with_a_time_out(
    shop: Shop, traces: Traces, registry: EventRegistry
) -> None:
    @registry.handles(OrderPlaced, name="slow")
    class Slow:
        async def handle(self, event: OrderPlaced) -> None:
            await asyncio.Event().wait()

    await shop.request(placed())
    limit = timedelta(milliseconds=10)
    await shop.deliver(HandlersPublisher(timeout=limit), retry=RetrySchedule.seconds(3600))
    assert attributes(traces.one("process"))["error.type"] == "TimeoutError"


async def test_a_record_that_no_handler_can_be_given_shows_in_the_trace_why(
    shop: Shop, traces: Traces, registry: EventRegistry
) -> None:
    @registry.handles(OrderPlaced)
    class Reserve:
        async def handle(self, event: OrderPlaced) -> None: ...

    await shop.request(UntypedEvent(event_type="OrderPlaced", payload={}))
    assert (await shop.deliver(HandlersPublisher())).failed == 1
    assert "order_id" in str(traces.one("send").status.description)
    assert not traces.named("process")


@pytest.mark.parametrize("traces", [Traces(ALWAYS_OFF)], ids=["off"])
async def test_a_handler_of_a_trace_that_is_not_recorded_is_in_that_trace(
    shop: Shop, traces: Traces, registry: EventRegistry
) -> None:
    seen: list[trace.SpanContext] = []

    @registry.handles(OrderPlaced)
    class See:
        async def handle(self, event: OrderPlaced) -> None:
            seen.append(trace.get_current_span().get_span_context())

    with traces.tracer.start_as_current_span("request") as request:
        await shop.save(placed())
    await shop.deliver(HandlersPublisher())
    assert [each.trace_id for each in seen] == [request.get_span_context().trace_id]
    assert not seen[0].trace_flags.sampled


# -- secrets


@dataclass(frozen=True, kw_only=True)
class CardCharged(DomainEvent, aggregate="order", key="order_id"):
    order_id: str
    email: str
    password: str


@pytest.mark.requirement("E10")
async def test_no_span_shows_a_payload_a_password_or_a_redacted_value(
    sqlite_file: AsyncEngine, traces: Traces, registry: EventRegistry
) -> None:
    tenant = "canary-tenant"
    outbox = Outbox(
        MetaData(),
        table="traced",
        events=registry,
        redact=("email", "tenant"),
        headers=lambda: {"tenant": tenant},
    )

    @registry.handles(CardCharged, name="charge")
    class Charge:
        async def handle(self, event: CardCharged) -> None:
            try:
                raise LookupError(f"password {event.password}")
            except LookupError as error:
                url = "postgresql://app:canary-url@db/shop"
                raise ValueError(f"no {event.email} of {tenant} at {url}") from error

    async with sqlite_file.begin() as connection:
        await connection.run_sync(outbox.create_tables)
    shop = Shop(outbox, sqlite_file, traces)
    traces.telemetry().instrument(outbox)
    await shop.request(
        CardCharged(order_id="canary-order", email="canary@example.com", password="canary-password")
    )
    await shop.deliver(HandlersPublisher(), retry=RetrySchedule.seconds(3600))
    assert traces.names == [
        *("create CardCharged", "POST /orders"),
        *("process CardCharged:charge", "send CardCharged"),
    ]
    assert "The above exception was the direct cause" in traces.text()
    assert traces.one("process").status.description == (
        "ValueError: no [redacted] of [redacted] at postgresql://app:***@db/shop"
    )
    assert "canary" not in traces.text()

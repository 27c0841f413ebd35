"""Traces of captures: a span for each event, and its context in the record's headers."""

import gc
from collections.abc import Awaitable, Callable
from weakref import ref

import pytest
from opentelemetry import baggage, trace
from opentelemetry.context import attach, detach
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind
from sqlalchemy import MetaData, select
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker

from postroom import Event, EventBus, Outbox, OutboxRecord, UntypedEvent
from postroom.identity import uuid7
from postroom.integrations.opentelemetry.context import sampled_out
from tests.integration.capture.connections import KINDS, as_parameters
from tests.support.dropping import drop_tables
from tests.support.shop import Account, AccountRenamed
from tests.support.traces import Traces, context_of, id_of, traceparent

pytestmark = pytest.mark.requirement("E8")

OWN = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def traces() -> Traces:
    return Traces()


@pytest.fixture
async def outbox(
    request: pytest.FixtureRequest, sqlite_file: AsyncEngine, traces: Traces
) -> Outbox:
    """An outbox of the test's own, instrumented, with its tables; a parameter is its headers."""
    headers = getattr(request, "param", {})
    outbox = Outbox(MetaData(), table="traced", headers=lambda: headers)
    traces.telemetry().instrument(outbox)
    async with sqlite_file.begin() as connection:
        await connection.run_sync(outbox.create_tables)
    return outbox


def renamed(name: str = "b") -> AccountRenamed:
    return AccountRenamed(account_id=uuid7(), name=name)


async def records(outbox: Outbox, engine: AsyncEngine) -> list[OutboxRecord]:
    async with AsyncSession(engine) as session:
        position = outbox.tables.records.c.position
        return list(await session.scalars(select(outbox.record).order_by(position)))


async def dispatched(outbox: Outbox, engine: AsyncEngine) -> None:
    async with AsyncSession(engine) as session, session.begin():
        await outbox.dispatcher(session).dispatch([renamed()])


async def emitted(outbox: Outbox, engine: AsyncEngine) -> None:
    bus = EventBus()
    bus.emit(renamed())
    async with AsyncSession(engine) as session, session.begin():
        await outbox.middleware().flush(session, bus, user_id=7)


async def raised(outbox: Outbox, engine: AsyncEngine) -> None:
    sessions = async_sessionmaker(engine)
    outbox.capture(sessions)
    async with sessions() as session, session.begin():
        account = Account(id=uuid7(), name="a", email="a@b.com")
        account.rename("b")
        session.add(account)


async def saved(outbox: Outbox, engine: AsyncEngine) -> None:
    async with engine.begin() as connection:
        await outbox.save(connection, [renamed()])


@pytest.mark.parametrize("capture", [dispatched, emitted, raised, saved])
async def test_each_way_of_capture_stores_the_context_of_a_span_in_the_request_s_trace(
    capture: Callable[[Outbox, AsyncEngine], Awaitable[None]],
    outbox: Outbox,
    sqlite_file: AsyncEngine,
    traces: Traces,
) -> None:
    with traces.tracer.start_as_current_span("POST /accounts"):
        await capture(outbox, sqlite_file)
    [record] = await records(outbox, sqlite_file)
    span = traces.one("create")
    assert traces.path(span) == ["POST /accounts", "create AccountRenamed"]
    assert record.headers == {"traceparent": traceparent(span)}
    assert span.kind is SpanKind.PRODUCER
    assert dict(span.attributes or {}) == {
        "messaging.system": "postroom",
        "messaging.operation.name": "create",
        "messaging.operation.type": "create",
        "messaging.destination.name": "AccountRenamed",
        "messaging.message.id": str(record.id),
    }


@pytest.mark.parametrize("kind", as_parameters(KINDS))
async def test_save_stores_the_context_over_every_kind_of_connection(
    kind: str, engine: AsyncEngine, postgres_url: str, traces: Traces
) -> None:
    outbox = Outbox(MetaData(), table="traced")
    traces.telemetry().instrument(outbox)
    async with engine.begin() as connection:
        await connection.run_sync(outbox.create_tables)
    try:
        with traces.tracer.start_as_current_span("request"):
            async with KINDS[kind](postgres_url) as transaction:
                await transaction.save(renamed("a"), renamed("b"), into=outbox)
        stored = [record.headers["traceparent"] for record in await records(outbox, engine)]
    finally:
        await drop_tables(engine, outbox.metadata)
    assert stored == [traceparent(span) for span in traces.named("create")]
    assert len(set(stored)) == 2
    assert {span.parent and span.parent.span_id for span in traces.named("create")} == {
        id_of(traces.one("request"))
    }


async def test_baggage_and_trace_state_are_stored_too(
    outbox: Outbox, sqlite_file: AsyncEngine, traces: Traces
) -> None:
    state = trace.TraceState([("vendor", "x1")])
    flags = trace.TraceFlags(trace.TraceFlags.SAMPLED)
    remote = trace.SpanContext(1, 2, is_remote=True, trace_flags=flags, trace_state=state)
    context = trace.set_span_in_context(trace.NonRecordingSpan(remote))
    token = attach(baggage.set_baggage("tenant", "blue & co", context))
    try:
        await dispatched(outbox, sqlite_file)
    finally:
        detach(token)
    [record] = await records(outbox, sqlite_file)
    assert record.headers["tracestate"] == "vendor=x1"
    assert record.headers["baggage"] == "tenant=blue+%26+co"
    assert context_of(traces.one("create")).trace_id == 1


async def test_a_capture_outside_of_any_trace_begins_one(
    outbox: Outbox, sqlite_file: AsyncEngine, traces: Traces
) -> None:
    await dispatched(outbox, sqlite_file)
    [record] = await records(outbox, sqlite_file)
    assert traces.one("create").parent is None
    assert record.headers["traceparent"] == traceparent(traces.one("create"))


@pytest.mark.parametrize("traces", [Traces(ALWAYS_OFF)], ids=["off"])
async def test_a_trace_that_is_not_recorded_costs_no_span_and_is_stored(
    sqlite_file: AsyncEngine, outbox: Outbox, traces: Traces
) -> None:
    with traces.tracer.start_as_current_span("request") as request:
        await dispatched(outbox, sqlite_file)
    [record] = await records(outbox, sqlite_file)
    assert traces.spans == []
    trace_id = request.get_span_context().trace_id
    assert record.headers["traceparent"].startswith(f"00-{trace_id:032x}-")
    assert sampled_out(record.headers)


@pytest.mark.parametrize("outbox", [{"traceparent": OWN, "user": {"id": 5}}], indirect=True)
async def test_a_context_of_the_application_s_own_stays_as_it_is(
    outbox: Outbox, sqlite_file: AsyncEngine, traces: Traces
) -> None:
    with traces.tracer.start_as_current_span("request"):
        await dispatched(outbox, sqlite_file)
    [record] = await records(outbox, sqlite_file)
    assert record.headers == {"traceparent": OWN, "user": {"id": 5}}
    assert traces.names == ["request"]


NO_CONTEXTS = [5, None, ["x"], "", "rubbish", "00-" + "0" * 32 + "-1-01"]


@pytest.mark.parametrize(
    "outbox", [{"traceparent": each, "a": 1} for each in NO_CONTEXTS], indirect=True
)
async def test_a_header_that_is_no_context_is_replaced_and_breaks_nothing(
    outbox: Outbox, sqlite_file: AsyncEngine, traces: Traces
) -> None:
    await dispatched(outbox, sqlite_file)
    [record] = await records(outbox, sqlite_file)
    assert record.headers == {"traceparent": traceparent(traces.one("create")), "a": 1}


async def test_instrumenting_an_outbox_twice_makes_one_span(
    outbox: Outbox, sqlite_file: AsyncEngine, traces: Traces
) -> None:
    traces.telemetry().instrument(outbox)
    await dispatched(outbox, sqlite_file)
    assert len(traces.spans) == 1
    assert len(outbox.settings.callbacks) == 1


async def test_an_event_that_is_refused_leaves_no_span(outbox: Outbox, traces: Traces) -> None:
    events: list[Event] = [renamed(), UntypedEvent(event_type="x", payload={"n": float("nan")})]
    with pytest.raises(ValueError, match="NaN"):
        outbox.save_sync(AsyncSession().sync_session, events)
    assert traces.spans == []


async def test_an_outbox_that_was_instrumented_can_be_collected(traces: Traces) -> None:
    outbox = Outbox(MetaData(), table="traced")
    traces.telemetry().instrument(outbox)
    known = ref(outbox)
    del outbox
    gc.collect()
    assert known() is None

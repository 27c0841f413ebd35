"""Records to handlers in this process: what each of them gets, and what becomes of the record."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import NullPool
from sqlalchemy.ext.asyncio import create_async_engine

from postroom import (
    ConfigurationError,
    DomainEvent,
    Event,
    EventRegistry,
    UntypedEvent,
)
from postroom.errors import MAX_TEXT, ConnectionLostError, OutageError, UndeliverableError
from postroom.publishers.base import DELIVERED, Outcome, Postponed, Refused
from postroom.publishers.handlers.publisher import HandlersPublisher
from postroom.publishers.handlers.scopes import Scope
from postroom.record import ClaimedRecord
from tests.support.claims import claimed
from tests.support.shop import outbox

# Nothing answers there: a handler that is alone needs no database.
NOWHERE = create_async_engine("postgresql+asyncpg://nobody@127.0.0.1:1/none", poolclass=NullPool)


@dataclass(frozen=True, kw_only=True)
class OrderPlaced(DomainEvent, aggregate="order", key="number"):
    number: int
    lines: list[str]


class Recording:
    """A handler that keeps what it gets."""

    def __init__(self) -> None:
        self.got: list[Any] = []

    def __call__(self) -> "Recording":
        return self

    def handle(self, event: Any) -> None:  # a plain method will do
        self.got.append(event)


class Raising:
    """A handler that fails."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    async def handle(self, event: Any) -> None:
        raise self.error


@pytest.fixture
def registry() -> EventRegistry:
    registry = EventRegistry()
    registry.register(OrderPlaced)
    return registry


def order() -> OrderPlaced:
    return OrderPlaced(number=7, lines=["tea"])


def add(registry: EventRegistry, handler: Any, event: type | str = OrderPlaced) -> type[Any]:
    """Register a handler class whose instances are always this object."""

    class Handler:
        def __new__(cls) -> Any:
            return handler

    Handler.__qualname__ = f"{type(handler).__name__}{len(registry.handler_classes())}"
    registry.handles(event, name=f"shop.{type(handler).__name__}")(Handler)
    return Handler


def publisher_of(registry: EventRegistry, **options: Any) -> HandlersPublisher:
    publisher = HandlersPublisher(registry=registry, **options)
    publisher.use(outbox, NOWHERE)
    return publisher


async def deliver(
    registry: EventRegistry, record: ClaimedRecord | Event, **options: Any
) -> Outcome:
    publisher = publisher_of(registry, **options)
    one = record if isinstance(record, ClaimedRecord) else claimed(record)
    [outcome] = await publisher.publish([one])
    await publisher.close()
    return outcome


def refusal(outcome: Outcome) -> Refused:
    assert isinstance(outcome, Refused)
    return outcome


async def test_a_handler_of_a_class_gets_an_event_equal_to_the_original(
    registry: EventRegistry,
) -> None:
    handler, event = Recording(), order()
    add(registry, handler)
    assert await deliver(registry, event) == DELIVERED
    assert handler.got == [event]


@pytest.mark.parametrize("name", ["OrderPlaced", "parcel.sent"])
async def test_a_handler_of_a_name_gets_an_untyped_event_though_there_is_a_class(
    registry: EventRegistry, name: str
) -> None:
    handler = Recording()
    add(registry, handler, name)
    event = UntypedEvent(
        event_type=name, aggregate_type="order", aggregate_id="9", payload={"kg": 2}
    )
    assert await deliver(registry, event) == DELIVERED
    assert handler.got == [event]


async def test_one_handler_of_a_class_and_of_its_name_runs_once(registry: EventRegistry) -> None:
    handler, event = Recording(), order()
    handler_class = add(registry, handler)
    registry.handles("OrderPlaced", name="shop.Recording")(handler_class)
    assert await deliver(registry, event) == DELIVERED
    assert handler.got == [event]


async def test_two_handlers_by_one_name_are_refused(registry: EventRegistry) -> None:
    add(registry, Recording())
    add(registry, Recording(), "OrderPlaced")
    outcome = refusal(await deliver(registry, order()))
    assert "two handlers of OrderPlaced are called 'shop.Recording'" in outcome.reason
    assert not outcome.permanent


async def test_a_payload_is_read_at_the_version_of_its_record(registry: EventRegistry) -> None:
    @dataclass(frozen=True, kw_only=True)
    class Moved(DomainEvent, version=2):
        to: str

    handler, event = Recording(), Moved(to="Rome")
    add(registry, handler, Moved)
    registry.upcasts(Moved, version=1)(lambda old: {**old, "to": old["town"]})
    old = {"town": "Bath", "event_id": str(event.event_id), "event_version": 2}
    record = claimed(event, event_version=1, payload_json=json.dumps(old))
    assert await deliver(registry, record) == DELIVERED
    assert handler.got[0].to == "Bath"


def strangers(registry: EventRegistry) -> dict[str, Event | ClaimedRecord]:
    """Give what the handlers of a registry do not know, by its type and version."""

    @dataclass(frozen=True, kw_only=True)
    class Moved(DomainEvent, version=2):
        to: str

    add(registry, Recording(), Moved)
    event = Moved(to="Rome")
    return {
        "stranger v1": UntypedEvent(event_type="stranger", payload={}),
        "Moved v3": claimed(event, event_version=3),
        "Moved v1": claimed(event, event_version=1),  # nothing upcasts it here
    }


@pytest.mark.requirement("E12")
@pytest.mark.parametrize("name", ["stranger v1", "Moved v3", "Moved v1"])
async def test_an_event_that_only_other_code_knows_waits_for_a_worker_that_does(
    registry: EventRegistry, name: str
) -> None:
    record = strangers(registry)[name]
    publisher = publisher_of(registry)
    record = record if isinstance(record, ClaimedRecord) else claimed(record)
    [outcome] = await publisher.publish([record])
    assert isinstance(outcome, Postponed)
    assert f"no worker knows {name}: deploy the code that wrote it" in outcome.reason
    [route] = publisher.waiting_routes()
    assert (route.route, route.records) == (f"handlers of {name}", 1)
    assert route.reason == outcome.reason


async def test_an_event_that_nobody_knows_can_count_as_refused(registry: EventRegistry) -> None:
    publisher = publisher_of(registry, unknown="refuse")
    [outcome] = await publisher.publish([claimed(UntypedEvent(event_type="new", payload={}))])
    assert "no worker knows new v1" in refusal(outcome).reason
    assert not refusal(outcome).permanent
    assert publisher.waiting_routes() == ()
    with pytest.raises(ConfigurationError, match="unknown is 'fail'"):
        HandlersPublisher(unknown="fail")  # type: ignore[arg-type]


async def test_an_event_that_has_become_known_is_delivered_and_no_longer_waits(
    registry: EventRegistry,
) -> None:
    publisher, handler = publisher_of(registry), Recording()
    record = claimed(UntypedEvent(event_type="new", payload={}))
    await publisher.publish([record])
    add(registry, handler, "new")
    assert await publisher.publish([record]) == [DELIVERED]
    assert publisher.waiting_routes() == ()


async def test_what_no_handler_reads_may_be_of_any_version(registry: EventRegistry) -> None:
    registry.register(OrderPlaced)
    assert await deliver(registry, claimed(order(), event_version=7)) == DELIVERED
    add(registry, Recording(), "noted")
    noted = claimed(UntypedEvent(event_type="noted", payload={}), event_version=7)
    assert await deliver(registry, noted) == DELIVERED


async def test_two_classes_of_one_event_type_are_the_refusal_of_their_records_only(
    registry: EventRegistry,
) -> None:
    """An outage would stop all other records too."""

    def defined_in(module: str) -> type[OrderPlaced]:
        return dataclass(frozen=True, kw_only=True)(
            type("OrderShipped", (OrderPlaced,), {"__module__": module})
        )

    twins = [defined_in("shop"), defined_in("post")]
    add(registry, Recording(), OrderPlaced)
    outcome = refusal(await deliver(registry, claimed(twins[0](number=7, lines=[]))))
    assert "two classes are called 'OrderShipped'" in outcome.reason
    assert not outcome.permanent


@pytest.mark.parametrize("version", [0, -1])
async def test_a_version_that_is_none_is_refused_for_good(
    registry: EventRegistry, version: int
) -> None:
    add(registry, Recording(), OrderPlaced)
    outcome = refusal(await deliver(registry, claimed(order(), event_version=version)))
    assert outcome.permanent


@pytest.mark.parametrize("payload", ['{"number": "seven"}', "[]", "{"])
@pytest.mark.parametrize("handled", [OrderPlaced, "OrderPlaced"])
async def test_a_payload_that_does_not_fit_is_refused_for_good(
    registry: EventRegistry, payload: str, handled: type | str
) -> None:
    if handled == "OrderPlaced" and payload.startswith('{"'):
        payload = '"text"'
    add(registry, Recording(), handled)
    outcome = refusal(await deliver(registry, claimed(order(), payload_json=payload)))
    assert "OrderPlaced" in outcome.reason
    assert outcome.permanent


async def test_a_class_without_a_handler_is_delivered_in_silence(
    registry: EventRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    assert await deliver(registry, order()) == DELIVERED
    assert caplog.records == []


DEAD = UndeliverableError("dead")


@pytest.mark.parametrize(
    ("error", "refused"),
    [
        (RuntimeError("no tea"), Refused("shop.Raising: RuntimeError: no tea")),
        (TimeoutError("too slow"), Refused("shop.Raising: TimeoutError: too slow")),
        (asyncio.CancelledError(), Refused("shop.Raising: CancelledError()")),  # of its own work
        (DEAD, Refused("shop.Raising: UndeliverableError: dead", permanent=True)),
    ],
)
async def test_a_failure_names_the_handler_and_the_error(
    registry: EventRegistry,
    caplog: pytest.LogCaptureFixture,
    error: BaseException,
    refused: Refused,
) -> None:
    add(registry, Raising(error))
    outcome = refusal(await deliver(registry, order()))
    assert outcome == refused
    assert outcome.error is error
    assert caplog.records == []  # the relay logs it, with what becomes of the record


@pytest.mark.requirement("E10")
@pytest.mark.parametrize("before", ["", "x" * (MAX_TEXT - 5)])
async def test_a_refusal_shows_nothing_of_a_hidden_field_also_where_its_reason_is_cut_off(
    registry: EventRegistry, before: str
) -> None:
    add(registry, Raising(ValueError(f"{before}hunter2 is wrong")), "card.charged")
    event = UntypedEvent(event_type="card.charged", payload={"pin": "hunter2"})
    assert "hunt" not in refusal(await deliver(registry, event)).reason


def no_line(handler_class: type[Any]) -> Any:
    raise OutageError("bank closed")


@pytest.mark.parametrize("error", [OutageError("bank closed"), ConnectionLostError("bank closed")])
@pytest.mark.parametrize("options", [{}, {"factory": no_line}])
async def test_an_outage_is_no_answer_about_the_record(
    registry: EventRegistry, error: OutageError, options: dict[str, Any]
) -> None:
    add(registry, Raising(error))
    with pytest.raises(OutageError, match=r"shop\.Raising: bank closed") as caught:
        await deliver(registry, order(), **options)
    assert type(caught.value) is OutageError


async def test_several_handlers_cannot_do_without_the_inbox(registry: EventRegistry) -> None:
    add(registry, Recording())
    add(registry, Raising(ValueError()))
    with pytest.raises(OutageError, match="`outbox_inbox` cannot be read"):
        await deliver(registry, order())


class Sleeping:
    """A handler that never ends by itself."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.cancelled = False

    async def handle(self, event: Any) -> None:
        self.started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise


async def test_a_handler_that_takes_too_long_is_refused(registry: EventRegistry) -> None:
    handler = Sleeping()
    add(registry, handler)
    outcome = await deliver(registry, order(), timeout=timedelta(milliseconds=1))
    assert outcome == Refused("shop.Sleeping: TimeoutError: took longer than 0:00:00.001000")
    assert handler.cancelled


async def test_a_cancelled_delivery_cancels_its_handlers(registry: EventRegistry) -> None:
    handler = Sleeping()
    add(registry, handler)
    delivery = asyncio.create_task(deliver(registry, order(), timeout=None))
    await handler.started.wait()
    delivery.cancel()
    with pytest.raises(asyncio.CancelledError):
        await delivery
    assert handler.cancelled


class Opened(Recording):
    """A handler that has to be opened and closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open = False

    def handle(self, event: Any) -> None:
        assert self.open
        super().handle(event)

    @asynccontextmanager
    async def lasting(self) -> AsyncIterator["Opened"]:
        self.open = True
        yield self
        self.open = False


async def awaited(handler: Opened) -> Opened:
    handler.open = True
    return handler


def at_once(handler: Opened) -> Opened:
    handler.open = True
    return handler


@pytest.mark.parametrize(
    ("make", "stays_open"), [(at_once, True), (awaited, True), (Opened.lasting, False)]
)
async def test_a_factory_gives_a_handler_in_any_way(
    registry: EventRegistry, make: Callable[[Opened], Any], stays_open: bool
) -> None:
    handler, asked = Opened(), []

    def factory(handler_class: type[Any]) -> Any:
        asked.append(handler_class)
        return make(handler)

    handler_class = add(registry, handler)
    assert await deliver(registry, order(), factory=factory) == DELIVERED
    assert (asked, len(handler.got), handler.open) == ([handler_class], 1, stays_open)


async def test_a_handler_that_cannot_be_built_is_refused_by_name(registry: EventRegistry) -> None:
    class Needy:
        def __init__(self, unit_of_work: Any) -> None: ...

    registry.handles(OrderPlaced)(Needy)
    outcome = refusal(await deliver(registry, order()))
    assert "Needy cannot be built: TypeError" in outcome.reason
    assert "unit_of_work" in outcome.reason
    assert not outcome.permanent


class ClosingBadly:
    """A container whose scopes break when they close."""

    def __init__(self, handler: Any) -> None:
        self._handler = handler

    @asynccontextmanager
    async def __call__(self) -> AsyncIterator[Scope]:
        try:
            yield self
        finally:
            raise OSError("cannot close")

    async def get(self, dependency_type: Any, /) -> Any:
        return self._handler


async def test_a_scope_that_cannot_be_closed_is_a_failure_and_does_not_hide_why(
    registry: EventRegistry,
) -> None:
    add(registry, Recording())
    outcome = await deliver(registry, order(), container=ClosingBadly(Recording()))
    assert outcome == Refused("shop.Recording: OSError: cannot close")
    container = ClosingBadly(Raising(OutageError("bank closed")))
    with pytest.raises(OutageError, match="bank closed"):
        await deliver(registry, order(), container=container)


async def test_the_registry_is_that_of_the_outbox_unless_told_otherwise() -> None:
    publisher = HandlersPublisher()
    publisher.use(outbox, NOWHERE)
    assert publisher.registry is outbox.settings.registry


def test_a_handler_may_take_a_minute_and_records_are_settled_one_by_one() -> None:
    publisher = HandlersPublisher(max_in_flight=3)
    assert (publisher.max_batch, publisher.max_in_flight) == (1, 3)
    assert publisher._timeout == timedelta(minutes=5)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"container": ClosingBadly(None), "factory": Recording}, "not from both"),
        ({"session": Recording}, "there is no container"),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    options: dict[str, Any], error: str
) -> None:
    with pytest.raises(ConfigurationError, match=error):
        HandlersPublisher(**options)


async def test_a_publisher_without_an_outbox_says_so() -> None:
    with pytest.raises(ConfigurationError, match="needs the outbox"):
        await HandlersPublisher().open()
    with pytest.raises(ConfigurationError, match="needs the outbox"):
        await HandlersPublisher().publish([claimed(order())])

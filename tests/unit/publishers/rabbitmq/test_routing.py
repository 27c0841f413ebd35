"""Which exchange a record goes to, and by which routing key."""

from typing import Any

import pytest

from postroom import UntypedEvent
from postroom.errors import ConfigurationError
from postroom.publishers.rabbitmq import RabbitMQPublisher, Route
from postroom.publishers.rabbitmq.routing import Destination, Routes, Routing
from postroom.record import ClaimedRecord
from tests.support.claims import claimed


def record(event_type: str = "order.placed", key: str = "7") -> ClaimedRecord:
    return claimed(
        UntypedEvent(event_type=event_type, aggregate_type="order", aggregate_id=key, payload={})
    )


@pytest.mark.requirement("C9")
def test_without_routes_the_routing_key_is_the_event_type() -> None:
    routing = Routing("messaging", {})
    assert routing.destinations(record()) == (("messaging", "order.placed"),)
    assert list(routing.exchanges()) == []


@pytest.mark.requirement("E2")
def test_a_route_says_what_is_different_and_the_rest_stays() -> None:
    routes = {
        "a": Route(exchange="other"),
        "b": Route(routing_key="key"),
        "c": Route(exchange="other", routing_key="key"),
        "d": Route(),
    }
    routing = Routing("own", routes)
    places = [routing.destinations(record(each)) for each in "abcde"]
    assert places == [
        (("other", "a"),),
        (("own", "key"),),
        (("other", "key"),),
        (("own", "d"),),
        (("own", "e"),),
    ]


def test_an_empty_name_is_the_default_exchange_and_an_empty_key_is_one() -> None:
    routing = Routing("own", {"a": Route(exchange="", routing_key="")})
    assert routing.destinations(record("a")) == (("", ""),)
    assert list(routing.exchanges()) == []


def test_a_function_is_asked_for_the_routing_key_of_each_record() -> None:
    by_id = Route(routing_key=lambda each: f"{each.event_type}.{each.aggregate_id}")
    routing = Routing("own", {"order.placed": by_id})
    keys = [routing.destinations(record(key=key))[0].routing_key for key in ("1", "2")]
    assert keys == ["order.placed.1", "order.placed.2"]


def test_a_record_goes_to_several_places_but_to_each_once() -> None:
    routes = [Route(), Route(exchange="audit"), Route(exchange="own"), Route(routing_key="all")]
    routing = Routing("own", {"order.placed": routes})
    assert routing.destinations(record()) == (
        Destination("own", "order.placed"),
        Destination("audit", "order.placed"),
        Destination("own", "all"),
    )


def test_the_type_itself_wins_then_the_first_pattern() -> None:
    routes = {
        "order.#": Route(routing_key="any"),
        "order.*": Route(routing_key="one"),
        "order.placed": Route(routing_key="itself"),
    }
    routing = Routing("own", routes)
    for _ in range(2):  # what was found is kept
        found = [
            routing.destinations(record(each))[0].routing_key
            for each in ("order.placed", "order.paid", "order.line.added", "invoice")
        ]
        assert found == ["itself", "any", "any", "invoice"]


def test_the_exchanges_of_routes_are_listed_once_without_the_own() -> None:
    routes: Routes = {
        "a": Route(exchange="z"),
        "b": [Route(exchange="own"), Route(exchange="y"), Route(exchange="z"), Route()],
    }
    assert list(Routing("own", routes).exchanges()) == ["y", "z"]


@pytest.mark.parametrize("route", [[], (), "exchange", ["exchange"], None, [Route(), "x"]])
def test_what_is_no_route_is_refused_by_name(route: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"'order\.placed'.*Give it one Route or more"):
        RabbitMQPublisher("amqp://h", exchange="own", routes={"order.placed": route})

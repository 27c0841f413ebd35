"""Which exchange a record goes to, and by which routing key."""

from datetime import timedelta
from typing import Any

import pytest

from postroom import UntypedEvent
from postroom.errors import ConfigurationError
from postroom.publishers.rabbitmq import RabbitMQPublisher, Route
from postroom.publishers.rabbitmq.amqp.address import parse
from postroom.publishers.rabbitmq.attributes import messaging_attributes
from postroom.publishers.rabbitmq.routing import Destination, Routes, Routing, Target
from postroom.record import ClaimedRecord
from tests.support.claims import claimed


def record(event_type: str = "order.placed", key: str = "7") -> ClaimedRecord:
    return claimed(
        UntypedEvent(event_type=event_type, aggregate_type="order", aggregate_id=key, payload={})
    )


def destinations(routing: Routing, record: ClaimedRecord) -> tuple[Destination, ...]:
    return tuple(each.place for each in routing.targets(record))


@pytest.mark.requirement("C9")
def test_without_routes_the_routing_key_is_the_event_type() -> None:
    routing = Routing("messaging", {})
    assert destinations(routing, record()) == (("messaging", "order.placed"),)
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
    places = [destinations(routing, record(each)) for each in "abcde"]
    assert places == [
        (("other", "a"),),
        (("own", "key"),),
        (("other", "key"),),
        (("own", "d"),),
        (("own", "e"),),
    ]


def test_an_empty_name_is_the_default_exchange_and_an_empty_key_is_one() -> None:
    routing = Routing("own", {"a": Route(exchange="", routing_key="")})
    assert destinations(routing, record("a")) == (("", ""),)
    assert list(routing.exchanges()) == []


def test_a_function_is_asked_for_the_routing_key_of_each_record() -> None:
    by_id = Route(routing_key=lambda each: f"{each.event_type}.{each.aggregate_id}")
    routing = Routing("own", {"order.placed": by_id})
    keys = [destinations(routing, record(key=key))[0].routing_key for key in ("1", "2")]
    assert keys == ["order.placed.1", "order.placed.2"]


def test_a_record_goes_to_several_places_but_to_each_once() -> None:
    routes = [Route(), Route(exchange="audit"), Route(exchange="own"), Route(routing_key="all")]
    routing = Routing("own", {"order.placed": routes})
    assert destinations(routing, record()) == (
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
            destinations(routing, record(each))[0].routing_key
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


def test_a_route_has_the_choices_of_the_publisher_unless_it_has_its_own() -> None:
    routes: Routes = {
        "a": Route(unroutable="accept"),
        "b": [Route(rejected="wait"), Route(exchange="other")],
    }
    routing = Routing("own", routes, Route(unroutable="refuse", rejected="refuse"))
    found = [
        (each.unroutable, each.rejected) for name in "abc" for each in routing.targets(record(name))
    ]
    assert found == [
        ("accept", "refuse"),
        ("refuse", "wait"),
        ("refuse", "refuse"),
        ("refuse", "refuse"),
    ]
    [target] = Routing("own", {}).targets(record())
    assert (target.unroutable, target.rejected) == ("wait", "wait")


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"unroutable": "drop"}, "'wait', 'refuse' or 'accept'"),
        ({"rejected": "accept"}, "'wait' or 'refuse'"),
        ({"priority": -1}, "priority is -1"),
        ({"priority": 256}, "from 0 to 255"),
        ({"priority": 1.0}, "from 0 to 255"),
        ({"expiration": timedelta(seconds=-1)}, "0 to 49 days"),
        ({"expiration": timedelta(days=50)}, "0 to 49 days"),
        ({"expiration": 30}, "a timedelta"),
        ({"app_id": "é" * 128}, "up to 255 bytes"),
        ({"app_id": 7}, "up to 255 bytes"),
    ],
)
def test_what_a_route_cannot_be_is_a_configuration_error(wrong: dict[str, Any], text: str) -> None:
    Route(priority=1)  # equal to 1.0, and right
    Route(priority=0, expiration=timedelta())
    Route(priority=255, expiration=timedelta(milliseconds=2**32 - 1), app_id="")
    with pytest.raises(ConfigurationError, match=text):
        Route(**wrong)
    if wrong.keys() <= {"unroutable", "rejected"}:
        with pytest.raises(ConfigurationError, match=text):
            RabbitMQPublisher("amqp://h", exchange="own", **wrong)
        nothing: Any = dict.fromkeys(wrong)
        with pytest.raises(ConfigurationError, match="is None"):
            RabbitMQPublisher("amqp://h", exchange="own", **nothing)


@pytest.mark.requirement("E8")
@pytest.mark.parametrize(
    ("place", "name"),
    [
        (("shop", "order.placed"), "shop:order.placed"),
        (("shop", ""), "shop"),
        (("", "orders"), "orders"),
        (("", ""), "amq.default"),
    ],
)
def test_a_span_names_the_destination_as_opentelemetry_does(
    place: tuple[str, str], name: str
) -> None:
    [address] = parse("amqp://app:secret@mq:5673/shop")
    found = messaging_attributes([Target(Destination(*place))], address)
    assert found.pop("messaging.rabbitmq.destination.routing_key", "") == place[1]
    assert found == {
        "messaging.system": "rabbitmq",
        "messaging.destination.name": name,
        "server.address": "mq",
        "server.port": 5673,
    }


@pytest.mark.requirement("E8")
def test_a_publisher_names_every_destination_of_a_record() -> None:
    routes = {"order.*": [Route(), Route(exchange="audit", routing_key=lambda it: it.id.hex)]}
    publisher = RabbitMQPublisher("amqp://mq", exchange="shop", routes=routes)
    made = record()
    assert publisher.messaging_attributes(made) == {
        "messaging.system": "rabbitmq",
        "messaging.destination.name": f"shop:order.placed, audit:{made.id.hex}",
    }

"""`Route`: where the records of an event type go."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple

from postroom.errors import ConfigurationError
from postroom.events.topics import topic_matches
from postroom.publishers.rabbitmq.message import NO_PROPERTIES, Properties, encode_properties
from postroom.publishers.waiting import Rejected, Unroutable, check_choice
from postroom.record import ClaimedRecord

RoutingKey = str | Callable[[ClaimedRecord], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A destination of records, for `RabbitMQPublisher(…, routes=…)`."""

    exchange: str | None = None
    """The exchange; that of the publisher if None."""
    routing_key: RoutingKey | None = None
    """The routing key, or a function that returns it for a record; the event type if None."""
    unroutable: Unroutable | None = None
    """What happens to a record that no queue takes; as the publisher says if None."""
    rejected: Rejected | None = None
    """What happens to a record that a full queue rejects; as the publisher says if None."""
    priority: int | None = None
    """The priority of the messages, 0 to 255."""
    expiration: timedelta | None = None
    """The time after which a queue drops the message."""
    app_id: str | None = None
    """The `app_id` of the messages."""

    def __post_init__(self) -> None:
        if self.unroutable is not None:
            check_choice("unroutable", self.unroutable, Unroutable)
        if self.rejected is not None:
            check_choice("rejected", self.rejected, Rejected)
        encode_properties(self.priority, self.expiration, self.app_id)


Routes = Mapping[str, Route | Sequence[Route]]
"""By event type, or by a pattern: `order.*`, `order.#`. The type itself wins, then the first."""


class Destination(NamedTuple):
    """An exchange, and the routing key for it."""

    exchange: str
    routing_key: str


class Target(NamedTuple):
    """A destination, and what its route says of messages to it."""

    place: Destination
    unroutable: Unroutable = "wait"
    rejected: Rejected = "wait"
    properties: Properties = NO_PROPERTIES


class Routing:
    """Tells where each record goes. `default`: the route of a type without a route."""

    def __init__(self, exchange: str, routes: Routes, default: Route | None = None) -> None:
        self._exchange = exchange
        self._default = default or Route()
        self._routes = {name: _several(name, route) for name, route in routes.items()}
        self._found: dict[str, tuple[Route, ...]] = {}
        self._fixed: dict[str, tuple[Target, ...]] = {}
        """The targets by event type, if they are the same for every record of it."""

    def targets(self, record: ClaimedRecord) -> tuple[Target, ...]:
        """Give every place that a record goes to, each once."""
        fixed = self._fixed.get(record.event_type)
        return self._ask(record) if fixed is None else fixed

    def fixed(self, event_type: str) -> Iterator[Target]:
        """Give the places that every record of a type goes to, whatever is in it."""
        for route in self._find(event_type):
            if not callable(route.routing_key):
                yield self._target(route, event_type, route.routing_key)

    def _ask(self, record: ClaimedRecord) -> tuple[Target, ...]:
        routes = self._found.get(record.event_type)
        if routes is None:
            routes = self._found[record.event_type] = self._find(record.event_type)
        by_place: dict[Destination, Target] = {}
        for route in routes:
            key = route.routing_key
            target = self._target(route, record.event_type, key(record) if callable(key) else key)
            by_place.setdefault(target.place, target)
        targets = tuple(by_place.values())
        if not any(callable(route.routing_key) for route in routes):
            self._fixed[record.event_type] = targets
        return targets

    def exchanges(self) -> Iterator[str]:
        """Give the exchanges that routes name, besides the publisher's own."""
        named = {route.exchange for routes in self._routes.values() for route in routes}
        return (name for name in sorted(named - {None, self._exchange}, key=str) if name)

    def _find(self, event_type: str) -> tuple[Route, ...]:
        if event_type in self._routes:
            return self._routes[event_type]
        matching = (pattern for pattern in self._routes if topic_matches(pattern, event_type))
        return self._routes.get(next(matching, ""), (self._default,))

    def _target(self, route: Route, event_type: str, key: str | None) -> Target:
        exchange = self._exchange if route.exchange is None else route.exchange
        return Target(
            Destination(exchange, event_type if key is None else key),
            route.unroutable or self._default.unroutable or "wait",
            route.rejected or self._default.rejected or "wait",
            encode_properties(route.priority, route.expiration, route.app_id),
        )


def _several(name: str, route: Route | Sequence[Route]) -> tuple[Route, ...]:
    several: Sequence[Any] = route if isinstance(route, Sequence) else [route]
    routes = tuple(each for each in several if isinstance(each, Route))
    if not routes or len(routes) < len(several):
        raise ConfigurationError(f"the route of {name!r} is {route!r}. Give it one Route or more.")
    return routes

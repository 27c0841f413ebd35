"""Where the records of an event type go."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from postroom.errors import ConfigurationError
from postroom.publishers.topics import topic_matches
from postroom.record import ClaimedRecord

RoutingKey = str | Callable[[ClaimedRecord], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One place that records go to.

    - `exchange`: the publisher's own unless told otherwise
    - `routing_key`: the event type unless told otherwise; a function is asked for each record
    """

    exchange: str | None = None
    routing_key: RoutingKey | None = None


Routes = Mapping[str, Route | Sequence[Route]]
"""By event type, or by a pattern: `order.*`, `order.#`. The type itself wins, then the first."""


class Destination(NamedTuple):
    """An exchange, and the routing key for it."""

    exchange: str
    routing_key: str


class Routing:
    """Tells where each record goes."""

    def __init__(self, exchange: str, routes: Routes) -> None:
        self._exchange = exchange
        self._routes = {name: _several(name, route) for name, route in routes.items()}
        self._found: dict[str, tuple[Route, ...]] = {}
        self._fixed: dict[str, tuple[Destination, ...]] = {}
        """The destinations by event type, if they are the same for every record of it."""

    def destinations(self, record: ClaimedRecord) -> tuple[Destination, ...]:
        """Give every place that a record goes to, each once."""
        fixed = self._fixed.get(record.event_type)
        return self._ask(record) if fixed is None else fixed

    def _ask(self, record: ClaimedRecord) -> tuple[Destination, ...]:
        routes = self._found.get(record.event_type)
        if routes is None:
            routes = self._found[record.event_type] = self._find(record.event_type)
        places = tuple(dict.fromkeys(self._destination(route, record) for route in routes))
        if not any(callable(route.routing_key) for route in routes):
            self._fixed[record.event_type] = places
        return places

    def exchanges(self) -> Iterator[str]:
        """Give the exchanges that routes name, besides the publisher's own."""
        named = {route.exchange for routes in self._routes.values() for route in routes}
        return (name for name in sorted(named - {None, self._exchange}, key=str) if name)

    def _find(self, event_type: str) -> tuple[Route, ...]:
        if event_type in self._routes:
            return self._routes[event_type]
        matching = (pattern for pattern in self._routes if topic_matches(pattern, event_type))
        return self._routes.get(next(matching, ""), (Route(),))

    def _destination(self, route: Route, record: ClaimedRecord) -> Destination:
        key = route.routing_key
        if callable(key):
            key = key(record)
        exchange = self._exchange if route.exchange is None else route.exchange
        return Destination(exchange, record.event_type if key is None else key)


def _several(name: str, route: Route | Sequence[Route]) -> tuple[Route, ...]:
    several: Sequence[Any] = route if isinstance(route, Sequence) else [route]
    routes = tuple(each for each in several if isinstance(each, Route))
    if not routes or len(routes) < len(several):
        raise ConfigurationError(f"the route of {name!r} is {route!r}. Give it one Route or more.")
    return routes

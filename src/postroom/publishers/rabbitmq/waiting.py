"""Of a route that fails, one message tries it and the others wait."""

from collections.abc import Iterable, Sequence

from postroom.publishers.base import Delivered, Postponed
from postroom.publishers.rabbitmq.parcel import Parcel
from postroom.publishers.rabbitmq.routing import Destination
from postroom.publishers.waiting import WaitingRoutes

Waiting = WaitingRoutes[str | Destination]
"""By exchange, if the whole exchange cannot be used, or by destination."""


def describe(route: str | Destination) -> str:
    """Name a route for logs and health."""
    if isinstance(route, str):
        return f"exchange `{route}`"
    exchange, routing_key = route
    if not exchange:
        return f"queue `{routing_key}` (by the default exchange)"
    return f"routing key `{routing_key}` of exchange `{exchange}`"


def divide(waiting: Waiting, parcels: Sequence[Parcel]) -> tuple[list[Parcel], list[Parcel]]:
    """Return the parcels to send, and those to hold back.

    Of each route that fails, the first parcel is sent, to try the route.
    """
    tried: set[str | Destination] = set()
    sent: list[Parcel] = []
    held: list[Parcel] = []
    for parcel in parcels:
        route = failing(waiting, parcel)
        if route in tried:
            held.append(parcel)
        elif parcel.in_flight or not isinstance(parcel.outcome, Postponed):
            sent.append(parcel)
        if route is not None:
            tried.add(route)
    return sent, held


def failing(waiting: Waiting, parcel: Parcel) -> str | Destination | None:
    """Return the route that keeps a parcel from being sent: its exchange, or its destination."""
    if parcel.outcome is not None or parcel.in_flight:
        return None
    place = parcel.place
    if waiting.fails(place.exchange):
        return place.exchange
    return place if waiting.fails(place) else None


def hold_back(waiting: Waiting, parcels: Iterable[Parcel]) -> None:
    """Postpone parcels whose route still fails, without sending them."""
    for parcel in parcels:
        route = failing(waiting, parcel)
        if route is not None:
            parcel.outcome = waiting.postpone(route, parcel.id, waiting.reason(route))


def hold_together(waiting: Waiting, parcels: Sequence[Parcel]) -> None:
    """Postpone all parcels of a record, without sending them, if the route of one fails."""
    routes = [failing(waiting, parcel) for parcel in parcels]
    route = next((each for each in routes if each is not None), None)
    if route is not None:
        for parcel in parcels:
            parcel.outcome = waiting.postpone(route, parcel.id, waiting.reason(route))


def note(waiting: Waiting, parcels: Sequence[Parcel]) -> None:
    """Note what came of parcels that were sent: which routes can be used, and which cannot."""
    if waiting:
        waiting.forget_old()
        for parcel in parcels:
            if parcel.answer is not None:  # so its exchange is there, and may be written to
                waiting.delivered(parcel.place.exchange, parcel.id)
            if isinstance(parcel.outcome, Delivered):
                waiting.delivered(parcel.place, parcel.id)
    for parcel in parcels:
        if isinstance(parcel.outcome, Postponed):
            route = parcel.waits_for or parcel.place
            parcel.outcome = waiting.postpone(route, parcel.id, parcel.outcome.reason)

"""What the broker's words, and its answers together, are taken to mean."""

from datetime import timedelta

import pytest

from postroom import Postponed, Refused
from postroom.identity import uuid7
from postroom.publishers.base import DELIVERED, Outcome
from postroom.publishers.rabbitmq.amqp.errors import ClosedError
from postroom.publishers.rabbitmq.parcel import Parcel
from postroom.publishers.rabbitmq.routing import Destination, Target
from postroom.publishers.rabbitmq.verdict import (
    LATER,
    is_about_one_key,
    named_by,
    size_limit,
    unanswered,
    verdict,
)

SIZES = [
    "PRECONDITION_FAILED - message size 70000 is larger than configured max size 65536",
    "PRECONDITION_FAILED - message size 70000 larger than max size 65536",
    "PRECONDITION_FAILED - message size 70000 is larger than max size '65536'",
]
MISSING = ClosedError(404, "NOT_FOUND - no exchange 'bills' in vhost '/'")
DENIED = ClosedError(
    403, "ACCESS_REFUSED - write access to exchange 'bills' in vhost '/' refused for user 'ann'"
)
ONE_KEY = ClosedError(
    403,
    "ACCESS_REFUSED - write access to topic 'bill.paid' in exchange 'bills' in vhost '/' refused"
    " for user 'ann'",
)


def parcel(exchange: str, routing_key: str = "x", outcome: Outcome | None = None) -> Parcel:
    made = Parcel(uuid7(), (b"", b""), Target(Destination(exchange, routing_key)))
    made.outcome = outcome
    return made


@pytest.mark.parametrize("text", SIZES)
def test_the_limit_of_size_is_read_from_the_brokers_text(text: str) -> None:
    assert size_limit(ClosedError(406, text)) == 65536


def test_a_limit_in_a_text_about_something_else_is_none() -> None:
    assert size_limit(ClosedError(404, "no exchange 'larger than max size 1' in vhost '/'")) is None
    assert size_limit(ClosedError(406, "PRECONDITION_FAILED - invalid expiration")) is None


@pytest.mark.parametrize("error", [MISSING, DENIED])
def test_all_parcels_of_the_exchange_that_is_named_are_meant(error: ClosedError) -> None:
    meant = [parcel("bills", "a"), parcel("bills", "b")]

    assert named_by(error, [parcel("orders"), *meant]) == meant
    assert not is_about_one_key(error)


def test_of_a_routing_key_that_is_named_only_its_own_parcels_are_meant() -> None:
    meant = parcel("bills", "bill.paid")

    others = [parcel("bills", "bill.sent"), parcel("orders", "bill.paid")]
    assert named_by(ONE_KEY, [*others, meant]) == [meant]
    assert is_about_one_key(ONE_KEY)


def test_a_text_that_names_nobody_means_nobody() -> None:
    assert named_by(ClosedError(541, "INTERNAL_ERROR"), [parcel("bills")]) == []


def test_what_is_refused_somewhere_is_refused_with_all_reasons() -> None:
    some = [parcel("a", outcome=DELIVERED), parcel("b", outcome=Refused("full"))]
    late = parcel("c", outcome=Postponed("late"))

    assert verdict(some) == Refused("full")
    assert verdict([*some, late]) == Refused("full; late")


def test_it_is_given_up_only_if_no_place_could_still_take_it() -> None:
    never = parcel("a", outcome=Refused("too large", permanent=True))

    assert verdict([never, parcel("b", outcome=DELIVERED)]) == Refused("too large", permanent=True)
    assert verdict([never, parcel("b", outcome=Refused("full"))]) == Refused("too large; full")
    assert verdict([never, parcel("b", outcome=Postponed("late"))]) == Refused("too large; late")


def test_what_has_only_to_wait_is_postponed_and_what_is_unknown_is_never_delivered() -> None:
    assert verdict([parcel("a", outcome=Postponed("late"))]) == Postponed("late")
    assert verdict([parcel("a", outcome=DELIVERED), parcel("b")]) == Postponed("", LATER)
    delays = [Postponed("late", timedelta(seconds=n)) for n in (1, 7, 3)]
    outcome = verdict([parcel("a", outcome=each) for each in delays])
    assert outcome == Postponed("late; late; late", timedelta(seconds=7))


def test_unanswered_is_what_has_no_outcome() -> None:
    open_one = parcel("a")
    assert unanswered([open_one, parcel("b", outcome=DELIVERED)]) == [open_one]

"""Which parcels are sent while a route cannot be used, and what is noted of their answers."""

from collections.abc import Sequence

from postroom import Postponed
from postroom.identity import uuid7
from postroom.publishers.rabbitmq.amqp.outgoing import Answer
from postroom.publishers.rabbitmq.parcel import NACKED, Parcel
from postroom.publishers.rabbitmq.routing import Destination, Target
from postroom.publishers.rabbitmq.waiting import (
    Waiting,
    describe,
    divide,
    failing,
    hold_back,
    hold_together,
    note,
)

A, B = Destination("e", "a"), Destination("e", "b")
ELSEWHERE = Destination("other", "a")


def parcels(*places: Destination) -> list[Parcel]:
    return [Parcel(uuid7(), (b"", b""), Target(place)) for place in places]


def after(answer: Answer, *places: Destination) -> Waiting:
    """Give the routes that are known to wait when each of these places has answered so."""
    waiting = Waiting(describe)
    sent = parcels(*places)
    for each in sent:
        each.settle(answer, "312 NO_ROUTE")
    note(waiting, sent)
    return waiting


def places(some: Sequence[Parcel]) -> list[Destination]:
    return [each.place for each in some]


def test_a_route_is_named_by_its_exchange_and_routing_key() -> None:
    assert describe(A) == "routing key `a` of exchange `e`"
    assert describe(Destination("", "mail")) == "queue `mail` (by the default exchange)"
    assert describe("shop") == "exchange `shop`"


def test_of_a_route_that_fails_the_first_parcel_is_sent_and_the_others_are_held_back() -> None:
    waiting = after(Answer.NACK, A)
    sent, held = divide(waiting, parcels(A, B, A, ELSEWHERE, A, B))
    assert places(sent) == [A, B, ELSEWHERE, B]
    assert places(held) == [A, A]


def test_of_an_exchange_that_fails_one_parcel_is_sent_whatever_its_routing_key() -> None:
    waiting = Waiting(describe)
    waiting.postpone("e", uuid7(), "no exchange")
    sent, held = divide(waiting, parcels(A, B, ELSEWHERE, A))
    assert places(sent) == [A, ELSEWHERE]
    assert places(held) == [B, A]


def test_what_is_held_back_is_postponed_for_the_reason_of_its_route() -> None:
    waiting = after(Answer.NACK, A)
    _, held = divide(waiting, parcels(A, A))
    hold_back(waiting, held)
    [outcome] = [each.outcome for each in held]
    assert isinstance(outcome, Postponed)
    assert outcome.reason == NACKED
    assert waiting.report()[0].records == 2


def test_when_the_first_is_taken_the_others_may_be_sent() -> None:
    waiting = after(Answer.RETURNED, A)
    sent, held = divide(waiting, parcels(A, A, A))
    sent[0].settle(Answer.ACK)
    note(waiting, sent)
    assert [failing(waiting, each) for each in held] == [None, None]


def test_an_answer_of_any_kind_shows_that_the_exchange_is_there() -> None:
    waiting = Waiting(describe)
    [first, second] = parcels(A, B)
    waiting.postpone("e", first.id, "no exchange")
    first.settle(Answer.RETURNED, "312 NO_ROUTE")
    note(waiting, [first])
    assert not waiting.fails("e")
    assert waiting.fails(A)
    assert failing(waiting, second) is None


def test_a_parcel_in_flight_is_neither_held_back_nor_does_it_try_the_route() -> None:
    waiting = after(Answer.NACK, A)
    late, *others = parcels(A, A, A)
    late.in_flight, late.outcome = True, Postponed("not confirmed")
    sent, held = divide(waiting, [late, *others])
    assert sent == [late, others[0]]
    assert held == [others[1]]


def test_a_record_that_goes_to_two_places_can_be_held_back_from_both() -> None:
    waiting = after(Answer.NACK, A)
    both, neither = parcels(B, A), parcels(B, ELSEWHERE)
    hold_together(waiting, both)
    hold_together(waiting, neither)
    assert [type(each.outcome) for each in both] == [Postponed, Postponed]
    assert [each.outcome for each in neither] == [None, None]
    assert divide(waiting, both) == ([], [])


def test_a_message_that_nobody_has_to_want_shows_that_its_route_can_be_used() -> None:
    waiting = after(Answer.NACK, A)
    [sent] = [Parcel(uuid7(), (b"", b""), Target(A, unroutable="accept"))]
    sent.settle(Answer.RETURNED, "312 NO_ROUTE")
    note(waiting, [sent])
    assert not waiting.fails(A)

"""Deliveries: how many at once, what an answer does, and what an outage does."""

import asyncio
import logging
from collections.abc import Sequence
from typing import cast

import pytest

from postroom.errors import ConnectionLostError, OutageError
from postroom.publishers.base import DELIVERED, Outage, Postponed, Refused
from postroom.record import ClaimedRecord
from postroom.relay.breaker import Breaker
from postroom.relay.delivery import PROBE_PATIENCE, Delivery
from postroom.relay.health import Tally
from postroom.relay.leases import HeldLeases
from postroom.relay.poison import ONE_BY_ONE_AFTER, Poison
from postroom.store.base import HeldRecord, Lease
from postroom.store.key_order import KeyOrder
from postroom.store.store import Store
from tests.unit.relay.fake_publisher import Answer, FakePublisher, Reply, delivers_all
from tests.unit.relay.fake_store import FakeStore, refused_connection
from tests.unit.relay.hand_clock import START, HandClock, let_tasks_run
from tests.unit.relay.records import claim, many, record
from tests.unit.relay.settings import relay_settings

BROKE_ALONE = "the connection broke each time this record was sent alone"


class FakedDelivery:
    """A delivery with a fake publisher, and a lease of partition 1 with the token 1."""

    def __init__(
        self, *, max_batch: int = 10, max_in_flight: int = 10, unsettled_limit: int = 1000
    ) -> None:
        self.clock = HandClock()
        self.publisher = FakePublisher(max_batch=max_batch, max_in_flight=max_in_flight)
        self.breaker = Breaker("the publisher", self.clock, self._note)
        self.order = KeyOrder()
        self.poison = Poison()
        self.store = FakeStore(self.clock)
        self.leases = HeldLeases(1000.0)
        self.leases.polled([Lease(partition=1, token=1)], asked_at=START)
        self.changes = 0
        self.delivery = Delivery(
            worker="ann",
            store=cast(Store, self.store),
            publisher=self.publisher,
            settings=relay_settings(batch_size=unsettled_limit - max_in_flight),
            clock=self.clock,
            breaker=self.breaker,
            order=self.order,
            leases=self.leases,
            poison=self.poison,
            tally=Tally(),
            changed=self._note,
        )

    def _note(self) -> None:
        self.changes += 1

    @property
    def outcomes(self) -> list[tuple[int, object]]:
        return [(held.position, outcome) for held, outcome in self.delivery.outcomes.items()]

    def hold(self, *records: HeldRecord) -> None:
        self.order.add(claim(*records))

    async def send(self, *records: HeldRecord) -> None:
        """Hold records, and send what may be sent."""
        self.hold(*records)
        self.delivery.send()
        await let_tasks_run()

    async def deliver(self, *positions: int) -> None:
        self.publisher.deliver(*positions)
        await let_tasks_run()

    async def fail(self, position: int, error: BaseException) -> None:
        self.publisher.fail(position, error)
        await let_tasks_run()

    def settle(self) -> None:
        for held in self.delivery.outcomes:
            self.order.settled(held)
        self.delivery.outcomes.clear()

    def was_in_flight_at_a_break(self, position: int) -> bool:
        """Return whether a break of the connection is held against a record."""
        other = record(1_000_000)
        [held] = [each for each in self.order.held if each.position == position]
        return self.poison.least_suspicious([held, other]) is other

    def half_open(self) -> None:
        """Have an outage, and a connection again."""
        self.breaker.trip("away")
        self.breaker.half_open()


# -- how many at once


async def test_no_more_are_in_flight_than_the_publisher_takes() -> None:
    faked = FakedDelivery(max_batch=4, max_in_flight=6)
    await faked.send(*many(20))
    assert faked.publisher.calls == [[1, 2, 3, 4], [5, 6]]
    assert faked.delivery.room == 0
    await faked.deliver(5)
    assert faked.publisher.calls[2:] == [[7, 8]]
    assert faked.publisher.most_in_flight == 6


async def test_nothing_is_sent_beyond_the_limit_of_what_is_unsettled() -> None:
    faked = FakedDelivery(max_batch=1, max_in_flight=4, unsettled_limit=6)
    await faked.send(*many(20))
    while faked.publisher.in_flight:
        assert len(faked.publisher.in_flight) + len(faked.delivery.outcomes) <= 6
        await faked.deliver(faked.publisher.in_flight[0])
    assert (faked.publisher.sent, faked.delivery.room) == ([1, 2, 3, 4, 5, 6], 0)
    faked.settle()
    assert faked.delivery.room == 4
    await faked.send()
    assert faked.publisher.in_flight == [7, 8, 9, 10]


async def test_room_is_never_below_zero() -> None:
    faked = FakedDelivery(max_in_flight=2, unsettled_limit=3)
    await faked.send(*(record(number, fault="no payload") for number in range(1, 4)))
    assert (faked.publisher.calls, len(faked.outcomes)) == ([], 3)
    assert faked.changes > 0  # though nothing was sent
    faked.delivery.refuse(record(9), Refused("it kills"))
    assert (len(faked.delivery.outcomes), faked.delivery.room) == (4, 0)


async def test_only_what_is_allowed_is_sent() -> None:
    faked = FakedDelivery()
    others = [record(number, token=2) for number in (1, 3, 5)]  # of a lease that is not held
    await faked.send(*others, record(2), record(4))
    assert faked.publisher.calls == [[2, 4]]
    faked.delivery.closed = True
    await faked.send(record(6))
    assert faked.publisher.calls == [[2, 4]]


# -- answers


async def test_the_next_of_a_key_is_sent_at_once_before_anything_is_settled() -> None:
    faked = FakedDelivery()
    await faked.send(record(1, "a"), record(2, "a"), record(3, "a"))
    await faked.deliver(1)
    assert (faked.publisher.calls, faked.outcomes) == ([[1], [2]], [(1, DELIVERED)])


async def test_each_outcome_is_noted_and_the_loop_is_called() -> None:
    faked = FakedDelivery()
    await faked.send(*many(3))
    before = faked.changes
    refused, postponed = Refused("no route"), Postponed("queue is full")
    faked.publisher.answer(1, DELIVERED, refused, postponed)
    await let_tasks_run()
    assert faked.outcomes == [(1, DELIVERED), (2, refused), (3, postponed)]
    assert faked.changes > before
    assert not faked.delivery.tasks


@pytest.mark.parametrize("outcome", [Refused("no route"), Postponed("queue is full")])
async def test_nothing_of_a_key_is_sent_after_a_record_that_was_not_delivered(
    outcome: Refused | Postponed,
) -> None:
    faked = FakedDelivery()
    await faked.send(record(1, "a"), record(2, "a"), record(3, "b"))
    faked.publisher.answer(1, outcome, DELIVERED)
    await let_tasks_run()
    await faked.send()
    assert faked.publisher.calls == [[1, 3]]


async def test_a_record_that_is_not_even_to_be_sent_is_refused_and_the_rest_is_sent() -> None:
    faked = FakedDelivery()
    await faked.send(record(1), record(2, fault="no payload"), record(3))
    bad = Refused("its row cannot be read as a record: no payload", permanent=True)
    assert (faked.publisher.calls, faked.outcomes) == ([[1, 3]], [(2, bad)])


async def test_a_record_can_be_refused_without_sending_it() -> None:
    faked = FakedDelivery()
    one = record(1, "a")
    faked.hold(one, record(2, "a"))
    faked.delivery.refuse(one, Refused("it kills the process"))
    await faked.send()
    assert faked.outcomes == [(1, Refused("it kills the process"))]
    assert faked.publisher.calls == []


# -- what can be settled


async def test_outcomes_can_be_settled_at_once_and_are_kept_until_they_are() -> None:
    faked = FakedDelivery()
    await faked.send(*many(3))
    await faked.deliver()
    faked.store.fail("settle", refused_connection)
    with pytest.raises(OSError, match="Connect call failed"):
        await faked.delivery.settle()
    assert [held.position for held in faked.delivery.to_settle(0)] == [1, 2, 3]
    settlement = await faked.delivery.settle()
    assert [held.position for held in settlement.delivered] == [1, 2, 3]
    assert (faked.outcomes, list(faked.order.held)) == ([], [])


@pytest.mark.parametrize(
    ("outcome", "at_once"), [(Refused("no route"), True), (Postponed("queue is full"), False)]
)
async def test_a_refusal_is_settled_at_once_and_a_postponed_record_with_others(
    outcome: Refused | Postponed, at_once: bool
) -> None:
    faked = FakedDelivery()
    await faked.send(*many(2))
    faked.delivery._settled_at = 100.0
    faked.publisher.answer(1, outcome, DELIVERED)
    await let_tasks_run()
    assert (faked.delivery.plan_settlement() < 100) == at_once


async def test_after_a_conflict_outcomes_wait_for_a_moment_or_only_those_that_are_locked() -> None:
    faked = FakedDelivery()
    await faked.send(*many(3))
    await faked.deliver()
    faked.delivery.settle_at = 10
    assert (len(faked.delivery.to_settle(9.9)), len(faked.delivery.to_settle(10))) == (0, 3)
    faked.delivery.locked = {each for each in faked.delivery.outcomes if each.position == 2}
    assert [held.position for held in faked.delivery.to_settle(9.9)] == [1, 3]


# -- outages


async def test_an_outage_returns_the_records_and_opens_the_breaker() -> None:
    faked = FakedDelivery()
    await faked.send(*many(3))
    await faked.fail(1, OutageError("the broker is away"))
    assert (faked.outcomes, list(faked.order.in_flight), len(faked.order.sendable)) == ([], [], 3)
    assert (faked.breaker.state, faked.breaker.reason) == ("open", "the broker is away")
    assert not faked.was_in_flight_at_a_break(1)
    await faked.send()
    assert faked.publisher.calls == [[1, 2, 3]]


async def test_an_outage_among_the_answers_is_about_the_records_that_have_it() -> None:
    faked = FakedDelivery()
    await faked.send(*many(4))
    away, refused = Outage("away"), Refused("no route")
    faked.publisher.answer(1, DELIVERED, away, refused, away)
    await let_tasks_run()
    assert faked.outcomes == [(1, DELIVERED), (3, refused)]
    assert sorted(each.position for each in faked.order.sendable) == [2, 4]
    assert (faked.breaker.state, faked.breaker.reason) == ("open", "away")


@pytest.mark.parametrize(
    ("answers", "problem"),
    [
        *(([DELIVERED] * each, f"gave {each} answers for 3 records") for each in (0, 1, 4)),
        ([DELIVERED, True, DELIVERED], "has to be Delivered, Refused, Postponed or Outage"),
    ],
)
async def test_a_publisher_that_gives_other_answers_has_an_outage(
    answers: list[Answer], problem: str
) -> None:
    faked = FakedDelivery()
    await faked.send(*many(3))
    faked.publisher.answer(1, *answers)
    await let_tasks_run()
    assert (faked.breaker.state, faked.outcomes, len(faked.order.sendable)) == ("open", [], 3)
    assert problem in faked.breaker.reason
    assert faked.delivery.bug is None


async def test_what_a_publisher_should_not_raise_is_an_outage_and_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    faked = FakedDelivery()
    await faked.send(*many(2))
    await faked.fail(1, KeyError("a bug of the publisher"))
    assert (faked.breaker.state, len(faked.order.sendable)) == ("open", 2)
    assert "the publisher raised KeyError" in faked.breaker.reason
    [failed] = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert failed.exc_info is not None
    assert faked.was_in_flight_at_a_break(1)  # a record may have caused it


async def test_a_publisher_that_cancels_its_own_call_has_an_outage() -> None:
    faked = FakedDelivery()
    await faked.send(*many(2))
    await faked.fail(1, asyncio.CancelledError())
    assert (faked.breaker.state, len(faked.order.sendable)) == ("open", 2)
    assert "cancelled its own call" in faked.breaker.reason


async def test_cancelled_deliveries_count_as_not_delivered() -> None:
    faked = FakedDelivery(max_batch=1)
    await faked.send(*many(3))
    await faked.deliver(2)
    await faked.delivery.cancel()
    assert faked.outcomes == [(2, DELIVERED)]
    assert (list(faked.order.in_flight), len(faked.order.sendable)) == ([], 2)
    assert (bool(faked.delivery.tasks), faked.breaker.state) == (False, "closed")
    await faked.send()
    assert len(faked.publisher.calls) == 3


# -- trying a publisher that has opened again


async def test_one_record_is_sent_to_try_the_publisher_and_the_rest_after_its_answer() -> None:
    faked = FakedDelivery()
    faked.half_open()
    await faked.send(*many(5))
    await faked.send()
    assert faked.publisher.calls == [[1]]
    faked.publisher.answer(1, Refused("no route"))  # an answer, whatever it is
    await let_tasks_run()
    assert faked.breaker.state == "closed"
    assert faked.publisher.calls == [[1], [2, 3, 4, 5]]


async def test_an_answer_to_a_record_from_before_the_outage_does_not_close_the_breaker() -> None:
    faked = FakedDelivery(max_batch=1)
    await faked.send(record(1))
    faked.half_open()
    await faked.send(record(2), record(3))
    await faked.deliver(1)
    assert (faked.breaker.state, faked.publisher.calls) == ("half_open", [[1], [2]])
    await faked.deliver(2)
    assert (faked.breaker.state, faked.publisher.calls) == ("closed", [[1], [2], [3]])


async def test_another_probe_is_sent_when_the_first_one_takes_long() -> None:
    faked = FakedDelivery(max_in_flight=2)
    faked.half_open()
    await faked.send(*many(5))
    for seconds, calls in ((PROBE_PATIENCE - 0.01, 1), (0.01, 2), (PROBE_PATIENCE, 2)):
        faked.clock.now += seconds
        await faked.send()
        assert faked.publisher.calls == [[1], [2]][:calls]  # there is room for two
    await faked.deliver(1)  # late, but an answer
    assert faked.breaker.state == "closed"


async def test_the_probe_is_a_record_that_was_in_flight_at_no_break() -> None:
    faked = FakedDelivery(max_in_flight=2)
    await faked.send(*many(3))
    await faked.fail(1, ConnectionLostError("reset by peer"))
    faked.breaker.half_open()
    await faked.send()
    assert faked.publisher.calls == [[1, 2], [3]]


async def test_no_other_record_is_sent_beside_one_that_goes_with_care_and_tries_the_publisher() -> (
    None
):
    faked = FakedDelivery()
    crashed = Lease(partition=1, token=1, crash_count=ONE_BY_ONE_AFTER)
    faked.leases.polled([crashed, Lease(partition=2, token=1)], asked_at=START)
    faked.poison.look_at([crashed], START)
    faked.half_open()
    faked.hold(record(1), record(2, partition=2))
    await faked.delivery.send_suspects()
    await faked.send()
    assert faked.publisher.calls == [[1]]
    await faked.deliver(1)
    assert (faked.breaker.state, faked.publisher.calls) == ("closed", [[1], [2]])


# -- a record that breaks the connection


def breaks_the_connection(position: int) -> Reply:
    """Return replies of a publisher whose connection breaks when it sends a certain record."""

    def reply(records: Sequence[ClaimedRecord]) -> Sequence[Answer]:
        if any(each.position == position for each in records):
            raise ConnectionLostError("reset by peer.")
        return delivers_all(records)

    return reply


async def test_a_record_that_breaks_connections_is_found_and_refused_and_all_others_delivered() -> (
    None
):
    faked = FakedDelivery()
    faked.publisher.reply = breaks_the_connection(3)
    faked.hold(*many(4))
    for number in range(20):
        faked.breaker.half_open()
        await faked.send(record(100 + number))
    refused = {at: outcome for at, outcome in faked.outcomes if outcome != DELIVERED}
    assert refused == {3: Refused(f"{BROKE_ALONE}: reset by peer.")}
    assert len(faked.outcomes) == 24
    assert [call for call in faked.publisher.calls if 3 in call][-2:] == [[3], [3]]


async def test_a_record_that_goes_alone_waits_until_nothing_is_in_flight() -> None:
    faked = FakedDelivery(max_batch=1)
    suspect = record(2)
    for _ in range(2):
        faked.poison.answered([record(99)])
        faked.poison.connection_broke([suspect])
    await faked.send(record(1))
    await faked.send(suspect, record(3))
    assert faked.publisher.calls == [[1]]
    await faked.deliver(1)
    assert faked.publisher.calls == [[1], [2]]
    await faked.deliver(2)
    assert faked.publisher.calls == [[1], [2], [3]]

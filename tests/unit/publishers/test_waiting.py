"""Routes that cannot be used: how long records wait for them, and what is said of them."""

import logging
from uuid import UUID

import pytest

from postroom.errors import ConfigurationError
from postroom.identity import uuid7
from postroom.publishers.base import Postponed, WaitingRoute
from postroom.publishers.waiting import (
    LISTED,
    LOG_EVERY,
    LONGEST,
    OVER_AFTER,
    QUIET,
    REMEMBERED,
    RETRIES_PER_SECOND,
    SHORTEST,
    SLOTS,
    Rejected,
    Unroutable,
    WaitingRoutes,
    check_choice,
)
from tests.unit.still_clock import StillClock


@pytest.fixture
def clock() -> StillClock:
    return StillClock(100.0)


@pytest.fixture
def routes(clock: StillClock) -> WaitingRoutes[str]:
    return WaitingRoutes(lambda each: f"route `{each}`", clock)


def seconds(postponed: Postponed) -> float:
    return postponed.delay.total_seconds()


def test_a_record_waits_a_second_at_first_then_as_long_as_its_route_has_failed_then_30_seconds(
    clock: StillClock, routes: WaitingRoutes[str]
) -> None:
    record_id = uuid7()
    for expected in (1, 1, 2, 4, 8, 16, 30, 30, 30):
        delay = seconds(routes.postpone("a", record_id, "full"))
        assert expected * (1 - 1 / SLOTS) <= delay <= expected
        clock.now += expected
    assert (SHORTEST, LONGEST) == (1, 30)
    assert 2 * LONGEST <= OVER_AFTER  # else its route would be forgotten while it waits


def test_records_that_are_postponed_one_after_the_other_are_due_together(
    clock: StillClock, routes: WaitingRoutes[str]
) -> None:
    routes.postpone("a", uuid7(), "full")
    clock.now += 60
    due = set()
    for _ in range(3000):  # 30 seconds long
        clock.now += 0.01
        due.add(round(clock.now + seconds(routes.postpone("a", uuid7(), "full")), 3))
    assert SLOTS <= len(due) <= SLOTS + 1


@pytest.mark.parametrize("route", ["a", "key {}"], ids=["one route", "a route per record"])
def test_so_many_records_that_they_would_be_a_burden_wait_longer_from_the_start(
    routes: WaitingRoutes[str], route: str
) -> None:
    many = range(20 * RETRIES_PER_SECOND)
    last = [routes.postpone(route.format(number), uuid7(), "full") for number in many][-1]
    assert 16 < seconds(last) <= 20


def test_a_route_fails_until_it_takes_a_record(routes: WaitingRoutes[str]) -> None:
    assert not routes
    assert not routes.fails("a")
    outcome = routes.postpone("a", uuid7(), "full")
    assert outcome.reason == "full"
    assert SHORTEST / 2 < seconds(outcome) <= SHORTEST
    assert routes
    assert (routes.fails("a"), routes.fails("b"), routes.reason("a")) == (True, False, "full")
    routes.delivered("a", uuid7())
    assert not routes.fails("a")


def test_a_route_that_fails_again_begins_with_short_delays(
    clock: StillClock, routes: WaitingRoutes[str]
) -> None:
    routes.postpone("a", uuid7(), "full")
    clock.now += 50
    assert seconds(routes.postpone("a", uuid7(), "full")) > LONGEST / 2
    routes.delivered("a", uuid7())
    assert seconds(routes.postpone("a", uuid7(), "full")) <= SHORTEST


def test_a_route_is_reported_until_all_that_waited_for_it_are_delivered(
    clock: StillClock, routes: WaitingRoutes[str]
) -> None:
    first, second = uuid7(), uuid7()
    for each in (first, second, first):
        routes.postpone("a", each, "the queue is full")
    clock.now += 7
    [report] = routes.report()
    assert report == WaitingRoute(
        route="route `a`", reason="the queue is full", seconds=7, records=2
    )
    assert str(report) == "route `a` cannot be used: the queue is full. 2 records wait"
    routes.delivered("a", first)
    assert str(routes.report()[0]).endswith(". 1 record waits")
    routes.delivered("a", second)
    assert routes.report() == ()
    assert not routes


def test_a_route_that_no_record_waits_for_any_more_is_forgotten_after_a_minute(
    clock: StillClock, routes: WaitingRoutes[str], caplog: pytest.LogCaptureFixture
) -> None:
    routes.postpone("a", uuid7(), "full")  # another worker delivers it
    clock.now += OVER_AFTER - 0.1
    assert len(routes.report()) == 1
    clock.now += 1.1
    assert routes.report() == ()
    assert len(caplog.messages) == 2


def test_a_route_is_logged_when_it_begins_to_wait_every_five_minutes_and_when_it_ends(
    clock: StillClock, routes: WaitingRoutes[str], caplog: pytest.LogCaptureFixture
) -> None:
    ids = [uuid7() for _ in range(100)]
    for _ in range(21):  # of 30 seconds each
        for each in ids:
            routes.postpone("a", each, "the queue is full")
        clock.now += 30
    for each in ids:
        routes.delivered("a", each)
    still = "route `a` cannot be used: the queue is full. 100 records wait"
    assert LOG_EVERY == 300
    assert caplog.messages == [
        "postroom: route `a` cannot be used: the queue is full. Its records wait, and are not"
        " counted",
        f"postroom: still waiting, for 300 s: {still}",
        f"postroom: still waiting, for 600 s: {still}",
        "postroom: no record waits for route `a` any more, after 630.0 s; 100 had to wait",
    ]
    assert {each.levelno for each in caplog.records} == {logging.WARNING}


def test_a_route_that_is_over_and_fails_again_at_once_is_logged_again_after_a_minute(
    clock: StillClock, routes: WaitingRoutes[str], caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(100):  # a queue that is drained slowly
        record_id = uuid7()
        routes.postpone("a", record_id, "full")
        clock.now += 0.1
        routes.delivered("a", record_id)
    assert len(caplog.messages) == 2
    routes.postpone("a", uuid7(), "full")
    clock.now += QUIET
    routes.postpone("a", uuid7(), "full")
    assert len(caplog.messages) == 3
    assert "still waiting, for 60 s" in caplog.messages[2]


def test_a_route_that_works_and_fails_in_turn_is_logged_once(
    routes: WaitingRoutes[str], caplog: pytest.LogCaptureFixture
) -> None:
    waits = uuid7()
    for _ in range(10):
        routes.postpone("a", waits, "full")
        routes.delivered("a", uuid7())
    assert len(caplog.messages) == 1


def test_of_very_many_routes_only_some_are_logged_and_reported(
    routes: WaitingRoutes[str], caplog: pytest.LogCaptureFixture
) -> None:
    waiting: dict[str, UUID] = {f"key {n}": uuid7() for n in range(REMEMBERED + 10)}
    for route, record_id in waiting.items():
        routes.postpone(route, record_id, "full")
    assert len(caplog.messages) == LISTED + 1
    assert "20 routes cannot be used; more are not logged" in caplog.messages[-1]
    assert len(routes.report()) == LISTED
    for route, record_id in waiting.items():
        routes.delivered(route, record_id)
    assert not routes


@pytest.mark.parametrize("value", ["Wait", "", None, 1, ["wait"]])
def test_a_choice_that_there_is_not_is_a_configuration_error(value: object) -> None:
    with pytest.raises(ConfigurationError, match="'wait', 'refuse' or 'accept'"):
        check_choice("unroutable", value, Unroutable)
    with pytest.raises(ConfigurationError, match="'wait' or 'refuse'"):
        check_choice("rejected", value, Rejected)

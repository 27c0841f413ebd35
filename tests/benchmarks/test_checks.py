"""The checks of the benchmarks notice what is lost, out of order, or beyond a bound."""

import pytest

from benchmarks.arrivals import Arrivals, LostError, check_complete, check_order
from benchmarks.figures import Figure, table


def test_all_events_in_the_order_of_their_keys_pass() -> None:
    taken = [("a", 0), ("b", 1), ("a", 2), ("b", 3)]
    check_complete(taken, 4)
    check_order(taken)


def test_a_missing_event_is_noticed() -> None:
    with pytest.raises(LostError, match="1 of 3 events are missing, as 1"):
        check_complete([("a", 0), ("a", 2)], 3)


def test_events_of_a_key_that_arrive_in_another_order_are_noticed() -> None:
    with pytest.raises(LostError, match="event 0 of a arrived after event 2"):
        check_order([("a", 2), ("b", 1), ("a", 0)])


def test_a_second_delivery_is_not_out_of_order() -> None:
    check_order([("a", 0), ("a", 2), ("a", 0), ("a", 2), ("a", 4)])


def test_a_rate_counts_from_the_first_look_that_found_messages() -> None:
    arrivals = Arrivals(seen=[(10.0, 100), (10.5, 600), (11.0, 1100)])
    assert arrivals.rate == 1000
    assert arrivals.last_tenth_to_first() == pytest.approx(1)


def test_a_rate_that_falls_is_noticed() -> None:
    arrivals = Arrivals(seen=[(0.0, 0), (1.0, 100), (2.0, 900), (6.0, 1000)])
    assert arrivals.last_tenth_to_first() == pytest.approx(0.25)


def test_the_median_decides_about_a_bound() -> None:
    slow = Figure(row="r", contender="c", what="rate", values=[0.5, 0.7, 0.9], at_least=0.75)
    quick = Figure(row="r", contender="c", what="time", values=[1, 2, 9], unit="ms", at_most=3)
    assert (slow.ok, quick.ok) == (False, True)
    assert table([slow, quick]).splitlines()[1:] == [
        "r    c          rate    0.70 × (0.60–0.80)   ≥ 0.75  NOT OK",
        "r    c          time    2.00 ms (1.50–5.50)  ≤ 3     ok",
    ]

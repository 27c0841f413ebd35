"""The counters of the demo's page show what goes wrong."""

from demo.ledger import Arrival, Ledger


def arrival(position: int, key: str = "message 1") -> Arrival:
    return Arrival(id=f"record {position}", key=key, position=position)


def counts(ledger: Ledger) -> tuple[int, int, int]:
    return ledger.out_of_order, ledger.doubled, ledger.dropped


def test_records_that_arrive_once_and_in_order_are_no_problem() -> None:
    ledger = Ledger()
    for each in (arrival(2), arrival(1, "message 2"), arrival(3), arrival(5, "message 2")):
        ledger.note(each, acted=True)
    assert counts(ledger) == (0, 0, 0)
    assert ledger.lost(["record 1", "record 2", "record 3", "record 5"]) == 0


def test_a_record_that_arrives_after_a_later_one_of_its_key_is_out_of_order() -> None:
    ledger = Ledger()
    for each in (arrival(1), arrival(3), arrival(2), arrival(4)):
        ledger.note(each, acted=True)
    assert counts(ledger) == (1, 0, 0)


def test_a_repeat_that_is_acted_on_is_doubled() -> None:
    ledger = Ledger()
    for each in (arrival(1), arrival(2), arrival(2)):
        ledger.note(each, acted=True)
    assert counts(ledger) == (0, 1, 0)


def test_a_repeat_that_the_inbox_drops_is_neither_doubled_nor_out_of_order() -> None:
    ledger = Ledger()
    ledger.note(arrival(1), acted=True)
    ledger.note(arrival(2), acted=True)
    ledger.note(arrival(1), acted=False)
    assert counts(ledger) == (0, 0, 1)
    assert (ledger.deliveries("record 1"), ledger.deliveries("record 2")) == (2, 1)


def test_a_record_that_is_called_delivered_and_was_never_acted_on_is_lost() -> None:
    ledger = Ledger()
    ledger.note(arrival(1), acted=True)
    ledger.note(arrival(2), acted=False)
    assert ledger.lost(["record 1", "record 2", "record 3"]) == 2

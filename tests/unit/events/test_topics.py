"""Patterns match as the AMQP 0-9-1 specification has it, and RabbitMQ for empty words."""

import pytest

from postroom.events.topics import topic_matches

MATCHES: dict[str, tuple[list[str], list[str]]] = {
    "order.placed": (
        ["order.placed"],
        ["order.paid", "order", "order.placed.now", "orderxplaced", "Order.placed"],
    ),
    "order.*": (["order.placed", "order."], ["order", "order.line.added"]),
    "*": (["order"], ["order.placed", ""]),
    "*.placed": (["order.placed"], ["placed"]),
    "*.*": (["order.placed"], []),
    "order.*.added": (["order.line.added", "order..added"], ["order.added"]),
    "#": (["order", "order.line.added", ""], []),
    "order.#": (["order", "order.placed", "order.line.added"], ["orders.placed"]),
    "#.added": (["added", "order.line.added"], ["order.line.added.now"]),
    "order.#.added": (["order.added", "order.a.b.added"], ["order.added.a"]),
    "#.line.#": (["order.line.added", "line"], ["order.lines"]),
    "#.*": (["order"], []),
    "*.#": (["order.placed"], []),
    "#.#": (["order"], []),
    "#.*.#": ([], [""]),
    "": ([""], ["order"]),
    "order*": ([], ["order.placed"]),
    "order#": ([], ["order.placed"]),
    "order.pl*": ([], ["order.placed"]),
    "order.[a-z]+": ([], ["order.placed"]),
}
"""By pattern: the routing keys that it matches, and others."""


@pytest.mark.parametrize("pattern", MATCHES)
def test_a_pattern_matches_as_a_topic_exchange_does(pattern: str) -> None:
    matching, others = MATCHES[pattern]
    assert [key for key in [*matching, *others] if topic_matches(pattern, key)] == matching


def test_a_pattern_of_many_hashes_costs_no_more_than_others() -> None:
    assert not topic_matches("#.a." * 60 + "b", ".".join("a" * 120))

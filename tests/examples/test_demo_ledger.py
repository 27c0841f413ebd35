"""The counters of the demo's page show what goes wrong."""

import pytest

from demo.ledger import Arrival, Ledger

DROPPED = False
"""The inbox has dropped this arrival; every other is acted on."""


@pytest.mark.parametrize(
    ("arrivals", "counts", "lost"),
    [
        ([(2, "a"), (1, "b"), (3, "a"), (5, "b")], (0, 0, 0), 0),
        ([(1, "a"), (3, "a"), (2, "a"), (4, "a")], (1, 0, 0), 0),
        ([(1, "a"), (2, "a"), (2, "a")], (0, 1, 0), 0),
        ([(1, "a"), (2, "a"), (1, "a", DROPPED)], (0, 0, 1), 0),
        ([(1, "a"), (2, "a", DROPPED)], (0, 0, 1), 1),
    ],
    ids=["in order", "out of order", "doubled", "dropped", "lost"],
)
def test_each_fault_is_counted_as_what_it_is(
    arrivals: list[tuple[int, str] | tuple[int, str, bool]],
    counts: tuple[int, int, int],
    lost: int,
) -> None:
    ledger = Ledger()
    for position, key, *acted in arrivals:
        arrival = Arrival(id=f"record {position}", key=key, position=position)
        ledger.note(arrival, acted=not acted)
    assert (ledger.out_of_order, ledger.doubled, ledger.dropped) == counts
    assert ledger.lost([f"record {position}" for position, *_ in arrivals]) == lost

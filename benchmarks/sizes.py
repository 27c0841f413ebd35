"""How much a run measures: all of it, or little of everything."""

from collections.abc import Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Records and turns of every row of the table."""

    turns: int
    burst: int
    drain: int
    long_drain: int
    long_turns: int
    hot_key: int
    hot_turns: int
    workers_drain: int
    worker_counts: Sequence[int]
    latency_slices: int
    latency_slice: int
    """Events of a slice, at 50 a second."""
    published: int
    followers: int
    backoff: int
    claim_rounds: int

    def with_turns(self, turns: int) -> "Sizes":
        """The same with so many turns of each contender."""
        return replace(self, turns=turns, long_turns=turns, hot_turns=turns)


FULL = Sizes(
    turns=5,
    burst=20_000,
    drain=20_000,
    long_drain=100_000,
    long_turns=3,
    hot_key=3_000,
    hot_turns=3,
    workers_drain=50_000,
    worker_counts=(1, 2, 4),
    latency_slices=3,
    latency_slice=1_000,
    published=1_000_000,
    followers=100_000,
    backoff=100_000,
    claim_rounds=10,
)
QUICK = Sizes(
    turns=1,
    burst=500,
    drain=500,
    long_drain=1_000,
    long_turns=1,
    hot_key=100,
    hot_turns=1,
    workers_drain=1_000,
    worker_counts=(1, 2),
    latency_slices=1,
    latency_slice=20,
    published=1_000,
    followers=500,
    backoff=500,
    claim_rounds=1,
)

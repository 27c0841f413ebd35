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
    ready: int
    """Ready records of every table that is claimed from."""
    idle_calls: int
    """Polls and claims on the empty table; PostgreSQL keeps a plan after five."""
    claim_calls: int
    """Calls of each kind in a round."""
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
    ready=1_000,
    idle_calls=20,
    claim_calls=10,
    claim_rounds=10,
)
QUICK = Sizes(
    turns=1,
    burst=200,
    drain=200,
    long_drain=400,
    long_turns=1,
    hot_key=50,
    hot_turns=1,
    workers_drain=300,
    worker_counts=(1, 2),
    latency_slices=1,
    latency_slice=20,
    published=200,
    followers=100,
    backoff=100,
    ready=100,
    idle_calls=6,
    claim_calls=2,
    claim_rounds=1,
)

"""The ledger: what arrived at the broker, and how often the consumer acted on it. Pure; no I/O."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A record as it arrived at the broker."""

    id: str
    key: str
    position: int


class Ledger:
    """Counts what must not happen, from what did happen."""

    def __init__(self) -> None:
        self.out_of_order = 0
        """Records whose first delivery came after that of a later record of the same key."""
        self.doubled = 0
        """Times that the consumer acted on a record which it had acted on before."""
        self.dropped = 0
        """Repeated deliveries that the consumer's inbox dropped."""
        self._arrivals: Counter[str] = Counter()
        self._acted_on: set[str] = set()
        self._latest: dict[str, int] = {}  # by key, the highest position that has arrived

    def note(self, arrival: Arrival, *, acted: bool) -> None:
        """Note an arrival, and whether the consumer acted on it."""
        if arrival.id not in self._arrivals:
            self._note_order(arrival)
        self._arrivals[arrival.id] += 1
        if not acted:
            self.dropped += 1
        elif arrival.id in self._acted_on:
            self.doubled += 1
        self._acted_on.update([arrival.id] if acted else [])

    def deliveries(self, id_: str) -> int:
        """Return how often a record arrived."""
        return self._arrivals[id_]

    def lost(self, published: Iterable[str]) -> int:
        """Count records that the outbox calls delivered, and that the consumer never acted on."""
        return sum(each not in self._acted_on for each in published)

    def _note_order(self, arrival: Arrival) -> None:
        latest = self._latest.get(arrival.key, arrival.position)
        self.out_of_order += arrival.position < latest
        self._latest[arrival.key] = max(latest, arrival.position)

"""The records that a lane holds: which may leave now, which wait for another of their key."""

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass

from postroom.record import ClaimedRecord, Key

_Name = Key | int
"""Of a line: the key whose records wait in it, or the position of one that has no key."""


@dataclass(slots=True)
class Crowd:
    """What is held of a partition, in numbers."""

    held: int = 0
    lines: int = 0
    free: int = 0
    """Lines whose first record may leave."""
    landed: int = 0
    """How many have come to an end, ever."""


class Window:
    """Keeps one record of a key on its way, and the order of the rest. Decides; does no I/O.

    A record is held from its claim until it is settled, so that no second claim takes it.
    """

    def __init__(self) -> None:
        self._held: dict[int, ClaimedRecord] = {}
        self._lines: dict[_Name, deque[ClaimedRecord]] = {}
        self._free: dict[_Name, ClaimedRecord] = {}  # the first of their lines, longest free first
        self._flying: dict[int, ClaimedRecord] = {}
        self._crowds: defaultdict[int, Crowd] = defaultdict(Crowd)

    @property
    def held(self) -> Collection[int]:
        """The positions that a claim must not give again."""
        return self._held.keys()

    @property
    def in_flight(self) -> int:
        """How many are on their way."""
        return len(self._flying)

    @property
    def waiting(self) -> bool:
        """Whether any could leave, were there room on the way."""
        return bool(self._free)

    def crowd(self, partition: int) -> Crowd:
        """Count what is held of a partition."""
        return self._crowds[partition]

    def partitions(self) -> list[int]:
        """Give the partitions that something is held of."""
        return [partition for partition, crowd in self._crowds.items() if crowd.held]

    def flies(self, record: ClaimedRecord) -> bool:
        """Tell whether a record is on its way."""
        return record.position in self._flying

    def flies_any(self, positions: Collection[int]) -> bool:
        """Tell whether any of the records at these positions is on its way."""
        return any(position in self._flying for position in positions)

    def add(self, records: Iterable[ClaimedRecord]) -> None:
        """Take claimed records, each key's in the order of their positions."""
        for record in records:
            if record.position in self._held:
                continue
            self._held[record.position] = record
            self._crowds[record.partition].held += 1
            name = _line(record)
            line = self._lines.get(name)
            if line is None:
                self._lines[name] = deque([record])
                self._crowds[record.partition].lines += 1
                self._set_free(name, record)
            else:
                self._insert(name, line, record)

    def take(
        self, limit: int, allowed: Callable[[ClaimedRecord], bool] = lambda _: True
    ) -> list[ClaimedRecord]:
        """Send records on their way, the longest free first: the first of a line each."""
        taken: list[ClaimedRecord] = []
        for record in self._free.values():
            if len(taken) >= limit:
                break
            if allowed(record):
                taken.append(record)
        for record in taken:
            self._set_busy(_line(record))
            self._flying[record.position] = record
        return taken

    def first(
        self,
        allowed: Callable[[ClaimedRecord], bool],
        last: Callable[[ClaimedRecord], int] = lambda _: 0,
    ) -> ClaimedRecord | None:
        """Give the first record that could leave and is allowed to, without sending it.

        `last` puts those back for which it is higher.
        """
        return min(filter(allowed, self._free.values()), key=last, default=None)

    def landed(self, record: ClaimedRecord, *, delivered: bool) -> None:
        """Note that a record arrived: the next of its key may leave. Or was refused: it may not."""
        self._flying.pop(record.position, None)
        self._crowds[record.partition].landed += 1
        name = _line(record)
        line = self._lines.get(name)
        if not delivered or line is None or line[0] is not record:
            return
        line.popleft()
        if line:
            self._set_free(name, line[0])
        else:
            self._close(name, record)

    def turn_back(self, record: ClaimedRecord) -> None:
        """Note that a record came back without an answer: it may leave again."""
        self._flying.pop(record.position, None)
        name = _line(record)
        line = self._lines.get(name)
        if line and line[0] is record:
            self._set_free(name, record)

    def settled(self, record: ClaimedRecord) -> None:
        """Let go of a record whose delivery is written down."""
        if self._held.pop(record.position, None) is not None:
            self._crowds[record.partition].held -= 1

    def forget(self, record: ClaimedRecord) -> None:
        """Let go of a refused record, and of what waits behind it: the database has them."""
        name = _line(record)
        self._set_busy(name)
        for each in self._close(name, record):
            self.settled(each)
        self.settled(record)

    def forget_followers(self, record: ClaimedRecord) -> None:
        """Let go of what waits behind a record that is on its way."""
        line = self._lines.get(_line(record))
        while line is not None and len(line) > 1:
            self.settled(line.pop())

    def forget_waiting(self, gone: Callable[[ClaimedRecord], bool] = lambda _: True) -> None:
        """Let go of everything that is not on its way; of some records only, if told."""
        for name, line in list(self._lines.items()):
            if not gone(line[0]):
                continue
            if name in self._free:
                self.forget(line[0])
            else:
                self.forget_followers(line[0])

    def slow(self, partition: int) -> Iterator[ClaimedRecord]:
        """Give the records on their way, of a partition, that others wait behind."""
        for record in self._flying.values():
            if record.partition == partition and len(self._lines.get(_line(record), ())) > 1:
                yield record

    def _set_free(self, name: _Name, record: ClaimedRecord) -> None:
        if name not in self._free:
            self._crowds[record.partition].free += 1
        self._free[name] = record

    def _set_busy(self, name: _Name) -> None:
        record = self._free.pop(name, None)
        if record is not None:
            self._crowds[record.partition].free -= 1

    def _close(self, name: _Name, record: ClaimedRecord) -> deque[ClaimedRecord]:
        line = self._lines.pop(name, None)
        if line is None:
            return deque()
        self._crowds[record.partition].lines -= 1
        return line

    def _insert(self, name: _Name, line: deque[ClaimedRecord], record: ClaimedRecord) -> None:
        """Keep the order, also where a lower position comes late; what has left stays first."""
        index, stays = len(line), 0 if name in self._free else 1
        while index > stays and line[index - 1].position > record.position:
            index -= 1
        line.insert(index, record)
        if index == 0:
            self._set_free(name, record)


def _line(record: ClaimedRecord) -> _Name:
    return record.position if record.key is None else record.key

"""The records that a lane holds: which may leave now, which wait for another of their key."""

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator

from postroom.record import ClaimedRecord, Key

_Line = Key | int
"""What waits in line: the records of a key, or one record without a key, by its position."""


class Window:
    """Keeps one record of a key on its way, and the order of the rest. Decides; does no I/O.

    A record is held from its claim until it is settled, so that no second claim takes it.
    """

    def __init__(self) -> None:
        self._held: dict[int, ClaimedRecord] = {}
        self._lines: dict[_Line, deque[ClaimedRecord]] = {}
        self._free: dict[_Line, None] = {}  # lines whose first record may leave, oldest first
        self._flying: dict[int, ClaimedRecord] = {}
        self._partitions: Counter[int] = Counter()

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

    def flies(self, record: ClaimedRecord) -> bool:
        """Tell whether a record is on its way."""
        return record.position in self._flying

    def held_in(self, partition: int) -> int:
        """Count what is held of a partition."""
        return self._partitions[partition]

    def partitions(self) -> set[int]:
        """Give the partitions that something is held of."""
        return {partition for partition, count in self._partitions.items() if count > 0}

    def add(self, records: Iterable[ClaimedRecord]) -> None:
        """Take claimed records, each key's in the order of their positions."""
        for record in records:
            if record.position in self._held:
                continue
            self._held[record.position] = record
            self._partitions[record.partition] += 1
            line = self._lines.get(_line(record))
            if line is None:
                self._lines[_line(record)] = deque([record])
                self._free[_line(record)] = None
            else:
                _insert(line, record)

    def take(
        self, limit: int, allowed: Callable[[ClaimedRecord], bool] = lambda _: True
    ) -> list[ClaimedRecord]:
        """Send records on their way, the longest free first: the first of a line each."""
        taken: list[ClaimedRecord] = []
        for line in self._free:
            if len(taken) >= limit:
                break
            if allowed(self._lines[line][0]):
                taken.append(self._lines[line][0])
        for record in taken:
            del self._free[_line(record)]
            self._flying[record.position] = record
        return taken

    def first(self, allowed: Callable[[ClaimedRecord], bool]) -> ClaimedRecord | None:
        """Give the first record that could leave and is allowed to, without sending it."""
        heads = (self._lines[line][0] for line in self._free)
        return next((record for record in heads if allowed(record)), None)

    def landed(self, record: ClaimedRecord, *, delivered: bool) -> None:
        """Note that a record arrived: the next of its key may leave. Or was refused: it may not."""
        self._flying.pop(record.position, None)
        line = self._lines.get(_line(record))
        if not delivered or line is None or line[0] is not record:
            return
        line.popleft()
        if line:
            self._free[_line(record)] = None
        else:
            del self._lines[_line(record)]

    def turn_back(self, record: ClaimedRecord) -> None:
        """Note that a record came back without an answer: it may leave again."""
        self._flying.pop(record.position, None)
        line = self._lines.get(_line(record))
        if line and line[0] is record:
            self._free[_line(record)] = None

    def settled(self, record: ClaimedRecord) -> None:
        """Let go of a record whose delivery is written down."""
        if self._held.pop(record.position, None) is not None:
            self._partitions[record.partition] -= 1

    def forget(self, record: ClaimedRecord) -> None:
        """Let go of a refused record, and of what waits behind it: the database has them."""
        line = self._lines.pop(_line(record), None)
        self._free.pop(_line(record), None)
        for each in line or ():
            self.settled(each)
        self.settled(record)

    def forget_followers(self, record: ClaimedRecord) -> None:
        """Let go of what waits behind a record that is on its way."""
        line = self._lines.get(_line(record))
        while line is not None and len(line) > 1:
            self.settled(line.pop())

    def forget_waiting(self, gone: Callable[[ClaimedRecord], bool] = lambda _: True) -> None:
        """Let go of everything that is not on its way; of some partitions only, if told."""
        for name, line in list(self._lines.items()):
            first = line[0]
            if not gone(first):
                continue
            if name in self._free:
                self.forget(first)
            else:
                self.forget_followers(first)

    def slow(self, partition: int) -> Iterator[ClaimedRecord]:
        """Give the records on their way, of a partition, that others wait behind."""
        for record in self._flying.values():
            line = self._lines.get(_line(record))
            if record.partition == partition and line is not None and len(line) > 1:
                yield record

    def free_in(self, partition: int) -> bool:
        """Tell whether any record of a partition could leave."""
        return any(self._lines[line][0].partition == partition for line in self._free)


def _line(record: ClaimedRecord) -> _Line:
    return record.position if record.key is None else record.key


def _insert(line: deque[ClaimedRecord], record: ClaimedRecord) -> None:
    """Keep the order, also where a lower position was committed late; the first stays first."""
    index = len(line)
    while index > 1 and line[index - 1].position > record.position:
        index -= 1
    line.insert(index, record)

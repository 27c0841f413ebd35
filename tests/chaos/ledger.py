"""The ledger: what really went out, in one order for all processes.

One file that every process appends to, one write() a line: the kernel puts them in a row. A
delivery is written before the publisher answers, so what leaves only after that answer stands
further down.
"""

import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from postroom.operations import REPLAY_HEADER
from postroom.record import ClaimedRecord


class What(StrEnum):
    STARTED = "started"
    DELIVERED = "delivered"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of the ledger."""

    what: What
    record: str
    key: str
    position: int
    worker: str
    at: datetime
    replay: str = ""
    """The id of the replay; empty for a record that was not replayed."""


class Ledger:
    """Append to it from any process, read it in any other."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = os.open(path, os.O_APPEND | os.O_CREAT | os.O_RDWR, 0o600)
        self._read_up_to = 0
        self._entries: list[Entry] = []
        self._delivered: list[Entry] = []
        self._records: set[str] = set()

    def write(self, what: What, record: ClaimedRecord, worker: str) -> None:
        key, now = record.aggregate_id or "-", datetime.now(UTC).isoformat()
        replay = record.headers.get(REPLAY_HEADER, "-")
        line = f"{what} {record.id} {key} {record.position} {worker} {now} {replay}\n"
        os.write(self._file, line.encode())

    def entries(self) -> Sequence[Entry]:
        """Read the lines that are there by now; the last one may be half written."""
        size = os.fstat(self._file).st_size
        found = os.pread(self._file, size - self._read_up_to, self._read_up_to)
        whole = found[: found.rfind(b"\n") + 1]
        self._read_up_to += len(whole)
        new = [_entry(line) for line in whole.decode().splitlines()]
        self._entries += new
        self._delivered += [entry for entry in new if entry.what is What.DELIVERED]
        self._records.update(entry.record for entry in new if entry.what is What.DELIVERED)
        return self._entries

    def close(self) -> None:
        os.close(self._file)

    def delivered(self) -> Sequence[Entry]:
        self.entries()
        return self._delivered

    def records(self) -> set[str]:
        """The records that were delivered, once or more."""
        self.entries()
        return self._records

    def delivered_keys(self) -> list[str]:
        """The keys of what was delivered, in order."""
        return [entry.key for entry in self.delivered()]

    def positions(self, key: str) -> list[int]:
        """The positions of a key's deliveries, in order."""
        return [entry.position for entry in self.delivered() if entry.key == key]

    def has(self, what: What, record: object, worker: str | None = None) -> bool:
        """Whether a worker, or anybody, has got so far with a record."""
        return any(
            entry.what is what and entry.record == str(record) and worker in (None, entry.worker)
            for entry in self.entries()
        )


def first_deliveries(delivered: Iterable[Entry]) -> list[Entry]:
    """Leave out the repeats."""
    firsts: dict[str, Entry] = {}
    for entry in delivered:
        firsts.setdefault(entry.record, entry)
    return list(firsts.values())


def out_of_order(delivered: Iterable[Entry]) -> list[Entry]:
    """Give the first deliveries that came after a later record of their key."""
    highest: dict[str, int] = defaultdict(int)
    wrong = []
    for entry in first_deliveries(delivered):
        if entry.position < highest[entry.key]:
            wrong.append(entry)
        highest[entry.key] = max(highest[entry.key], entry.position)
    return wrong


def repeats(delivered: Iterable[Entry]) -> list[tuple[Entry, Entry]]:
    """Give each delivery that was not the first of its record, after the one before it."""
    last: dict[str, Entry] = {}
    pairs = []
    for entry in delivered:
        if entry.record in last:
            pairs.append((last[entry.record], entry))
        last[entry.record] = entry
    return pairs


def _entry(line: str) -> Entry:
    what, record, key, position, worker, at, replay = line.split()
    moment = datetime.fromisoformat(at)
    return Entry(What(what), record, key, int(position), worker, moment, replay.strip("-"))

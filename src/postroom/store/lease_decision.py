"""Which partitions a worker keeps, releases and takes. Pure."""

from collections.abc import Collection, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil
from typing import Any, NamedTuple

from postroom.record import PARTITIONS
from postroom.store.base import Poll, Unattended
from postroom.store.rows import moment


class Look(NamedTuple):
    """What a poll finds of a partition: its lease, and what there is to do."""

    partition: int
    worker: str | None
    leased_until: Any
    has_work: bool
    due_in: float | None
    is_expired: bool
    is_present: bool
    others: int
    any_paused: bool = False
    draining: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Which partitions a worker keeps, releases, and takes if they are free: `room` at most."""

    with_work: Set[int]
    keep: Set[int]
    release: Set[int]
    take: Set[int]
    room: int
    poll: Poll
    """What the poll returns, but for the leases."""

    @property
    def writes(self) -> bool:
        """Whether there is anything to write."""
        return bool(self.with_work or self.keep or self.release)


def decide(
    rows: Sequence[Look],
    worker: str,
    busy: Collection[int],
    surplus: Collection[int],
    *,
    take: bool,
    all_if_alone: bool = False,
) -> Decision:
    """Decide from a look at all partitions. What has run out is taken in addition to the share."""
    with_work = {row.partition for row in rows if row.has_work}
    mine = {row.partition for row in rows if row.worker == worker}
    others = rows[0].others if rows else 0
    takes_all = all_if_alone and with_work and not others
    served = {row.partition for row in rows} if takes_all else with_work
    wanted = (served - set(surplus) if take else set()) | set(busy)
    share = ceil(len(with_work) / (1 + others)) if others else PARTITIONS
    expired = [row for row in rows if row.has_work and row.is_expired and row.worker != worker]
    due = [row.due_in for row in rows if row.due_in is not None]
    return Decision(
        with_work=with_work,
        keep=mine & wanted,
        release=mine - wanted,
        take=served - mine if take else set(),
        room=max(0, share - len(mine & wanted)) + len(expired),
        poll=Poll(
            waiting=len(with_work),
            share=share,
            next_due=timedelta(seconds=float(min(due))) if due else None,
            unattended=tuple(_unattended(rows, worker)),
        ),
    )


def _unattended(rows: Iterable[Look], worker: str) -> Iterator[Unattended]:
    """Find partitions with work whose worker has not shown up for two heartbeats."""
    until: dict[str, list[datetime]] = {}
    for row in rows:
        if row.has_work and not (row.worker in (None, worker) or row.is_expired or row.is_present):
            until.setdefault(row.worker, []).append(moment(row.leased_until))
    for each, times in until.items():
        yield Unattended(worker=each, partitions=len(times), until=max(times))

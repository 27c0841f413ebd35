"""Which partitions a worker keeps, releases and takes. Pure."""

from collections import Counter
from collections.abc import Collection, Sequence, Set
from dataclasses import dataclass
from datetime import timedelta
from math import ceil
from typing import Any, Final, NamedTuple

from postroom.record import PARTITIONS
from postroom.store.base import Pauses, Poll

TRIED_AFTER: Final = 3
"""After so many crashes in a row, the records that were in flight at the last one were tried."""


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
    crash_count: int = 0
    suspect_crashes: int = 0
    suspect_sent: bool = False
    server: int | None = None


class Loss(NamedTuple):
    """A lease whose holder is dead, and what is blamed for that: how many crashes in a row."""

    at: int
    holder: str
    crashes: int
    blamed: int
    """How many of them its suspect may have caused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Which partitions a worker keeps, releases, and takes if they are free: `room` at most."""

    with_work: Set[int]
    keep: Set[int]
    release: Set[int]
    take: Set[int]
    room: int
    dead: Set[str]
    lost: Sequence[Loss]
    acquitted: Set[int]
    """The partitions whose records cannot have caused all these crashes."""
    poll: Poll
    """What the poll returns, but for the leases."""

    @property
    def writes(self) -> bool:
        """Whether there is anything to write; a worker that stands by does not say so."""
        has_work = self.with_work and self.poll.active is None
        return bool(has_work or self.keep or self.release or self.lost)


def decide(
    rows: Sequence[Look],
    worker: str,
    busy: Collection[int],
    surplus: Collection[int],
    dead: Set[str] = frozenset(),
    *,
    pauses: Pauses,
    take: bool,
    all_if_alone: bool = False,
    one_delivers: bool = False,
) -> Decision:
    """Decide from a look at all partitions. What the dead held is taken beside the share.

    With `one_delivers`, a worker stands by while another one leases most of the partitions.
    """
    active = _active(rows, worker, dead) if one_delivers else None
    draining = any(row.draining for row in rows)
    take = take and active is None and not (pauses.everything or draining)
    with_work = {row.partition for row in rows if row.has_work}
    mine = {row.partition for row in rows if row.worker == worker}
    present = {row.worker for row in rows if row.worker in dead and row.is_present}
    others = max(0, rows[0].others - len(present)) if rows else 0
    takes_all = all_if_alone and with_work and not others
    served = {row.partition for row in rows} if takes_all else with_work
    wanted = (served - set(surplus) if take else set()) | set(busy)
    share = ceil(len(with_work) / (1 + others)) if others else PARTITIONS
    lost = [
        row
        for row in rows
        if row.worker not in (None, worker) and (row.is_expired or row.worker in dead)
    ]
    losses, acquitted = judge(rows, lost)
    due = [row.due_in for row in rows if row.due_in is not None]
    return Decision(
        with_work=with_work,
        keep=mine & wanted,
        release=mine - wanted,
        take=served - mine if take else set(),
        room=max(0, share - len(mine & wanted)) + sum(row.has_work for row in lost),
        dead=dead,
        lost=losses,
        acquitted=acquitted,
        poll=Poll(
            server=next((row.server for row in rows), None),
            pauses=pauses,
            draining=draining,
            waiting=len(with_work),
            share=share if active is None else 0,
            next_due=timedelta(seconds=float(min(due))) if due else None,
            active=active,
        ),
    )


def judge(rows: Sequence[Look], lost: Collection[Look]) -> tuple[list[Loss], set[int]]:
    """Return what is blamed for the deaths of workers, and the partitions that no longer are.

    A worker that died while it tried suspects died of one of them, as far as anybody can tell. Any
    other death says that workers die of something else: nothing is held against other partitions,
    nor against its own if it had tried all suspects.
    """
    of_suspects = {row.worker for row in lost if row.suspect_sent and row.suspect_crashes}
    losses = []
    for row in lost:
        unproven = row.worker not in of_suspects and row.crash_count >= TRIED_AFTER
        crashes = 0 if unproven else row.crash_count + 1
        tried = row.suspect_crashes if row.worker in of_suspects else 0
        blamed = 0 if unproven else tried + row.suspect_sent
        losses.append(Loss(row.partition, row.worker or "", crashes, blamed))
    if all(row.worker in of_suspects for row in lost):
        return losses, set()
    blamed_for_some = {row.partition for row in rows if row.crash_count or row.suspect_crashes}
    return losses, blamed_for_some - {row.partition for row in lost}


def _active(rows: Sequence[Look], worker: str, dead: Collection[str]) -> str | None:
    """Return the other worker that leases most of the partitions, if there is one."""
    held = Counter(row.worker for row in rows if not (row.is_expired or row.worker in dead))
    most = (each for each, number in held.items() if 2 * number > len(rows))
    return next((each for each in most if each not in (None, worker)), None)

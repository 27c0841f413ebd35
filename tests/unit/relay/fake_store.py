"""A store in memory that notes every call, and fails or takes time when a test says so."""

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from sqlalchemy.exc import DBAPIError

from postroom.record import PARTITIONS, ClaimedRecord, Key
from postroom.store.base import (
    Attempt,
    Claim,
    HeldRecord,
    Lease,
    Pauses,
    Poll,
    Settlement,
    Verdict,
)
from postroom.store.key_order import divide
from postroom.store.lease_decision import Look, judge
from tests.unit.relay.hand_clock import START, HandClock, let_tasks_run
from tests.unit.relay.records import record

MOST_CALLS = 20_000
MICROSECOND = 1e-6  # as exact as a database tells the time


@dataclass(frozen=True, slots=True)
class Call:
    """A call of the store: how many seconds after the start, which method, with which values."""

    at: float
    name: str
    values: dict[str, Any]


class FakeStore:
    """An outbox with one worker. `leases`, `claims` and `settlements` are the store itself."""

    def __init__(self, clock: HandClock) -> None:
        self.leases = self.claims = self.settlements = self
        self.database: Any = None  # nobody can look for locks
        self.locked_rows: set[int] = set()
        """The positions of records that another transaction has locked."""
        self.calls: list[Call] = []
        self.rows: dict[int, ClaimedRecord] = {}
        """The records that are neither delivered nor failed, by position."""
        self.failed: list[int] = []
        self.quarantined: list[int] = []
        self.blocked: dict[Key, int] = {}
        self.faults: dict[int, str] = {}
        self.held_leases: dict[int, Lease] = {}
        """What is known of the leases of partitions; the rest have token 1 and no crashes."""
        self.leased: set[int] = set()
        """The partitions that the worker holds."""
        self.others: set[int] = set()
        """The partitions that other workers hold."""
        self.others_wait: set[int] = set()
        """The partitions in which other keys wait behind those that fill it."""
        self.share = PARTITIONS
        self.pauses = Pauses()
        self.draining = False
        """Whether an operator drains the worker."""
        self.active: str | None = None
        """The worker that delivers while this one stands by."""
        self.reports: list[tuple[float, Mapping[str, Any]]] = []
        """What the worker reported, and after how many seconds."""
        self.writes_attempts = True
        self.server = 1
        """What tells the database from another one."""
        self.open_writers: set[str] = set()
        """The transactions that may commit lower positions than others have."""
        self.away = False
        """Whether the database is unavailable."""
        self.takes: dict[str, float] = {}
        """Seconds that a method takes."""
        self.after_look: Callable[[], object] = lambda: None
        """Is called at the end of a poll."""
        self.clock = clock
        self._due: dict[int, float] = {}
        self._errors: dict[str, list[Callable[[], Exception]]] = {}
        self._hangs: dict[str, asyncio.Event] = {}
        self._sent: set[int] = set()  # the partitions of which a suspect is in flight

    # -- for tests

    def put(self, *positions: int, key: str | None = None, partition: int = 1, **row: Any) -> None:
        """Commit records."""
        for position in positions:
            self.rows[position] = record(position, key, partition=partition, **row).record

    def fail(self, name: str, error: Callable[[], Exception], times: int = 1) -> None:
        """Have the next calls of a method raise an error."""
        self._errors[name] = [error] * times

    def go_away(self) -> None:
        """Have every call fail, until `come_back`."""
        self.away = True

    def come_back(self) -> None:
        self.away = False

    def hang(self, name: str, until: asyncio.Event) -> None:
        """Have the calls of a method wait for an event."""
        self._hangs[name] = until

    def named(self, name: str) -> list[Call]:
        """Return the calls of a method."""
        return [each for each in self.calls if each.name == name]

    @property
    def names(self) -> list[str]:
        return [each.name for each in self.calls]

    def end_leases(self) -> None:
        """Have the worker's leases end by themselves: it has died."""
        rows = [self._look(partition) for partition in range(PARTITIONS)]
        losses, innocent = judge(rows, [rows[partition] for partition in self.leased])
        for loss in losses:
            lease = self.lease_of(loss.at)
            self.held_leases[loss.at] = replace(
                lease,
                token=lease.token + 1,
                crash_count=loss.crashes,
                suspect=lease.suspect if loss.blamed else None,
                suspect_crashes=loss.blamed,
            )
        self._acquit(innocent)
        self.leased, self._sent = set(), set()

    def _look(self, partition: int) -> Look:
        lease, worker = self.lease_of(partition), "dead" if partition in self.leased else None
        return Look(
            partition,
            worker,
            *(None, True, None, True, False, 0, False, False),
            crash_count=lease.crash_count,
            suspect_crashes=lease.suspect_crashes,
            suspect_sent=partition in self._sent,
        )

    def _acquit(self, partitions: Collection[int], proven: int = 99) -> None:
        for each in partitions:
            lease = self.lease_of(each)
            guilty = lease.suspect_crashes >= proven
            self.held_leases[each] = replace(
                lease,
                crash_count=0,
                suspect=lease.suspect if guilty else None,
                suspect_crashes=proven if guilty else 0,
            )
            if not guilty:
                self._sent.discard(each)

    # -- leases

    async def poll(
        self,
        worker: str,
        *,
        lease: timedelta,
        busy: Collection[int] = (),
        surplus: Collection[int] = (),
        floors: Mapping[int, int] | None = None,
        take: bool = True,
        all_if_alone: bool = False,
    ) -> Poll:
        await self._call("poll", busy=set(busy), surplus=set(surplus), take=take)
        waiting = {row.partition for row in self.rows.values() if self._is_ready(row)}
        takes = take and not (self.pauses.everything or self.draining)
        wanted = waiting - self.others - set(surplus) if takes else set()
        self.leased = wanted | set(busy)
        self.after_look()
        soon = self.clock.now + MICROSECOND
        due = [at - self.clock.now for at in self._due.values() if at > soon]
        return Poll(
            leases=tuple(self.lease_of(each) for each in sorted(self.leased)),
            waiting=len(waiting),
            share=self.share,
            next_due=timedelta(seconds=min(due)) if due else None,
            pauses=self.pauses,
            draining=self.draining,
            active=self.active,
            server=self.server,
        )

    def lease_of(self, partition: int) -> Lease:
        return self.held_leases.get(partition, Lease(partition=partition, token=1))

    async def renew(self, worker: str, lease: timedelta) -> dict[int, int]:
        await self._call("renew")
        return {each: self.lease_of(each).token for each in self.leased}

    async def report(self, worker: str, report: Mapping[str, Any]) -> None:
        self.reports.append((self.clock.now - START, report))

    async def suspect(self, worker: str, suspects: Mapping[HeldRecord, int]) -> list[HeldRecord]:
        deaths = {each.position: count for each, count in suspects.items()}
        await self._call("suspect", deaths=deaths)
        for each, count in suspects.items():
            lease = self.lease_of(each.partition)
            self.held_leases[each.partition] = replace(
                lease, suspect=each.record.id, suspect_crashes=count
            )
            self._sent.add(each.partition)
        return [each for each in suspects if each.token == self.lease_of(each.partition).token]

    async def acquit(self, partitions: Collection[int], *, proven: int = 99) -> None:
        await self._call("acquit", partitions=set(partitions))
        self._acquit(partitions, proven)

    async def quarantines(self, record: HeldRecord) -> int:
        return self.quarantined.count(record.position)

    async def release(self, worker: str, *, stays: bool = False, acquits: bool = False) -> None:
        await self._call("release", stays=stays, acquits=acquits)
        self.leased, self._sent = set(), set()

    # -- claims

    async def claim(
        self,
        tokens: Mapping[int, int],
        *,
        depth: int,
        held: Collection[HeldRecord] = (),
        floors: Mapping[int, int] | None = None,
    ) -> Claim:
        above = dict(floors or {})
        known = {each.position for each in held}
        values = {"tokens": dict(tokens), "depth": depth, "held": known, "floors": above}
        await self._call("claim", **values)
        found: list[ClaimedRecord] = []
        for partition in tokens:
            rows = [row for _, row in sorted(self.rows.items()) if row.partition == partition]
            free = [row for row in rows if row.position not in known and self._is_ready(row)]
            found += [row for row in free if row.position > above.get(partition, 0)][:depth]
        counts = {p: sum(row.partition == p for row in found) for p in tokens}
        records = [
            HeldRecord(row, tokens[row.partition], self.faults.get(row.position)) for row in found
        ]
        passing, _, _ = divide(records, set(), self.blocked, self.pauses)
        return Claim(
            records=tuple(sorted(passing, key=lambda each: each.position)),
            more=frozenset(p for p, count in counts.items() if count >= depth),
            reached={row.partition: row.position for row in found},
            server=self.server,
        )

    def is_another(self, server: int, before: int) -> bool:
        return server != before

    async def writers(self) -> frozenset[str]:
        return frozenset(self.open_writers)

    async def retry_postponed(self, partitions: Collection[int]) -> None:
        await self._call("retry_postponed", partitions=set(partitions))
        for position, row in self.rows.items():
            postponed = not row.retry_count and position not in self.quarantined
            if row.partition in partitions and postponed:
                self._due.pop(position, None)

    async def waiting_behind(
        self, partitions: Collection[int], keys: Collection[Key], held: Collection[HeldRecord]
    ) -> set[int]:
        await self._call("waiting_behind", partitions=set(partitions), keys=set(keys))
        return self.others_wait & set(partitions)

    # -- settlements

    async def locked(self, records: Collection[HeldRecord]) -> set[HeldRecord]:
        await self._call("locked", positions={each.position for each in records})
        locked = self.rows.keys() & self.locked_rows
        return {each for each in records if each.position in locked}

    async def settle(self, settlement: Settlement) -> list[Attempt]:
        await self._call(
            "settle",
            delivered=[each.position for each in settlement.delivered],
            attempts={each.record.position: each.verdict for each in settlement.attempts},
            slow=[each.position for each in settlement.slow],
            blocking=[each.position for each in settlement.delivered if each.blocks_key],
        )
        for each in settlement.delivered:
            self.rows.pop(each.position, None)
            self._release_key(each)
        written = settlement.attempts if self.writes_attempts else []
        for attempt in written:
            self._write(attempt)
        for each in settlement.slow:
            if each.key is not None:
                self.blocked[each.key] = each.position
        return list(written)

    def _write(self, attempt: Attempt) -> None:
        held = attempt.record
        if attempt.verdict is Verdict.FAILED:
            del self.rows[held.position]
            self.failed.append(held.position)
        else:
            self.quarantined += [held.position] * (attempt.verdict is Verdict.QUARANTINED)
            row = self.rows[held.position]
            self.rows[held.position] = row._replace(retry_count=attempt.retry_count)
            self._due[held.position] = self.clock.now + attempt.delay.total_seconds()
        if attempt.blocks_key and held.key is not None:
            self.blocked[held.key] = held.position
        elif held.blocks_key:
            self._release_key(held)

    def _release_key(self, held: HeldRecord) -> None:
        if held.key is not None and self.blocked.get(held.key) == held.position:
            held.blocks_key = True
            del self.blocked[held.key]

    def _is_ready(self, row: ClaimedRecord) -> bool:
        blocker = None if row.key is None else self.blocked.get(row.key)
        free = blocker is None or row.position <= blocker
        due = self._due.get(row.position, 0.0) - MICROSECOND
        return free and due <= self.clock.now

    async def _call(self, name: str, **values: Any) -> None:
        """Note a call; take as long as the test says, and fail if it says so."""
        assert len(self.calls) < MOST_CALLS, "the loop never rests"
        self.calls.append(Call(round(self.clock.now - START, 6), name, values))
        await let_tasks_run()
        if name in self._hangs:
            await self._hangs[name].wait()
        if seconds := self.takes.get(name, 0.0):
            await self.clock.spend(seconds)
        if self.away:
            raise refused_connection()
        if errors := self._errors.get(name):
            raise errors.pop()()


class LockTimeout(Exception):  # noqa: N818 - as a driver would name it
    sqlstate = "55P03"


def lock_timeout() -> DBAPIError:
    """Return the error of a statement that waited too long for a lock."""
    return DBAPIError("UPDATE outbox", {}, LockTimeout("canceling statement due to lock timeout"))


def refused_connection() -> OSError:
    """Return the error of a database that is unavailable."""
    return ConnectionRefusedError(111, "Connect call failed")

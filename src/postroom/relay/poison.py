"""Finds records that break connections or kill processes. Pure.

A record that breaks the connection for all looks like an outage. One that is in flight when the
connection breaks is sent again as before; after two breaks, alone; if it then breaks the connection
twice more, it is refused. A break counts only if others were answered since the last one.

A record that kills the process takes its lease with it. When two holders of a partition have died
in a row, the records that may have been in flight are sent one at a time per partition, each
written down before it is sent. If the process dies again, what was in flight is suspect: it is sent
in groups, with nothing else in flight; of the group that the process did not survive, each alone.
After four deaths of this kind a record is quarantined: tried alone, at growing intervals. Any other
death, and a suspect that survives when it is tried again alone, show that something else kills:
then nobody is suspect any more (`store.lease_decision` judges deaths).
"""

import logging
from collections.abc import Collection, Hashable, Iterable
from datetime import timedelta
from math import inf
from typing import Final
from uuid import UUID

from postroom.record import PARTITIONS
from postroom.relay.leases import HeldLeases
from postroom.relay.outcomes import Quarantined
from postroom.store.base import HeldRecord, Lease
from postroom.store.key_order import KeyOrder

logger = logging.getLogger("postroom.relay")

ALONE_AFTER = 2
REFUSED_AFTER = 2 * ALONE_AFTER
REMEMBERED = 10_000
ONE_BY_ONE_AFTER = 2
"""From so many crashes in a row on, records are sent one at a time per partition."""
CAREFUL_SECONDS: Final = 10.0
"""For so long. What was in flight when the last holder died is sent first."""
GROUP: Final = 8
"""How many suspects are sent at once at first."""
TRIED_ALONE: Final = 3
"""A suspect of so many deaths was alone in flight at the last one."""
QUARANTINED_AFTER: Final = 4
"""Deaths after which a suspect is quarantined, and then after each."""
ALONE_SECONDS: Final = 5.0
"""How long others wait for suspects, or these for them: deliveries may take long."""
FIRST_DELAY, LAST_DELAY = timedelta(seconds=30), timedelta(hours=1)


def quarantine(times: int) -> Quarantined:
    """Return what becomes of a record that was quarantined so many times before."""
    reason = f"quarantined: {QUARANTINED_AFTER} workers died in a row while they delivered it"
    return Quarantined(reason, min(FIRST_DELAY * 2 ** min(times, 7), LAST_DELAY))


class Poison:
    """Says which records have to be sent alone, and which are to be refused or quarantined."""

    def __init__(self) -> None:
        # by id: breaks in all, breaks that count, answers at the last one
        self._breaks: dict[Hashable, tuple[int, int, int]] = {}
        self._answers = 0
        self._careful: dict[int, float] = {}  # partitions that go one by one, and until when
        self._deaths: dict[UUID, int] = {}  # of suspects that have not survived
        self._sent: dict[int, HeldRecord] = {}  # partition: what is in flight with care
        self._trial: list[HeldRecord] = []  # suspects in flight, and others wait for them,
        self._others_wait = False
        self._until = 0.0  # but no longer than this; then suspects wait for as long
        self._full_since = inf

    # -- records that break the connection

    def connection_broke(self, records: Iterable[HeldRecord]) -> list[HeldRecord]:
        """Note records that were in flight when the connection broke; return the guilty ones."""
        guilty = []
        for each in records:
            breaks, counted, answers = self._breaks.pop(each.id, (0, 0, -1))
            counted += self._answers > answers
            if counted >= REFUSED_AFTER:
                guilty.append(each)
            else:
                self._breaks[each.id] = breaks + 1, counted, self._answers
        while len(self._breaks) > REMEMBERED:
            del self._breaks[next(iter(self._breaks))]
        return guilty

    def answered(self, records: Collection[HeldRecord]) -> None:
        """Note records that were answered, one way or the other: they broke nothing."""
        self._answers += len(records)
        if self._breaks:
            for each in records:
                self._breaks.pop(each.id, None)

    def least_suspicious(self, records: Iterable[HeldRecord]) -> HeldRecord | None:
        """Return the record to try a connection with: the one in flight at the fewest breaks."""
        return min(records, key=lambda each: self._breaks.get(each.id, (0,))[0], default=None)

    def first_to_go_alone(self, records: Iterable[HeldRecord]) -> HeldRecord | None:
        """Return the first record that has to be sent while nothing else is in flight."""
        for each in records if self._breaks else ():
            if self._breaks.get(each.id, (0, 0))[1] >= ALONE_AFTER:
                return each
        return None

    # -- records that kill the process

    def look_at(self, leases: Iterable[Lease], now: float = 0.0) -> None:
        """Begin to send one by one, or end it, as the leases say after a poll."""
        was, before, until = bool(self._careful), self._careful, now + CAREFUL_SECONDS
        self._deaths, self._careful = {}, {}
        for each in leases:
            if each.suspect_crashes:  # nothing else of the partition was in flight
                if each.suspect is not None:
                    self._deaths[each.suspect] = each.suspect_crashes
            elif each.crash_count >= ONE_BY_ONE_AFTER:
                self._careful[each.partition] = before.get(each.partition, until)
        self._log_change(was)

    @property
    def restricts(self) -> bool:
        """Whether some records may not be sent as usual."""
        return self.hurries or bool(self._deaths)

    @property
    def hurries(self) -> bool:
        """Whether each answer may allow to send another record with care."""
        return bool(self._careful or self._sent or self._others_wait)

    def holds_back(self, record: HeldRecord) -> bool:
        """Return whether a record may not be sent as usual, beside others."""
        return self._others_wait or record.partition in self._careful or self._of(record) > 0

    def reserved(self, max_in_flight: int) -> int:
        """Return how much room to keep for partitions that go one by one: half, at most."""
        return max(0, min(len(self._careful), max(1, max_in_flight // 2)) - len(self._sent))

    def proven(self, order: KeyOrder) -> list[HeldRecord]:
        """Return the records to quarantine."""
        return [each for each in self._suspects(order) if self._of(each) >= QUARANTINED_AFTER]

    def choose(
        self, order: KeyOrder, leases: HeldLeases, room: int, now: float = 0.0
    ) -> dict[HeldRecord, int]:
        """Choose the records to send with care, with the deaths that each is a suspect of."""
        if self._trial and now < self._until:
            return {}
        suspects = [each for each in self._suspects(order) if leases.covers(each, now)]
        if suspects and (not self._trial or now >= self._until + ALONE_SECONDS):
            if not self._others_wait:
                self._others_wait, self._until = True, now + ALONE_SECONDS
            if not room or (order.in_flight and now < self._until):
                return {}
            most = max(map(self._of, suspects))
            group = [each for each in suspects if self._of(each) == most]
            return dict.fromkeys(group[: min(room, GROUP if most == 1 else 1)], most)
        self._others_wait = False
        firsts: dict[int, HeldRecord] = {}
        free = self._careful.keys() - self._sent.keys()
        for each in order.sendable if free else ():
            if each.partition in free and leases.covers(each, now):
                firsts.setdefault(each.partition, each)
        self._full_since = min(self._full_since, now) if firsts and not room else inf
        if now - self._full_since >= CAREFUL_SECONDS:
            self._full_since = now
            text = "postroom: %d partitions stand still: the publisher can take no more for %.0f s"
            logger.warning(text, len(firsts), CAREFUL_SECONDS)
        return dict.fromkeys(list(firsts.values())[:room], 0)

    def sent(self, records: Collection[HeldRecord], now: float = 0.0) -> None:
        """Note that chosen records are in flight."""
        self._sent |= {each.partition: each for each in records}
        if trial := [each for each in records if self._of(each)]:
            self._trial, self._until = trial, now + ALONE_SECONDS

    def survived(self, order: KeyOrder, now: float = 0.0) -> set[int]:
        """Note whose delivery has ended; return the partitions that nothing is held against."""
        was, innocent = bool(self._careful), set[int]()
        for each in [each for each in self._sent.values() if not order.unsettled(each)]:
            del self._sent[each.partition]
            deaths = self._deaths.pop(each.record.id, 0)
            if deaths >= TRIED_ALONE:  # something else has killed
                innocent.update(range(PARTITIONS))
                self._deaths.clear()
            elif deaths:
                innocent.add(each.partition)
        if self._trial and not any(map(order.unsettled, self._trial)):
            self._trial, self._others_wait = [], False
        over = {each for each, until in self._careful.items() if now >= until}
        innocent |= over - self._sent.keys()
        self._careful = {n: self._careful[n] for n in self._careful.keys() - innocent}
        self._log_change(was)
        return innocent

    def _suspects(self, order: KeyOrder) -> list[HeldRecord]:
        return [each for each in order.sendable if self._of(each)] if self._deaths else []

    def _of(self, record: HeldRecord) -> int:
        """Return how many deaths a record is a suspect of."""
        return self._deaths.get(record.record.id, 0)

    def _log_change(self, was: bool) -> None:
        if self._careful and not was:
            text = (
                "postroom: workers died while they held %d partitions. For %.0f s their records are"
                " delivered one at a time per partition, to find one that kills"
            )
            logger.warning(text, len(self._careful), CAREFUL_SECONDS)
        elif was and not self._careful:
            text = "postroom: no worker died since. Records are not sent one at a time any more"
            logger.warning(text)

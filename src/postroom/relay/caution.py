"""After crashes: the records of a partition go one by one, each written down before it leaves."""

from collections import Counter

from postroom.publishers.base import Refused
from postroom.record import ClaimedRecord
from postroom.relay.courier import Courier
from postroom.relay.leases import Leases
from postroom.relay.office import Office


class Caution:
    """Finds the record that kills the process; the normal path pays nothing for it."""

    def __init__(self, office: Office, worker: str, leases: Leases, courier: Courier) -> None:
        self._office = office
        self._worker = worker
        self._leases = leases
        self._courier = courier
        self._suspect: ClaimedRecord | None = None
        self._survived: Counter[int] = Counter()

    async def send_next(self) -> None:
        """Send the next record of the partitions where processes died, if there is one."""
        if self._suspect is not None:
            await self._look_back(self._suspect)
        if not self._leases.cautious or self._office.suspected:
            return
        record = self._next()
        if record is not None and self._leases.alive(self._office.clock.monotonic()):
            await self._send(record)

    def leave(self) -> None:
        """Suspect nobody any more."""
        if self._suspect is not None:
            self._suspect, self._office.suspected = None, False
            self._office.changed()

    async def _send(self, record: ClaimedRecord) -> None:
        crashes = self._leases.crashes_of(record)
        if crashes >= self._office.settings.max_crashes:
            reason = f"the process died {crashes} times while it delivered this record alone"
            self._courier.window.take(1, lambda each: each is record)
            self._courier.landed(record, Refused(reason, permanent=True))
            return
        self._office.suspected = True  # one in the process: two would be blamed for each other
        self._suspect = record
        if await self._office.store.suspect(self._worker, record):
            self._courier.send_alone(record)
        else:
            self.leave()

    async def _look_back(self, suspect: ClaimedRecord) -> None:
        """See whether the last one has landed. After enough of them, all is well again."""
        if self._courier.window.flies(suspect):
            return
        self.leave()
        self._survived[suspect.partition] += 1
        if self._survived[suspect.partition] >= self._office.settings.capacity:
            del self._survived[suspect.partition]
            await self._office.store.calm(self._worker, suspect.partition)
            self._leases.calm(suspect.partition)

    def _next(self) -> ClaimedRecord | None:
        """Find what may go: first what was on its way when the process died."""
        return self._courier.window.first(self._was_there) or self._courier.window.first(
            self._goes_alone
        )

    def _was_there(self, record: ClaimedRecord) -> bool:
        return self._leases.crashes_of(record) > 0 and self._goes_alone(record)

    def _goes_alone(self, record: ClaimedRecord) -> bool:
        return record.partition in self._leases.cautious and self._leases.covers(record)

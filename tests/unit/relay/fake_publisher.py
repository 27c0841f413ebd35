"""A publisher whose answers are given by a test."""

import asyncio
from collections.abc import Callable, Sequence

from postroom.publishers.base import DELIVERED, Outage, Outcome
from postroom.record import ClaimedRecord
from tests.unit.relay.hand_clock import HandClock

Answer = Outcome | Outage
Call = asyncio.Future[Sequence[Answer]]
Reply = Callable[[Sequence[ClaimedRecord]], Sequence[Answer]]


class FakePublisher:
    """Keeps the records of each call in flight until the test answers.

    With a `reply` it answers by itself, after `seconds` by the clock of the test.
    """

    def __init__(
        self,
        *,
        max_batch: int = 10,
        max_in_flight: int = 10,
        reply: Reply | None = None,
        clock: HandClock | None = None,
        seconds: float = 0.0,
    ) -> None:
        self.max_batch = max_batch
        self.max_in_flight = max_in_flight
        self.reply = reply
        self.hangs: set[int] = set()
        """The positions of records that are answered by the test only, also with a `reply`."""
        self.calls: list[list[int]] = []
        """The positions of the records of each call."""
        self.beside: list[set[int]] = []
        """For each call: the positions of all records that were in flight when it began."""
        self.seconds: Callable[[], float] = lambda: seconds
        """Returns how long the next call takes, if there is a `reply`."""
        self._clock = clock
        self._waiting: dict[Call, Sequence[ClaimedRecord]] = {}

    @property
    def in_flight(self) -> list[int]:
        """The positions of the records that were not answered."""
        return sorted(each.position for records in self._waiting.values() for each in records)

    @property
    def most_in_flight(self) -> int:
        """How many records were in flight at most."""
        return max(map(len, self.beside), default=0)

    @property
    def sent(self) -> list[int]:
        """The positions of all records that were sent, in order."""
        return [position for call in self.calls for position in call]

    async def open(self) -> None:
        """See `Publisher`."""

    async def close(self) -> None:
        """See `Publisher`."""

    async def publish(self, records: Sequence[ClaimedRecord]) -> Sequence[Answer]:
        """Wait for the answer of the test."""
        self.calls.append([each.position for each in records])
        future: Call = asyncio.get_running_loop().create_future()
        self._waiting[future] = records
        self.beside.append(set(self.in_flight))
        try:
            if self.reply is not None and self.hangs.isdisjoint(self.calls[-1]):
                self._reply_later(self.reply, future, records)
            return await future
        finally:
            del self._waiting[future]

    def deliver(self, *positions: int) -> None:
        """Deliver the records of the calls that these positions are in; of all without any."""
        for position in positions or self.in_flight:
            future, records = self._call(position)
            if not future.done():
                future.set_result([DELIVERED] * len(records))

    def answer(self, position: int, *answers: Answer) -> None:
        """Answer the call that a position is in."""
        self._call(position)[0].set_result(answers)

    def fail(self, position: int, error: BaseException) -> None:
        """Raise an error in the call that a position is in."""
        self._call(position)[0].set_exception(error)

    def _reply_later(
        self,
        reply: Reply,
        future: Call,
        records: Sequence[ClaimedRecord],
    ) -> None:
        def answer() -> None:
            if future.done():
                return
            try:
                future.set_result(reply(records))
            except BaseException as error:
                future.set_exception(error)

        if self._clock is None or not (seconds := self.seconds()):
            answer()
        else:
            self._clock.after(seconds, answer)

    def _call(self, position: int) -> tuple[Call, Sequence[ClaimedRecord]]:
        for future, records in self._waiting.items():
            if any(each.position == position for each in records):
                return future, records
        raise AssertionError(f"record {position} is not in flight: {self.in_flight}")


def delivers_all(records: Sequence[ClaimedRecord]) -> Sequence[Answer]:
    """Reply that all records are delivered."""
    return [DELIVERED] * len(records)

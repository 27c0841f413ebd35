"""Fakes and fixtures for tests of your own code: no broker, no server, no sleep.

```python
from postroom.testing import RecordingPublisher, delivered  # the second is a fixture of pytest

@pytest.fixture
def publisher():
    return RecordingPublisher()

@pytest.fixture
def relay(outbox, engine, publisher):
    return OutboxRelay(outbox, engine, publisher)

async def test_an_order_is_announced(client, delivered, publisher):
    await client.post("/orders", json={…})
    await delivered()
    publisher.assert_published("OrderPlaced", total=99)
```
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest

from postroom.clock import Clock
from postroom.publishers.base import Outcome, Refused
from postroom.publishers.memory import MemoryPublisher, Message
from postroom.record import ClaimedRecord
from postroom.relay.health import Tally
from postroom.relay.relay import OutboxRelay

__all__ = ["FakeClock", "RecordingPublisher", "delivered"]


@pytest.fixture
def delivered(relay: OutboxRelay) -> Callable[[], Awaitable[Tally]]:
    """A pytest fixture: `await delivered()` delivers what is pending. Needs a fixture `relay`."""
    return relay.run_once


class FakeClock(Clock):
    """A clock that tests can advance: `OutboxRelay(…, clock=FakeClock())`.

    The relay adds the same time to the clock of the database. Real time goes on as well.
    """

    def __init__(self) -> None:
        self._shift = timedelta()
        self._moved = asyncio.Event()

    def advance(self, by: timedelta) -> None:
        """Advance the clock. Call it in the event loop of the relay."""
        self._shift += by
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()

    def monotonic(self) -> float:
        """Return seconds that never go back, the advanced time included."""
        return time.monotonic() + self._shift.total_seconds()

    def shift(self) -> timedelta:
        """Return the time that the clock was advanced by."""
        return self._shift

    async def wait(self, event: asyncio.Event, seconds: float) -> None:
        """Wait until the event is set, or so many seconds of this clock have passed."""
        deadline = self.monotonic() + seconds
        await asyncio.sleep(0)  # also for a moment that has passed
        while not event.is_set() and (left := deadline - self.monotonic()) > 0:
            await _first(event, self._moved, left)


class RecordingPublisher(MemoryPublisher):
    """A `MemoryPublisher` for tests: it can refuse records, and has assertions about messages.

    It keeps all messages. Set `outage` to a text to simulate an outage, and to None to end it.
    """

    def __init__(self) -> None:
        super().__init__(keep=None)
        self._refusals: dict[str, deque[Refused]] = {}

    def refuse(
        self, event_type: str, reason: str = "refused", *, times: int = 1, permanent: bool = False
    ) -> None:
        """Refuse the next deliveries of an event type, `times` in number.

        With `permanent` the record fails at once.
        """
        refusals = self._refusals.setdefault(event_type, deque())
        refusals.extend([Refused(reason, permanent)] * times)

    async def publish(self, records: Sequence[ClaimedRecord]) -> Sequence[Outcome]:
        """Deliver the records that `refuse` does not name."""
        self._check_outage()
        refused = {record: self._refusal(record) for record in records}
        accepted = [record for record in records if refused[record] is None]
        outcomes = iter(await super().publish(accepted))
        return [refused[record] or next(outcomes) for record in records]

    def published(self, event_type: str, /, **payload: Any) -> list[Message]:
        """Return the messages of an event type whose payload has these values."""
        return [
            message
            for message in self.messages
            if message.event_type == event_type and _has(message.payload, payload)
        ]

    def assert_published(self, event_type: str, /, **payload: Any) -> Message:
        """Return the only message of an event type with these values in its payload.

        Raises AssertionError, which lists all messages, if there is none or more than one.
        """
        found = self.published(event_type, **payload)
        assert len(found) == 1, self._mismatch(event_type, payload, f"{len(found)} times")  # noqa: S101
        return found[0]

    def assert_not_published(self, event_type: str, /, **payload: Any) -> None:
        """Raise AssertionError if there is a message of this type with these values."""
        found = self.published(event_type, **payload)
        assert not found, self._mismatch(event_type, payload, f"{len(found)} times")  # noqa: S101

    def clear(self) -> None:
        """Drop the messages delivered so far."""
        self._delivered.clear()

    def _refusal(self, record: ClaimedRecord) -> Refused | None:
        refusals = self._refusals.get(record.event_type)
        return refusals.popleft() if refusals else None

    def _mismatch(self, event_type: str, payload: dict[str, Any], how_often: str) -> str:
        got = "\n".join(f"  {each.event_type} {each.payload}" for each in self.messages)
        return f"{event_type} {payload or ''} was published {how_often}. There was:\n{got}"


def _has(document: Any, values: dict[str, Any]) -> bool:
    return isinstance(document, dict) and all(
        name in document and document[name] == value for name, value in values.items()
    )


async def _first(event: asyncio.Event, other: asyncio.Event, seconds: float) -> None:
    waits = [asyncio.ensure_future(each.wait()) for each in (event, other)]
    try:
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()

"""A relay that serves most partitions anyway: a commit is claimed first, and polled for later."""

from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, event
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from postroom import OutboxRelay, UntypedEvent
from postroom.testing import RecordingPublisher
from tests.support.shop import outbox
from tests.support.waiting import eventually

HOUR = timedelta(hours=1)


class Steps:
    """Notes which of its statements a relay runs: `poll`, `claim`."""

    def __init__(self) -> None:
        self.taken: list[str] = []
        event.listen(Engine, "before_cursor_execute", self._note)

    def _note(self, _: Connection, __: Any, statement: str, *___: object) -> None:
        if "was_due" in statement:
            self.taken.append("claim")
        elif "is_present" in statement:
            self.taken.append("poll")

    def close(self) -> None:
        event.remove(Engine, "before_cursor_execute", self._note)


@pytest.fixture
def steps() -> Iterator[Steps]:
    steps = Steps()
    yield steps
    steps.close()


async def commit(engine: AsyncEngine, *keys: int) -> None:
    async with AsyncSession(engine) as session:
        happened = [UntypedEvent(event_type="x", aggregate_id=key, payload={}) for key in keys]
        await outbox.dispatcher(session).dispatch(happened)
        await session.commit()


def arrived(publisher: RecordingPublisher, count: int) -> bool:
    return len(publisher.messages) == count


@pytest.mark.requirement("E1")
async def test_a_commit_is_claimed_before_the_poll_while_most_partitions_are_leased(
    engine: AsyncEngine, steps: Steps
) -> None:
    publisher = RecordingPublisher()
    relay = OutboxRelay(outbox, engine, publisher, poll_interval=HOUR)
    async with relay.running():
        await commit(engine, *range(500))  # of every partition
        await eventually(lambda: len(publisher.messages) == 500 and relay.idle)
        first = set()
        for number in range(5):  # a poll that is due anyway may come in between
            steps.taken.clear()
            await commit(engine, 7)
            await eventually(partial(arrived, publisher, 501 + number))
            first.add(steps.taken[0])
            await eventually(lambda: "poll" in steps.taken)  # what is elsewhere is looked for, too
    assert "claim" in first


@pytest.mark.requirement("E1")
async def test_a_relay_that_serves_few_partitions_polls_first(
    engine: AsyncEngine, steps: Steps
) -> None:
    publisher = RecordingPublisher()
    relay = OutboxRelay(outbox, engine, publisher, poll_interval=HOUR)
    async with relay.running():
        await commit(engine, 1)
        await eventually(lambda: len(publisher.messages) == 1 and relay.idle)
        steps.taken.clear()
        await commit(engine, 2)
        await eventually(lambda: len(publisher.messages) == 2)
        first = steps.taken[0]
    assert first == "poll"

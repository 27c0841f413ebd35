"""A relay that is alone leases all partitions: it claims a commit without a poll."""

from collections.abc import Iterator
from datetime import timedelta
from functools import partial

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from postroom import OutboxRelay, UntypedEvent
from postroom.testing import RecordingPublisher
from tests.support.shop import outbox
from tests.support.statements import noted_statements
from tests.support.waiting import eventually

HOUR = timedelta(hours=1)


class Steps:
    """Says which of its statements a relay has run: `poll`, `claim`."""

    def __init__(self, sent: list[str]) -> None:
        self._sent = sent

    @property
    def taken(self) -> list[str]:
        names = {"was_due": "claim", "is_present": "poll"}
        return [names[name] for each in self._sent for name in names if name in each]

    def clear(self) -> None:
        self._sent.clear()


@pytest.fixture
def steps() -> Iterator[Steps]:
    with noted_statements() as sent:
        yield Steps(sent)


async def commit(engine: AsyncEngine, *keys: int) -> None:
    async with AsyncSession(engine) as session:
        happened = [UntypedEvent(event_type="x", aggregate_id=key, payload={}) for key in keys]
        await outbox.dispatcher(session).dispatch(happened)
        await session.commit()


def arrived(publisher: RecordingPublisher, count: int) -> bool:
    return len(publisher.messages) == count


@pytest.mark.requirement("E1")
async def test_a_commit_soon_after_another_is_claimed_without_a_poll(
    engine: AsyncEngine, steps: Steps
) -> None:
    publisher = RecordingPublisher()
    relay = OutboxRelay(outbox, engine, publisher, poll_interval=HOUR)
    async with relay.running():
        await commit(engine, 1)
        await eventually(partial(arrived, publisher, 1))
        first = set()
        for number in range(2, 7):  # a poll that is due anyway may come in between
            steps.clear()
            await commit(engine, number)
            await eventually(partial(arrived, publisher, number))
            first.add(steps.taken[0])
    assert "claim" in first

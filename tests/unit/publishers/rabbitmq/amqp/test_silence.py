"""When a broker that owes confirmations is taken for lost."""

import asyncio
from typing import cast

import pytest
from pamqp.base import Frame

from postroom.publishers.rabbitmq.amqp import confirms
from postroom.publishers.rabbitmq.amqp.confirms import ASK_AFTER, LOST_AFTER, ConfirmChannel
from postroom.publishers.rabbitmq.amqp.connection import Connection
from postroom.publishers.rabbitmq.amqp.errors import ClosedError
from postroom.publishers.rabbitmq.amqp.outgoing import Outgoing


class QuietConnection:
    """A connection to a broker that says nothing, and takes `unsent` bytes, one at each look."""

    frame_max = 4096
    heard = 0.0

    def __init__(self, unsent: int = 0, *, blocked_for: int = 0) -> None:
        self.looks = 0
        self.questions: list[int] = []
        self.lost: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._unsent = unsent
        self._blocked_for = blocked_for
        self._channel: ConfirmChannel | None = None

    @property
    def unsent(self) -> int:
        return max(0, self._unsent - self.looks)

    @property
    def blocked(self) -> str | None:
        self.looks += 1  # each look asks for it once
        return "low on memory" if self.looks <= self._blocked_for else None

    def register(self, channel: ConfirmChannel) -> int:
        self._channel = channel
        return 1

    def check_blocked(self) -> None:
        pass

    def write(self, data: bytes) -> None:
        pass

    def send(self, method: Frame, channel: int) -> None:
        self.questions.append(self.looks)

    def give_up(self, error: ClosedError) -> None:
        assert self._channel is not None
        self._channel.lose(error)
        self.lost.set_result(self.looks)


async def looks_until_lost(connection: QuietConnection) -> int:
    """Send a message; return how many looks it took until the broker was lost."""
    channel = ConfirmChannel(cast(Connection, connection))
    with pytest.raises(ClosedError, match="unconfirmed"):
        await channel.deliver([Outgoing("id", (b"", b""), ("", "queue"))], within=60)
    return await connection.lost


@pytest.fixture(autouse=True)
def looks_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confirms, "LOOK_EVERY", 0)


async def test_a_silent_broker_is_asked_once_and_then_lost() -> None:
    connection = QuietConnection()
    assert await looks_until_lost(connection) == LOST_AFTER
    assert connection.questions == [ASK_AFTER]


async def test_a_broker_that_still_takes_what_was_written_is_not_silent() -> None:
    assert await looks_until_lost(QuietConnection(unsent=10)) == 10 + LOST_AFTER


async def test_a_broker_that_has_blocked_publishers_is_not_silent() -> None:
    assert await looks_until_lost(QuietConnection(blocked_for=10)) == 10 + LOST_AFTER

"""An outbox in which three records have failed, and the commands that look at it."""

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from postroom import (
    ClaimedRecord,
    Delivered,
    OutboxRelay,
    Outcome,
    Refused,
    RetrySchedule,
    UntypedEvent,
)
from tests.support.in_process import Ended, InProcess
from tests.support.rows import save
from tests.support.shop import outbox

CANARY = "canary-4111-1111"
DECLINED = "PaymentDeclined: card expired"
MARKUP = "<img src=x onerror=alert(1)>"


class DecliningPublisher:
    """Refuses what was paid for order/7, and every mail, for as long as it `declines`."""

    max_batch = max_in_flight = 100

    def __init__(self) -> None:
        self.declines = True
        self.delivered: list[ClaimedRecord] = []

    async def open(self) -> None:
        pass

    async def close(self) -> None:
        pass

    async def publish(self, records: Sequence[ClaimedRecord]) -> Sequence[Outcome]:
        return [self._answer(each) for each in records]

    def _answer(self, record: ClaimedRecord) -> Outcome:
        if self.declines and record.event_type == "order.paid" and record.aggregate_id == "7":
            return Refused(DECLINED)
        if self.declines and record.event_type == "mail.sent":
            return Refused(f"mailbox {record.payload['to']} is full", permanent=True)
        self.delivered.append(record)
        return Delivered()


def order(number: int, name: str, **payload: Any) -> UntypedEvent:
    return UntypedEvent(
        event_type=f"order.{name}",
        aggregate_type="order",
        aggregate_id=number,
        payload={"total": 99, "password": CANARY, **payload},
    )


def mail(to: int) -> UntypedEvent:
    return UntypedEvent(event_type="mail.sent", payload={"to": to})


EVENTS = (
    order(7, "placed"),
    order(7, "paid"),
    *(order(7, "shipped") for _ in range(3)),
    order(8, "placed", note=MARKUP),
    order(8, "paid"),
    *(mail(to) for to in (17, 23)),
)
"""Position 1 and on. 2, 8 and 9 fail, 3 to 5 wait behind 2, the rest is delivered."""
FAILED = (2, 8, 9)


class Shop:
    """An outbox in which records have failed, and the commands that look at it."""

    def __init__(self, url: str, run: InProcess) -> None:
        self.url = url
        self._run = run

    def __call__(self, *words: str) -> Ended:
        """Run a command about this outbox."""
        ended = self._run(*words, DATABASE_URL=self.url)
        assert CANARY not in ended.out + ended.err
        return ended

    def lines(self, *words: str, code: int = 0) -> list[str]:
        ended = self(*words)
        assert (ended.code, ended.err) == (code, ""), ended
        assert "\x1b" not in ended.out
        return ended.out.splitlines()

    def json(self, *words: str, code: int = 0) -> Any:
        ended = self(*words, "--json")
        assert (ended.code, ended.err) == (code, ""), ended
        return json.loads(ended.out)


async def save_with_failures(url: str) -> None:
    engine = engine_of(url)
    await save(engine, *EVENTS)
    relay = OutboxRelay(
        outbox, engine, DecliningPublisher(), retry=RetrySchedule.seconds(0, forever=True)
    )
    await relay.run_once()
    await engine.dispose()


def engine_of(url: str) -> AsyncEngine:
    driver = "sqlite+aiosqlite" if url.startswith("sqlite") else "postgresql+asyncpg"
    return create_async_engine(f"{driver}:{url.partition(':')[2]}")

"""Takes the pictures of the console that README and docs show: `make screenshots`, some 11 minutes.

An outbox on SQLite with some trouble in it, a relay, the console and Chromium, all in one process.
"""

import asyncio
import os
import random
import tempfile
from collections.abc import Sequence
from datetime import timedelta
from itertools import count
from math import sin
from pathlib import Path
from typing import Final

import uvicorn
from playwright.async_api import Page, async_playwright
from sqlalchemy import MetaData, update
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from postroom import (
    ClaimedRecord,
    Delivered,
    OutageError,
    Outbox,
    OutboxRelay,
    Outcome,
    Refused,
    RetrySchedule,
    UntypedEvent,
)
from postroom.console import console
from scripts.servers import CHROMIUM, HOST

IMAGES: Final = Path(__file__).parents[1] / "docs" / "images"
PORT: Final = 8766
MINUTES: Final = 10
"""How long it runs before the pictures are taken: the charts show as much."""
PAGES: Final = {"overview": "/", "record": "/records?state=failed&type=order.paid"}
TYPES: Final = ("order.placed", "order.paid", "order.shipped", "mail.sent", "invoice.issued")

outbox = Outbox(MetaData(), max_retries=3)


class Broker:
    """Refuses a payment now and then."""

    max_batch = max_in_flight = 100
    is_away = False

    def __str__(self) -> str:
        return "RabbitMQ at mq1:5672/shop, exchange shop"

    async def open(self) -> None:
        if self.is_away:
            raise OutageError("mq1:5672 refuses connections")

    async def close(self) -> None:
        pass

    async def publish(self, records: Sequence[ClaimedRecord]) -> Sequence[Outcome]:
        await self.open()
        await asyncio.sleep(random.uniform(0.002, 0.02))
        return [self._answer(each) for each in records]

    def _answer(self, record: ClaimedRecord) -> Outcome:
        if record.payload.get("card") == "expired":
            return Refused("PaymentDeclined: card expired")
        if record.payload.get("to") == "nobody@example.com":
            return Refused("mailbox nobody@example.com does not exist", permanent=True)
        return Delivered()


def event(number: int) -> UntypedEvent:
    """Make an event; few of them will be refused."""
    event_type = TYPES[number % len(TYPES)]
    payload = {"order": 1000 + number % 180, "total": "99.00", "email": f"ann{number}@example.com"}
    if event_type == "order.paid" and number % 151 == 1:
        payload |= {"card": "expired"}
    if event_type == "mail.sent" and number % 203 == 3:
        payload |= {"to": "nobody@example.com"}
    return UntypedEvent(
        event_type=event_type,
        aggregate_type="order",
        aggregate_id=str(1000 + number % 180),
        payload=payload,
    )


async def save(engine: AsyncEngine, numbers: range) -> None:
    async with engine.begin() as connection:
        await outbox.save(connection, [event(each) for each in numbers])


async def traffic(engine: AsyncEngine) -> None:
    """Commit some events every half second, more of them now and then."""
    number = 5_000
    for step in count():
        usual = 6 + 3 * sin(step / 60) + (8 if step % 240 < 40 else 0)
        more = random.randint(1, round(2 * usual))
        await save(engine, range(number, number + more))
        number += more
        await asyncio.sleep(0.5)


async def spread_failures(engine: AsyncEngine) -> None:
    """Have records fail over the last hours, so that trends have a shape."""
    records = outbox.tables.records
    async with engine.begin() as connection:
        failed = records.c.status == "failed"
        for row in (await connection.execute(records.select().where(failed))).all():
            age = timedelta(hours=abs(random.gauss(0, 6)))
            own = records.c.position == row.position
            await connection.execute(
                update(records).where(own).values(updated_at=row.updated_at - age)
            )


async def take(page: Page, scheme: str) -> None:
    """Take the pictures of one colour scheme."""
    for name, path in PAGES.items():
        await page.goto(f"http://{HOST}:{PORT}{path}")
        if name == "record":
            await page.locator("tbody a.mono").first.click()
        await page.screenshot(path=IMAGES / f"console-{name}-{scheme}.png")


async def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    random.seed(7)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # so that no path is in the pictures
        engine = create_async_engine("sqlite+aiosqlite:///shop.db")
        async with engine.begin() as connection:
            await connection.run_sync(outbox.create_tables)
        await save(engine, range(3_000))
        broker = Broker()
        relay = OutboxRelay(outbox, engine, broker, retry=RetrySchedule.seconds(0, 0))
        app = console(outbox, engine, relay=relay)
        config = uvicorn.Config(app, host=HOST, port=PORT, log_level="error")
        server = uvicorn.Server(config)
        running = [asyncio.create_task(relay.run()), asyncio.create_task(server.serve())]
        running.append(asyncio.create_task(traffic(engine)))
        await asyncio.sleep(0.6 * MINUTES * 60)
        broker.is_away = True
        await asyncio.sleep(15)
        broker.is_away = False
        await asyncio.sleep(0.4 * MINUTES * 60)
        await spread_failures(engine)
        async with async_playwright() as playwright:
            browser = await playwright.chromium.launch(
                executable_path=CHROMIUM.find(), args=["--no-sandbox"]
            )
            for scheme in ("light", "dark"):
                page = await browser.new_page(
                    color_scheme=scheme,
                    viewport={"width": 1280, "height": 860},
                )
                await take(page, scheme)
        running.pop().cancel()
        server.should_exit = True
        await relay.stop()
        await asyncio.gather(*running)
        await engine.dispose()


if __name__ == "__main__":
    asyncio.run(main())

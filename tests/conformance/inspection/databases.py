"""Event types, and the time limit."""

import asyncio
from datetime import timedelta

import pytest
from sqlalchemy import text

from postroom.errors import InspectionTimeoutError
from postroom.inspection.reading import Reader
from tests.conformance.inspection.window import Window
from tests.conformance.store.rig import outbox


class Databases:
    """What the table has, and how long a question may take."""

    async def test_a_type_that_only_the_table_has_is_listed(self, window: Window) -> None:
        await window.put("a1", "b1")
        await window.deliver("b1")
        found = {each.name: each for each in await window.inspector.event_types()}
        assert found["a1"].is_seen
        assert found["b1"].is_seen
        assert (found["a1"].event_class, found["a1"].schema) == (None, None)

    async def test_event_types_have_the_rate_of_the_last_minute(self, window: Window) -> None:
        await window.put("a1")
        await window.put("b1", "c1", event_type="paid")
        await window.put(".1", ".2", event_type="sent")
        old = window.now() - timedelta(minutes=2)
        await window.edit("a1", created_at=old, event_type="paid")
        found = {each.name: each.per_minute for each in await window.inspector.event_types()}
        assert (found["paid"], found["sent"]) == (2, 2)

    async def test_a_statement_that_takes_too_long_is_ended(self, window: Window) -> None:
        reader = Reader(outbox, window.engine, time_limit=timedelta(seconds=0.2))
        with pytest.raises(InspectionTimeoutError, match=r"0\.2 s \(a slow question\)"):
            async with reader.ask("a slow question") as run:
                await run(ENDLESS)
        patient = Reader(outbox, window.engine)
        async with patient.ask("a quick question") as run:  # the connection is as good as new
            assert await patient.now(run) <= window.now() + timedelta(minutes=1)

    async def test_a_question_can_be_cancelled(self, window: Window) -> None:
        reader = Reader(outbox, window.engine)
        began = asyncio.Event()

        async def ask() -> None:
            async with reader.ask("a slow question") as run:
                began.set()
                await run(ENDLESS)

        asking = asyncio.create_task(ask())
        await began.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        async with reader.ask("another question") as run:
            assert await reader.now(run) <= window.now() + timedelta(minutes=1)


ENDLESS = text("""WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 - 1 FROM numbers)
    SELECT count(*) FROM numbers""")

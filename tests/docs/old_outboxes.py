"""Moves many rows with the code of docs/how-to/replace-your-outbox.md, which is in page.py.

Run in the folder of page.py: it says what it found as assertions, in its exit code.
"""

import asyncio
import importlib
import os
import random
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import Row, Table, insert, select, update
from sqlalchemy.exc import IntegrityError

from postroom import MemoryPublisher, OutboxRelay
from postroom.operations import Operations

sys.path.insert(0, os.getcwd())
page: Any = importlib.import_module("page")

KEYS = [uuid4() for _ in range(5)]
ROWS = 60
START = datetime(2026, 1, 31, 12, tzinfo=UTC)


class Killed(BaseException):
    """What ends a move in the middle of it."""


def moments() -> Iterator[tuple[UUID, datetime, str]]:
    """A key, the time of a transaction, and the time of an event in it: three per transaction."""
    for number in range(ROWS):
        transaction = START + timedelta(seconds=number // 3)
        moment = START + timedelta(seconds=number // 3, microseconds=number)
        yield KEYS[number // 3 % len(KEYS)], transaction, moment.isoformat()


def account_rows() -> Iterator[dict[str, Any]]:
    for key, _, moment in moments():
        facts = {"account_id": key, "occurred_at": datetime.fromisoformat(moment)}
        kind = random.choice([page.AccountCreated, page.AccountClosed])
        role = {"role": page.Role.ADMIN} if kind is page.AccountCreated else {}
        event = kind(**facts, **role)
        yield {
            "id": event.event_id,
            "event_type": kind.__name__,
            "payload": {name: str(value) for name, value in vars(event).items()},
            "occurred_at": event.occurred_at,
        }


def message_rows() -> Iterator[dict[str, Any]]:
    for key, transaction, moment in moments():
        yield {
            "id": uuid4(),
            "event_type": "message.sent",
            "aggregate_type": "message",
            "aggregate_id": key,
            "payload": {"timestamp": moment, "price": 1.5, "to": ["a", None, {"b": True}]},
            "created_at": transaction,
        }


def invitation_rows() -> Iterator[dict[str, Any]]:
    for key, _, moment in moments():
        event_id, created = uuid4(), datetime.fromisoformat(moment).replace(tzinfo=None)
        facts = {"eventId": str(event_id), "occurredOn": moment, "eventVersion": 1}
        yield {
            "event_id": event_id,
            "event_type": "hub.auth.events.InvitationSent",
            "event_version": 1,
            "aggregate_type": "invitation",
            "aggregate_id": key,
            "payload": {**facts, "invitationId": str(key), "email": "ann@example.com"},
            "created_at": created,
            "updated_at": created,
        }


Rows = list[dict[str, Any]]


async def create(sql: str, name: str, rows: Rows, schema: str = "public") -> Table:
    """Create an old table; the rows are in it in another order than that of their times."""
    shuffled = random.sample(rows, len(rows))
    async with page.engine.begin() as connection:
        table: Table = await connection.run_sync(page.create_old, sql, name, shuffled, schema)
    return table


async def check(
    old: Any, outbox: Any, to_row: Callable[[Row[Any]], dict[str, Any]], rows: Rows, done: Any
) -> None:
    [key] = old.table.primary_key
    ids = [row[key.name] for row in rows]
    finished = set(random.sample(ids, 20))
    async with page.engine.begin() as connection:
        await connection.execute(update(old.table).where(key.in_(finished)).values(done))
    waiting = [each for each in ids if each not in finished]
    before = await contents(old.table)

    assert await page.dry_run(page.engine, old) == []
    await move_killed(old, outbox)
    assert await contents(old.table) != before
    await page.move(page.engine, old, outbox, batch=7)
    assert {row[0] for row in await contents(old.table)} == finished
    assert await page.move_back(page.engine, outbox, old.table, to_row, batch=7) == len(waiting)
    back = await contents(old.table)
    assert [without_update(row) for row in back] == [without_update(row) for row in before]
    assert await page.move(page.engine, old, outbox, batch=7) == len(waiting)
    assert await page.move(page.engine, old, outbox) == 0

    publisher = MemoryPublisher()
    await OutboxRelay(outbox, page.engine, publisher).run_once()
    for each in KEYS:
        delivered = [one.id for one in publisher.messages if one.aggregate_id == str(each)]
        of_key = [row[key.name] for row in rows if str(each) in str(row)]
        assert delivered == [one for one in of_key if one in waiting]
    assert len(publisher.messages) == len(waiting)
    await refuse_repeats(old, outbox, next(row for row in rows if row[key.name] in waiting))


async def contents(table: Table) -> list[Any]:
    async with page.engine.connect() as connection:
        rows = await connection.execute(select(table).order_by(*table.primary_key))
        return list(rows.all())


def without_update(row: Row[Any]) -> dict[str, Any]:
    return {name: value for name, value in row._mapping.items() if name != "updated_at"}


async def move_killed(old: Any, outbox: Any) -> None:
    """Move some rows, and die in the middle of a batch."""
    calls = 0

    def to_event(row: Row[Any]) -> Any:
        nonlocal calls
        calls += 1
        if calls == 18:
            raise Killed
        return old.to_event(row)

    killed = page.OldOutbox(
        table=old.table, waiting=old.waiting, order=old.order, to_event=to_event
    )
    try:
        await page.move(page.engine, killed, outbox, batch=7)
    except Killed:
        return
    raise AssertionError("it was not killed")


async def refuse_repeats(old: Any, outbox: Any, row: dict[str, Any]) -> None:
    """A row whose event is in postroom already is refused, and stays where it is."""
    async with page.engine.begin() as connection:
        await connection.execute(insert(old.table).values(row))
    try:
        await page.move(page.engine, old, outbox)
    except IntegrityError:
        assert await page.count_waiting(page.engine, old) == 1
        return
    raise AssertionError("a repeat was moved")


async def check_pause() -> None:
    """While the old relay drains its table, postroom saves and delivers nothing."""
    operations, publisher = Operations(page.messages, page.engine), MemoryPublisher()
    relay = OutboxRelay(page.messages, page.engine, publisher)
    await operations.pause(reason="the old outbox is being drained")
    event = page.UntypedEvent(event_type="message.sent", aggregate_id=1, payload={})
    async with page.engine.begin() as connection:
        await page.messages.save(connection, [event])
    assert (await relay.run_once()).delivered == 0
    await operations.resume()
    assert (await relay.run_once()).delivered == 1


async def main() -> None:
    async with page.engine.begin() as connection:
        await connection.run_sync(page.migrate)
    rows = list(account_rows())
    old = page.old_accounts(await create(page.TABLE_1, "outbox", rows))
    await check(old, page.accounts, page.account_row, rows, {"delivered": True})
    rows = list(message_rows())
    old = page.old_messages(await create(page.TABLE_2, "outbox_events", rows))
    await check(old, page.messages, page.message_row, rows, {"status": "failed"})
    rows = list(invitation_rows())
    old = page.old_invitations(await create(page.TABLE_3, "outbox_events", rows, "auth"))
    await check(old, page.invitations, page.invitation_row, rows, {"status": 1})
    await check_pause()
    await page.engine.dispose()


if __name__ == "__main__":
    asyncio.run(main())

"""What capturing an event costs: against the same transaction with a hand-written INSERT.

Every transaction saves one business row and one event. The variants take turns in random order in
every round, so that the machine's moods hit all alike; a ratio is that of two neighbours in time.
"""

import argparse
import asyncio
import json
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import median, quantiles
from uuid import UUID

from sqlalchemy import Uuid, text
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from postroom import AggregateRoot, DomainEvent, Outbox, OutboxRecord
from postroom.identity import uuid7
from postroom.record import PARTITIONS, key_hash
from tests.support.postgres import temporary_database
from tests.support.services import service_url


class Base(DeclarativeBase):
    pass


class RelaxedRecord(OutboxRecord):
    """Of the outbox without strict order."""


strict = Outbox(Base.metadata)
relaxed = Outbox(Base.metadata, table="relaxed", ordering="relaxed", record=RelaxedRecord)


class Account(AggregateRoot, Base):
    __tablename__ = "accounts"

    id: Mapped[UUID] = mapped_column(Uuid, primary_key=True)
    email: Mapped[str]


@dataclass(frozen=True, kw_only=True)
class AccountOpened(DomainEvent, aggregate="account", key="account_id"):
    account_id: UUID
    email: str
    plan: str = "basic"


Variant = Callable[[AsyncSession], Awaitable[None]]


def by_hand(table: str) -> Variant:
    """Write the INSERT oneself, as a careful engineer without the library would."""
    statement = text(
        f"INSERT INTO {table} (id, event_type, event_version, aggregate_type, aggregate_id,"
        " partition, payload, headers, max_retries, occurred_at) VALUES (:id, 'AccountOpened', 1,"
        " 'account', :key, :partition, CAST(:payload AS jsonb), '{}', 10, :occurred_at)"
    )

    async def transaction(session: AsyncSession) -> None:
        account = Account(id=uuid7(), email="ann@example.com")
        session.add(account)
        await session.flush()  # the same statements in the same order
        event_id, occurred_at, key = uuid7(), datetime.now(UTC), str(account.id)
        payload = {
            "event_id": str(event_id),
            "occurred_at": occurred_at.isoformat(),
            "account_id": key,
            "email": account.email,
            "plan": "basic",
        }
        await session.execute(
            statement,
            {
                "id": event_id,
                "key": key,
                "partition": key_hash("account", key) % PARTITIONS,
                "payload": json.dumps(payload),
                "occurred_at": occurred_at,
            },
        )
        await session.commit()

    return transaction


def dispatched(outbox: Outbox) -> Variant:
    """Dispatch the event before the commit."""

    async def transaction(session: AsyncSession) -> None:
        account = Account(id=uuid7(), email="ann@example.com")
        session.add(account)
        event = AccountOpened(account_id=account.id, email=account.email)
        await outbox.dispatcher(session).dispatch([event])
        await session.commit()

    return transaction


async def raised(session: AsyncSession) -> None:
    """Raise the event, and leave the rest to the session."""
    account = Account(id=uuid7(), email="ann@example.com")
    account.raise_event(AccountOpened(account_id=account.id, email=account.email))
    session.add(account)
    await session.commit()


async def measure(url: str, rounds: int, transactions: int) -> dict[str, list[float]]:
    """Time every variant in every round; give the ratios to the hand-written one beside it."""
    engine = create_async_engine(url)
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
    # Nothing is read after the commit: the usual setting with asyncio.
    plain, captured, relaxed_capture = (
        async_sessionmaker(engine, expire_on_commit=False) for _ in range(3)
    )
    strict.capture(captured)
    relaxed.capture(relaxed_capture)
    compared = {
        "dispatcher, relaxed order": ("relaxed", plain, dispatched(relaxed)),
        "interceptor, relaxed order": ("relaxed", relaxed_capture, raised),
        "dispatcher, strict order": ("outbox", plain, dispatched(strict)),
        "interceptor, strict order": ("outbox", captured, raised),
    }
    ratios: dict[str, list[float]] = {name: [] for name in compared}
    for number in range(-2, rounds):  # two to warm up
        for name in random.sample(list(compared), len(compared)):
            table, sessions, variant = compared[name]
            pair = [(plain, by_hand(table)), (sessions, variant)]
            times = await interleaved(pair, transactions)
            if number >= 0:
                ratios[name].append(times[1] / times[0])
    await engine.dispose()
    return ratios


async def interleaved(
    pair: list[tuple[async_sessionmaker[AsyncSession], Variant]], transactions: int
) -> list[float]:
    """Take turns, transaction by transaction; give the median time of each side."""
    times: list[list[float]] = [[], []]
    for _ in range(transactions):
        for side in random.sample((0, 1), 2):
            sessions, variant = pair[side]
            start = time.perf_counter()
            async with sessions() as session:
                await variant(session)
            times[side].append(time.perf_counter() - start)
    return [median(side) for side in times]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--transactions", type=int, default=60, help="per side and round")
    options = parser.parse_args()
    with temporary_database(
        service_url("POSTROOM_TEST_POSTGRES_URL"), f"bench_{uuid7().hex}"
    ) as url:
        address = url.set(drivername="postgresql+asyncpg").render_as_string(hide_password=False)
        ratios = asyncio.run(measure(address, options.rounds, options.transactions))
    print("time of a transaction, as a ratio to a hand-written INSERT (median, quartiles)")
    for name, values in ratios.items():
        low, _, high = quantiles(values, n=4)
        print(f"  {name:<28}{median(values):.2f} × ({low:.2f}-{high:.2f})")


if __name__ == "__main__":
    main()

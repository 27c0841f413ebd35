"""What capturing an event costs: against the same transaction with a hand-written INSERT.

Every transaction saves one business row and one event. The variants take turns in random order in
every round, so that the machine's moods hit all alike; a ratio is that of two neighbours in time.
"""

import argparse
import asyncio
import json
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from sqlalchemy import Uuid, text
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from benchmarks.measure import Side, bench_database, interleaved, ratio
from postroom import AggregateRoot, DomainEvent, Outbox, OutboxRecord
from postroom.identity import uuid7
from postroom.record import PARTITIONS, key_hash


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


def in_session(sessions: async_sessionmaker[AsyncSession], variant: Variant) -> Side:
    """Run a variant in a session of its own."""

    async def transaction() -> None:
        async with sessions() as session:
            await variant(session)

    return transaction


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
            pair = [in_session(plain, by_hand(table)), in_session(sessions, variant)]
            by_hand_time, variant_time = await interleaved(pair, transactions)
            if number >= 0:
                ratios[name].append(variant_time / by_hand_time)
    await engine.dispose()
    return ratios


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--transactions", type=int, default=60, help="per side and round")
    options = parser.parse_args()
    with bench_database() as url:
        ratios = asyncio.run(measure(url, options.rounds, options.transactions))
    print("time of a transaction, as a ratio to a hand-written INSERT (median, quartiles)")
    for name, values in ratios.items():
        print(f"  {name:<28}{ratio(values)}")


if __name__ == "__main__":
    main()

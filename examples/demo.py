"""What postroom does, in one minute on a SQLite file: run it with `make demo`."""

import asyncio
import tempfile
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from postroom import (
    AggregateRoot,
    CaptureError,
    DomainEvent,
    EventBus,
    Outbox,
    OutboxRecord,
    UntypedEvent,
)


class Base(DeclarativeBase):
    pass


outbox = Outbox(Base.metadata)


class Method(StrEnum):
    CARD = "card"
    INVOICE = "invoice"


@dataclass(frozen=True, kw_only=True)
class OrderPlaced(DomainEvent, aggregate="order", key="order_id"):
    order_id: str
    total: float


@dataclass(frozen=True, kw_only=True)
class OrderPaid(DomainEvent, aggregate="order", key="order_id"):
    order_id: str
    method: Method


class Order(AggregateRoot, Base):
    __tablename__ = "orders"

    id: Mapped[str] = mapped_column(primary_key=True)
    total: Mapped[float]
    paid: Mapped[bool] = mapped_column(default=False)

    @classmethod
    def place(cls, number: str, total: float) -> "Order":
        order = cls(id=number, total=total)
        order.raise_event(OrderPlaced(order_id=number, total=total))
        return order

    def pay(self, method: Method) -> None:
        self.paid = True
        self.raise_event(OrderPaid(order_id=self.id, method=method))


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        engine = create_async_engine(f"sqlite+aiosqlite:///{Path(folder) / 'shop.db'}")
        async with engine.begin() as connection:
            await connection.run_sync(Base.metadata.create_all)
        sessions = async_sessionmaker(engine, expire_on_commit=False)
        outbox.capture(sessions)  # once: from now on, saving an aggregate saves its events
        await tell(sessions)
        await engine.dispose()


async def tell(sessions: async_sessionmaker[AsyncSession]) -> None:
    """The story, step by step."""
    say("1", "An order is placed and paid. One transaction; the code says nothing of an outbox.")
    async with sessions.begin() as session:
        order = Order.place("A-1", 99.5)
        order.pay(Method.CARD)
        session.add(order)
    await show(sessions)

    say(
        "2",
        "Another is placed, the payment fails, the transaction is rolled back. Nothing is left.",
    )
    async with sessions() as session:
        session.add(Order.place("A-2", 12.0))
        await session.flush()
        await session.rollback()
    await show(sessions)

    say(
        "3", "A controller emits an event without a class to the request's bus; it is flushed, with"
    )
    print("   the user's id, in the same transaction.")
    bus = EventBus()
    async with sessions.begin() as session:
        bus.emit(
            UntypedEvent(
                event_type="order.viewed",
                aggregate_type="order",
                aggregate_id="A-1",
                payload={"page": "/orders/A-1"},
            )
        )
        await outbox.middleware().flush(session, bus, user_id="ann")
    await show(sessions)

    say("4", "An event that JSON cannot hold is refused at once, in the caller's face:")
    async with sessions() as session:
        session.add(Order.place("A-3", float("nan")))
        try:
            await session.commit()
        except CaptureError as error:
            print(f"   postroom: {error}")
    await show(sessions)


def say(step: str, what: str) -> None:
    print(f"\n{step}. {what}")


async def show(sessions: async_sessionmaker[AsyncSession]) -> None:
    """What the database holds now."""
    records = outbox.tables.records
    async with sessions() as session:
        orders = await session.scalar(select(func.count()).select_from(Order))
        kept = (await session.scalars(select(OutboxRecord).order_by(records.c.position))).all()
    print(f"   orders: {orders}   outbox: {len(kept)}")
    for record in kept:
        facts = {key: value for key, value in record.payload.items() if key in SHOWN}
        key = f"{record.aggregate_type} {record.aggregate_id}"
        print(f"     {record.position}  {record.event_type:<13} {key:<10} {record.status}  {facts}")


SHOWN = {"total", "method", "page", "user_id"}

if __name__ == "__main__":
    asyncio.run(main())

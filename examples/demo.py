"""What postroom does, in a few seconds on a SQLite file: run it with `make demo`.

Events are saved with the data (1 to 4), then delivered (5 to 7). Read `tell` for the story.
"""

import asyncio
import logging
import tempfile
import time
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
    HandlersPublisher,
    HealthStatus,
    Outage,
    Outbox,
    OutboxRecord,
    OutboxRelay,
    RetrySchedule,
    UntypedEvent,
    handles,
)

Sessions = async_sessionmaker[AsyncSession]


# -- the domain: what can happen, and to what


class Base(DeclarativeBase):
    pass


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


# -- the handlers: what is done about it, some time later


class World:
    """What is out there, and not in our hands."""

    def __init__(self) -> None:
        self.full_mailboxes = {"A-1": 2}  # an order, and how often its receipt is turned away
        self.warehouse_answers = True


class Handler:
    def __init__(self, world: World) -> None:
        self.world = world


@handles(OrderPlaced)
class SendReceipt(Handler):
    async def handle(self, event: OrderPlaced) -> None:
        if self.world.full_mailboxes.get(event.order_id, 0) > 0:
            self.world.full_mailboxes[event.order_id] -= 1
            report(event.order_id, "receipt: refused, the mailbox is full")
            raise RuntimeError("the mailbox is full")  # about this record: it is tried again
        report(event.order_id, "receipt: sent")


@handles(OrderPaid)
class PackParcel(Handler):
    async def handle(self, event: OrderPaid) -> None:
        if not self.world.warehouse_answers:
            report(event.order_id, "parcel:  the warehouse does not answer")
            raise Outage("the warehouse does not answer")  # about nobody: everything waits
        report(event.order_id, "parcel:  packed")


@handles("order.viewed")
class CountView(Handler):
    async def handle(self, event: UntypedEvent) -> None:
        report(str(event.aggregate_id), f"view:    of {event.payload['page']}")


# -- the wiring: one outbox, one relay


outbox = Outbox(Base.metadata)


async def main() -> None:
    # It logs what is refused, what is away and what is back; here the handlers say so themselves.
    logging.getLogger("postroom").setLevel(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as folder:
        engine = create_async_engine(f"sqlite+aiosqlite:///{Path(folder) / 'shop.db'}")
        async with engine.begin() as connection:
            await connection.run_sync(Base.metadata.create_all)
        sessions = async_sessionmaker(engine, expire_on_commit=False)
        outbox.capture(sessions)  # once: from now on, saving an aggregate saves its events

        world = World()
        publisher = HandlersPublisher(factory=lambda handler: handler(world))
        retry = RetrySchedule.seconds(0.2, 0.5, forever=True)
        relay = OutboxRelay(outbox, engine, publisher, retry=retry)
        await tell(sessions, relay, world)
        await engine.dispose()


async def tell(sessions: Sessions, relay: OutboxRelay, world: World) -> None:
    """The story, step by step."""
    say("1. An order is placed and paid. One transaction; the code says nothing of an outbox.")
    async with sessions.begin() as session:
        order = Order.place("A-1", 99.5)
        order.pay(Method.CARD)
        session.add(order)
    await show(sessions)

    say("2. Another is placed, and the transaction is rolled back. Nothing is left of it.")
    async with sessions() as session:
        session.add(Order.place("A-2", 12.0))
        await session.flush()
        await session.rollback()
    await show(sessions)

    say("3. A controller emits an event without a class to the bus of its request.")
    bus = EventBus()
    viewed = UntypedEvent(
        event_type="order.viewed",
        aggregate_type="order",
        aggregate_id="A-1",
        payload={"page": "/orders/A-1"},
    )
    async with sessions.begin() as session:
        bus.emit(viewed)
        await outbox.middleware().flush(session, bus, user_id="ann")
    await show(sessions)

    say("4. An event that JSON cannot hold is refused at once, in the caller's face:")
    async with sessions() as session:
        session.add(Order.place("A-3", float("nan")))
        try:
            await session.commit()
        except CaptureError as error:
            print(f"   postroom: {error}")
    await show(sessions)

    say("5. A relay delivers. A-1's receipt is refused twice; the rest of A-1 waits, B-1 does not.")
    async with relay.running():
        async with sessions.begin() as session:
            session.add(Order.place("B-1", 20.0))  # the commit wakes the relay
        await everything_delivered(relay)

        say(
            "6. The warehouse is away: an outage. The relay pauses, and counts nothing against B-1."
        )
        world.warehouse_answers = False
        async with sessions.begin() as session:
            (await session.get_one(Order, "B-1")).pay(Method.INVOICE)
        await degraded(relay)
        print(f"   relay: {relay.health.status}: {relay.health.reason}")
        world.warehouse_answers = True
        await everything_delivered(relay)
        print(f"   relay: {relay.health.status}")

    say("7. The relay is stopped. Everything is delivered, and A-1 in the order it happened.")
    await show(sessions)


async def everything_delivered(relay: OutboxRelay) -> None:
    """Wait until nothing is ready, waiting or held."""
    async with asyncio.timeout(20):
        while (now := await relay.store.counts()).ready + now.waiting + now.held:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def degraded(relay: OutboxRelay) -> None:
    """Wait until the relay has noticed an outage."""
    async with asyncio.timeout(20):
        while relay.health.status != HealthStatus.DEGRADED:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


# -- what is printed


def say(what: str) -> None:
    global told_at
    told_at = time.monotonic()
    print(f"\n{what}")


def report(order: str, what: str) -> None:
    print(f"   {time.monotonic() - told_at:4.1f} s  {order}  {what}")


async def show(sessions: Sessions) -> None:
    """What the database holds now."""
    records = outbox.tables.records
    async with sessions() as session:
        orders = await session.scalar(select(func.count()).select_from(Order))
        kept = (await session.scalars(select(OutboxRecord).order_by(records.c.position))).all()
    print(f"   orders: {orders}   outbox: {len(kept)}")
    for record in kept:
        retries = f"after {record.retry_count} retries" if record.retry_count else ""
        print(
            f"     {record.position}  {record.event_type:<12}  {record.aggregate_type}"
            f" {record.aggregate_id}  {record.status:<9} {retries}".rstrip()
        )


told_at = time.monotonic()

if __name__ == "__main__":
    asyncio.run(main())

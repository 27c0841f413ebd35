"""An application whose deliveries wait for a file: tests.integration.worker.gated_app:relay."""

import asyncio
import os
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from sqlalchemy.ext.asyncio import create_async_engine

from postroom import OutboxRelay
from postroom.publishers.base import DELIVERED, Outcome, Publisher
from postroom.publishers.rabbitmq import RabbitMQPublisher
from postroom.record import ClaimedRecord
from postroom.relay.retry import RetrySchedule
from tests.support.shop import outbox

STARTED = Path("started")
"""Is there from the first delivery on."""
GATE = Path("gate")
"""Lets deliveries through."""
LONG = timedelta(hours=1)
"""More than any test waits for."""


class GatedPublisher:
    """Waits for the gate: in the event loop, in a thread, or so that the loop stands still.

    One that is "unclosable" never closes.
    """

    max_batch = 1
    max_in_flight = 100

    def __init__(self, how: str) -> None:
        self._how = how

    async def open(self) -> None:
        pass

    async def publish(self, records: Sequence[ClaimedRecord]) -> Sequence[Outcome]:
        begin()
        if self._how == "thread":
            await asyncio.to_thread(wait)
        elif self._how == "blocking":
            wait()
        while not is_open():  # noqa: ASYNC110 - another process opens it
            await asyncio.sleep(0.01)
        return [DELIVERED] * len(records)

    async def close(self) -> None:
        if self._how == "unclosable":
            await asyncio.Event().wait()


def begin() -> None:
    STARTED.touch()


def is_open() -> bool:
    return GATE.exists()


def wait() -> None:
    while not is_open():
        time.sleep(0.01)


def make() -> OutboxRelay:
    """Make the relay, of what the environment says."""
    return relay_to(GatedPublisher(os.environ.get("SHOP_GATE", "waiting")))


def to_rabbitmq() -> OutboxRelay:
    """Make a relay that delivers to a broker, and waits for a long time for its answers."""
    exchange = os.environ["SHOP_EXCHANGE"]
    return relay_to(
        RabbitMQPublisher(os.environ["SHOP_BROKER"], exchange=exchange, confirm_within=LONG)
    )


def relay_to(publisher: Publisher) -> OutboxRelay:
    return OutboxRelay(
        outbox,
        create_async_engine(os.environ["SHOP_DATABASE"]),
        publisher,
        retry=RetrySchedule.polls(),
        lease=LONG,  # who gets what it had, gets it because it was given back
        grace=LONG,
    )


async def make_async() -> OutboxRelay:
    return make()


async def never() -> OutboxRelay:
    """Never get as far as to make one."""
    begin()
    await asyncio.Event().wait()
    return make()


def __getattr__(name: str) -> OutboxRelay:
    if name != "relay":
        raise AttributeError(name)
    return make()

"""An application whose handlers need a payment service, which may be down or never answer."""

import asyncio
import os
from datetime import timedelta
from pathlib import Path

from sqlalchemy import MetaData
from sqlalchemy.ext.asyncio import create_async_engine

from postroom import HandlersPublisher, Outbox, OutboxRelay, RetrySchedule, UntypedEvent
from postroom.events.registry import EventRegistry

DIARY, UP, SILENT = Path("diary"), Path("payments.up"), Path("payments.silent")
"""Files of the working directory: what was paid, and how the payment service is."""
registry = EventRegistry()
outbox = Outbox(MetaData(), events=registry, max_retries=None)


class PaymentsDownError(Exception):
    """The payment service refuses the connection."""


@registry.handles("order.paid")
class Charge:
    """Charges an order, and writes it into the diary."""

    async def handle(self, event: UntypedEvent) -> None:
        if _is_there(SILENT):
            await asyncio.sleep(3600)
        if not _is_there(UP):
            raise PaymentsDownError("payments.shop:443 refused the connection")
        _note(f"{event.aggregate_id} {event.payload['number']}")


def _is_there(file: Path) -> bool:
    return file.exists()


def _note(line: str) -> None:
    with DIARY.open("a") as diary:
        diary.write(f"{line}\n")


def events(keys: range, numbers: range) -> list[UntypedEvent]:
    """Return several events of several orders, those of an order in their order."""
    return [
        UntypedEvent(
            event_type="order.paid",
            aggregate_type="order",
            aggregate_id=str(key),
            payload={"number": number},
        )
        for number in numbers
        for key in keys
    ]


def relay() -> OutboxRelay:
    """Make a relay that tries a record twice, and whose records others soon take over."""
    engine = create_async_engine(os.environ["PAYMENTS_DATABASE_URL"])
    retry = RetrySchedule.seconds(0.1).ending_after(2)
    return OutboxRelay(outbox, engine, HandlersPublisher(), retry=retry, lease=timedelta(seconds=2))

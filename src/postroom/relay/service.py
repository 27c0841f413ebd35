"""`OutboxEventPublisher`: the relay with the defaults of a background service."""

from datetime import timedelta
from typing import Any

from sqlalchemy.ext.asyncio import AsyncEngine

from postroom.outbox import Outbox
from postroom.publishers.base import Publisher
from postroom.relay.relay import OutboxRelay

POLL_INTERVAL = timedelta(seconds=5)


class OutboxEventPublisher(OutboxRelay):
    """An `OutboxRelay` that polls every 5 s by default. Takes the same options.

    Its retry schedule has no end, but a record fails at its own `max_retries`. With
    `Outbox(…, max_retries=None)` records have none.
    """

    def __init__(
        self,
        outbox: Outbox,
        engine: AsyncEngine,
        publisher: Publisher,
        *,
        poll_interval: timedelta = POLL_INTERVAL,
        **options: Any,
    ) -> None:
        super().__init__(outbox, engine, publisher, poll_interval=poll_interval, **options)

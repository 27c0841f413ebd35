"""The relay as a background service that never gives up."""

from datetime import timedelta
from typing import Any

from sqlalchemy.ext.asyncio import AsyncEngine

from postroom.outbox import Outbox
from postroom.publishers.base import Publisher
from postroom.relay.relay import OutboxRelay

POLL_INTERVAL = timedelta(seconds=5)


class OutboxEventPublisher(OutboxRelay):
    """A relay with the defaults of a background service: it polls every 5 seconds.

    Its schedule never gives up, but a record fails at its own `max_retries`. Use
    `Outbox(…, max_retries=None)` to give records none.
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

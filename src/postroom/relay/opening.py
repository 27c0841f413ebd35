"""Opening the publisher: connect to the broker, or note the outage."""

import asyncio
import logging

from sqlalchemy.ext.asyncio import AsyncEngine

from postroom.errors import ConfigurationError, Outage, error_text
from postroom.outbox import Outbox
from postroom.publishers.base import Publisher
from postroom.relay.breaker import Breaker

logger = logging.getLogger("postroom.relay")

OPEN_WITHIN = 8.0
"""Seconds for a publisher to connect."""


async def open_publisher(
    publisher: Publisher, outbox: Outbox, engine: AsyncEngine, breaker: Breaker
) -> None:
    """Open the publisher, or trip its breaker. Raises ConfigurationError."""
    try:
        async with asyncio.timeout(OPEN_WITHIN):
            await publisher.open(outbox, engine)
    except Outage as outage:
        breaker.trip(str(outage))
    except ConfigurationError:
        raise
    except TimeoutError:
        breaker.trip(f"it did not open within {OPEN_WITHIN:.0f} s")
    except Exception as error:
        logger.exception("postroom: the publisher cannot be opened")
        breaker.trip(error_text(error))
    else:
        breaker.half_open()

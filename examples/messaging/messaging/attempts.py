"""Attempts to process an event: several if it fails; an outage of the database counts as none."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from enum import Enum, auto
from typing import Final

from postroom import database_outage

from messaging.processing import InvalidEventError, Result

log = logging.getLogger(__name__)

PAUSES: Final = (0.1, 0.5, 2.0, 5.0)
"""Seconds after a failed attempt; the last value repeats."""
OUTAGE_PAUSE: Final = 2.0
"""Seconds until an event goes back to its queue, if the database is away."""


class Verdict(Enum):
    """How a message is settled at the broker."""

    ACKNOWLEDGE = auto()
    REQUEUE = auto()
    REJECT = auto()  # to the dead-letter exchange


async def attempt(
    process: Callable[[], Awaitable[Result]],
    what: str,
    *,
    max_attempts: int,
    stopped: asyncio.Event,
) -> Verdict:
    """Process an event named `what`; try again if that fails, up to `max_attempts` times in all."""
    for number in range(1, max_attempts + 1):
        try:
            if await process() is Result.REPEATED:
                log.info("%s was processed before", what)
            return Verdict.ACKNOWLEDGE
        except InvalidEventError as error:
            log.error("%s is rejected: %s", what, error)
            return Verdict.REJECT
        except Exception as error:
            if database_outage(error):
                log.warning("the database is away, %s goes back to its queue: %s", what, error)
                await pause(OUTAGE_PAUSE, stopped)
                return Verdict.REQUEUE
            log.warning("attempt %d of %d at %s failed: %r", number, max_attempts, what, error)
        if number < max_attempts:
            await pause(PAUSES[min(number, len(PAUSES)) - 1], stopped)
            if stopped.is_set():
                return Verdict.REQUEUE
    log.error("%s is rejected after %d attempts", what, max_attempts)
    return Verdict.REJECT


async def pause(seconds: float, stopped: asyncio.Event) -> None:
    """Wait so many seconds, or until the process is asked to stop."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stopped.wait()

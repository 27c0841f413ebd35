"""What a worker reports of itself into the database, for operators."""

import asyncio
import logging
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from postroom.database.errors import database_outage, describe
from postroom.publishers.base import Publisher
from postroom.redaction import mask
from postroom.relay.breaker import Breaker
from postroom.relay.loop import Loop
from postroom.store.base import HeldRecord
from postroom.store.store import Store

logger = logging.getLogger("postroom.relay")

REPORT_EVERY = 10.0
"""Seconds between the reports of an idle worker.

A busy one reports at every heartbeat. The start and the end of an outage are reported at the next
heartbeat.
"""


async def report(loop: Loop, store: Store, per_minute: int, within: float) -> None:
    """Write the report of a worker. If the database does not take it, deliveries go on."""
    try:
        async with asyncio.timeout(within), loop.leases.lock:
            if not loop.left:  # else its row would come back
                await store.leases.report(loop.worker, report_of(loop, per_minute))
    except Exception as error:
        if not database_outage(error):
            raise
        logger.debug("postroom: the report of the worker has to wait: %s", describe(error))


def report_of(loop: Loop, per_minute: int) -> dict[str, Any]:
    """Return the report of a worker. `per_minute`: how many records it delivered lately."""
    longest, tally = loop.delivery.longest_call(), loop.tally
    health = loop.health()
    return {
        "version": postroom_version(),
        "publisher": publisher_name(loop.publisher),
        "publisher_outage": _outage(loop.publisher_breaker),
        "database_outage": _outage(loop.database_breaker),
        "waiting_routes": [
            {
                "route": each.route,
                "reason": each.reason,
                "seconds": each.seconds,
                "records": each.records,
            }
            for each in health.waiting_routes
        ],
        "in_flight": len(loop.order.in_flight),
        "oldest": None if longest is None else {**_name(longest[0]), "seconds": longest[1]},
        "delivered": tally.delivered,
        "refused": tally.retried,
        "postponed": tally.postponed,
        "failed": tally.failed,
        "per_minute": per_minute,
        "paused": loop.pauses.everything,
        "listener": loop.listener,
        "redact": loop.settings.redact,  # for commands that know the database's URL only
    }


def publisher_name(publisher: Publisher) -> str:
    """Return a publisher's own name, without passwords, or that of its class."""
    named = type(publisher).__str__ is not object.__str__
    return mask(str(publisher)) if named else type(publisher).__name__


@cache
def postroom_version() -> str:
    """Return the version of postroom that is installed."""
    try:
        return version("postroom")
    except PackageNotFoundError:  # run from its source
        return "unknown"


def _outage(breaker: Breaker) -> dict[str, Any] | None:
    outage = breaker.outage
    return None if outage is None else {"reason": breaker.reason, "seconds": outage[1]}


def _name(held: HeldRecord) -> dict[str, Any]:
    record = held.record
    key = None if record.key is None else "/".join(filter(None, record.key))
    return {"id": str(record.id), "event_type": record.event_type, "key": key}

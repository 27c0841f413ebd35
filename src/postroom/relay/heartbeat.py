"""The heartbeat: renews leases, whatever the loop waits for, notices outages, and reports."""

import asyncio
import logging
from collections import deque
from dataclasses import asdict
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from math import inf
from typing import Any

from postroom.database.errors import Kind, describe, is_conflict, kind_of
from postroom.publishers.base import Publisher
from postroom.redaction import mask
from postroom.relay.breaker import Breaker
from postroom.relay.health import Problem
from postroom.relay.loop import Loop
from postroom.store.base import HeldRecord
from postroom.store.store import Store

logger = logging.getLogger("postroom.relay")

REPORT_EVERY = 10.0
"""Seconds between the reports of an idle worker, unless an outage has begun or ended."""


async def beat(loop: Loop, store: Store) -> None:
    """Renew the leases of a loop four times per lease, and report, until cancelled.

    `store` has a connection of its own, so that a heartbeat waits for nothing else.
    """
    seconds = loop.settings.heartbeat
    within, reported_at, reported_outage = max(1.0, seconds), -inf, False
    now, done = loop.clock.monotonic(), loop.tally.delivered
    delivered = deque([(now, done)])  # at the heartbeats of the last minute
    while True:
        await loop.clock.wait(asyncio.Event(), seconds)
        asked_at = loop.clock.monotonic()
        try:
            async with asyncio.timeout(within), loop.leases.lock:
                tokens = await store.leases.renew(loop.worker, loop.settings.lease)
        except Exception as error:
            if kind_of(error) is Kind.BUG:
                raise
            if not is_conflict(error):
                loop.database_breaker.trip(describe(error), "heartbeat")
            await loop.locks.look(store.database, within)
        else:
            loop.leases.renewed(tokens, asked_at=asked_at)
            logger.debug("postroom: renewed %d leases", len(tokens))
            loop.database_breaker.reset("heartbeat")
            await loop.locks.look(store.database, within)
            delivered.append((asked_at, loop.tally.delivered))
            if delivered[1][0] <= asked_at - 60:
                delivered.popleft()
            outage = loop.publisher_breaker.outage is not None
            if tokens or outage != reported_outage or asked_at - reported_at >= REPORT_EVERY:
                await _report(loop, store, delivered[-1][1] - delivered[0][1], within)
                reported_at, reported_outage = asked_at, outage


async def _report(loop: Loop, store: Store, per_minute: int, within: float) -> None:
    """Write the report of a worker. If the database does not take it, deliveries go on."""
    try:
        async with asyncio.timeout(within), loop.leases.lock:
            if not loop.left:  # else its row would come back
                await store.leases.report(loop.worker, report_of(loop, per_minute))
    except Exception as error:
        if kind_of(error) is Kind.BUG:
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
        "database_outage": _problem(loop.locks.problem) or _outage(loop.database_breaker),
        "waiting_routes": [asdict(each) for each in health.waiting_routes],
        "in_flight": len(loop.order.in_flight),
        "oldest": None if longest is None else {**_name(longest[0]), "seconds": longest[1]},
        "delivered": tally.delivered,
        "refused": tally.retried,
        "postponed": tally.postponed,
        "failed": tally.failed,
        "per_minute": per_minute,
        "paused": loop.poll.pauses.everything,
        "active": loop.poll.active,
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
    return _problem(breaker.outage and (breaker.reason, breaker.outage[1]))


def _problem(problem: Problem | None) -> dict[str, Any] | None:
    return None if problem is None else {"reason": problem[0], "seconds": problem[1]}


def _name(held: HeldRecord) -> dict[str, Any]:
    record = held.record
    key = None if record.key is None else str(record.key)
    return {"id": str(record.id), "event_type": record.event_type, "key": key}

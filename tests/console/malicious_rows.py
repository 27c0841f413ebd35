"""An outbox in which every field that a page shows holds markup, in a SQLite file."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from sqlalchemy import MetaData, insert
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from postroom import Outbox
from postroom.events.registry import EventRegistry
from postroom.identity import uuid7
from postroom.record import PARTITIONS, key_hash

RIGHT_TO_LEFT = "\u202e"
"""Has the text after it written from right to left."""


def markup(field: str) -> str:
    """Return markup that names the field it is in, for content, attributes and scripts."""
    return f"{field}\"'><script>{field}()</script><b-evil onclick={field}()>&amp;{{{{7*7}}}}"


PAYLOAD_KEY, PAYLOAD, HEADER = markup("payload_key"), markup("payload"), markup("header")
EVENT_TYPE, ERROR = markup("event_type"), markup("error")
KEY_TYPE, KEY_ID = markup("key_type"), markup("key_id") + "/" + RIGHT_TO_LEFT
SHORT_WORKER = f"{markup('host')}:{markup('pid')}"
WORKER = f"{SHORT_WORKER}:x"
OPERATOR, HOST, REASON = markup("operator"), markup("machine"), markup("reason")
ACTION, TARGET, DETAIL = "<b-evil>action", markup("target"), markup("detail")
OUTAGE, ROUTE, ROUTE_REASON = markup("outage"), markup("route"), markup("route_reason")
PUBLISHER, VERSION = markup("publisher"), markup("version")
IN_FLIGHT_TYPE, IN_FLIGHT_KEY, IN_FLIGHT_ID = (
    markup("flying"),
    markup("flying_key"),
    markup("flying_id"),
)
ATTEMPT, VERDICT = markup("attempt"), "retry"
TRACE = "0af7651916cd43dd8448eb211c80319c"
SECRETS = {"password": "hidden-word-1", "email": "hidden@example.com", "card": "hidden-4111"}
"""Of the payload of each record; `email` and `card` are redacted by the outbox."""

NOW = datetime.now(UTC)


def new_outbox() -> Outbox:
    """Make the outbox, which hides some fields."""
    return Outbox(MetaData(), events=EventRegistry(), redact=("email", "card"))


async def outbox_file(path: Path) -> tuple[Outbox, AsyncEngine]:
    """Create the tables in a SQLite file, without a row."""
    outbox = new_outbox()
    engine = create_async_engine(f"sqlite+aiosqlite:///{path}")
    async with engine.begin() as connection:
        await connection.run_sync(outbox.metadata.create_all)
    return outbox, engine


async def fill(outbox: Outbox, engine: AsyncEngine) -> UUID:
    """Write markup into every table. Position 1 has failed, and blocks 2; return its id."""
    tables, first = outbox.tables, record(1, status="failed", ready=False)
    records = [first, record(2, ready=False), record(3, status="published", published_at=NOW)]
    change = {"operator": OPERATOR, "host": HOST, "action": ACTION, "target": TARGET}
    details = {DETAIL: DETAIL, "ids": [str(first["id"])]}
    attempt = {"position": 1, "retry_count": 1, "reason": ATTEMPT, "worker": WORKER, "seconds": 1.0}
    async with engine.begin() as connection:
        for each in records:
            await connection.execute(insert(tables.records).values(each))
        await connection.execute(
            insert(tables.blocked_keys).values(
                aggregate_type=KEY_TYPE, aggregate_id=KEY_ID, position=1
            )
        )
        await connection.execute(insert(tables.attempts).values(verdict=VERDICT, **attempt))
        await connection.execute(insert(tables.audit).values(records=1, details=details, **change))
        for scope in (("paused" + EVENT_TYPE, "", ""), ("", KEY_TYPE, KEY_ID)):
            names = dict(zip(("event_type", "aggregate_type", "aggregate_id"), scope, strict=True))
            who = {"operator": OPERATOR, "host": HOST, "reason": REASON}
            await connection.execute(insert(tables.pauses).values(**names, **who))
        await connection.execute(insert(tables.workers).values(_worker()))
        lease = {"partition": 0, "worker": WORKER, "leased_until": NOW + timedelta(hours=1)}
        await connection.execute(insert(tables.leases).values(lease))
    return UUID(str(first["id"]))


def record(position: int, **values: Any) -> dict[str, Any]:
    """Return the row of a record full of markup."""
    return {
        "position": position,
        "id": uuid7(),
        "event_type": EVENT_TYPE,
        "aggregate_type": KEY_TYPE,
        "aggregate_id": KEY_ID,
        "partition": key_hash(KEY_TYPE, KEY_ID) % PARTITIONS,
        "payload": {PAYLOAD_KEY: PAYLOAD, "turned": RIGHT_TO_LEFT, **SECRETS},
        "headers": {"from": HEADER, "traceparent": f"00-{TRACE}-b7ad6b7169203331-01"},
        "occurred_at": NOW,
        "error_message": ERROR,
        **values,
    }


def _worker() -> dict[str, Any]:
    outage = {"reason": OUTAGE, "seconds": 5}
    oldest = {"event_type": IN_FLIGHT_TYPE, "key": IN_FLIGHT_KEY, "id": IN_FLIGHT_ID, "seconds": 9}
    report = {
        "version": VERSION,
        "publisher": PUBLISHER,
        "publisher_outage": outage,
        "database_outage": outage,
        "waiting_routes": [{"route": ROUTE, "reason": ROUTE_REASON, "records": 1}],
        "oldest": oldest,
        "in_flight": 1,
        "listener": "down",
    }
    soon = NOW + timedelta(hours=1)
    return {"worker": WORKER, "seen_until": soon, "reported_at": NOW, "report": report}

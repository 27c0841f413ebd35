"""Leases that nobody renews, and the records that are suspected of having killed a worker."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import text

from postroom.database.database import Database, Run
from postroom.inspection.reading import Reader, time_of, time_or_none
from postroom.inspection.wording import duration
from postroom.store.base import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLease:
    """A partition whose lease has ended without being given back."""

    partition: int
    worker: str
    ended_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """A record whose delivery workers did not survive."""

    position: int
    crashes: int
    next_try: datetime | None = None
    """When it is tried again, alone, if it is quarantined."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseFacts:
    """What is wrong with leases."""

    now: datetime
    dead: tuple[DeadLease, ...]
    suspects: tuple[Suspect, ...]


async def read_leases(reader: Reader) -> LeaseFacts:
    """Return dead leases and suspects, by partition."""
    n, sql = reader.database, reader.database.sql
    ended = text(f"""SELECT partition, worker, leased_until FROM {n.leases}
        WHERE worker IS NOT NULL AND leased_until < {sql.now} ORDER BY partition""")
    async with reader.ask("the leases") as run:
        return LeaseFacts(
            now=await reader.now(run),
            dead=tuple(
                DeadLease(
                    partition=row.partition, worker=row.worker, ended_at=time_of(row.leased_until)
                )
                for row in await run(ended)
            ),
            suspects=await read_suspects(n, run),
        )


async def read_suspects(n: Database, run: Run) -> tuple[Suspect, ...]:
    """Return the records that workers died of, as far as anybody can tell, by partition."""
    quarantined = f"r.error_message LIKE '{Verdict.QUARANTINED}%'"
    suspects = text(f"""SELECT r.position, l.suspect_crashes,
            CASE WHEN {quarantined} THEN r.due_at END AS next_try
        FROM {n.leases} l JOIN {n.records} r ON r.id = l.suspect
        WHERE l.suspect_crashes > 0 AND r.status = 'pending' ORDER BY l.partition""")
    return tuple(
        Suspect(
            position=row.position, crashes=row.suspect_crashes, next_try=time_or_none(row.next_try)
        )
        for row in await run(suspects)
    )


def quarantine_text(suspect: Suspect, now: datetime) -> str:
    """Say that a record is quarantined."""
    left = duration(max(timedelta(), (suspect.next_try or now) - now))
    return (
        f"the record at position {suspect.position} is quarantined, because workers die while they"
        f" deliver it; it is tried again, alone, in {left}"
    )


def quarantine_remedy(suspect: Suspect) -> tuple[str, ...]:
    """Write what to do about a quarantined record."""
    number = suspect.position
    return (
        f"postroom show {number}",
        f"postroom discard {number}  # or mend it, and: retry {number}",
    )

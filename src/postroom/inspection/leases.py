"""Leases that nobody renews, and the records that are suspected of having killed a worker."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import text

from postroom.inspection.reading import Reader, time_of


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLease:
    """A partition whose lease has ended without being given back."""

    partition: int
    worker: str
    ended_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """A record whose delivery a worker did not survive."""

    position: int
    crashes: int


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
    suspects = text(f"""SELECT suspect, suspect_crashes FROM {n.leases}
        WHERE suspect IS NOT NULL AND suspect_crashes > 0 ORDER BY partition""")
    async with reader.ask("the leases") as run:
        return LeaseFacts(
            now=await reader.now(run),
            dead=tuple(
                DeadLease(
                    partition=row.partition, worker=row.worker, ended_at=time_of(row.leased_until)
                )
                for row in await run(ended)
            ),
            suspects=tuple(
                Suspect(position=row.suspect, crashes=row.suspect_crashes)
                for row in await run(suspects)
            ),
        )

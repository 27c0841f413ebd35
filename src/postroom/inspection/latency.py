"""How long records took from their commit to their delivery."""

from dataclasses import dataclass
from datetime import timedelta
from math import ceil
from typing import Final

from sqlalchemy import text

from postroom.database.database import as_rows
from postroom.inspection.reading import Reader
from postroom.inspection.records import known_time
from postroom.record import PARTITIONS
from postroom.store.rows import within_partition

LOOKED_AT: Final = 1000
"""How many of the newest records, and of those before the first ready one, are looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """The time from commit to delivery of records that were delivered in the last minute.

    The records are among the newest 1,000, or, in a backlog, among the 1,000 before the first ready
    one.
    """

    records: int
    """How many records the percentiles are of."""
    p50: timedelta | None
    """The median; None without records."""
    p99: timedelta | None
    """The 99th percentile; None without records."""


class Latencies:
    """Reads the latency."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        n, sql = reader.database, reader.database.sql
        taken = sql.seconds_between(known_time("r.created_at"), known_time("r.published_at"))
        partitions = sql.rows("partitions", {"partition": "smallint"})
        ready = f"r.ready AND {within_partition('partitions', '0')} LIMIT 1"
        first = f"(SELECT min(w.position) FROM {sql.each(partitions, n.records, ready)})"
        some = f"""SELECT * FROM (SELECT r.position, {taken} AS seconds, r.published_at
            FROM {n.records} r {{}} ORDER BY r.position DESC LIMIT {LOOKED_AT}) AS part"""
        self._delivered = text(f"""SELECT seconds FROM ({some.format("")}
                UNION {some.format(f"WHERE r.position < {first}")}) AS looked_at
            WHERE published_at > {sql.after("-60")} AND seconds IS NOT NULL ORDER BY seconds""")

    async def read(self) -> Latency:
        """Return the latency of the last minute."""
        partitions = as_rows({"partition": each} for each in range(PARTITIONS))
        async with self._reader.ask("the latency") as run:
            rows = await run(self._delivered, partitions=partitions)
        seconds = [max(0.0, float(row.seconds)) for row in rows]
        return Latency(
            records=len(seconds), p50=_percentile(seconds, 0.5), p99=_percentile(seconds, 0.99)
        )


def _percentile(ordered: list[float], part: float) -> timedelta | None:
    """Return the value that this part of the others does not exceed."""
    if not ordered:
        return None
    return timedelta(seconds=ordered[ceil(part * len(ordered)) - 1])

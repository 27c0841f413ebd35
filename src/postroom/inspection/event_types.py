"""Event types: those that the program knows, and those that only the table has."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import text

from postroom.errors import UnknownEventTypeError
from postroom.events.json_schema import json_schema
from postroom.events.options import event_version_of
from postroom.events.registry import EventRegistry
from postroom.events.upcasters import path_of
from postroom.inspection.reading import Reader, time_of
from postroom.inspection.records import known_time
from postroom.inspection.sources import HELD_IN_ORDER, READY

NEWEST: Final = 10_000
"""How many of the newest records, and of those that are not delivered, are looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventType:
    """An event type, with its class, versions and handlers if the registry has them."""

    name: str
    version: int | None
    """The version that the class writes; None without a class."""
    event_class: str | None
    upcast_versions: tuple[int, ...]
    """The old versions that an upcaster reads."""
    handlers: tuple[str, ...]
    is_seen: bool
    """Whether the table has such records, among the newest 10,000 or the undelivered ones."""
    per_minute: float
    """How many are saved per minute: an estimate from the newest 10,000 records of all types."""
    schema: dict[str, Any] | None
    """The JSON Schema of the payload; None without a class."""


class EventTypes:
    """Reads event types."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        n, sql = reader.database, reader.database.sql
        some = f"SELECT {sql.text('r.event_type')} AS event_type FROM {n.records} r"
        sources = ("ORDER BY r.position DESC", f"WHERE {READY}", f"WHERE {HELD_IN_ORDER}")
        parts = (f"SELECT * FROM ({some} {each} LIMIT {NEWEST}) AS seen" for each in sources)
        self._seen = text(" UNION ".join(parts))
        # How many of the newest records are of the last minute, and since when.
        newest = f"""SELECT {sql.text("r.event_type")} AS event_type,
                {known_time("r.created_at")} AS created_at
            FROM {n.records} r ORDER BY r.position DESC LIMIT {NEWEST}"""
        self._rates = text(f"""SELECT event_type, count(*) AS number, min(created_at) AS first_at
            FROM ({newest}) AS newest WHERE created_at > {sql.after("-60")} GROUP BY event_type""")

    async def read(self) -> tuple[EventType, ...]:
        """Return every event type, in alphabetical order."""
        async with self._reader.ask("the event types") as run:
            seen = {row.event_type for row in await run(self._seen)}
            rates = _per_minute(await run(self._rates), await self._reader.now(run))
        return tuple(_event_types(self._reader.outbox.settings.registry, seen, rates))


def _per_minute(rows: Sequence[Any], now: datetime) -> dict[str, float]:
    """Return how many records of each type come in per minute."""
    counts = {row.event_type: row.number for row in rows}
    if sum(counts.values()) < NEWEST:  # those are all of the last minute
        return counts
    seconds = (now - min(time_of(row.first_at) for row in rows)).total_seconds()
    return {name: number * 60 / max(0.001, seconds) for name, number in counts.items()}


def _event_types(
    registry: EventRegistry, seen: set[str], rates: Mapping[str, float]
) -> Iterator[EventType]:
    for name in sorted({*registry.event_types(), *seen}):
        event_class = _class_of(registry, name)
        entries = registry.handler_entries(event_class or name)
        by_name = registry.handler_entries(name)
        yield EventType(
            name=name,
            version=None if event_class is None else event_version_of(event_class),
            event_class=None if event_class is None else path_of(event_class),
            upcast_versions=tuple(registry.upcast_versions(name)),
            handlers=_unique(entry.name for entry in (*entries, *by_name)),
            is_seen=name in seen,
            per_minute=rates.get(name, 0.0),
            schema=None if event_class is None else json_schema(event_class),
        )


def _class_of(registry: EventRegistry, name: str) -> type | None:
    try:
        return registry.event_class(name)
    except UnknownEventTypeError:
        return None


def _unique(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))

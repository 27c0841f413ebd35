"""One record in full: its payload, its attempts, and what it waits for."""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import text

from postroom.database.database import Run, as_rows
from postroom.errors import RecordNotFoundError
from postroom.inspection.keys import Keys
from postroom.inspection.pauses import Changes, Pause
from postroom.inspection.reading import Reader, time_of, time_or_none
from postroom.inspection.records import RecordSummary, known_time, summary, summary_columns
from postroom.inspection.waiting import Surroundings, Wait, wait_of
from postroom.inspection.workers import Worker, Workers
from postroom.redaction import mask, redacted

POSITION: Final = re.compile(r"[1-9][0-9]{0,17}")
ID: Final = re.compile(r"[0-9a-f]{1,32}")


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptNote:
    """A refused attempt to deliver a record."""

    attempted_at: datetime
    retry_count: int
    """The retry count after this attempt."""
    verdict: str
    """What followed: `retry` or `failed`."""
    reason: str
    worker: str
    duration: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordDetail:
    """A record with payload, headers, its last refusals, and what it waits for."""

    record: RecordSummary
    partition: int
    event_version: int
    max_retries: int | None
    occurred_at: datetime | None
    payload: Any
    headers: Any
    attempts: tuple[AttemptNote, ...]
    """The last 10 refusals, the newest last."""
    wait: Wait


class Details:
    """Reads one record."""

    def __init__(self, reader: Reader, changes: Changes, workers: Workers, keys: Keys) -> None:
        self._reader = reader
        self._changes, self._workers, self._keys = changes, workers, keys
        n, sql = reader.database, reader.database.sql
        columns = f"""{summary_columns(sql)}, w.event_version, w.max_retries,
            {known_time("w.occurred_at")} AS occurred_at,
            {sql.text("w.payload")} AS payload, {sql.text("w.headers")} AS headers"""
        self._at = text(f"SELECT {columns} FROM {n.records} w WHERE w.position = :position")
        bounds = sql.rows("bounds", {"low": "uuid", "high": "uuid"})
        within = "r.id >= bounds.low AND r.id <= bounds.high ORDER BY r.id LIMIT 3"
        self._with_id = text(f"SELECT {columns} FROM {sql.each(bounds, n.records, within)}")
        self._summaries = text(f"""SELECT {summary_columns(sql)} FROM {n.records} w
            WHERE w.position {sql.among("positions")}""")
        self._attempts = text(f"""SELECT attempted_at, retry_count, verdict, reason, worker, seconds
            FROM {n.attempts} WHERE position = :position ORDER BY id LIMIT 100""")

    async def read(self, name: str) -> RecordDetail:
        """Return the record with this id, beginning of an id, or position."""
        async with self._reader.ask(f"record {name}") as run:
            row = _only(await self._find(run, name.strip().lower()), name)
            pauses = await self._changes.pauses(run)
            record = summary(row, pauses)
            attempts = await run(self._attempts, position=record.position)
            around = await self._surroundings(run, record, row.partition, pauses)
        hidden = {*self._reader.outbox.redact, *_reported(around.workers)}
        return RecordDetail(
            record=record,
            partition=row.partition,
            event_version=row.event_version,
            max_retries=row.max_retries,
            occurred_at=time_or_none(row.occurred_at),
            payload=_shown(row.payload, hidden),
            headers=_shown(row.headers, hidden),
            attempts=tuple(map(_attempt, attempts)),
            wait=wait_of(record, around),
        )

    async def summaries(self, names: Sequence[str]) -> list[RecordSummary]:
        """Return records by their ids, beginnings of their ids, or positions, without payloads."""
        given = [name.strip().lower() for name in names]
        positions = {int(name) for name in given if POSITION.fullmatch(name)}
        numbers = self._reader.database.sql.numbers(positions)
        async with self._reader.ask("some records") as run:
            pauses = await self._changes.pauses(run)
            rows = await run(self._summaries, positions=numbers)
            found: dict[str, Sequence[Any]] = {str(row.position): [row] for row in rows}
            for name in given:
                if not POSITION.fullmatch(name):
                    found[name] = await self._find(run, name)
        return [summary(_only(found.get(name, ()), name), pauses) for name in given]

    async def _find(self, run: Run, name: str) -> Sequence[Any]:
        if POSITION.fullmatch(name):
            return await run(self._at, position=int(name))
        digits = name.replace("-", "")
        if not ID.fullmatch(digits):
            return ()
        bounds = {"low": digits.ljust(32, "0"), "high": digits.ljust(32, "f")}
        return await run(self._with_id, bounds=as_rows([bounds]))

    async def _surroundings(
        self, run: Run, record: RecordSummary, partition: int, pauses: tuple[Pause, ...]
    ) -> Surroundings:
        key, blocker, between = record.key, None, 0
        if key is not None:
            blocker = await self._keys.blocker(run, key, pauses)
        if key is not None and blocker is not None and blocker.position < record.position:
            between = await self._keys.count(
                run, key, after=blocker.position, before=record.position
            )
        return Surroundings(
            now=await self._reader.now(run),
            partition=partition,
            pauses=pauses,
            workers=await self._workers.read(run),
            blocker=blocker,
            between=between,
        )


def _shown(document: str, hidden: Collection[str]) -> Any:
    """Read a payload or headers without what is hidden; what is no JSON is a text."""
    try:
        return redacted(json.loads(document), tuple(sorted(hidden)))
    except (ValueError, RecursionError):
        return mask(document)


def _reported(workers: Iterable[Worker]) -> Iterator[str]:
    """Return the fields that workers say are hidden: a command may know the URL only."""
    for each in workers:
        if each.report is not None:
            yield from each.report.redact


def _only(found: Sequence[Any], name: str) -> Any:
    if not found:
        raise RecordNotFoundError(f"no record has the id or position {name!r}.")
    if len(found) > 1:
        examples = ", ".join(str(row.id) for row in found[:2])
        raise RecordNotFoundError(
            f"several records have an id that begins with {name!r}: {examples}, … Give more"
            " characters, or the position."
        )
    return found[0]


def _attempt(row: Any) -> AttemptNote:
    return AttemptNote(
        attempted_at=time_of(row.attempted_at),
        retry_count=row.retry_count,
        verdict=row.verdict,
        reason=row.reason,
        worker=row.worker,
        duration=timedelta(seconds=row.seconds),
    )

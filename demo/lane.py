"""The lane: where each record stands, as a card with a reason. Pure; no I/O."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from urllib.parse import urlencode

from demo.ledger import Ledger
from demo.story import Names
from postroom.inspection import RecordState, RecordSummary

COLOURS = 6
IN_FLIGHT = "in flight"


class Column(StrEnum):
    """The columns of the lane."""

    COMMITTED = "committed"
    """The worker will send it as soon as it is its turn."""
    PENDING = "pending"
    """It is in flight, or something keeps it from being sent."""
    DELIVERED = "delivered"


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A record on the page."""

    position: int
    message: str
    step: str
    column: Column
    note: str
    is_trouble: bool
    colour: int
    record_url: str
    key_url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What records may wait for, at one moment."""

    now: datetime
    sent: frozenset[str]
    """The ids of records that are in flight, or that have arrived and are not settled yet."""
    broker_runs: bool
    worker_trouble: str | None


def cards(
    rows: Iterable[RecordSummary], at: Situation, ledger: Ledger, names: Names
) -> Iterator[Card]:
    """Make the card of each record; the oldest first."""
    held_up: dict[str, str] = {}  # by message, the step that its later records wait for
    for row in rows:
        kind, id_ = row.key or ("record", str(row.position))
        column, note = place(row, at, held_up.get(id_))
        step = row.event_type.rpartition(".")[2]
        if column is not Column.DELIVERED and row.state is not RecordState.READY:
            held_up.setdefault(id_, step)
        if column is Column.DELIVERED and ledger.deliveries(str(row.id)) > 1:
            note = "came twice, repeat dropped"
        yield Card(
            position=row.position,
            message=names.name(kind, id_),
            step=step,
            column=column,
            note=note,
            is_trouble=column is Column.PENDING and note != IN_FLIGHT,
            colour=names.number(kind, id_) % COLOURS,
            record_url=f"/console/records/{row.position}",
            key_url=f"/console/key?{urlencode({'type': kind, 'id': id_})}",
        )


def place(row: RecordSummary, at: Situation, earlier: str | None) -> tuple[Column, str]:
    """Return the column of a record, and why it is there.

    - `earlier`: the step of its message that is held up, if one is
    """
    if row.state is RecordState.PUBLISHED:
        return Column.DELIVERED, ""
    reason = obstacle(row, at, earlier)
    return (Column.COMMITTED, "") if reason is None else (Column.PENDING, reason)


def obstacle(row: RecordSummary, at: Situation, earlier: str | None) -> str | None:
    """Return what a record waits for; None if nothing keeps it from being sent."""
    if row.state is RecordState.FAILED:
        return f"failed: {row.error}"
    if row.state is RecordState.PAUSED:
        return "paused by an operator"
    if row.state is RecordState.WAITING and row.due_at is not None:
        seconds = (row.due_at - at.now).total_seconds()
        return f"refused, again in {seconds:.0f} s" if seconds > 0.5 else "refused, again now"
    if earlier is not None:
        return f"waits for “{earlier}”"
    if not at.broker_runs:
        return "broker stopped"
    if at.worker_trouble is not None:
        return at.worker_trouble
    return IN_FLIGHT if str(row.id) in at.sent else None

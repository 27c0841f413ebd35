"""What a record waits for, as a value with a sentence. Pure: no I/O."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from postroom.inspection.pauses import Pause, covering
from postroom.inspection.records import RecordState, RecordSummary
from postroom.inspection.wording import counted, duration
from postroom.inspection.workers import Report, ReportedOutage, Worker, drained_workers
from postroom.store.base import Verdict

MAX_ERROR: Final = 200
"""How many characters of an error a sentence shows."""


class WaitReason(StrEnum):
    """What a record waits for."""

    NOTHING = "nothing"
    """It is delivered."""
    OPERATOR = "operator"
    """It has failed, until an operator retries, skips or discards it."""
    RESUME = "resume"
    """It is paused, until an operator resumes it."""
    BLOCKER = "blocker"
    """An earlier record of its key has to be delivered first."""
    TIME = "time"
    """It waits for its time: a retry, or a delayed event."""
    OUTAGE = "outage"
    """The worker's broker or database is away."""
    DELIVERY = "delivery"
    """A worker holds its partition: it is in flight, or will be sent next."""
    LEASE = "lease"
    """The worker of its partition has missed its heartbeats; others wait until its lease ends."""
    WORKER = "worker"
    """No worker is running."""
    DRAINED = "drained"
    """An operator has drained every worker that is running, until one of them is resumed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocker:
    """The record that blocks a key, and since when."""

    record: RecordSummary | None
    """None if it is gone; the next clean-up of a worker then releases the key."""
    position: int
    since: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """What a record waits for."""

    reason: WaitReason
    text: str
    """The reason as a sentence."""
    since: datetime | None = None
    until: datetime | None = None
    """When the wait ends by itself, if it does."""
    blocker: RecordSummary | None = None
    between: int = 0
    """How many records of the key are between this one and the blocker, up to 10,000."""
    worker: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What is around a record: what decides what it waits for."""

    now: datetime
    partition: int
    pauses: Sequence[Pause]
    workers: Sequence[Worker]
    blocker: Blocker | None = None
    between: int = 0


def wait_of(record: RecordSummary, around: Surroundings) -> Wait:
    """Return what a record waits for."""
    if record.state is RecordState.PUBLISHED:
        return _delivered(record)
    if record.state is RecordState.FAILED:
        return _failed(record, around)
    if (pause := covering(around.pauses, record.event_type, record.key)) is not None:
        return _paused(pause)
    if around.blocker is not None and around.blocker.position < record.position:
        return _behind(around.blocker, around)
    if record.due_at is not None and record.due_at > around.now:
        return _until(record, record.due_at, around.now)
    return _for_worker(record, around)


def described(record: RecordSummary, now: datetime) -> str:
    """Write what became of a record that others wait for, in brackets, and its error."""
    attempts, since = counted(record.retry_count, "attempt"), _ago(record.updated_at, now)
    match record.state:
        case RecordState.FAILED:
            text = f"failed after {attempts}{since}"
        case RecordState.PAUSED:
            text = "paused"
        case _ if record.due_at is not None and record.error is not None:
            verdict = "refused" if record.retry_count else "postponed"
            text = f"{verdict}{since}, next try in {duration(max(record.due_at, now) - now)}"
        case _ if record.due_at is not None:
            text = f"due in {duration(max(record.due_at, now) - now)}"
        case _:
            text = str(record.state)
    return f"({text}){_error(record)}"


def _delivered(record: RecordSummary) -> Wait:
    when = "" if record.published_at is None else f" at {record.published_at:%Y-%m-%d %H:%M:%S} UTC"
    text = f"Nothing: it was delivered{when}."
    return Wait(reason=WaitReason.NOTHING, text=text, since=record.published_at)


def _failed(record: RecordSummary, around: Surroundings) -> Wait:
    blocks = around.blocker is not None and around.blocker.position == record.position
    effect = " It blocks its key." if blocks else ""
    attempts = counted(record.retry_count, "attempt")
    text = f"An operator: it failed after {attempts}{_error(record)}.{effect}"
    return Wait(reason=WaitReason.OPERATOR, text=text, since=record.updated_at)


def _paused(pause: Pause) -> Wait:
    by = f" by {pause.operator}" if pause.operator else ""
    why = f" ({pause.reason})" if pause.reason else ""
    text = f"An operator: {pause} was paused{by} at {pause.paused_at:%Y-%m-%d %H:%M:%S} UTC{why}."
    return Wait(reason=WaitReason.RESUME, text=text, since=pause.paused_at)


def _behind(blocker: Blocker, around: Surroundings) -> Wait:
    record = blocker.record
    if record is None:
        text = "The record that blocked its key is gone. A worker's next clean-up releases the key."
        return Wait(reason=WaitReason.BLOCKER, text=text, since=blocker.since)
    between = f"; {counted(around.between, 'record')} in between" if around.between else ""
    text = f"An earlier record of its key: {record} {described(record, around.now)}{between}."
    return Wait(
        reason=WaitReason.BLOCKER,
        text=text,
        since=blocker.since,
        until=record.due_at,
        blocker=record,
        between=around.between,
    )


def _until(record: RecordSummary, due_at: datetime, now: datetime) -> Wait:
    left = duration(due_at - now)
    if record.error is None:
        text = f"Its time: it is delayed for another {left}."
    elif record.error.startswith(Verdict.QUARANTINED):
        text = (
            f"Its next try, alone, in {left}{_error(record)}. Mend what kills the workers, then:"
            f" postroom retry {record.position}; or: postroom discard {record.position}."
        )
    elif record.retry_count:
        text = f"Its next try, in {left}, after refusal {record.retry_count}{_error(record)}."
    else:
        text = f"Its next try, in {left}; it was postponed{_error(record)}."
    return Wait(reason=WaitReason.TIME, text=text, since=record.updated_at, until=due_at)


def _for_worker(record: RecordSummary, around: Surroundings) -> Wait:
    """A record that may be sent: by the worker of its partition, or the next one that polls."""
    alive = [each for each in around.workers if each.is_alive]
    holder = next((each for each in around.workers if around.partition in each.partitions), None)
    if holder is not None and not holder.is_alive:
        return _for_lease(holder, around.now)
    taking = [each for each in alive if each.takes_records]
    is_in_flight = holder is not None and _in_flight_since(record, holder) is not None
    if alive and not taking and not is_in_flight:
        return _for_resumed_worker(alive)
    for worker in taking if holder is None else [holder]:
        if worker.report is not None and (outage := _outage(worker.report)) is not None:
            text = f"The end of an outage at worker {worker.name}: {outage.reason}."
            return Wait(reason=WaitReason.OUTAGE, text=text, since=outage.since, worker=worker.name)
    if not alive:
        return Wait(reason=WaitReason.WORKER, text="A worker: none is running.")
    return _for_delivery(record, holder)


def _for_delivery(record: RecordSummary, holder: Worker | None) -> Wait:
    if holder is None:
        text = "A worker: the next one that polls takes it."
        return Wait(reason=WaitReason.DELIVERY, text=text)
    if (since := _in_flight_since(record, holder)) is not None:
        text = f"Its delivery: it is in flight at worker {holder.name}."
        return Wait(reason=WaitReason.DELIVERY, text=text, since=since, worker=holder.name)
    text = f"Its delivery: worker {holder.name} has it in flight, or in its queue."
    if holder.draining:
        text = (
            f"Its delivery: it is in flight at worker {holder.name}, which an operator drains, or"
            " another worker takes it when that one has finished."
        )
    return Wait(reason=WaitReason.DELIVERY, text=text, worker=holder.name)


def _in_flight_since(record: RecordSummary, holder: Worker) -> datetime | None:
    """Return since when a record is in flight, if it is the one that its worker reports."""
    oldest = holder.report.oldest if holder.report is not None else None
    return oldest.since if oldest is not None and oldest.id == str(record.id) else None


def _for_resumed_worker(drained: Sequence[Worker]) -> Wait:
    text = f"An operator: {drained_workers(drained)}. Resume one, or start another."
    return Wait(reason=WaitReason.DRAINED, text=text, worker=drained[0].name)


def _for_lease(holder: Worker, now: datetime) -> Wait:
    left = "" if holder.lease_until is None else f", in {duration(holder.lease_until - now)}"
    text = (
        f"The end of a lease{left}: worker {holder.name} has missed its heartbeats since"
        f" {holder.last_seen:%H:%M:%S} UTC. Others take over then."
    )
    return Wait(
        reason=WaitReason.LEASE,
        text=text,
        since=holder.last_seen,
        until=holder.lease_until,
        worker=holder.name,
    )


def _outage(report: Report) -> ReportedOutage | None:
    return report.publisher_outage or report.database_outage


def _error(record: RecordSummary) -> str:
    if not record.error:
        return ""
    line = record.error.splitlines()[0].rstrip(".")
    return f": {line if len(line) <= MAX_ERROR else f'{line[: MAX_ERROR - 1]}…'}"


def _ago(time: datetime | None, now: datetime) -> str:
    return "" if time is None else f", {duration(now - time)} ago"

"""The state of the demo at one moment: what the page shows, and `/demo/state` as JSON."""

from dataclasses import dataclass
from datetime import UTC, datetime

from demo.lane import Card, Column, Situation, cards
from demo.parts import Parts
from demo.story import Line
from demo.watcher import Counters

SHOWN = 12
"""How many cards a column has at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerState:
    """The worker that was started last."""

    number: int
    pid: int | None
    """None if it does not run."""
    trouble: str | None
    """What keeps it from delivering, apart from the broker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The demo at one moment."""

    counters: Counters
    broker_runs: bool
    worker: WorkerState
    traffic: bool
    rolled_back: int
    """How many requests were rolled back."""
    story: list[Line]
    """The newest first."""
    columns: dict[Column, list[Card]]
    """The cards of each column, the newest first."""
    not_shown: dict[Column, int]


def state_of(demo: Parts) -> State:
    """Return the state, as of the watcher's latest look."""
    worker = _worker(demo)
    situation = Situation(
        now=datetime.now(UTC),
        sent=demo.watcher.sent,
        broker_runs=demo.broker.is_running,
        worker_trouble=worker.trouble,
    )
    made = list(cards(demo.watcher.records, situation, demo.ledger, demo.names))
    columns = {each: [card for card in made if card.column is each][::-1] for each in Column}
    return State(
        counters=demo.watcher.counters(),
        broker_runs=demo.broker.is_running,
        worker=worker,
        traffic=demo.traffic,
        rolled_back=demo.client.rolled_back,
        story=list(demo.story.lines),
        columns={each: shown[:SHOWN] for each, shown in columns.items()},
        not_shown={each: len(shown[SHOWN:]) for each, shown in columns.items()},
    )


def _worker(demo: Parts) -> WorkerState:
    latest, current = demo.workers.latest, demo.workers.current
    pid = current.pid if current else None
    return WorkerState(number=latest.number if latest else 0, pid=pid, trouble=_trouble(demo, pid))


def _trouble(demo: Parts, pid: int | None) -> str | None:
    lease = demo.watcher.lease_of_others(pid)
    if lease is not None:
        return f"lease ends in {lease:.0f} s"
    return "no worker" if pid is None else None

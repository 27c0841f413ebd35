"""The judgement about workers, leases, pauses and records."""

from dataclasses import replace
from datetime import timedelta

import pytest

from postroom.doctor.deliveries import (
    judge_leases,
    judge_pauses,
    judge_records,
    judge_routes,
    judge_workers,
)
from postroom.doctor.finding import Level
from postroom.inspection import Pause, Report, ReportedOutage, Worker, WorkerState
from postroom.inspection.leases import DeadLease, LeaseFacts, Suspect
from postroom.record import Key
from tests.unit.inspection.overviews import NOW, overview

OK, NOTE, PROBLEM = Level.OK, Level.NOTE, Level.PROBLEM
WORKER = Worker(
    name="web1:42:x",
    host="web1",
    pid=42,
    state=WorkerState.IDLE,
    started_at=NOW,
    last_seen=NOW - timedelta(minutes=4),
    partitions=(),
    lease_until=None,
    report=Report(reported_at=NOW, version="1.0"),
)


@pytest.mark.parametrize(
    ("failed", "blocked", "levels"),
    [(0, 0, [OK]), (3, 0, [PROBLEM]), (3, 2, [PROBLEM, PROBLEM]), (0, 1, [NOTE])],
)
def test_failed_records_and_blocked_keys(failed: int, blocked: int, levels: list[Level]) -> None:
    found = judge_records(overview(failed=failed, blocked_keys=blocked))
    assert [each.level for each in found] == levels


@pytest.mark.parametrize(
    ("ready", "minutes", "level"), [(0, 0, NOTE), (5, 0.5, NOTE), (5, 1, PROBLEM)]
)
def test_no_worker_is_a_problem_while_records_are_ready(
    ready: int, minutes: float, level: Level
) -> None:
    age = timedelta(minutes=minutes)
    [finding] = judge_workers(overview(workers=(), ready=ready, oldest_ready=age), "1.0")
    assert finding.level == level


@pytest.mark.parametrize(
    ("state", "level", "says"),
    [
        (WorkerState.MISSING, PROBLEM, "has missed its heartbeats for 4 min"),
        (WorkerState.GONE, NOTE, "ended 4 min ago without saying so"),
    ],
)
def test_a_worker_that_is_not_heard_of(state: WorkerState, level: Level, says: str) -> None:
    found = overview(workers=(WORKER, replace(WORKER, state=state)))
    _, finding = judge_workers(found, "1.0")
    assert finding.level == level
    assert f"worker web1:42:x {says}" in finding.text


@pytest.mark.parametrize("state", [WorkerState.DRAINING, WorkerState.DRAINED])
def test_a_worker_that_an_operator_drains_is_noted(state: WorkerState) -> None:
    drained = replace(WORKER, name="web2:7:y", state=state, draining=True)
    fine, finding = judge_workers(overview(workers=(WORKER, drained)), "1.0")
    assert (fine.level, fine.text) == (OK, "1 worker: web1:42:x")
    assert finding.level == NOTE
    assert finding.text == f"worker web2:7:y is {state}: an operator has it take no records"
    assert finding.remedy == ("postroom workers resume web2:7:y",)


@pytest.mark.parametrize(("ready", "level"), [(0, NOTE), (5, PROBLEM)])
def test_drained_workers_only_are_a_problem_while_records_are_ready(
    ready: int, level: Level
) -> None:
    drained = replace(WORKER, state=WorkerState.DRAINED, draining=True)
    age = timedelta(minutes=1)
    found = overview(workers=(drained,), ready=ready, oldest_ready=age)
    finding, note = judge_workers(found, "1.0")
    assert (finding.level, note.level) == (level, NOTE)
    assert "web1:42:x" in finding.text
    assert finding.remedy == ("postroom workers resume web1:42:x",)


def test_versions_that_differ_are_noted_and_a_listener_that_is_down_is_a_problem() -> None:
    assert [each.level for each in judge_workers(overview(workers=(WORKER,)), "1.0")] == [OK]
    _, versions = judge_workers(overview(workers=(WORKER,)), "1.1")
    assert versions.text.endswith("different versions of postroom: 1.0, 1.1")
    report = Report(reported_at=NOW, version="1.0", listener="down")
    _, deaf = judge_workers(overview(workers=(replace(WORKER, report=report),)), "1.0")
    assert deaf.level == PROBLEM


def test_an_outage_of_several_workers_is_one_problem() -> None:
    outage = ReportedOutage(reason="RabbitMQ is away.", since=NOW - timedelta(minutes=5))
    report = Report(reported_at=NOW, publisher_outage=outage)
    worker = replace(WORKER, report=report)
    [finding] = judge_routes(overview(workers=(worker, worker)))
    assert finding.text == "nothing is delivered, for 5 min: RabbitMQ is away"


@pytest.mark.parametrize(
    ("event_type", "key", "command"),
    [
        (None, None, "postroom resume"),
        ("order.paid", None, "postroom resume --type order.paid"),
        (None, Key("order", "it's 7"), "postroom resume --key 'order/it'\"'\"'s 7'"),
    ],
)
def test_a_pause_is_a_problem_after_an_hour(
    event_type: str | None, key: Key | None, command: str
) -> None:
    for minutes, level in ((59, NOTE), (60, PROBLEM)):
        pause = Pause(
            event_type=event_type,
            key=key,
            paused_at=NOW - timedelta(minutes=minutes),
            operator="eve",
            host="laptop",
            reason="a release",
        )
        [finding] = judge_pauses(overview(pauses=(pause,)))
        assert (finding.level, finding.remedy) == (level, (command,))
        assert finding.text.endswith("by eve: a release")


def test_leases_that_were_left_behind_and_records_that_kill() -> None:
    ends = [NOW - timedelta(seconds=each) for each in (59, 60, 600)]
    dead = tuple(DeadLease(partition=1, worker="ann", ended_at=each) for each in ends)
    due = Suspect(position=8, crashes=4, next_try=NOW + timedelta(seconds=20))
    left, suspected, quarantined = judge_leases(
        LeaseFacts(now=NOW, dead=dead, suspects=(Suspect(position=7, crashes=2), due))
    )
    assert left.text.startswith("worker ann left 2 leases behind 10 min ago")
    assert suspected.text == "2 workers died while the record at position 7 was delivered"
    assert (suspected.level, quarantined.level) == (NOTE, PROBLEM)
    assert quarantined.text == (
        "the record at position 8 is quarantined, because workers die while they deliver it; it is"
        " tried again, alone, in 20 s"
    )
    assert quarantined.remedy[0] == "postroom show 8"
    [fine] = judge_leases(LeaseFacts(now=NOW, dead=dead[:1], suspects=()))
    assert fine.level == OK

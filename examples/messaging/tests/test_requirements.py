"""What the project promises of its tests: that they are there, and that nobody lowers the bar."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.support.command import ROOT

HERE = "examples/messaging/tests"
BUS = "tests/unit/capture/test_bus.py"
RELAY = "tests/integration/test_relay.py"
GROUP, SCHEDULED = f"{HERE}/test_group_messages.py", f"{HERE}/test_scheduled_messages.py"
FAULTS = f"{HERE}/test_failure_points.py"
PROMISED = {
    "the bus collects, gives and clears": (BUS, "collecting_clears_the_bus"),
    "the bus tells whether it has events, and how many": (BUS, "looking_does_not_clear_the_bus"),
    "the bus keeps the order": (BUS, "emitted_events_are_collected_in_order"),
    "a flush makes records": (BUS, "a_flush_adds_a_record_per_event_in_order"),
    "a flush adds the envelope": (BUS, "a_flush_adds_the_envelope"),
    "a flush adds the context": (BUS, "a_flush_adds_the_context_with_ids_as_strings"),
    "a flush gives the count": (BUS, "a_flush_adds_a_record_per_event_in_order"),
    "a flush of nothing makes nothing": (BUS, "an_empty_bus_adds_nothing"),
    "message and record are one transaction": (FAULTS, "a_commit_that_fails_leaves_neither"),
    "no message, no record": (FAULTS, "a_failure_before_the_event_leaves_neither"),
    "group message: created": (GROUP, "a_new_message_is_told_to_those_who_process_it"),
    "group message: each status": (GROUP, "each_step_is_told_with_the_one_before"),
    "group message: else nothing": (GROUP, "a_change_of_all_but_the_status_tells_nothing"),
    "scheduled message: created": (SCHEDULED, "a_new_message_is_told_to_those_who_trigger_it"),
    "scheduled message: cancelled": (SCHEDULED, "a_stop_is_told_with_the_status_before"),
    "scheduled message: paused": (SCHEDULED, "a_stop_is_told_with_the_status_before"),
    "scheduled message: resumed": (SCHEDULED, "a_start_is_told_with_the_time_of_the_next_one"),
    "scheduled message: updated": (SCHEDULED, "another_time_is_told_with_what_is_new"),
    "the worker publishes and says so": (
        "tests/integration/test_rabbitmq.py",
        "a_consumer_finds_every_property_and_the_record_is_published_with_the_time",
    ),
    "a refusal is counted": (
        RELAY,
        "a_refused_record_is_counted_and_tried_again_with_its_error_kept",
    ),
    "too many refusals are a failure": (
        RELAY,
        "at_the_limit_it_is_failed_with_one_critical_log_and_left_alone",
    ),
    "what another worker has is left to it": (
        "tests/integration/test_worker.py",
        "two_workers_at_once_never_take_the_same_record",
    ),
    "what is old is deleted": (
        RELAY,
        "what_was_delivered_longer_ago_than_the_retention_is_deleted",
    ),
}


@pytest.mark.requirement("C18")
@pytest.mark.parametrize("promise", PROMISED)
def test_each_promised_test_is_there(promise: str) -> None:
    file, name = PROMISED[promise]
    assert f"def test_{name}(" in (ROOT / file).read_text(encoding="utf-8")


@pytest.mark.requirement("C18")
def test_the_coverage_of_branches_has_a_threshold() -> None:
    coverage = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["coverage"]
    assert coverage["run"]["branch"] is True
    assert coverage["report"]["fail_under"] >= 90


@pytest.mark.requirement("C18")
def test_ruff_has_nothing_to_say() -> None:
    ruff = str(Path(sys.executable).with_name("ruff"))
    for words in (["check", "--quiet"], ["format", "--check", "--quiet"]):
        done = subprocess.run([ruff, *words, "."], cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout

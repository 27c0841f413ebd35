"""The demo tells its story, and ends when it is told to."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.waiting import PATIENCE

ROOT = Path(__file__).parents[2]


def start(*words: str, temporary: Path) -> "subprocess.Popen[str]":
    """Start it as `make demo` does."""
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-u", "-m", "examples.messaging.demo", *words],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def lines_until(demo: "subprocess.Popen[str]", end: str) -> Iterator[str]:
    """Give what it prints, up to a line that begins so."""
    assert demo.stdout is not None
    for line in demo.stdout:
        yield line.strip()
        if line.startswith(end):
            return
    raise AssertionError(demo.stderr and demo.stderr.read())


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What it prints, line by line, until somebody ends it with Ctrl-C."""
    temporary = tmp_path_factory.mktemp("demo")
    demo = start(temporary=temporary)
    try:
        lines = [*lines_until(demo, "5.")]
        [page] = re.findall(r"http://\S+/docs", lines[1])
        assert "Messaging" in httpx.get(page).text
        demo.send_signal(signal.SIGINT)
        out, err = demo.communicate(timeout=PATIENCE)
    finally:
        demo.kill()
    assert (demo.returncode, err) == (0, "")
    assert [*temporary.iterdir()] == []
    return lines + out.splitlines()


def chapter(told: list[str], number: int) -> list[str]:
    """What is printed between two numbers, without the ids."""
    [begin] = [n for n, line in enumerate(told) if line.startswith(f"{number}.")]
    [end] = [n for n, line in enumerate(told) if line.startswith(f"{number + 1}.")]
    without = [re.sub(r" *[0-9a-f-]{36} *", " ", line) for line in told[begin + 1 : end]]
    return [re.sub(r"  +", " ", line).strip() for line in without if line]


def told_by(lines: list[str], who: str) -> list[str]:
    return [line.removeprefix(f"{who}: ") for line in lines if line.startswith(f"{who}:")]


def test_a_request_becomes_a_record_and_a_delivery(told: list[str]) -> None:
    lines = chapter(told, 1)
    assert told_by(lines, "record") == [
        "group_message.created pending",
        "group_message.queued pending",
    ]
    assert told_by(lines, "audit") == [
        "group_message.created draft",
        "group_message.queued queued",
    ]
    asked = lines.index("request: POST /group-messages")
    recorded = lines.index("record: group_message.created pending")
    assert asked < recorded < lines.index("audit: group_message.created draft")


def test_a_rollback_leaves_neither_message_nor_record(told: list[str]) -> None:
    lines = chapter(told, 2)
    assert told_by(lines, "record") == told_by(lines, "audit") == []
    assert told_by(lines, "answer") == ["500 Internal Server Error"]
    [before, after] = told_by(lines, "database")[0].split(", ")
    assert before.removesuffix(" before") == after.removesuffix(" after")


def test_an_outage_is_waited_out(told: list[str]) -> None:
    lines = chapter(told, 3)
    assert told_by(lines, "answer") == ["201 Created", "200 OK"]
    away, resumed = told_by(lines, "relay")
    assert "the publisher is unavailable (the broker is away). Deliveries are paused" in away
    assert resumed.endswith("Deliveries resume")
    back = lines.index("broker: is back")
    assert told_by(lines[:back], "audit") == []
    assert len(told_by(lines[back:], "audit")) == 2


def test_what_follows_a_refused_record_waits_for_it_and_others_do_not(told: list[str]) -> None:
    lines = chapter(told, 4)
    [refused] = told_by(lines, "relay")
    assert refused.endswith("the queue is full")
    assert told_by(lines, "audit") == [
        "group_message.processing processing",  # of the other message
        "group_message.processing processing",
        "group_message.completed completed",
    ]
    assert told[-1].startswith("The application has stopped.")


def test_it_ends_by_sigterm_too(tmp_path: Path) -> None:
    demo = start(temporary=tmp_path)
    try:
        assert [*lines_until(demo, "2.")]
        demo.terminate()
        out, err = demo.communicate(timeout=PATIENCE)
    finally:
        demo.kill()
    assert (demo.returncode, err) == (0, "")
    assert out.splitlines()[-1].startswith("The application has stopped.")
    assert [*tmp_path.iterdir()] == []


def test_it_can_be_told_when_to_end(tmp_path: Path) -> None:
    demo = start("--seconds", "1", temporary=tmp_path)
    out, err = demo.communicate(timeout=PATIENCE)
    assert (demo.returncode, err) == (0, "")
    assert out.splitlines()[-1].startswith("The application has stopped.")

"""Whether a process of the same machine has ended, by the name of its worker."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from postroom import process
from postroom.process import is_dead, process_name
from tests.support.waiting import eventually

ASKS = "from postroom.process import process_name; print(process_name(), flush=True); input()"


@pytest.fixture
def other() -> Iterator[subprocess.Popen[str]]:
    """A process that prints its name, and waits."""
    with subprocess.Popen(
        [sys.executable, "-c", ASKS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        yield other
        other.kill()


def name_of(other: subprocess.Popen[str]) -> str:
    assert other.stdout is not None
    return f"host:{other.stdout.readline().strip()}ab12cd34"


def test_a_process_lives_until_it_has_ended_also_before_its_parent_knows(
    other: subprocess.Popen[str],
) -> None:
    name = name_of(other)
    assert not is_dead(name)
    other.kill()
    os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)  # it is a zombie now
    assert is_dead(name)
    other.wait()
    assert is_dead(name)


async def test_a_process_that_is_stopped_is_alive(other: subprocess.Popen[str]) -> None:
    name = name_of(other)
    other.send_signal(signal.SIGSTOP)
    stat = Path(f"/proc/{other.pid}/stat")
    await eventually(lambda: ") T " in stat.read_text(), "it has stopped")
    assert not is_dead(name)


def test_another_process_that_has_got_the_pid_is_not_the_one_that_was_meant() -> None:
    pid, place, started = process_name().replace("-", ":").split(":")[:3]
    assert not is_dead(f"host:{pid}:{place}-{started}-ab12cd34")
    assert is_dead(f"host:{pid}:{place}-{int(started, 16) + 1:x}-ab12cd34")


def test_nobody_knows_of_another_boot_or_namespace() -> None:
    assert not is_dead("host:999999999:00000000-1-ab12cd34")


@pytest.mark.parametrize("name", ["", "ann", "host:1:0199f6c2a1b3", "host:1:abc-1-ab12cd34"])
def test_names_of_another_form_tell_nothing(name: str) -> None:
    assert not is_dead(name)


def test_where_proc_says_nothing_nobody_knows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"host:{process_name()}ab12cd34"
    monkeypatch.setattr(process, "PROC", tmp_path)
    monkeypatch.setattr(os, "kill", _refuse)
    assert not is_dead(name)  # it is hidden, so that its start is not known
    process._place.cache_clear()
    try:
        assert process_name() == f"{os.getpid()}:"
        assert not is_dead(name)
    finally:
        process._place.cache_clear()


def test_where_proc_has_the_processes_of_another_namespace_nobody_knows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "getpid", lambda: 1)  # as in a namespace that mounts no /proc
    process._place.cache_clear()
    try:
        assert process_name() == "1:"
    finally:
        process._place.cache_clear()


def _refuse(pid: int, number: int) -> None:
    raise PermissionError

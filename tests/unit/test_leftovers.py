"""The plugin that fails a test which leaves something behind."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LEAVE = {
    "variable LEFT=1": "os.environ['LEFT'] = '1'",
    "working directory /": "os.chdir('/')",
    "file ": "tempfile.mkstemp()",
    "outside.txt": "open(os.environ['OUTSIDE'], 'w').close()",
    "port ('127.0.0.1', ": "KEPT.append(socket.create_server(('127.0.0.1', 0)))",
    "process ": "KEPT.append(subprocess.Popen(['sleep', '60']))",
}
HEAD = "import os, socket, subprocess, sys, tempfile\nKEPT = []\n"
END = "def test_end():\n    [each.kill() for each in KEPT if hasattr(each, 'kill')]\n"


@pytest.fixture
def told(tmp_path: Path) -> str:
    """What pytest says of a test for each kind of leftover."""
    tests = [f"def test_{number}():\n    {code}\n" for number, code in enumerate(LEAVE.values())]
    (tmp_path / "test_untidy.py").write_text(HEAD + "".join(tests) + END)
    plugins = ("-p", "tests.support.leftovers", "-p", "no:randomly", "-p", "no:cacheprovider")
    given = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT),
        "POSTROOM_TEST_PATIENCE": "0.01",
        "OUTSIDE": str(tmp_path / "outside.txt"),
    }
    command = [sys.executable, "-m", "pytest", *plugins, "--basetemp", str(tmp_path / "base"), "."]
    done = subprocess.run(command, cwd=tmp_path, env=given, capture_output=True, text=True)
    return done.stdout


def test_each_kind_is_named_and_fails_its_test(told: str) -> None:
    lines = [line for line in told.splitlines() if line.startswith("left behind: ")]
    assert len(lines) == len(LEAVE), told
    assert all(what in line for what, line in zip(LEAVE, lines, strict=True)), lines
    assert f"{len(LEAVE) + 1} passed, {len(LEAVE)} errors" in told  # the last one leaves nothing

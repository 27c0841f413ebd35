"""The demo tells its story, and leaves nothing behind."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_demo_shows_what_was_kept_and_what_was_not() -> None:
    command = [sys.executable, "-m", "examples.demo"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    counts = [line.strip() for line in done.stdout.splitlines() if "orders:" in line]
    assert counts == [
        "orders: 1   outbox: 2",
        "orders: 1   outbox: 2",  # the rollback
        "orders: 1   outbox: 3",
        "orders: 1   outbox: 3",  # the refusal
    ]
    assert "field `total` is NaN" in done.stdout

"""The benchmark runs, in a short version; what it measures is not asserted."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_capture_benchmark_reports_ratios_with_and_without_strict_order() -> None:
    command = [sys.executable, "-m", "benchmarks.capture", "--rounds", "2", "--transactions", "3"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "dispatcher, strict order" in done.stdout
    assert "interceptor, relaxed order" in done.stdout
    assert done.stdout.count(" × (") == 4

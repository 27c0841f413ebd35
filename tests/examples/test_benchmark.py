"""The benchmarks run, in short versions; what they measure is not asserted."""

import os
from pathlib import Path

from tests.support.program import run_program

ROOT = Path(__file__).parents[2]


def report_of(benchmark: str, *options: str) -> str:
    command = ["-m", f"benchmarks.{benchmark}", *options]
    done = run_program(command, folder=ROOT, environment=os.environ)
    assert done.code == 0, done.err
    return done.out


def test_the_capture_benchmark_reports_ratios_with_and_without_strict_order() -> None:
    report = report_of("capture", "--rounds", "2", "--transactions", "3")
    assert "dispatcher, strict order" in report
    assert "interceptor, relaxed order" in report
    assert report.count(" × (") == 4


def test_the_drain_benchmark_reports_rate_memory_and_the_ratio_to_a_loop_by_hand() -> None:
    report = report_of("drain", "--records", "10000", "--floor")
    assert "relay:" in report
    assert "by hand:" in report
    assert report.count(" × (") == 1
    assert "MiB at 10,000: " in report


def test_the_drain_benchmark_delivers_to_handlers_too() -> None:
    report = report_of("drain", "--records", "2000", "--handlers")
    assert "records/s" in report
    assert "MiB at 2,000: " in report

"""The benchmarks run, in short versions; what they measure is not asserted."""

import os
from pathlib import Path

import pytest

from tests.support.program import run_program

pytestmark = pytest.mark.extended
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("command", "reported"),
    [
        (
            "capture --rounds 2 --transactions 3",
            ["dispatcher, strict order", "interceptor, relaxed order"],
        ),
        ("drain --records 10000 --floor", ["relay:", "by hand:", " × (", "MiB at 10,000: "]),
        ("drain --records 2000 --handlers", ["records/s", "MiB at 2,000: "]),
    ],
)
def test_a_benchmark_reports_rates(command: str, reported: list[str]) -> None:
    words = ["-m", *f"benchmarks.{command}".split()]
    done = run_program(words, folder=ROOT, environment=os.environ)
    assert done.code == 0, done.err
    assert [each for each in reported if each not in done.out] == []

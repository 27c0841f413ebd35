"""The benchmarks work: every row is measured, nothing is lost, and order holds. Not how fast."""

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.support.command import ROOT

pytestmark = pytest.mark.extended

ROWS = [
    "burst on an idle relay",
    "latency at 50/s",
    "CPU at 50/s",
    "drain of 200",
    "CPU while draining",
    "drain of 400",
    "one hot key",
    "workers on 300",
    "claim",
    "claim, planned on empty tables",
]


def test_every_row_is_measured_and_no_event_is_lost_or_out_of_order(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks", "--quick", "--output", str(tmp_path)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr  # a LostError otherwise
    written = json.loads((tmp_path / "performance.json").read_text(encoding="utf-8"))
    figures = written["figures"]
    assert list(dict.fromkeys(figure["row"] for figure in figures)) == ROWS
    assert all(figure["values"] for figure in figures)
    assert all(row in ended.stdout for row in ROWS)
    chart = ElementTree.parse(tmp_path / "performance.svg")  # noqa: S314 - we wrote it
    assert "postroom" in "".join(chart.getroot().itertext())


def test_the_bytes_of_a_record_are_measured() -> None:
    words = ["--records", "50", "--payloads", "300", "3000"]
    command = [sys.executable, "-m", "benchmarks.size", *words]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    *_, small, large = ended.stdout.splitlines()
    assert (small.split()[0], large.split()[0]) == ("300", "3,000")

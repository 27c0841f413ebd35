"""The page "How it compares" shows what was measured, with the versions that are pinned."""

import json
import re
from typing import Any

import pytest

from benchmarks.compare.compared import ALL, pinned_versions
from tests.docs.pages import ROOT

pytestmark = pytest.mark.extended
FOLDER = ROOT / "docs/explanation"
PAGE = (FOLDER / "comparison.md").read_text(encoding="utf-8")
COMPARISON: dict[str, Any] = json.loads((FOLDER / "comparison.json").read_text(encoding="utf-8"))
FIGURES = json.loads((FOLDER / "performance.json").read_text(encoding="utf-8"))["figures"]
SPEED = {
    "drain of 20,000": ("drain of 20,000", "rate, ratio to raw", "{:.2f}"),
    "latency at 50/s, median": ("latency at 50/s", "p50", "{:.1f} ms"),
    "latency at 50/s, 99 %": ("latency at 50/s", "p99", "{:.1f} ms"),
    "CPU of the worker at 50/s": ("CPU at 50/s", "CPU of the process", "{:.1f} %"),
}


def line_of(start: str) -> list[str]:
    """The cells of the table line that begins with these words, without bold marks."""
    line = next(each for each in PAGE.splitlines() if each.startswith(f"| {start}"))
    return [cell.strip(" *") for cell in line.strip("|").split("|")]


def test_every_contender_was_played_through_every_fault() -> None:
    names = {each.name for each in ALL}
    assert all(fault["outcomes"].keys() == names for fault in COMPARISON["faults"].values())


@pytest.mark.parametrize("package", {package for each in ALL for package in each.packages})
def test_the_versions_are_those_that_are_pinned(package: str) -> None:
    version = COMPARISON["versions"][package]
    assert package == "postroom" or version == pinned_versions()[package]
    assert re.search(rf"\b{package} {re.escape(version)}", PAGE)


def test_each_column_names_the_command_and_the_date() -> None:
    for title, fault in COMPARISON["faults"].items():
        assert f"| {title} | `{fault['command']}` | {fault['date']} |" in PAGE


@pytest.mark.parametrize("start", SPEED)
def test_the_rates_are_those_of_the_performance_page(start: str) -> None:
    row, what, form = SPEED[start]
    medians = {
        each["contender"]: form.format(each["median"])
        for each in FIGURES
        if (each["row"], each["what"]) == (row, what)
    }
    direct = medians.get("direct", medians.get("aio-pika", "no worker"))
    libraries = [medians[name] for name in ("postroom", "txoutbox", "faststream-outbox")]
    assert line_of(start)[1:] == [*libraries, direct]


def test_the_page_names_the_command_of_each_run_that_was_varied() -> None:
    for run in COMPARISON["also"]:
        assert f"`{run['command']}` ({run['date']})" in PAGE

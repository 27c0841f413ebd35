"""The tables of the page on performance hold the figures of performance.json."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations
from typing import Any

import pytest

from tests.docs.pages import ROOT

pytestmark = pytest.mark.extended
FOLDER = ROOT / "docs" / "explanation"
PAGE = FOLDER / "performance.md"
MEASURED = json.loads((FOLDER / "performance.json").read_text(encoding="utf-8"))["figures"]
FIGURES: Mapping[tuple[str, ...], Mapping[str, Any]] = {
    (each["row"], each["contender"], each["what"]): each for each in MEASURED
}
TABLE = re.compile(r"(?:^\|.*\|\n)+", re.MULTILINE)
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
COMMANDS = re.compile(r"(?:^|`)make ([a-z-]+)", re.MULTILINE)
AIM = "aim"


def tables() -> Iterator[list[list[str]]]:
    """Give the cells of each table that has an aim: the figures of `make bench`."""
    for found in TABLE.finditer(PAGE.read_text()):
        lines = [line.strip("|").split("|") for line in found[0].splitlines()]
        head, _, *body = [[cell.strip(" *") for cell in line] for line in lines]
        if AIM in head:
            yield [head, *body]


def cells() -> Iterator[tuple[str, str, str, str]]:
    """Give each figure with what names it: the table, the row of the table, the column."""
    for head, *body in tables():
        for line in body:
            for column, cell in zip(head[1:], line[1:], strict=True):
                if cell:
                    yield head[0], line[0], column, cell


def figure(*names: str) -> Mapping[str, Any]:
    [found] = [FIGURES[each] for each in permutations(names) if each in FIGURES]
    return found


def shown(text: str, measured: Sequence[float]) -> list[str]:
    """Write measured values with as many decimals as a page shows."""
    numbers = NUMBER.findall(text)
    decimals = [len(each.partition(".")[2]) for each in numbers]
    return [f"{value:,.{places}f}" for value, places in zip(measured, decimals, strict=False)]


@pytest.mark.parametrize(
    ("table", "line", "column", "cell"), [each for each in cells() if each[2] != AIM]
)
def test_a_figure_is_the_one_that_was_measured(
    table: str, line: str, column: str, cell: str
) -> None:
    measured = figure(table, line, column)
    assert NUMBER.findall(cell) == shown(cell, [measured["median"], *measured["quartiles"]])


@pytest.mark.parametrize(
    ("table", "line", "aim"), [(t, r, c) for t, r, a, c in cells() if a == AIM]
)
def test_an_aim_is_the_bound_of_the_benchmark(table: str, line: str, aim: str) -> None:
    bounds = {each["bound"] for name, each in FIGURES.items() if {table, line} <= set(name)}
    assert aim in bounds


def test_the_page_shows_every_figure_that_misses_its_aim() -> None:
    missed = {frozenset(name) for name, each in FIGURES.items() if each["ok"] is False}
    assert missed <= {frozenset(each[:3]) for each in cells()}


def test_the_page_s_commands_are_targets_of_the_makefile() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(COMMANDS.findall(PAGE.read_text())) <= targets

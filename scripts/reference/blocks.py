"""Generated blocks of a Markdown page. Each stands between two markers:

    <!-- generated: NAME -->
    ...
    <!-- end -->

A cell of a table that the code does not know is written by hand: it stays as the page has it.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"(?<=<!-- generated: )(.+?) -->\n(.*?)(?=<!-- end -->)", re.DOTALL)
CELL = re.compile(r"(?<!\\)\|")
TO_WRITE = "(to be written)"

Block = Callable[[str], str]
"""Returns the text of a block. Its argument is the text that the page has."""


class PageError(Exception):
    """Raised when a page lacks something, or has something that the code does not know."""


class Hand(str):
    """A cell that is written by hand. Its text is a draft, for a new row."""

    __slots__ = ()


def rewritten(page: str, blocks: Mapping[str, Block]) -> str:
    """Return the text of a page with its blocks generated."""
    names = [name for name, _ in BLOCK.findall(page)]
    if wrong := [
        each for each in {*names, *blocks} if each not in blocks or names.count(each) != 1
    ]:
        raise PageError(f"lacks, repeats or does not know these blocks: {sorted(wrong)}")
    return BLOCK.sub(lambda it: f"{it[1]} -->\n\n{blocks[it[1]](it[2]).strip()}\n\n", page)


def text_block(text: str) -> Block:
    """Return a block with this text."""
    return lambda _: text


def paragraph(names: Iterable[str]) -> Block:
    """Return a block that is written by hand, and has each of these names."""

    def write(old: str) -> str:
        missing = [name for name in names if f"`{name}`" not in old]
        return old.strip() + "".join(f" `{name}` {TO_WRITE}" for name in missing)

    return write


@dataclass(frozen=True, slots=True)
class Table:
    """A table. Its rows are known by their first cells."""

    columns: Sequence[str]
    rows: Iterable[Sequence[str]]
    in_page_order: bool = False
    """Whether rows stay in the order of the page; new ones come last."""

    def __call__(self, old: str) -> str:
        lines = [line for line in old.splitlines() if line.startswith("|")][2:]
        cells = [[cell.strip() for cell in CELL.split(line)[1:-1]] for line in lines]
        kept = {row[0]: row for row in cells}
        rows = [_filled(row, kept) for row in self.rows]
        if self.in_page_order:
            places = {name: place for place, name in enumerate(kept)}
            rows.sort(key=lambda row: places.get(row[0], len(places)))
        head = f"| {' | '.join(self.columns)} |\n|{'---|' * len(self.columns)}"
        return "\n".join([head, *(f"| {' | '.join(row)} |".replace("  ", " ") for row in rows)])


def _filled(row: Sequence[str], kept: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the cells of a row, with those by hand as the page has them."""
    name = row[0].replace("|", r"\|")
    old = kept.get(name, ())
    cells = [
        (old[place] if len(old) == len(row) else cell or TO_WRITE)
        if isinstance(cell, Hand)
        else cell.replace("|", r"\|")
        for place, cell in enumerate(row)
    ]
    return [name, *cells[1:]]


def code(text: object) -> str:
    """Return a text as Markdown shows code."""
    return f"`{text}`"

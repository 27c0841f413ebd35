"""Tables of a Markdown page, by the heading that they stand under."""

import re
from dataclasses import dataclass
from pathlib import Path

FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
CELL = re.compile(r"(?<!\\)\|")
CODE = re.compile(r"`([^`]+)`")
RULE = re.compile(r"[|:\- ]+")


@dataclass(frozen=True, slots=True)
class MarkdownTable:
    heading: str
    """The nearest heading above it, without # and backticks."""
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def column(self, name: str) -> list[str]:
        place = self.columns.index(name)
        return [row[place] for row in self.rows]


def tables(page: Path) -> list[MarkdownTable]:
    found: list[MarkdownTable] = []
    heading, lines = "", []
    for line in [*FENCED.sub("", page.read_text()).splitlines(), ""]:
        if line.startswith("|"):
            lines.append(line)
            continue
        if lines:
            columns, _, *rows = [cells(each) for each in lines]
            found.append(MarkdownTable(heading, columns, tuple(rows)))
            lines = []
        if line.startswith("#"):
            heading = line.lstrip("# ").replace("`", "")
    return found


def tables_under(page: Path, heading: str) -> list[MarkdownTable]:
    under = [each for each in tables(page) if each.heading == heading]
    assert under, f"{page.name} has no table under {heading!r}"
    return under


def table_under(page: Path, heading: str) -> MarkdownTable:
    [table] = tables_under(page, heading)
    return table


def cells(line: str) -> tuple[str, ...]:
    return tuple(each.strip().replace("\\|", "|") for each in CELL.split(line.strip())[1:-1])


def code(cell: str) -> list[str]:
    """Return what stands between backticks in a cell."""
    return CODE.findall(cell)

"""What a command prints: tables on a terminal, aligned plain lines in a pipe, JSON if asked for.

Rich is imported for a terminal only: it takes longer than most queries.
"""

import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

GAP: Final = "  "
NOTHING: Final = "-"
MAX_CELL: Final = 300
"""How many characters of a value a table on a terminal shows."""
STYLES: Final = {"good": "green", "bad": "bold red", "warn": "yellow", "quiet": "dim"}


@dataclass(frozen=True, slots=True)
class Cell:
    """A text with one of STYLES, which only a terminal shows."""

    text: str
    style: str


Value = str | int | Cell | None


def on_terminal() -> bool:
    """Tell whether a person reads the output, not a program."""
    return sys.stdout.isatty()


def print_json(value: Any, *, one_line: bool = False) -> None:
    """Print a value as JSON: times in ISO 8601, durations in seconds, keys as text."""
    from postroom.inspection.wording import as_json

    indent = None if one_line else 2
    print(json.dumps(as_json(value), indent=indent, ensure_ascii=False), flush=True)


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[Value]], *, wraps: str = ""
) -> None:
    """Print a table: drawn by Rich on a terminal, else aligned lines that are never cut.

    On a narrow terminal the column `wraps` takes several lines, and the others stay as they are.
    """
    found = [list(row) for row in rows]
    if on_terminal():
        _print_rich_table(columns, found, wraps)
        return
    lines = [list(columns), *([plain(each) for each in row] for row in found)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        padded = (text.ljust(width) for text, width in zip(line, widths, strict=True))
        print(GAP.join(padded).rstrip())


def print_fields(values: Iterable[tuple[str, Value]]) -> None:
    """Print names and values, one pair a line."""
    pairs = list(values)
    if on_terminal():
        _print_rich_fields(pairs)
        return
    width = max((len(name) for name, _ in pairs), default=0)
    for name, value in pairs:
        print(f"{name.ljust(width)}{GAP}{plain(value)}")


def print_line(*parts: Value) -> None:
    """Print one line of texts, with their styles on a terminal."""
    if not on_terminal():
        print("".join(plain(each) for each in parts).rstrip(), flush=True)
        return
    from rich.text import Text

    _console().print(Text.assemble(*map(_styled, parts)))


def print_note(text: str) -> None:
    """Print a hint for a person; nothing in a pipe."""
    if on_terminal():
        print_line(Cell(text, "quiet"))


def plain(value: Value) -> str:
    """Return a value as text without colour; nothing in it can move a terminal's cursor."""
    text = value.text if isinstance(value, Cell) else str(NOTHING if value in (None, "") else value)
    return "".join(each if each.isprintable() else _escaped(each) for each in text)


def age(moment: datetime | None) -> str:
    """Write how long ago a moment was, or how far ahead it is: `4 min`."""
    from postroom.inspection.wording import duration

    return NOTHING if moment is None else duration(datetime.now(UTC) - moment)


def at(moment: datetime | None) -> str:
    """Write a moment in UTC, to the second."""
    return NOTHING if moment is None else f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z"


def _escaped(character: str) -> str:
    return " " if character in "\n\t" else ascii(character)[1:-1]


def _print_rich_table(columns: Sequence[str], rows: Sequence[Sequence[Value]], wraps: str) -> None:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for index, name in enumerate(columns):
        numbers = bool(rows) and all(isinstance(row[index], int) for row in rows)
        justify: Any = "right" if numbers else "left"
        overflow: Any = "fold" if name == wraps else "ellipsis"
        table.add_column(name, justify=justify, overflow=overflow, no_wrap=name != wraps)
    for row in rows:
        table.add_row(*map(_cell, row))
    _console().print(table)


def _print_rich_fields(pairs: Sequence[tuple[str, Value]]) -> None:
    from rich.table import Table

    grid = Table.grid(padding=(0, len(GAP)))
    grid.add_column(style=STYLES["quiet"], no_wrap=True)
    grid.add_column()
    for name, value in pairs:
        grid.add_row(name, _cell(value))
    _console().print(grid)


def _styled(value: Value) -> tuple[str, str]:
    style = STYLES[value.style] if isinstance(value, Cell) else ""
    return plain(value), style


def _cell(value: Value) -> Any:
    from rich.text import Text

    text, style = _styled(value)
    return Text(text if len(text) <= MAX_CELL else f"{text[: MAX_CELL - 1]}…", style)


def _console() -> Any:
    from rich.console import Console

    return Console(highlight=False)

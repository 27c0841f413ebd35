"""Positions of records, as addresses and forms hold them."""

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Final

MOST: Final = 100_000
"""How many records are changed by one form at most."""


def position_of(text: str | None) -> int | None:
    """Read a position or a count; None for what is none, or is larger than any."""
    is_number = text is not None and text.isascii() and text.isdecimal() and len(text) <= 18
    return int(text) if text and is_number else None


def write_positions(positions: Iterable[int]) -> str:
    """Write positions as ranges: `1-5.8`. Browsers send these characters as they are."""
    return ".".join(_ranges(sorted(positions)))


def read_positions(text: str) -> set[int]:
    """Read what `write_positions` has written; nothing if it was anything else, or too many."""
    found: set[int] = set()
    for each in filter(None, text.split(".")):
        first, _, last = each.partition("-")
        begin, end = position_of(first), position_of(last or first)
        if begin is None or end is None or end - begin + len(found) >= MOST:
            return set()
        found.update(range(begin, end + 1))
    return found


def _ranges(positions: list[int]) -> Iterator[str]:
    for _, run in groupby(enumerate(positions), key=lambda each: each[1] - each[0]):
        numbers = [position for _, position in run]
        yield f"{numbers[0]}-{numbers[-1]}" if len(numbers) > 1 else str(numbers[0])

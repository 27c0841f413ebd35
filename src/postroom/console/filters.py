"""The filter of the records page: read from an address, and written into one."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlencode

from postroom.inspection import PENDING, RecordFilter, RecordState, parse_age, parse_key, parse_time

STATES: Final = ("pending", *RecordState)
MAX_LENGTH: Final = 650
"""Characters of the longest value: a key has up to 641."""
FIELDS: Final[Mapping[str, Callable[[str], Any]]] = {
    "type": str,
    "key": parse_key,
    "error": str,
    "older_than": parse_age,
    "younger_than": parse_age,
    "since": parse_time,
    "until": parse_time,
}
"""The fields besides the states, and what reads them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterForm:
    """What somebody typed into the filter, and what is wrong with it."""

    states: tuple[str, ...] = ()
    values: dict[str, str] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)
    """By field, what its value has to be."""
    where: RecordFilter = field(default_factory=RecordFilter)

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Yield the names and values that make up the filter in an address or a form."""
        yield from (("state", each) for each in self.states)
        yield from self.values.items()

    def query(self, **more: str | int | None) -> str:
        """Write the filter as the query of an address, with more parameters."""
        added = ((name, str(value)) for name, value in more.items() if value is not None)
        return urlencode([*self.pairs(), *added])

    @property
    def is_empty(self) -> bool:
        """Whether it allows every record."""
        return not self.states and not self.values


def read_filter(pairs: Iterable[tuple[str, str]]) -> FilterForm:
    """Read a filter. What cannot be read is among its problems, and left out."""
    given = [(name, value.strip()) for name, value in pairs]
    states = tuple(dict.fromkeys(value for name, value in given if name == "state" and value))
    values = {name: value for name, value in given if name in FIELDS and value}
    problems: dict[str, str] = {}
    if any(each not in STATES for each in states):
        problems["state"] = f"one of {', '.join(STATES)}"
    read: dict[str, Any] = {}
    for name, value in values.items():
        try:
            read[name] = FIELDS[name](_checked(value))
        except ValueError as error:
            problems[name] = str(error)
    return FilterForm(
        states=states,
        values=values,
        problems=problems,
        where=_filter(() if "state" in problems else states, read),
    )


def _checked(value: str) -> str:
    if len(value) > MAX_LENGTH:
        raise ValueError(f"{MAX_LENGTH} characters at most")
    if "\0" in value:
        raise ValueError("a text without the character NUL")
    return value


def _filter(states: Iterable[str], read: Mapping[str, Any]) -> RecordFilter:
    wanted: set[RecordState] = set()
    for each in states:
        wanted |= PENDING if each == "pending" else {RecordState(each)}
    others = {name: value for name, value in read.items() if name != "type"}
    return RecordFilter(states=frozenset(wanted), event_type=read.get("type"), **others)

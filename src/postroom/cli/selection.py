"""The options that select records, for `list` and for the commands that change many."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from postroom.cli import values
from postroom.cli.values import BadValue

if TYPE_CHECKING:
    from postroom.inspection import RecordFilter

WHICH: Final = "Which records"
STATES: Final = ("ready", "waiting", "parked", "paused", "failed", "published", "pending")


def state(value: Any) -> str:
    """Read a state of records."""
    if value not in STATES:
        raise BadValue(value, f"one of {', '.join(STATES)}")
    return str(value)


def _which(read: Any, shown: str, text: str, *names: str) -> Any:
    return typer.Option(*names, parser=read, metavar=shown, help=text, rich_help_panel=WHICH)


EventType = Annotated[
    str | None, _which(values.text, "TYPE", "Of this event type; * is any text: order.*", "--type")
]
KeyOption = Annotated[str | None, _which(values.text, "KEY", "Of this key: order/7", "--key")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which records. What is not given does not matter."""

    state: Annotated[
        list[str] | None, _which(state, "STATE", f"{', '.join(STATES)}. May be repeated.")
    ] = None
    event_type: EventType = None
    key: KeyOption = None
    error: Annotated[str | None, _which(values.text, "TEXT", "With this text in their error.")] = (
        None
    )
    older_than: Annotated[
        timedelta | None, _which(values.duration, "AGE", "Created before that: 30s, 15m, 2h, 7d")
    ] = None
    younger_than: Annotated[
        timedelta | None, _which(values.duration, "AGE", "Created since then: 30s, 15m, 2h, 7d")
    ] = None
    since: Annotated[
        datetime | None, _which(values.moment, "TIME", "Created then or later: 2026-01-31T12:00")
    ] = None
    until: Annotated[
        datetime | None, _which(values.moment, "TIME", "Created before that time.")
    ] = None
    given: frozenset[str] = frozenset()

    def filter(self) -> "RecordFilter":
        """Return the filter of these options."""
        from postroom.inspection import PENDING, RecordFilter, RecordState, parse_key

        states: set[RecordState] = set()
        for each in self.state or ():
            states |= PENDING if each == "pending" else {RecordState(each)}
        return RecordFilter(
            states=frozenset(states),
            event_type=self.event_type,
            key=None if self.key is None else parse_key(self.key),
            error=self.error,
            older_than=self.older_than,
            younger_than=self.younger_than,
            since=self.since,
            until=self.until,
        )

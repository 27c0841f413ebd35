"""Which records a command changes: by name, by filter, or a group of failures; and a preview."""

from collections import Counter
from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from postroom.cli.errors import CommandError, Exit
from postroom.cli.selection import Selection

if TYPE_CHECKING:
    from postroom.inspection import FailureGroup, Inspector, RecordPage, RecordSummary

PAGE: Final = 5000
BLOCKED_KEYS: Final = 10_000
"""How many blocked keys a preview looks at: those with the most waiting records."""
TYPES_LISTED: Final = 3
REPLAY_IT: Final = " To deliver it again: postroom replay {}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """What a command does to records."""

    verb: str
    changes: tuple[str, ...]
    """The states of records that it can change."""
    chooses: tuple[str, ...]
    """Those that a filter without --state chooses."""
    order: str
    """What happens to the order, in one sentence."""
    done: str
    """What was done, before the number of records."""
    see: str
    """The command that shows the effect."""


@dataclass(slots=True, kw_only=True)
class Chosen:
    """The records that a command is about to change."""

    chosen_by: dict[str, Any] = field(default_factory=dict)
    """The filter, for the audit; empty for records that were named."""
    ids: list[UUID] = field(default_factory=list)
    positions: set[int] = field(default_factory=set)
    types: Counter[str] = field(default_factory=Counter)
    keys: set[Any] = field(default_factory=set)
    waiting_behind: int = 0

    def add(self, record: "RecordSummary") -> None:
        """Choose a record, unless it is chosen already."""
        if record.position not in self.positions:
            self.positions.add(record.position)
            self.ids.append(record.id)
            self.types[record.event_type] += 1
            self.keys |= {record.key} - {None}

    def __str__(self) -> str:
        """Say what they are: 3 order.paid records of 3 keys; 42 records wait behind them."""
        from postroom.inspection import counted

        is_one = len(self.types) == 1
        text = counted(len(self.ids), f"{next(iter(self.types))} record" if is_one else "record")
        if len(self.types) > 1:
            text += f" ({_listed(self.types)})"
        if self.keys:
            text += f" of {counted(len(self.keys), 'key')}"
        if not self.waiting_behind:
            return text
        waiting = counted(self.waiting_behind, "record")
        waiting += " waits" if self.waiting_behind == 1 else " wait"
        return f"{text}; {waiting} behind {'it' if len(self.ids) == 1 else 'them'}"


async def choose(
    inspector: "Inspector",
    action: Action,
    names: Sequence[str],
    selection: Selection,
    group: str | None,
) -> Chosen:
    """Choose the records that are named, or that the filter or the group has."""
    if bool(names) + bool(selection.given) + (group is not None) != 1:
        raise CommandError(
            f"which records? Name them (postroom {action.verb} 1234), or give a filter (--type,"
            " --key, --error, --older-than, …)"
            f"{', or --group' if 'failed' in action.changes else ''}: one of these."
        )
    if group is not None:
        chosen = await _of_group(inspector, group)
    elif names:
        chosen = await _named(inspector, action, names)
    else:
        chosen = await _filtered(inspector, action, selection)
    chosen.waiting_behind = await _waiting_behind(inspector, chosen.positions)
    return chosen


async def _named(inspector: "Inspector", action: Action, names: Sequence[str]) -> Chosen:
    chosen = Chosen()
    for name in names:
        record = (await inspector.record(name)).record
        if record.state not in action.changes:
            raise CommandError(
                f"record {name} ({record.event_type}) is {record.state}. {_is_for(action)}"
                f"{REPLAY_IT.format(name) if record.state == 'published' else ''}",
                Exit.PROBLEM,
            )
        chosen.add(record)
    return chosen


async def _filtered(inspector: "Inspector", action: Action, selection: Selection) -> Chosen:
    states = selection.state or action.chooses
    if wrong := sorted(set(states) - set(action.changes) - {"pending"}):
        raise CommandError(f"--state {wrong[0]}: {_is_for(action)}")
    where = replace(selection, state=list(states))
    chosen = Chosen(chosen_by=_described(where))
    cursor: int | None = None
    while True:
        page = await inspector.records(
            where.filter(), cursor=cursor, limit=PAGE, newest_first=False
        )
        _add(chosen, page, action.changes)
        cursor = page.cursor
        if cursor is None:
            return chosen


def _is_for(action: Action) -> str:
    return f"{action.verb} is for records that are {' or '.join(action.changes)}."


async def _of_group(inspector: "Inspector", name: str) -> Chosen:
    group = await _group(inspector, name)
    by = {"group": group.id, "type": group.event_type, "error": group.error}
    chosen = Chosen(chosen_by=by)
    async for page in _pages_of_group(inspector, group.id):
        _add(chosen, page, ("failed",))
    return chosen


async def _group(inspector: "Inspector", name: str) -> "FailureGroup":
    """Return a group of failures by its number in `postroom failures`, or by its id."""
    groups = (await inspector.failures()).groups
    for each in groups:
        if name in (str(each.number), each.id):
            return each
    known = f"There are {len(groups)}" if groups else "No record has failed"
    text = f"there is no group {name} of failures. {known}: postroom failures"
    raise CommandError(text, Exit.PROBLEM)


async def _pages_of_group(inspector: "Inspector", group: str) -> AsyncIterator["RecordPage"]:
    page = await inspector.records_of(group, limit=PAGE)
    yield page
    while page.cursor is not None:
        page = await inspector.records_of(group, cursor=page.cursor, limit=PAGE)
        yield page


def _add(chosen: Chosen, page: "RecordPage", states: Collection[str]) -> None:
    for record in page.records:
        if record.state in states:
            chosen.add(record)


async def _waiting_behind(inspector: "Inspector", positions: Collection[int]) -> int:
    """Count the records that wait behind these."""
    if not positions:
        return 0
    keys = (await inspector.blocked_keys(limit=BLOCKED_KEYS)).keys
    return sum(each.waiting for each in keys if each.blocker and each.blocker.position in positions)


def _described(selection: Selection) -> dict[str, Any]:
    """Return the options of a filter that were given, as the audit holds them."""
    values = {"state": " or ".join(selection.state or ()), "type": selection.event_type}
    names = ("key", "error", "older_than", "younger_than", "since", "until")
    values |= {name: getattr(selection, name) for name in names}
    return {name: _shown(value) for name, value in values.items() if value not in (None, "")}


def _shown(value: Any) -> str:
    match value:
        case datetime():
            return value.isoformat()
        case timedelta():
            return f"{value.total_seconds():g} s"
    return str(value)


def _listed(types: Counter[str]) -> str:
    """Name the most frequent types: 3 order.paid, 2 mail.sent, 1 other."""
    shown = [f"{count:,} {name}" for name, count in types.most_common(TYPES_LISTED)]
    rest = types.total() - sum(count for _, count in types.most_common(TYPES_LISTED))
    return ", ".join([*shown, f"{rest:,} other"] if rest else shown)

"""Which records an action changes: by name, by filter, or a group of failures; and a preview."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from postroom.actions.action import Action
from postroom.errors import ActionError
from postroom.inspection import (
    PENDING,
    FailureGroup,
    Inspector,
    RecordFilter,
    RecordName,
    RecordState,
    RecordSummary,
    counted,
    key_text,
)
from postroom.record import Key

TYPES_LISTED: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The records that are about to be changed."""

    chosen_by: dict[str, Any] = field(default_factory=dict)
    """The filter, for the audit; empty for records that were named."""
    records: Sequence[RecordName | RecordSummary] = ()
    waiting_behind: int = 0

    @property
    def ids(self) -> list[UUID]:
        """Their ids, in the order in which they were chosen."""
        return [each.id for each in self.records]

    @property
    def types(self) -> Counter[str]:
        """How many there are of each event type."""
        return Counter(each.event_type for each in self.records)

    @property
    def keys(self) -> set[Key]:
        """Their keys."""
        return {each.key for each in self.records if each.key is not None}

    def __str__(self) -> str:
        """Say what they are: 3 order.paid records of 3 keys; 42 records wait behind them."""
        number, types, keys = len(self.records), self.types, self.keys
        is_one = len(types) == 1
        text = counted(number, f"{next(iter(types))} record" if is_one else "record")
        if len(types) > 1:
            text += f" ({_listed(types)})"
        if keys:
            text += f" of {counted(len(keys), 'key')}"
        if not self.waiting_behind:
            return text
        waiting = counted(self.waiting_behind, "record")
        waiting += " waits" if self.waiting_behind == 1 else " wait"
        return f"{text}; {waiting} behind {'it' if number == 1 else 'them'}"


async def choose_named(inspector: Inspector, action: Action, names: Sequence[str]) -> Chosen:
    """Choose records by their ids, beginnings of their ids, or positions.

    Raises RecordNotFoundError, and ActionError for a record in a state that the action is not for.
    """
    records = await inspector.summaries(names)
    for name, record in zip(names, records, strict=True):
        if record.state not in action.changes:
            raise ActionError(
                f"record {name} ({record.event_type}) is {record.state}. {action.rule}",
                state=record.state,
            )
    by_position = {each.position: each for each in records}  # one may be named twice
    return await _chosen(inspector, {}, list(by_position.values()))


async def choose_matching(
    inspector: Inspector, action: Action, where: RecordFilter, *, at_most: int | None = None
) -> Chosen:
    """Choose the records that a filter allows; without states, those that the action is for.

    Raises ActionError for a state that the action cannot change, and for more than `at_most`.
    """
    states = where.states or frozenset(action.chooses)
    wrong = states - PENDING if states >= PENDING else states
    if wrong := wrong - set(action.changes):
        raise ActionError(f"state {min(wrong)}: {action.rule}", state=min(wrong))
    where = replace(where, states=states)
    changed = replace(where, states=states.intersection(action.changes))
    limit = None if at_most is None else at_most + 1
    names = await inspector.names(changed, limit=limit) if changed.states else []
    return await _chosen(inspector, described(where), names, at_most)


async def choose_group(
    inspector: Inspector, action: Action, name: str, *, at_most: int | None = None
) -> Chosen:
    """Choose a group of failures by its number or its id.

    Raises ActionError if there is none, and for more records than `at_most`.
    """
    if RecordState.FAILED not in action.changes:
        raise ActionError(f"a group is of failed records; {action.rule}")
    group = await _group(inspector, name)
    by = {"group": group.id, "type": group.event_type, "error": group.error}
    return await _chosen(inspector, by, await inspector.names_of(group.id), at_most)


def described(where: RecordFilter) -> dict[str, str]:
    """Return what a filter names, as the audit holds it."""
    states = where.states
    names = ["pending", *states - PENDING] if states >= PENDING else sorted(states)
    values = {
        "state": " or ".join(names),
        "type": where.event_type,
        "key": None if where.key is None else key_text(where.key),
        "error": where.error,
        "older_than": where.older_than,
        "younger_than": where.younger_than,
        "since": where.since,
        "until": where.until,
    }
    return {name: _written(value) for name, value in values.items() if value not in (None, "")}


async def _group(inspector: Inspector, name: str) -> FailureGroup:
    groups = (await inspector.failures()).groups
    for each in groups:
        if name in (str(each.number), each.id):
            return each
    known = f"there are {len(groups)}" if groups else "no record has failed"
    raise ActionError(f"there is no group {name} of failures; {known}.")


async def _chosen(
    inspector: Inspector,
    chosen_by: dict[str, Any],
    records: Sequence[RecordName | RecordSummary],
    at_most: int | None = None,
) -> Chosen:
    """Count the records that wait behind the chosen ones, unless these are too many."""
    if at_most is not None and len(records) > at_most:
        raise ActionError(
            f"more than {at_most:,} records match. Narrow the filter, or use the command line."
        )
    positions = [each.position for each in records]
    waiting = await inspector.waiting_behind(positions) if positions else 0
    return Chosen(chosen_by=chosen_by, records=records, waiting_behind=waiting)


def _written(value: Any) -> str:
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

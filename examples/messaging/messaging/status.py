"""Which status a message can have, and which may follow which."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final, TypeAlias, TypeVar

from messaging.errors import UnprocessableError


class GroupMessageStatus(StrEnum):
    DRAFT = "draft"
    QUEUED = "queued"
    PROCESSING = "processing"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class ScheduledMessageStatus(StrEnum):
    PENDING = "pending"
    PAUSED = "paused"
    PROCESSING = "processing"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


Group: TypeAlias = GroupMessageStatus
Scheduled: TypeAlias = ScheduledMessageStatus
Status = TypeVar("Status", bound=StrEnum)

GROUP_MESSAGE: Final[Mapping[Group, frozenset[Group]]] = MappingProxyType(
    {
        Group.DRAFT: frozenset({Group.QUEUED, Group.CANCELLED}),
        Group.QUEUED: frozenset({Group.PROCESSING, Group.CANCELLED}),
        Group.PROCESSING: frozenset({Group.COMPLETED, Group.FAILED}),
        Group.FAILED: frozenset({Group.QUEUED, Group.CANCELLED}),
        Group.COMPLETED: frozenset(),
        Group.CANCELLED: frozenset(),
    }
)

SCHEDULED_MESSAGE: Final[Mapping[Scheduled, frozenset[Scheduled]]] = MappingProxyType(
    {
        Scheduled.PENDING: frozenset({Scheduled.PAUSED, Scheduled.PROCESSING, Scheduled.CANCELLED}),
        Scheduled.PAUSED: frozenset({Scheduled.PENDING, Scheduled.CANCELLED}),
        Scheduled.PROCESSING: frozenset(
            {Scheduled.PENDING, Scheduled.COMPLETED, Scheduled.FAILED}  # pending: it recurs
        ),
        Scheduled.FAILED: frozenset({Scheduled.PENDING, Scheduled.CANCELLED}),
        Scheduled.COMPLETED: frozenset(),
        Scheduled.CANCELLED: frozenset(),
    }
)


def check_transition(allowed: Mapping[Status, frozenset[Status]], old: Status, new: Status) -> None:
    """Raise UnprocessableError, with the possible values, if `new` may not follow `old`."""
    if new in allowed[old]:
        return
    possible = " or ".join(sorted(allowed[old]))
    remedy = f"it can become {possible}" if possible else f"{old} is final"
    raise UnprocessableError("status", f"a message that is {old} cannot become {new}: {remedy}")

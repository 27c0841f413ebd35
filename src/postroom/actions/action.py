"""Retry, skip, discard and replay as values, for commands and console."""

from dataclasses import dataclass
from typing import Final

from postroom.inspection import RecordState
from postroom.operations import Operations
from postroom.operations.operations import ChangeRecords

UNDELIVERED: Final = (
    RecordState.FAILED,
    RecordState.READY,
    RecordState.WAITING,
    RecordState.PARKED,
    RecordState.PAUSED,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """What is done to records."""

    verb: str
    changes: tuple[RecordState, ...]
    """The states of records that it can change."""
    chooses: tuple[RecordState, ...]
    """Those that a filter without a state chooses."""
    order: str
    """What happens to the order, in one sentence."""
    done: str
    """What was done, before the number of records."""

    @property
    def rule(self) -> str:
        """Which records it is for, in one sentence."""
        return f"{self.verb} is for records that are {' or '.join(self.changes)}."

    def of(self, operations: Operations) -> ChangeRecords:
        """Return the operation that does it."""
        change: ChangeRecords = getattr(operations, self.verb)
        return change


RETRY: Final = Action(
    verb="retry",
    changes=(RecordState.FAILED, RecordState.WAITING),
    chooses=(RecordState.FAILED,),
    order="Order holds: later records of a key wait until these are delivered.",
    done="Retried",
)
SKIP: Final = Action(
    verb="skip",
    changes=(RecordState.FAILED,),
    chooses=(RecordState.FAILED,),
    order="Later records of a key go on without these; one that is retried later comes late.",
    done="Skipped",
)
DISCARD: Final = Action(
    verb="discard",
    changes=UNDELIVERED,
    chooses=(RecordState.FAILED,),
    order="These are deleted for good; later records of a key go on without them.",
    done="Discarded",
)
REPLAY: Final = Action(
    verb="replay",
    changes=(RecordState.PUBLISHED,),
    chooses=(RecordState.PUBLISHED,),
    order=(
        "These are delivered a second time, in their order per key, with the header"
        " postroom-replay; newer records do not wait for them."
    ),
    done="Replayed",
)
ACTIONS: Final = {each.verb: each for each in (RETRY, SKIP, DISCARD, REPLAY)}

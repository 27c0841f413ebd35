"""What is done about an event of the processing queues: effectively once, in one transaction."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from typing import Any, Final, Self
from uuid import UUID

from postroom import EventBus
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

from messaging.controllers.group_message import GroupMessageController
from messaging.controllers.scheduled_message import ScheduledMessageController
from messaging.models import outbox
from messaging.user import User

CONSUMER: Final = "messaging.processing"
"""The name of this consumer in its receipts."""


class InvalidEventError(Exception):
    """Raised when an event lacks what is needed to process it. Another attempt would not help."""


class Result(Enum):
    """What became of an event."""

    PROCESSED = auto()
    REPEATED = auto()  # it was processed before
    IGNORED = auto()  # there is nothing to do about events of its type


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedEvent:
    """What is needed of an event to process it."""

    id: str
    message_id: UUID
    user: User
    request_id: str | None = None
    due_at: datetime | None = None

    @classmethod
    def of(cls, event_id: str | None, payload: Any) -> Self:
        """Read an event. Raises InvalidEventError."""
        if event_id is None or not isinstance(payload, Mapping):
            raise InvalidEventError("an event has an id, and its payload is a JSON object")
        due_at = payload.get("due_at")
        try:
            return cls(
                id=event_id,
                message_id=UUID(payload["id"]),
                user=User(UUID(payload["user_id"]), UUID(payload["account_id"])),
                request_id=payload.get("request_id"),
                due_at=due_at and datetime.fromisoformat(due_at),
            )
        except (KeyError, ValueError, TypeError, AttributeError) as error:
            raise InvalidEventError(
                f"the payload of {event_id} is not usable: {error!r}"
            ) from error


class Processor:
    """Processes events, each effectively once.

    One transaction holds the receipt of the event in the inbox, the work, and the events that the
    work emits. A repeated event finds the receipt and has no second effect.
    """

    def __init__(self, sessions: async_sessionmaker[AsyncSession]) -> None:
        self._sessions = sessions
        self._outbox = outbox.middleware()

    async def process(self, event_id: str | None, event_type: str, payload: Any) -> Result:
        """Process an event and commit. Acknowledge the event after that, not before."""
        act = ACTIONS.get(event_type)
        if act is None:
            return Result.IGNORED
        event, bus = ReceivedEvent.of(event_id, payload), EventBus()
        async with self._sessions.begin() as db:
            if not await outbox.inbox.accept(db, event.id, consumer=CONSUMER):
                return Result.REPEATED
            await act(db, bus, event)
            context = {"user_id": event.user.id, "request_id": event.request_id}
            await self._outbox.flush(db, bus, **context)
        return Result.PROCESSED


Action = Callable[[AsyncSession, EventBus, ReceivedEvent], Awaitable[None]]


async def _group_message_queued(db: AsyncSession, bus: EventBus, event: ReceivedEvent) -> None:
    await GroupMessageController(db, event.user, bus).send_or_plan(event.message_id)


async def _group_message_due(db: AsyncSession, bus: EventBus, event: ReceivedEvent) -> None:
    await GroupMessageController(db, event.user, bus).send(event.message_id)


async def _schedule_changed(db: AsyncSession, bus: EventBus, event: ReceivedEvent) -> None:
    await ScheduledMessageController(db, event.user, bus).plan(event.message_id)


async def _scheduled_message_due(db: AsyncSession, bus: EventBus, event: ReceivedEvent) -> None:
    if event.due_at is None:
        raise InvalidEventError(f"the payload of {event.id} has no due_at")
    controller = ScheduledMessageController(db, event.user, bus)
    await controller.trigger(event.message_id, event.due_at)


ACTIONS: Final[Mapping[str, Action]] = {
    "group_message.queued": _group_message_queued,
    "group_message.due": _group_message_due,
    "scheduled_message.created": _schedule_changed,
    "scheduled_message.updated": _schedule_changed,
    "scheduled_message.resumed": _schedule_changed,
    "scheduled_message.due": _scheduled_message_due,
}
"""What to do about events, by type. Others are in the queues as well, and are ignored."""

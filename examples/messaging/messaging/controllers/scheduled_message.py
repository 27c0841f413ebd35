"""Scheduled messages: created, paused, resumed, cancelled, or moved to another time."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final, TypeAlias
from uuid import UUID

from messaging.controllers.messages import MessageController
from messaging.errors import UnprocessableError
from messaging.models import ScheduledMessage, now
from messaging.schedule import Schedule, in_utc
from messaging.schemas import (
    NewScheduledMessage,
    ScheduledMessageChange,
    ScheduledMessageOut,
)
from messaging.status import (
    SCHEDULED_MESSAGE,
    ScheduledMessageStatus,
    check_transition,
)

Status: TypeAlias = ScheduledMessageStatus
STEP: Final = timedelta(seconds=1)
"""The smallest distance of two times of a schedule."""
SCHEDULE: Final = (
    *("scheduled_at", "timezone", "is_recurring", "recurrence_rule", "recurrence_end_at"),
)
MOMENTS: Final = ("scheduled_at", "recurrence_end_at")
UPDATED: Final = (
    *("scheduled_at", "timezone", "is_recurring", "recurrence_rule", "next_trigger_at"),
)
CREATED: Final = ("channel_id", "template_id", "send_type", "status", *UPDATED)


class ScheduledMessageController(MessageController[ScheduledMessage]):
    model = ScheduledMessage
    shape = ScheduledMessageOut
    aggregate_type = "scheduled_message"

    async def create(self, data: NewScheduledMessage) -> ScheduledMessage:
        schedule = _in_utc({name: getattr(data, name) for name in SCHEDULE}, data.timezone)
        plan, moment = Schedule(**schedule), now()
        plan.check_start(moment)
        plan.check()
        await self.check_channel(data.channel_id)
        await self.recipients(data.contact_group_ids)
        message = await self.insert(
            channel_id=data.channel_id,
            template_id=await self.template_of(data),
            send_type=data.send_type,
            recipient=data.recipient,
            contact_group_ids=[str(each) for each in data.contact_group_ids],
            **schedule,
            next_trigger_at=plan.due(moment),
        )
        self.emit("created", message, *CREATED)
        return message

    async def update(self, message_id: UUID, data: ScheduledMessageChange) -> ScheduledMessage:
        message = await self.get(message_id, for_update=True)
        previous, changes = message.status, data.changes()
        status = changes.pop("status", previous)
        if status != previous:
            check_transition(SCHEDULED_MESSAGE, previous, status)
        changed = _what_is_new(message, _in_utc(changes, changes.get("timezone", message.timezone)))
        if changed or status != previous:
            trigger = _plan(message, changed, status)
            await self.change(message, {**changed, "status": status, "next_trigger_at": trigger})
        self._tell(message, previous, changed)
        return message

    async def plan(self, message_id: UUID) -> None:
        """Have a message triggered at its next time."""
        message = await self.get(message_id, for_update=True)
        if message.next_trigger_at is not None:
            self.emit_due(message, message.next_trigger_at)

    async def trigger(self, message_id: UUID, due_at: datetime) -> None:
        """Send a message that is due, and plan its next time or complete it.

        Nothing happens if it was sent, moved, paused or cancelled in the meantime.
        """
        message = await self.get(message_id, for_update=True)
        if message.status != Status.PENDING or message.next_trigger_at != due_at:
            return
        await self.write_deliveries(message, await self._addresses(message))
        # Our clock may be behind the database's, which `due_at` was compared with.
        later = _schedule(message).next_trigger(max(now(), due_at + STEP))
        status = Status.COMPLETED if later is None else Status.PENDING
        await self.change(message, {"status": status, "next_trigger_at": later})
        if later is not None:
            self.emit_due(message, later)

    async def _addresses(self, message: ScheduledMessage) -> list[str]:
        if message.recipient is not None:
            return [message.recipient]
        return await self.recipients([UUID(each) for each in message.contact_group_ids])

    def _tell(
        self, message: ScheduledMessage, previous: Status, changed: Mapping[str, Any]
    ) -> None:
        """Emit what has happened to a message, if it is for others to know."""
        if message.status == previous:
            if changed:
                self.emit("updated", message, *UPDATED, changed_fields=sorted(changed))
            return
        match previous, message.status:
            case _, Status.CANCELLED | Status.PAUSED as what:
                self.emit(what, message, "status", previous_status=previous.value)
            case Status.PAUSED, Status.PENDING:
                fields = ("status", "next_trigger_at")
                self.emit("resumed", message, *fields, previous_status=previous.value)


def _schedule(message: ScheduledMessage, **changed: Any) -> Schedule:
    """Return the schedule of a message, with some changes."""
    return Schedule(**{name: changed.get(name, getattr(message, name)) for name in SCHEDULE})


def _plan(message: ScheduledMessage, changed: Mapping[str, Any], status: Status) -> datetime | None:
    """Check the schedule that a message is to have; return when it is due next."""
    if changed and message.status not in (Status.PENDING, Status.PAUSED, Status.FAILED):
        raise UnprocessableError(
            "status", f"a message that is {message.status} is not moved any more"
        )
    plan, moment = _schedule(message, **changed), now()
    if "scheduled_at" in changed:
        plan.check_start(moment)
    if changed:
        plan.check()
    return plan.due(moment) if status == Status.PENDING else None


def _what_is_new(message: ScheduledMessage, given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if value != getattr(message, name)}


def _in_utc(values: Mapping[str, Any], timezone: str) -> dict[str, Any]:
    """Give the same values, with moments in UTC; without an offset they are in the zone."""
    moments = {name: values[name] for name in MOMENTS if values.get(name) is not None}
    return {**values, **{name: in_utc(moment, timezone) for name, moment in moments.items()}}

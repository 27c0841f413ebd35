"""Group messages: drafted, queued, sent or cancelled; each step is an event."""

from typing import Any, Final
from uuid import UUID

from messaging.controllers.messages import MessageController
from messaging.errors import UnprocessableError
from messaging.models import GroupMessage, now
from messaging.schedule import in_utc
from messaging.schemas import GroupMessageChange, GroupMessageOut, NewGroupMessage
from messaging.status import GROUP_MESSAGE, check_transition
from messaging.status import GroupMessageStatus as Status

CREATED: Final = (
    *("channel_id", "template_id", "status", "contact_group_ids", "total_recipients"),
    "scheduled_at",
)


class GroupMessageController(MessageController[GroupMessage]):
    model = GroupMessage
    shape = GroupMessageOut
    aggregate_type = "group_message"

    async def create(self, data: NewGroupMessage) -> GroupMessage:
        await self.check_channel(data.channel_id)
        message = await self.insert(
            channel_id=data.channel_id,
            template_id=await self.template_of(data),
            **await self._recipients(data.contact_group_ids),
            scheduled_at=data.scheduled_at and in_utc(data.scheduled_at),
        )
        self.emit("created", message, *CREATED)
        return message

    async def update(self, message_id: UUID, data: GroupMessageChange) -> GroupMessage:
        message = await self.get(message_id, for_update=True)
        previous, changes = message.status, data.changes()
        if changes.keys() - {"status"} and previous != Status.DRAFT:
            raise UnprocessableError(
                "status", f"a message that is {previous} is not edited any more"
            )
        status = changes.get("status", previous)
        if status != previous:
            check_transition(GROUP_MESSAGE, previous, status)
        if "contact_group_ids" in changes:
            changes |= await self._recipients(changes["contact_group_ids"])
        if changes.get("scheduled_at"):
            changes["scheduled_at"] = in_utc(changes["scheduled_at"])
        await self.change(message, changes)
        if status != previous:
            self.emit(status, message, "status", previous_status=previous.value)
        return message

    async def send_or_plan(self, message_id: UUID) -> None:
        """Send a message that was queued, or have it sent at its time if that is to come."""
        message = await self.get(message_id, for_update=True)
        if message.scheduled_at is None or message.scheduled_at <= now():
            await self.send(message_id)
        elif message.status == Status.QUEUED:
            self.emit_due(message, message.scheduled_at)

    async def send(self, message_id: UUID) -> None:
        """Send a message, unless it was cancelled or sent in the meantime."""
        message = await self.get(message_id, for_update=True)
        if message.status != Status.QUEUED:
            return
        await self.update(message_id, GroupMessageChange(status=Status.PROCESSING))
        groups = [UUID(each) for each in message.contact_group_ids]
        await self.write_deliveries(message, await self.recipients(groups))
        await self.update(message_id, GroupMessageChange(status=Status.COMPLETED))

    async def _recipients(self, group_ids: list[UUID]) -> dict[str, Any]:
        return {
            "contact_group_ids": [str(each) for each in group_ids],
            "total_recipients": len(await self.recipients(group_ids)),
        }

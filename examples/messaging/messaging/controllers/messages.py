"""What both kinds of messages have in common: a channel, a text, recipients, events."""

from collections.abc import Collection
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

from postroom import Delayed, EventBus, UntypedEvent
from sqlalchemy import insert
from sqlalchemy.ext.asyncio import AsyncSession

from messaging.controllers.crud import CRUDController
from messaging.models import (
    Channel,
    ContactGroup,
    Delivery,
    GroupMessage,
    ScheduledMessage,
    Template,
)
from messaging.schemas import NewMessage, Outgoing
from messaging.user import User

Message = TypeVar("Message", bound=GroupMessage | ScheduledMessage)


class MessageController(CRUDController[Message]):
    """Checks what a message refers to, and emits what happens to it to the bus."""

    model: type[Message]
    shape: type[Outgoing]
    """The schema of a message in answers; events take their fields from it."""
    aggregate_type: str

    def __init__(self, db: AsyncSession, user: User, event_bus: EventBus) -> None:
        super().__init__(self.model, db, user)
        self.event_bus = event_bus
        self._channels = CRUDController(Channel, db, user)
        self._templates = CRUDController(Template, db, user)
        self._groups = CRUDController(ContactGroup, db, user)

    def emit(self, what: str, message: Message, *fields: str, **details: Any) -> None:
        """Emit an event with some fields of the message as they are now, and further details."""
        self.event_bus.emit(self._event(what, message, *fields, **details))

    def emit_due(self, message: Message, due_at: datetime) -> None:
        """Emit the event `due`, which is delivered at that time. It is for the consumer."""
        due = self._event("due", message, due_at=due_at.isoformat())
        self.event_bus.emit(Delayed(due, until=due_at))

    def _event(self, what: str, message: Message, *fields: str, **details: Any) -> UntypedEvent:
        shape = self.shape.model_validate(message)
        known = shape.model_dump(mode="json", include={"id", "account_id", *fields})
        return UntypedEvent(
            event_type=f"{self.aggregate_type}.{what}",
            aggregate_type=self.aggregate_type,
            aggregate_id=message.id,
            payload={**known, **details},
        )

    async def check_channel(self, channel_id: UUID) -> None:
        await self._channels.named("channel_id", channel_id)

    async def template_of(self, data: NewMessage) -> UUID:
        """Return the template of a message; a text of its own becomes one."""
        if data.template_id is not None:
            await self._templates.named("template_id", data.template_id)
            return data.template_id
        template = await self._templates.insert(name="Untitled", body=data.body)
        return template.id

    async def recipients(self, group_ids: Collection[UUID]) -> list[str]:
        """Return the contacts of some groups, each once."""
        groups = await self._groups.named("contact_group_ids", *group_ids)
        return sorted({contact for group in groups for contact in group.contacts})

    async def write_deliveries(self, message: Message, recipients: Collection[str]) -> None:
        """Write one row for each recipient.

        A gateway for SMS or mail would take the rows from there, with their id as idempotency key:
        a request to another system in this transaction could not be rolled back.
        """
        rows = [
            {
                "account_id": message.account_id,
                "message_type": self.aggregate_type,
                "message_id": message.id,
                "channel_id": message.channel_id,
                "template_id": message.template_id,
                "recipient": recipient,
            }
            for recipient in recipients
        ]
        if rows:
            await self.db.execute(insert(Delivery), rows)

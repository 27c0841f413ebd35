"""What messages of both kinds have in common: a channel, a text, those who get it."""

from typing import Any, TypeVar
from uuid import UUID

from postroom import EventBus, UntypedEvent
from sqlalchemy.ext.asyncio import AsyncSession

from messaging.controllers.crud import CRUDController
from messaging.models import (
    Channel,
    ContactGroup,
    GroupMessage,
    ScheduledMessage,
    Template,
)
from messaging.schemas import NewMessage, Outgoing
from messaging.user import User

Message = TypeVar("Message", bound=GroupMessage | ScheduledMessage)


class MessageController(CRUDController[Message]):
    """Checks what a message refers to, and tells the bus what happens to it."""

    model: type[Message]
    shape: type[Outgoing]
    """How a message looks from outside; events take what they tell of it from there."""
    aggregate_type: str

    def __init__(self, db: AsyncSession, user: User, event_bus: EventBus) -> None:
        super().__init__(self.model, db, user)
        self.event_bus = event_bus
        self._channels = CRUDController(Channel, db, user)
        self._templates = CRUDController(Template, db, user)
        self._groups = CRUDController(ContactGroup, db, user)

    def emit(self, what: str, message: Message, *fields: str, **details: Any) -> None:
        """Tell the bus what happened to a message: some of its fields as they are now, and more."""
        told = self.shape.model_validate(message)
        known = told.model_dump(mode="json", include={"id", "account_id", *fields})
        event = UntypedEvent(
            event_type=f"{self.aggregate_type}.{what}",
            aggregate_type=self.aggregate_type,
            aggregate_id=message.id,
            payload={**known, **details},
        )
        self.event_bus.emit(event)

    async def check_channel(self, channel_id: UUID) -> None:
        await self._channels.named("channel_id", channel_id)

    async def template_of(self, data: NewMessage) -> UUID:
        """Give the template of a message; a text of its own becomes one."""
        if data.template_id is not None:
            await self._templates.named("template_id", data.template_id)
            return data.template_id
        template = await self._templates.insert(name="Untitled", body=data.body)
        return template.id

    async def count_recipients(self, group_ids: list[UUID]) -> int:
        """Count the contacts of some groups; who is in several gets the message once."""
        groups = await self._groups.named("contact_group_ids", *group_ids)
        return len({contact for group in groups for contact in group.contacts})

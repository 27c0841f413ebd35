"""The bodies of requests and answers."""

from datetime import datetime
from typing import Annotated, Any, Generic, Literal, Self, TypeVar
from uuid import UUID

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)

from messaging.schedule import check_moment, check_rule, check_timezone
from messaging.status import GroupMessageStatus, ScheduledMessageStatus

Item = TypeVar("Item")


def _printable(text: str) -> str:
    if "\x00" in text:
        raise ValueError("a NUL character cannot be stored")
    return text


Name = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=200),
    AfterValidator(_printable),
]
Body = Annotated[
    str, StringConstraints(min_length=1, max_length=10_000), AfterValidator(_printable)
]
Groups = Annotated[list[UUID], Field(min_length=1, max_length=100)]
Zone = Annotated[str, AfterValidator(check_timezone)]
Rule = Annotated[str, AfterValidator(check_rule)]
Moment = Annotated[datetime, AfterValidator(check_moment)]


class Incoming(BaseModel):
    """The body of a request. Unknown fields are refused, as they may be typing errors."""

    model_config = ConfigDict(extra="forbid")


class Change(Incoming):
    """The body of a PATCH. Fields that it does not name stay as they are."""

    def changes(self) -> dict[str, Any]:
        """Return the changes. null clears a field that can be empty; for others it is no change."""
        given = self.model_dump(exclude_unset=True)
        return {k: v for k, v in given.items() if v is not None or k in self.can_be_empty()}

    @classmethod
    def can_be_empty(cls) -> set[str]:
        return set()


class Outgoing(BaseModel):
    """An entity of an account, in answers."""

    model_config = ConfigDict(from_attributes=True)

    id: UUID
    account_id: UUID
    created_at: datetime
    updated_at: datetime


class Page(BaseModel, Generic[Item]):
    """A part of a list, the newest first, and the length of the whole list."""

    model_config = ConfigDict(from_attributes=True)

    items: list[Item]
    total: int
    limit: int
    offset: int


class NewChannel(Incoming):
    name: Name
    kind: Literal["sms", "email", "telegram", "whatsapp"]


class ChannelOut(NewChannel, Outgoing):
    model_config = ConfigDict(from_attributes=True, extra="ignore")


class NewTemplate(Incoming):
    name: Name
    body: Body


class TemplateOut(NewTemplate, Outgoing):
    model_config = ConfigDict(from_attributes=True, extra="ignore")


class NewContactGroup(Incoming):
    name: Name
    contacts: Annotated[list[Name], Field(max_length=10_000)]


class ContactGroupOut(NewContactGroup, Outgoing):
    model_config = ConfigDict(from_attributes=True, extra="ignore")


class NewMessage(Incoming):
    """A message has a channel, and a template or a text, which becomes a template."""

    channel_id: UUID
    template_id: UUID | None = None
    body: Body | None = None

    @model_validator(mode="after")
    def _one_text(self) -> Self:
        if (self.template_id is None) == (self.body is None):
            raise ValueError("say template_id or body, one of them")
        return self


class NewGroupMessage(NewMessage):
    contact_group_ids: Groups
    scheduled_at: Moment | None = None


class GroupMessageChange(Change):
    status: GroupMessageStatus | None = None
    contact_group_ids: Groups | None = None
    scheduled_at: Moment | None = None

    @classmethod
    def can_be_empty(cls) -> set[str]:
        return {"scheduled_at"}


class GroupMessageOut(Outgoing):
    channel_id: UUID
    template_id: UUID
    status: GroupMessageStatus
    contact_group_ids: list[UUID]
    total_recipients: int
    scheduled_at: datetime | None


class DeliveryOut(Outgoing):
    message_type: str
    message_id: UUID
    channel_id: UUID
    template_id: UUID
    recipient: str


class NewScheduledMessage(NewMessage):
    """`scheduled_at` without an offset is the time in `timezone`."""

    send_type: Literal["single", "group"]
    recipient: Name | None = None
    contact_group_ids: Annotated[list[UUID], Field(max_length=100)] = []
    scheduled_at: Moment
    timezone: Zone = "UTC"
    is_recurring: bool = False
    recurrence_rule: Rule | None = None
    recurrence_end_at: Moment | None = None

    @model_validator(mode="after")
    def _one_kind_of_recipient(self) -> Self:
        single = self.recipient is not None and not self.contact_group_ids
        group = self.recipient is None and bool(self.contact_group_ids)
        if not (single if self.send_type == "single" else group):
            raise ValueError("single takes a recipient, group takes contact_group_ids")
        return self


class ScheduledMessageChange(Change):
    status: ScheduledMessageStatus | None = None
    scheduled_at: Moment | None = None
    timezone: Zone | None = None
    is_recurring: bool | None = None
    recurrence_rule: Rule | None = None
    recurrence_end_at: Moment | None = None

    @classmethod
    def can_be_empty(cls) -> set[str]:
        return {"recurrence_rule", "recurrence_end_at"}


class ScheduledMessageOut(Outgoing):
    channel_id: UUID
    template_id: UUID
    send_type: str
    recipient: str | None
    contact_group_ids: list[UUID]
    status: ScheduledMessageStatus
    scheduled_at: datetime
    timezone: str
    is_recurring: bool
    recurrence_rule: str | None
    recurrence_end_at: datetime | None
    next_trigger_at: datetime | None

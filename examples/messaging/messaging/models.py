"""The tables, and the outbox beside them."""

from datetime import UTC, datetime
from enum import StrEnum
from uuid import UUID, uuid4

from postroom import Outbox
from sqlalchemy import JSON, Enum, ForeignKey, Index, MetaData, Text
from sqlalchemy.orm import DeclarativeBase, Mapped, declared_attr, mapped_column

from messaging.database import UtcDateTime
from messaging.status import GroupMessageStatus, ScheduledMessageStatus

NAMES = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}


def now() -> datetime:
    return datetime.now(UTC)


def by_value(kind: type[StrEnum]) -> Enum:
    """Store the value of a status, as it is in events and answers, not its name in the code."""
    return Enum(kind, native_enum=False, length=20, values_callable=lambda each: list(each))


class Base(DeclarativeBase):
    metadata = MetaData(naming_convention=NAMES)
    type_annotation_map = {  # noqa: RUF012  so SQLAlchemy wants it
        datetime: UtcDateTime,
        str: Text,
        list[str]: JSON,
        GroupMessageStatus: by_value(GroupMessageStatus),
        ScheduledMessageStatus: by_value(ScheduledMessageStatus),
    }


outbox = Outbox(Base.metadata, table="outbox_events", max_retries=None)  # the worker has a limit


class Owned(Base):
    """Base of everything that an account has. Lists are sorted by age."""

    __abstract__ = True

    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    account_id: Mapped[UUID]
    created_at: Mapped[datetime] = mapped_column(default=now)
    updated_at: Mapped[datetime] = mapped_column(default=now, onupdate=now)

    @declared_attr.directive
    def __table_args__(cls) -> tuple[Index]:  # noqa: N805  so SQLAlchemy calls it
        return (Index(None, "account_id", "created_at", "id"),)


class Channel(Owned):
    """A way to send: a number, a sender's address."""

    __tablename__ = "channels"

    name: Mapped[str]
    kind: Mapped[str]


class Template(Owned):
    """The text of messages."""

    __tablename__ = "templates"

    name: Mapped[str]
    body: Mapped[str]


class ContactGroup(Owned):
    """The addresses of the recipients of messages."""

    __tablename__ = "contact_groups"

    name: Mapped[str]
    contacts: Mapped[list[str]]


class GroupMessage(Owned):
    """A message to all contacts of some groups."""

    __tablename__ = "group_messages"

    channel_id: Mapped[UUID] = mapped_column(ForeignKey(Channel.id))
    template_id: Mapped[UUID] = mapped_column(ForeignKey(Template.id))
    status: Mapped[GroupMessageStatus] = mapped_column(default=GroupMessageStatus.DRAFT)
    contact_group_ids: Mapped[list[str]]
    total_recipients: Mapped[int]
    scheduled_at: Mapped[datetime | None]


class Delivery(Owned):
    """A message to one recipient, as the consumer has written it for the gateway that sends."""

    __tablename__ = "deliveries"

    message_type: Mapped[str]
    message_id: Mapped[UUID] = mapped_column(index=True)
    channel_id: Mapped[UUID] = mapped_column(ForeignKey(Channel.id))
    template_id: Mapped[UUID] = mapped_column(ForeignKey(Template.id))
    recipient: Mapped[str]


class ScheduledMessage(Owned):
    """A message that is sent at a time, or again and again."""

    __tablename__ = "scheduled_messages"

    channel_id: Mapped[UUID] = mapped_column(ForeignKey(Channel.id))
    template_id: Mapped[UUID] = mapped_column(ForeignKey(Template.id))
    send_type: Mapped[str]
    recipient: Mapped[str | None]
    contact_group_ids: Mapped[list[str]]
    status: Mapped[ScheduledMessageStatus] = mapped_column(default=ScheduledMessageStatus.PENDING)
    scheduled_at: Mapped[datetime]
    timezone: Mapped[str]
    is_recurring: Mapped[bool]
    recurrence_rule: Mapped[str | None]
    recurrence_end_at: Mapped[datetime | None]
    next_trigger_at: Mapped[datetime | None]

"""The tables of the application, in the schema `auth`."""

from collections.abc import Callable
from typing import Any

from sqlalchemy import (
    Column,
    DateTime,
    Dialect,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    TypeDecorator,
    Uuid,
)
from sqlalchemy.types import TypeEngine

from family.domain.invitation import InvitationStatus
from family.domain.values import (
    MAX_EMAIL_LENGTH,
    MAX_NAME_LENGTH,
    Email,
    FamilyId,
    FamilyName,
    InvitationId,
    Role,
    UserId,
)

metadata = MetaData(
    schema="auth",
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "ix": "ix_%(table_name)s_%(column_0_name)s",
    },
)

ONE_PENDING_INVITATION = "uq_family_member_invitations_pending"
"""The index by which an address has one invitation of a family that it has not answered."""


class ValueObject(TypeDecorator[Any]):
    """Stores a value object as the one value that it holds."""

    impl = String
    cache_ok = True

    def __init__(self, made_by: Callable[[Any], Any], stored_as: TypeEngine[Any]) -> None:
        super().__init__()
        self.made_by = made_by
        self.stored_as = stored_as

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return dialect.type_descriptor(self.stored_as)

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        return None if value is None else value.value

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        return None if value is None else self.made_by(value)


EMAIL = ValueObject(Email, String(MAX_EMAIL_LENGTH))
FAMILY_ID = ValueObject(FamilyId, Uuid())
FAMILY_NAME = ValueObject(FamilyName, String(MAX_NAME_LENGTH))
INVITATION_ID = ValueObject(InvitationId, Uuid())
ROLE = ValueObject(Role.named, String(16))
STATUS = ValueObject(InvitationStatus, String(16))
USER_ID = ValueObject(UserId, Uuid())


families = Table(
    "families",
    metadata,
    Column("id", FAMILY_ID, primary_key=True),
    Column("name", FAMILY_NAME, nullable=False),
)

family_members = Table(
    "family_members",
    metadata,
    Column("family_id", FAMILY_ID, ForeignKey(families.c.id), primary_key=True),
    Column("user_id", USER_ID, primary_key=True),
    Column("email", EMAIL, nullable=False),
    Column("role", ROLE, nullable=False),
)

family_member_invitations = Table(
    "family_member_invitations",
    metadata,
    Column("id", INVITATION_ID, primary_key=True),
    Column("family_id", FAMILY_ID, ForeignKey(families.c.id), nullable=False, index=True),
    Column("email", EMAIL, nullable=False, index=True),
    Column("role", ROLE, nullable=False),
    Column("invited_by_user_id", USER_ID, nullable=False),
    Column("token_hash", String(64), nullable=False, unique=True),
    Column("expires_at", DateTime(timezone=True), nullable=False),
    Column("sent_at", DateTime(timezone=True), nullable=False),
    Column("resends", Integer, nullable=False),
    Column("status", STATUS, nullable=False),
)

Index(
    ONE_PENDING_INVITATION,
    family_member_invitations.c.family_id,
    family_member_invitations.c.email,
    unique=True,
    postgresql_where=family_member_invitations.c.status == InvitationStatus.PENDING,
)

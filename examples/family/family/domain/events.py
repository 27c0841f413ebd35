"""What happens in families, as the world is told of it."""

from dataclasses import dataclass
from datetime import datetime

from postroom import DomainEvent

from family.domain.values import (
    Email,
    FamilyId,
    InvitationId,
    InvitationToken,
    Role,
    UserId,
)


@dataclass(frozen=True, kw_only=True)
class FamilyEvent(
    DomainEvent, naming="qualified", case="camel", rename={"occurred_at": "occurredOn"}
):
    """Base of the events: named by their full class name, written in camelCase."""

    event_version: int = 1


@dataclass(frozen=True, kw_only=True)
class FamilyMemberInvitedEvent(
    FamilyEvent, aggregate="FamilyMemberInvitation", key="invitation_id"
):
    """Somebody is to get a mail with the token, for the first time or again."""

    invitation_id: InvitationId
    family_id: FamilyId
    email: Email
    role: Role
    token: InvitationToken
    expires_at: datetime
    invited_by_user_id: UserId
    is_resend: bool


@dataclass(frozen=True, kw_only=True)
class FamilyMemberJoinedEvent(FamilyEvent, aggregate="Family", key="family_id"):
    """Somebody has accepted an invitation."""

    family_id: FamilyId
    user_id: UserId
    email: Email
    role: Role

"""The invitation: sent by email, accepted with its token, or expired."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Self

from family.domain.errors import InvitationAcceptedError, InvitationExpiredError
from family.domain.events import FamilyMemberInvitedEvent
from family.domain.values import (
    Email,
    FamilyId,
    InvitationId,
    InvitationToken,
    Role,
    UserId,
)
from postroom import AggregateRoot

LIFETIME = timedelta(days=14)


class InvitationStatus(StrEnum):
    """Where an invitation stands."""

    PENDING = "Pending"
    ACCEPTED = "Accepted"
    EXPIRED = "Expired"


@dataclass(eq=False, kw_only=True)
class FamilyMemberInvitation(AggregateRoot):
    """An invitation into a family. It knows its token only by the hash."""

    id: InvitationId
    family_id: FamilyId
    email: Email
    role: Role
    invited_by_user_id: UserId
    token_hash: str = field(repr=False)
    expires_at: datetime
    status: InvitationStatus = InvitationStatus.PENDING

    @classmethod
    def create_email_invitation(
        cls, family_id: FamilyId, email: Email, role: Role, *, by: UserId, now: datetime
    ) -> Self:
        token = InvitationToken.generate()
        invitation = cls(
            id=InvitationId.new(),
            family_id=family_id,
            email=email,
            role=role,
            invited_by_user_id=by,
            token_hash=token.hash,
            expires_at=now + LIFETIME,
        )
        invitation._announce(token, now, is_resend=False)
        return invitation

    def resend(self, now: datetime) -> None:
        """Send a new token, for another fortnight; the old one is void.

        One that has run out is renewed so. One that another has replaced is not.
        """
        self._check_pending()
        token = InvitationToken.generate()
        self.token_hash, self.expires_at = token.hash, now + LIFETIME
        self._announce(token, now, is_resend=True)

    def accept(self, now: datetime) -> None:
        self._check_pending()
        if self.status_at(now) is InvitationStatus.EXPIRED:
            raise InvitationExpiredError
        self.status = InvitationStatus.ACCEPTED

    def expire(self) -> None:
        """Make room for another invitation of the same address."""
        self._check_pending()
        self.status = InvitationStatus.EXPIRED

    def status_at(self, now: datetime) -> InvitationStatus:
        """Tell where it stands; time alone makes it expire."""
        ran_out = self.status is InvitationStatus.PENDING and now >= self.expires_at
        return InvitationStatus.EXPIRED if ran_out else self.status

    def _check_pending(self) -> None:
        if self.status is InvitationStatus.ACCEPTED:
            raise InvitationAcceptedError
        if self.status is InvitationStatus.EXPIRED:
            raise InvitationExpiredError

    def _announce(self, token: InvitationToken, now: datetime, *, is_resend: bool) -> None:
        self.raise_event(
            FamilyMemberInvitedEvent(
                occurred_at=now,
                invitation_id=self.id,
                family_id=self.family_id,
                email=self.email,
                role=self.role,
                token=token,
                expires_at=self.expires_at,
                invited_by_user_id=self.invited_by_user_id,
                is_resend=is_resend,
            )
        )

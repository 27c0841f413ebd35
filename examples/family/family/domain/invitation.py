"""The invitation: sent by email, accepted with its token, or expired."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Self

from postroom import AggregateRoot

from family.domain.errors import (
    InvitationAcceptedError,
    InvitationExpiredError,
    ResendTooSoonError,
    TooManyInvitationsError,
    TooManyResendsError,
)
from family.domain.events import FamilyMemberInvitedEvent
from family.domain.values import (
    Email,
    FamilyId,
    InvitationId,
    InvitationToken,
    Role,
    UserId,
)

LIFETIME = timedelta(days=14)

# Every invitation and every resend is a mail. These limits keep anybody from flooding an address.
RESEND_INTERVAL = timedelta(minutes=5)
MAX_RESENDS = 3
"""Of one invitation, in all its life."""
MAX_INVITATIONS = 5
"""For one address within INVITATIONS_PERIOD, by all families together."""
INVITATIONS_PERIOD = timedelta(days=1)


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
    sent_at: datetime
    """The last time, if it has been resent."""
    resends: int = 0
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
            sent_at=now,
        )
        invitation._announce(token, now, is_resend=False)
        return invitation

    def resend(self, now: datetime) -> None:
        """Send a new token, for another fortnight; the old one is void.

        One that has run out is renewed so. One that another has replaced is not.
        """
        self._check_pending()
        if self.resends >= MAX_RESENDS:
            raise TooManyResendsError
        if now < self.sent_at + RESEND_INTERVAL:
            raise ResendTooSoonError
        token = InvitationToken.generate()
        self.token_hash, self.expires_at = token.hash, now + LIFETIME
        self.sent_at, self.resends = now, self.resends + 1
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


def check_may_be_sent(recent: int) -> None:
    """Raise TooManyInvitationsError if an address was sent so many in INVITATIONS_PERIOD."""
    if recent >= MAX_INVITATIONS:
        raise TooManyInvitationsError

"""A member of a family invites somebody by email."""

from dataclasses import dataclass
from datetime import datetime

from family.application.ports import (
    Clock,
    FamilyRepository,
    InvitationRepository,
    UnitOfWork,
)
from family.domain.errors import AlreadyInvitedError
from family.domain.invitation import (
    INVITATIONS_PERIOD,
    FamilyMemberInvitation,
    InvitationStatus,
    check_may_be_sent,
)
from family.domain.values import Email, FamilyId, Role, UserId


@dataclass(frozen=True, slots=True, kw_only=True)
class InviteFamilyMemberByEmailCommand:
    family_id: FamilyId
    email: str
    role: Role
    invited_by: UserId


class InviteFamilyMemberByEmailCommandHandler:
    def __init__(
        self,
        families: FamilyRepository,
        invitations: InvitationRepository,
        unit_of_work: UnitOfWork,
        clock: Clock,
    ) -> None:
        self._families = families
        self._invitations = invitations
        self._unit_of_work = unit_of_work
        self._clock = clock

    async def handle(self, command: InviteFamilyMemberByEmailCommand) -> FamilyMemberInvitation:
        now, by = self._clock.now(), command.invited_by
        email, role = Email.parse(command.email), command.role
        family = await self._families.lock(command.family_id)
        family.check_may_invite(role, by=by)
        family.check_is_new(email)
        recent = await self._invitations.lock_and_count(email, since=now - INVITATIONS_PERIOD)
        await self._expire_previous(family.id, email, now)
        check_may_be_sent(recent)
        invitation = FamilyMemberInvitation.create_email_invitation(
            family.id, email, role, by=by, now=now
        )
        await self._invitations.add(invitation)
        await self._unit_of_work.save_changes()
        return invitation

    async def _expire_previous(self, family_id: FamilyId, email: Email, now: datetime) -> None:
        previous = await self._invitations.find_pending(family_id, email)
        if previous is None:
            return
        if previous.status_at(now) is InvitationStatus.PENDING:
            raise AlreadyInvitedError
        previous.expire()

"""A member of a family has an invitation sent once more."""

from dataclasses import dataclass

from family.application.ports import (
    Clock,
    FamilyRepository,
    InvitationRepository,
    UnitOfWork,
)
from family.domain.errors import InvitationNotFoundError
from family.domain.invitation import FamilyMemberInvitation
from family.domain.values import InvitationId, UserId


@dataclass(frozen=True, slots=True, kw_only=True)
class ResendFamilyMemberInvitationCommand:
    invitation_id: InvitationId
    asked_by: UserId


class ResendFamilyMemberInvitationCommandHandler:
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

    async def handle(self, command: ResendFamilyMemberInvitationCommand) -> FamilyMemberInvitation:
        invitation = await self._invitations.get(command.invitation_id)
        family = await self._families.get(invitation.family_id)
        if not family.has_member(command.asked_by):
            raise InvitationNotFoundError
        family.check_may_invite(invitation.role, by=command.asked_by)
        invitation.resend(self._clock.now())
        await self._unit_of_work.save_changes()
        return invitation

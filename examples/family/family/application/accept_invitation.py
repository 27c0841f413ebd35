"""Somebody who got an invitation joins the family."""

from dataclasses import dataclass

from family.application.ports import (
    Clock,
    FamilyRepository,
    InvitationRepository,
    UnitOfWork,
)
from family.domain.family import Family
from family.domain.values import InvitationToken, UserId


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptFamilyMemberInvitationCommand:
    token: InvitationToken
    user_id: UserId


class AcceptFamilyMemberInvitationCommandHandler:
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

    async def handle(self, command: AcceptFamilyMemberInvitationCommand) -> Family:
        now = self._clock.now()
        # The family first, as inviting does: in another order, each could wait for the other.
        family = await self._families.lock(await self._invitations.family_of(command.token))
        invitation = await self._invitations.get_by_token(command.token)
        invitation.accept(now)
        family.join(command.user_id, invitation.email, invitation.role, now=now)
        await self._unit_of_work.save_changes()
        return family

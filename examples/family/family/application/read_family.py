"""A member looks at the family."""

from collections.abc import Sequence
from dataclasses import dataclass

from family.application.ports import FamilyRepository, InvitationRepository
from family.domain.errors import FamilyNotFoundError
from family.domain.family import Family
from family.domain.invitation import FamilyMemberInvitation
from family.domain.values import FamilyId, UserId


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyQuery:
    family_id: FamilyId
    asked_by: UserId


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyView:
    """A family, with everybody who was ever invited."""

    family: Family
    invitations: Sequence[FamilyMemberInvitation]


class FamilyQueryHandler:
    def __init__(self, families: FamilyRepository, invitations: InvitationRepository) -> None:
        self._families = families
        self._invitations = invitations

    async def handle(self, query: FamilyQuery) -> FamilyView:
        family = await self._families.get(query.family_id)
        if not family.has_member(query.asked_by):
            raise FamilyNotFoundError
        return FamilyView(family=family, invitations=await self._invitations.list_of(family.id))

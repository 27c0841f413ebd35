"""What the API shows of families and invitations: no token, ever."""

from datetime import datetime
from typing import Self
from uuid import UUID

import strawberry

from family.application.read_family import FamilyView
from family.domain.family import Member
from family.domain.invitation import FamilyMemberInvitation, InvitationStatus
from family.domain.values import RoleName

strawberry.enum(RoleName, name="Role")
strawberry.enum(InvitationStatus)


@strawberry.type(name="FamilyMember")
class MemberType:
    user_id: UUID
    email: str
    role: RoleName

    @classmethod
    def of(cls, member: Member) -> Self:
        return cls(user_id=member.user_id.value, email=member.email.value, role=member.role.value)


@strawberry.type(name="FamilyMemberInvitation")
class InvitationType:
    id: UUID
    email: str
    role: RoleName
    status: InvitationStatus
    expires_at: datetime
    invited_by_user_id: UUID

    @classmethod
    def of(cls, invitation: FamilyMemberInvitation, now: datetime) -> Self:
        return cls(
            id=invitation.id.value,
            email=invitation.email.value,
            role=invitation.role.value,
            status=invitation.status_at(now),
            expires_at=invitation.expires_at,
            invited_by_user_id=invitation.invited_by_user_id.value,
        )


@strawberry.type(name="Family")
class FamilyType:
    id: UUID
    name: str
    members: list[MemberType]
    invitations: list[InvitationType]

    @classmethod
    def of(cls, view: FamilyView, now: datetime) -> Self:
        return cls(
            id=view.family.id.value,
            name=view.family.name.value,
            members=[MemberType.of(member) for member in view.family.members],
            invitations=[InvitationType.of(each, now) for each in view.invitations],
        )

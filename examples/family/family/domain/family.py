"""The family: its members, and whom they may invite."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Self

from postroom import AggregateRoot

from family.domain.errors import (
    AlreadyMemberError,
    FamilyNotFoundError,
    NotAllowedError,
    RoleNotAllowedError,
)
from family.domain.events import FamilyMemberJoinedEvent
from family.domain.values import Email, FamilyId, FamilyName, Role, RoleName, User, UserId


@dataclass(eq=False, kw_only=True)
class Member:
    """A user within a family."""

    user_id: UserId
    email: Email
    role: Role


@dataclass(eq=False, kw_only=True)
class Family(AggregateRoot):
    """A family and its members."""

    id: FamilyId
    name: FamilyName
    members: list[Member] = field(default_factory=list)

    @classmethod
    def create(cls, name: FamilyName, owner: User) -> Self:
        first = Member(user_id=owner.id, email=owner.email, role=Role(RoleName.OWNER))
        return cls(id=FamilyId.new(), name=name, members=[first])

    def role_of(self, user_id: UserId) -> Role:
        """Tell the role of a member. To anybody else, the family is not there."""
        for member in self.members:
            if member.user_id == user_id:
                return member.role
        raise FamilyNotFoundError

    def has_member(self, user_id: UserId) -> bool:
        return any(member.user_id == user_id for member in self.members)

    def check_may_invite(self, role: Role, *, by: UserId) -> None:
        """Raise what stands against this member inviting anybody with this role."""
        allowed = self.role_of(by).invites
        if not allowed:
            raise NotAllowedError
        if role.value not in allowed:
            raise RoleNotAllowedError

    def check_is_new(self, email: Email) -> None:
        if any(member.email == email for member in self.members):
            raise AlreadyMemberError

    def join(self, user_id: UserId, email: Email, role: Role, *, now: datetime) -> None:
        if self.has_member(user_id):
            raise AlreadyMemberError
        self.members.append(Member(user_id=user_id, email=email, role=role))
        self.raise_event(
            FamilyMemberJoinedEvent(
                occurred_at=now, family_id=self.id, user_id=user_id, email=email, role=role
            )
        )

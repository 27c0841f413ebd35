"""The family by itself: who may invite whom, and who joins."""

from datetime import UTC, datetime

import pytest

from family.domain.errors import (
    AlreadyMemberError,
    FamilyNotFoundError,
    RoleNotAllowedError,
)
from family.domain.events import FamilyMemberJoinedEvent
from family.domain.family import Family
from family.domain.values import (
    Email,
    FamilyName,
    Role,
    User,
    UserId,
)

NOW = datetime(2026, 1, 5, tzinfo=UTC)
JOHN = Email("john@example.com")
MEMBER = Role.named("Member")


def family_of(owner: UserId) -> Family:
    return Family.create(FamilyName("Smith"), User(owner, Email("ann@example.com")))


def test_who_creates_a_family_owns_it() -> None:
    owner = UserId.new()
    assert family_of(owner).role_of(owner) == Role.named("Owner")


def test_a_family_is_not_there_for_strangers() -> None:
    family = family_of(UserId.new())
    with pytest.raises(FamilyNotFoundError):
        family.check_may_invite(MEMBER, by=UserId.new())


def test_an_admin_invites_members_and_no_admins() -> None:
    family, admin = family_of(UserId.new()), UserId.new()
    family.join(admin, JOHN, Role.named("Admin"), now=NOW)
    family.check_may_invite(MEMBER, by=admin)
    with pytest.raises(RoleNotAllowedError):
        family.check_may_invite(Role.named("Admin"), by=admin)


def test_a_members_address_is_not_new() -> None:
    family = family_of(UserId.new())
    family.check_is_new(JOHN)
    with pytest.raises(AlreadyMemberError):
        family.check_is_new(Email("ann@example.com"))


def test_who_joins_is_a_member_and_the_world_is_told() -> None:
    family, user = family_of(UserId.new()), UserId.new()
    family.join(user, JOHN, MEMBER, now=NOW)
    [event] = family.domain_events
    assert event == FamilyMemberJoinedEvent(
        event_id=event.event_id,
        occurred_at=NOW,
        family_id=family.id,
        user_id=user,
        email=JOHN,
        role=MEMBER,
    )
    with pytest.raises(AlreadyMemberError):
        family.join(user, Email("other@example.com"), MEMBER, now=NOW)

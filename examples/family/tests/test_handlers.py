"""The command handlers with fakes around them: what they save, and what they refuse to."""

from datetime import timedelta

import pytest
from world import World

from family.domain.errors import (
    AlreadyMemberError,
    InvalidEmailError,
    InvitationExpiredError,
    InvitationNotFoundError,
    TooManyInvitationsError,
)
from family.domain.events import FamilyMemberInvitedEvent, FamilyMemberJoinedEvent
from family.domain.invitation import (
    INVITATIONS_PERIOD,
    MAX_INVITATIONS,
    RESEND_INTERVAL,
    InvitationStatus,
)
from family.domain.values import Email, Role, UserId

FORTNIGHT = timedelta(days=14)


@pytest.fixture
async def world() -> World:
    world = World()
    await world.create_family()
    return world


async def test_an_invitation_is_saved_together_with_its_event(world: World) -> None:
    invitation = await world.invite("John@Example.com")
    assert world.invitations.all == [invitation]
    assert invitation.email == Email("john@example.com")
    assert invitation.expires_at == world.clock.now() + FORTNIGHT
    [event] = world.unit_of_work.events
    assert isinstance(event, FamilyMemberInvitedEvent)
    assert (event.invitation_id, event.is_resend) == (invitation.id, False)


@pytest.mark.parametrize(
    ("email", "expected"),
    [("nonsense", InvalidEmailError), ("ann@example.com", AlreadyMemberError)],
)
async def test_what_is_refused_is_not_saved(
    world: World, email: str, expected: type[Exception]
) -> None:
    before = world.unit_of_work.saved
    with pytest.raises(expected):
        await world.invite(email)
    assert world.invitations.all == []
    assert world.unit_of_work.saved == before


async def test_an_address_is_invited_again_when_its_invitation_has_run_out(world: World) -> None:
    first = await world.invite()
    old = world.token
    world.clock.advance(FORTNIGHT)
    second = await world.invite()
    assert first.status is InvitationStatus.EXPIRED
    assert second.status is InvitationStatus.PENDING
    with pytest.raises(InvitationExpiredError):
        await world.accept(old, UserId.new())


async def test_an_address_gets_few_invitations_from_all_families_together(world: World) -> None:
    for _ in range(MAX_INVITATIONS):
        await world.create_family()
        await world.invite()
    await world.create_family()
    with pytest.raises(TooManyInvitationsError):
        await world.invite()
    await world.invite("jane@example.com")
    world.clock.advance(INVITATIONS_PERIOD)
    await world.invite()


async def test_a_new_token_replaces_the_one_before(world: World) -> None:
    invitation, john = await world.invite(), UserId.new()
    old = world.token
    world.clock.advance(RESEND_INTERVAL)
    await world.resend(invitation, by=world.ann.id)
    with pytest.raises(InvitationNotFoundError):
        await world.accept(old, john)
    await world.accept(world.token, john)
    assert world.family.role_of(john) == Role.named("Member")


async def test_who_accepts_joins_with_the_role_and_the_address_of_the_invitation(
    world: World,
) -> None:
    await world.invite()
    john = UserId.new()
    await world.accept(world.token, john)
    event = world.unit_of_work.events[-1]
    assert isinstance(event, FamilyMemberJoinedEvent)
    assert (event.user_id, event.email) == (john, Email("john@example.com"))
    view = await world.look(by=john)
    assert [member.user_id for member in view.family.members] == [world.ann.id, john]
    assert [each.status for each in view.invitations] == [InvitationStatus.ACCEPTED]


async def test_a_member_who_accepts_another_invitation_changes_nothing(world: World) -> None:
    await world.invite()
    saved = world.unit_of_work.saved
    with pytest.raises(AlreadyMemberError):
        await world.accept(world.token, world.ann.id)
    assert world.unit_of_work.saved == saved

"""The invitation by itself, and the events it raises; its rules are tested in the project."""

from datetime import UTC, datetime, timedelta

import pytest

from family.domain.events import FamilyMemberInvitedEvent
from family.domain.invitation import RESEND_INTERVAL, FamilyMemberInvitation
from family.domain.values import (
    Email,
    FamilyId,
    Role,
    UserId,
)

NOW = datetime(2026, 1, 5, tzinfo=UTC)
JOHN = Email("john@example.com")
MEMBER = Role.named("Member")


def invitation() -> FamilyMemberInvitation:
    return FamilyMemberInvitation.create_email_invitation(
        FamilyId.new(), JOHN, MEMBER, by=UserId.new(), now=NOW
    )


def invited(invitation: FamilyMemberInvitation) -> FamilyMemberInvitedEvent:
    [event] = invitation.collect_events()
    assert isinstance(event, FamilyMemberInvitedEvent)
    return event


@pytest.mark.requirement("D2")
def test_an_invitation_raises_an_event_that_can_be_listed_collected_and_cleared() -> None:
    made = invitation()
    [event] = made.domain_events
    assert event == FamilyMemberInvitedEvent(
        event_id=event.event_id,
        occurred_at=NOW,
        invitation_id=made.id,
        family_id=made.family_id,
        email=JOHN,
        role=MEMBER,
        token=invited(made).token,
        expires_at=NOW + timedelta(days=14),
        invited_by_user_id=made.invited_by_user_id,
        is_resend=False,
    )
    assert made.domain_events == ()
    made.resend(NOW + RESEND_INTERVAL)
    made.clear_events()
    assert made.collect_events() == []

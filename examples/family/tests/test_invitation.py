"""The invitation by itself: sent, sent again, accepted, expired, and the events it raises."""

from datetime import UTC, datetime, timedelta

import pytest

from family.domain.errors import (
    InvitationAcceptedError,
    InvitationExpiredError,
    ResendTooSoonError,
    TooManyResendsError,
)
from family.domain.events import FamilyMemberInvitedEvent
from family.domain.invitation import (
    MAX_RESENDS,
    RESEND_INTERVAL,
    FamilyMemberInvitation,
    InvitationStatus,
)
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


def test_an_invitation_keeps_the_hash_of_its_token_only() -> None:
    made = invitation()
    token = invited(made).token
    assert made.token_hash == token.hash
    assert token.value not in f"{made!r} {vars(made)}"


def test_an_event_does_not_show_its_token() -> None:
    event = invited(invitation())
    assert event.token.value not in repr(event)


def test_a_resend_brings_a_new_token_for_another_fortnight() -> None:
    made = invitation()
    first = invited(made)
    made.resend(NOW + timedelta(days=3))
    second = invited(made)
    assert second.is_resend
    assert second.token != first.token
    assert made.token_hash == second.token.hash
    assert second.expires_at == made.expires_at == NOW + timedelta(days=17)


def test_a_resend_renews_an_invitation_that_has_run_out() -> None:
    made, later = invitation(), NOW + timedelta(days=30)
    assert made.status_at(later) is InvitationStatus.EXPIRED
    made.resend(later)
    assert made.status_at(later) is InvitationStatus.PENDING
    made.accept(later)


def test_an_invitation_is_not_resent_at_once() -> None:
    made = invitation()
    soon = NOW + RESEND_INTERVAL - timedelta(microseconds=1)
    before = made.token_hash
    with pytest.raises(ResendTooSoonError):
        made.resend(soon)
    assert made.token_hash == before
    assert len(made.domain_events) == 1
    made.resend(NOW + RESEND_INTERVAL)
    with pytest.raises(ResendTooSoonError):
        made.resend(NOW + RESEND_INTERVAL)


def test_an_invitation_is_resent_a_few_times_only() -> None:
    made = invitation()
    for number in range(MAX_RESENDS):
        made.resend(NOW + (number + 1) * RESEND_INTERVAL)
    with pytest.raises(TooManyResendsError):
        made.resend(NOW + timedelta(days=365))
    assert len(made.domain_events) == 1 + MAX_RESENDS


def test_an_invitation_expires_after_14_days_and_not_before() -> None:
    made, end = invitation(), NOW + timedelta(days=14)
    assert made.status_at(end - timedelta(microseconds=1)) is InvitationStatus.PENDING
    assert made.status_at(end) is InvitationStatus.EXPIRED
    with pytest.raises(InvitationExpiredError):
        made.accept(end)


def test_an_accepted_invitation_is_done_with() -> None:
    made = invitation()
    made.accept(NOW)
    with pytest.raises(InvitationAcceptedError):
        made.accept(NOW)
    with pytest.raises(InvitationAcceptedError):
        made.resend(NOW)
    with pytest.raises(InvitationAcceptedError):
        made.expire()
    assert made.status_at(NOW + timedelta(days=30)) is InvitationStatus.ACCEPTED


def test_a_replaced_invitation_is_done_with() -> None:
    made = invitation()
    made.expire()
    for again in (made.accept, made.resend):
        with pytest.raises(InvitationExpiredError):
            again(NOW)

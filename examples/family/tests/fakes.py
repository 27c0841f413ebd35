"""Ports of the application in memory."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from postroom import Event

from family.domain.errors import FamilyNotFoundError, InvitationNotFoundError
from family.domain.family import Family
from family.domain.invitation import FamilyMemberInvitation, InvitationStatus
from family.domain.values import Email, FamilyId, InvitationId, InvitationToken


class FakeClock:
    def __init__(self) -> None:
        self.time = datetime(2026, 1, 5, tzinfo=UTC)

    def now(self) -> datetime:
        return self.time

    def advance(self, span: timedelta) -> None:
        self.time += span


class FakeFamilies:
    def __init__(self) -> None:
        self.all: list[Family] = []

    async def add(self, family: Family) -> None:
        self.all.append(family)

    async def get(self, family_id: FamilyId) -> Family:
        for family in self.all:
            if family.id == family_id:
                return family
        raise FamilyNotFoundError

    async def lock(self, family_id: FamilyId) -> Family:
        return await self.get(family_id)


class FakeInvitations:
    def __init__(self) -> None:
        self.all: list[FamilyMemberInvitation] = []

    async def add(self, invitation: FamilyMemberInvitation) -> None:
        self.all.append(invitation)

    async def get(self, invitation_id: InvitationId) -> FamilyMemberInvitation:
        return self._one([each for each in self.all if each.id == invitation_id])

    async def get_by_token(self, token: InvitationToken) -> FamilyMemberInvitation:
        return self._one([each for each in self.all if each.token_hash == token.hash])

    async def family_of(self, token: InvitationToken) -> FamilyId:
        return (await self.get_by_token(token)).family_id

    async def find_pending(
        self, family_id: FamilyId, email: Email
    ) -> FamilyMemberInvitation | None:
        of_address = (family_id, email, InvitationStatus.PENDING)
        found = [e for e in self.all if (e.family_id, e.email, e.status) == of_address]
        return found[0] if found else None

    async def lock_and_count(self, email: Email, *, since: datetime) -> int:
        return len([each for each in self.all if each.email == email and each.sent_at > since])

    async def list_of(self, family_id: FamilyId) -> Sequence[FamilyMemberInvitation]:
        return [each for each in self.all if each.family_id == family_id]

    def _one(self, found: list[FamilyMemberInvitation]) -> FamilyMemberInvitation:
        if not found:
            raise InvitationNotFoundError
        return found[0]


class FakeUnitOfWork:
    """Takes the events of what is saved, as the session of the application does."""

    def __init__(self, families: FakeFamilies, invitations: FakeInvitations) -> None:
        self.events: list[Event] = []
        self.saved = 0
        self._families, self._invitations = families, invitations

    async def save_changes(self) -> None:
        self.saved += 1
        for aggregate in (*self._families.all, *self._invitations.all):
            self.events += aggregate.collect_events()

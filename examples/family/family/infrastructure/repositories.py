"""The families and invitations of a session, and the unit of work that saves them."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Select, func, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from family.domain.errors import (
    AlreadyInvitedError,
    FamilyNotFoundError,
    InvitationNotFoundError,
)
from family.domain.family import Family
from family.domain.invitation import FamilyMemberInvitation, InvitationStatus
from family.domain.values import Email, FamilyId, InvitationId, InvitationToken
from family.infrastructure.tables import (
    ONE_PENDING_INVITATION,
    families,
    family_member_invitations,
)

Invitations = Select[FamilyMemberInvitation]


class SqlAlchemyUnitOfWork:
    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def save_changes(self) -> None:
        await self._session.commit()


class SqlAlchemyFamilyRepository:
    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def add(self, family: Family) -> None:
        self._session.add(family)

    async def get(self, family_id: FamilyId) -> Family:
        return await self._one(select(Family).where(families.c.id == family_id))

    async def lock(self, family_id: FamilyId) -> Family:
        found = select(Family).where(families.c.id == family_id)
        return await self._one(found.with_for_update(key_share=True))

    async def _one(self, query: Select[Family]) -> Family:
        family = await self._session.scalar(query)
        if family is None:
            raise FamilyNotFoundError
        return family


class SqlAlchemyInvitationRepository:
    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def add(self, invitation: FamilyMemberInvitation) -> None:
        self._session.add(invitation)
        try:
            await self._session.flush()
        except IntegrityError as error:
            if _violated(error) == ONE_PENDING_INVITATION:
                raise AlreadyInvitedError from error
            raise

    async def get(self, invitation_id: InvitationId) -> FamilyMemberInvitation:
        return await self._one(_invitations(id=invitation_id))

    async def get_by_token(self, token: InvitationToken) -> FamilyMemberInvitation:
        return await self._one(_invitations(token_hash=token.hash))

    async def family_of(self, token: InvitationToken) -> FamilyId:
        columns = family_member_invitations.c
        query = select(columns.family_id).where(columns.token_hash == token.hash)
        family_id: FamilyId | None = await self._session.scalar(query)
        if family_id is None:
            raise InvitationNotFoundError
        return family_id

    async def find_pending(
        self, family_id: FamilyId, email: Email
    ) -> FamilyMemberInvitation | None:
        pending = InvitationStatus.PENDING
        query = _invitations(family_id=family_id, email=email, status=pending)
        invitation: FamilyMemberInvitation | None = await self._session.scalar(
            query.with_for_update()
        )
        return invitation

    async def lock_and_count(self, email: Email, *, since: datetime) -> int:
        columns = family_member_invitations.c
        lock = func.pg_advisory_xact_lock(func.hashtextextended(email.value, 0))
        await self._session.execute(select(lock))
        # A statement of its own: it sees what was committed while this one waited for the lock.
        sent = select(func.count()).where(columns.email == email, columns.sent_at > since)
        return await self._session.scalar(sent) or 0

    async def list_of(self, family_id: FamilyId) -> Sequence[FamilyMemberInvitation]:
        query = _invitations(family_id=family_id).order_by(family_member_invitations.c.expires_at)
        return (await self._session.scalars(query)).all()

    async def _one(self, query: Invitations) -> FamilyMemberInvitation:
        # Locked: of two that accept or resend it at once, the second sees what the first did.
        invitation = await self._session.scalar(query.with_for_update())
        if invitation is None:
            raise InvitationNotFoundError
        return invitation


def _invitations(**equal: Any) -> Invitations:
    return select(FamilyMemberInvitation).filter_by(**equal)


def _violated(error: IntegrityError) -> str | None:
    """Name the constraint or index that did not hold."""
    return getattr(getattr(error.orig, "__cause__", None), "constraint_name", None)

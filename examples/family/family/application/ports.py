"""What the handlers need of the world; `infrastructure` provides it."""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol, TypeVar

from family.domain.family import Family
from family.domain.invitation import FamilyMemberInvitation
from family.domain.values import Email, FamilyId, InvitationId, InvitationToken

Command = TypeVar("Command", contravariant=True)
Result = TypeVar("Result", covariant=True)


class CommandHandler(Protocol[Command, Result]):
    """Does what a command asks for, in a transaction of its own."""

    async def handle(self, command: Command) -> Result: ...


class FamilyRepository(Protocol):
    """The families there are."""

    async def add(self, family: Family) -> None: ...

    async def get(self, family_id: FamilyId) -> Family:
        """Give a family, or raise FamilyNotFoundError."""

    async def lock(self, family_id: FamilyId) -> Family:
        """Give a family that nobody else changes before the changes of this one are saved."""


class InvitationRepository(Protocol):
    """The invitations there are. One that is given is nobody else's until changes are saved."""

    async def add(self, invitation: FamilyMemberInvitation) -> None:
        """Add it; raise AlreadyInvitedError if its address got another one meanwhile."""

    async def get(self, invitation_id: InvitationId) -> FamilyMemberInvitation:
        """Give an invitation, or raise InvitationNotFoundError."""

    async def get_by_token(self, token: InvitationToken) -> FamilyMemberInvitation:
        """Give the invitation that has this token now, or raise InvitationNotFoundError."""

    async def family_of(self, token: InvitationToken) -> FamilyId:
        """Tell which family an invitation is of, or raise InvitationNotFoundError."""

    async def find_pending(
        self, family_id: FamilyId, email: Email
    ) -> FamilyMemberInvitation | None:
        """Give the invitation that an address has not answered, even if it has run out."""

    async def lock_and_count(self, email: Email, *, since: datetime) -> int:
        """Count what all families have sent to an address since then.

        Nobody else invites the address before the changes are saved.
        """

    async def list_of(self, family_id: FamilyId) -> Sequence[FamilyMemberInvitation]:
        """Give all of a family, to read."""


class UnitOfWork(Protocol):
    """All changes since it began: saved together, or not at all."""

    async def save_changes(self) -> None: ...


class Clock(Protocol):
    """What time it is."""

    def now(self) -> datetime: ...

"""The application without a database, a broker or HTTP."""

from fakes import FakeClock, FakeFamilies, FakeInvitations, FakeUnitOfWork

from family.application.accept_invitation import (
    AcceptFamilyMemberInvitationCommand,
    AcceptFamilyMemberInvitationCommandHandler,
)
from family.application.create_family import (
    CreateFamilyCommand,
    CreateFamilyCommandHandler,
)
from family.application.invite_member import (
    InviteFamilyMemberByEmailCommand,
    InviteFamilyMemberByEmailCommandHandler,
)
from family.application.read_family import FamilyQuery, FamilyQueryHandler, FamilyView
from family.application.resend_invitation import (
    ResendFamilyMemberInvitationCommand,
    ResendFamilyMemberInvitationCommandHandler,
)
from family.domain.events import FamilyMemberInvitedEvent
from family.domain.family import Family
from family.domain.invitation import FamilyMemberInvitation
from family.domain.values import Email, InvitationToken, Role, User, UserId


class World:
    """An application in memory, with Ann, who has a family."""

    def __init__(self) -> None:
        self.families, self.invitations = FakeFamilies(), FakeInvitations()
        self.unit_of_work = FakeUnitOfWork(self.families, self.invitations)
        self.clock = FakeClock()
        self._ports = (self.families, self.invitations, self.unit_of_work, self.clock)
        self.ann = User(UserId.new(), Email("ann@example.com"))
        self.family: Family

    async def create_family(self) -> None:
        handler = CreateFamilyCommandHandler(self.families, self.unit_of_work)
        self.family = await handler.handle(CreateFamilyCommand(name="Smith", owner=self.ann))

    async def invite(
        self, email: str = "john@example.com", by: UserId | None = None
    ) -> FamilyMemberInvitation:
        command = InviteFamilyMemberByEmailCommand(
            family_id=self.family.id,
            email=email,
            role=Role.named("Member"),
            invited_by=by or self.ann.id,
        )
        return await InviteFamilyMemberByEmailCommandHandler(*self._ports).handle(command)

    async def resend(self, invitation: FamilyMemberInvitation, by: UserId) -> None:
        command = ResendFamilyMemberInvitationCommand(invitation_id=invitation.id, asked_by=by)
        await ResendFamilyMemberInvitationCommandHandler(*self._ports).handle(command)

    async def accept(self, token: InvitationToken, user_id: UserId) -> None:
        command = AcceptFamilyMemberInvitationCommand(token=token, user_id=user_id)
        await AcceptFamilyMemberInvitationCommandHandler(*self._ports).handle(command)

    async def look(self, by: UserId) -> FamilyView:
        query = FamilyQuery(family_id=self.family.id, asked_by=by)
        return await FamilyQueryHandler(self.families, self.invitations).handle(query)

    @property
    def token(self) -> InvitationToken:
        """What was mailed last."""
        event = self.unit_of_work.events[-1]
        assert isinstance(event, FamilyMemberInvitedEvent)
        return event.token

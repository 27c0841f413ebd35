"""The queries and mutations: each makes a command, has it run, and shows the result."""

from typing import Annotated
from uuid import UUID

import strawberry
from strawberry.types import Info

from family.api.context import Context
from family.api.errors import answers_problems
from family.api.limits import document_limits, max_tokens
from family.api.masking import LoggingSchema, MaskedErrors
from family.api.results import (
    AcceptFamilyMemberInvitationPayload,
    AcceptFamilyMemberInvitationResult,
    CreateFamilyPayload,
    CreateFamilyResult,
    FamilyResult,
    InviteFamilyMemberByEmailPayload,
    InviteFamilyMemberByEmailResult,
    ResendFamilyMemberInvitationPayload,
    ResendFamilyMemberInvitationResult,
)
from family.api.types import FamilyType, InvitationType
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
from family.application.read_family import FamilyQuery, FamilyQueryHandler
from family.application.resend_invitation import (
    ResendFamilyMemberInvitationCommand,
    ResendFamilyMemberInvitationCommandHandler,
)
from family.domain import values

RequestInfo = Info[Context, None]


@strawberry.input
class InviteFamilyMemberByEmailInput:
    family_id: UUID
    email: str
    role: values.RoleName


@strawberry.type
class Query:
    @strawberry.field
    @answers_problems
    async def family(
        self, info: RequestInfo, family_id: Annotated[UUID, strawberry.argument(name="id")]
    ) -> FamilyResult:
        """A family, for its members."""
        query = FamilyQuery(family_id=values.FamilyId(family_id), asked_by=info.context.user.id)
        view = await info.context.run(FamilyQueryHandler, query)
        return FamilyType.of(view, await info.context.now())


@strawberry.type
class Mutation:
    @strawberry.mutation
    @answers_problems
    async def create_family(self, info: RequestInfo, name: str) -> CreateFamilyResult:
        """Start a family, as its owner."""
        command = CreateFamilyCommand(name=name, owner=info.context.user)
        family = await info.context.run(CreateFamilyCommandHandler, command)
        return CreateFamilyPayload(family_id=family.id.value)

    @strawberry.mutation
    @answers_problems
    async def invite_family_member_by_email(
        self,
        info: RequestInfo,
        guest: Annotated[InviteFamilyMemberByEmailInput, strawberry.argument(name="input")],
    ) -> InviteFamilyMemberByEmailResult:
        """Invite somebody, who gets a mail with a token that is good for 14 days."""
        command = InviteFamilyMemberByEmailCommand(
            family_id=values.FamilyId(guest.family_id),
            email=guest.email,
            role=values.Role(guest.role),
            invited_by=info.context.user.id,
        )
        invitation = await info.context.run(InviteFamilyMemberByEmailCommandHandler, command)
        shown = InvitationType.of(invitation, await info.context.now())
        return InviteFamilyMemberByEmailPayload(invitation=shown)

    @strawberry.mutation
    @answers_problems
    async def resend_family_member_invitation(
        self, info: RequestInfo, invitation_id: UUID
    ) -> ResendFamilyMemberInvitationResult:
        """Send a new token, good for another 14 days; the old one is void."""
        command = ResendFamilyMemberInvitationCommand(
            invitation_id=values.InvitationId(invitation_id), asked_by=info.context.user.id
        )
        invitation = await info.context.run(ResendFamilyMemberInvitationCommandHandler, command)
        shown = InvitationType.of(invitation, await info.context.now())
        return ResendFamilyMemberInvitationPayload(invitation=shown)

    @strawberry.mutation
    @answers_problems
    async def accept_family_member_invitation(
        self, info: RequestInfo, token: str
    ) -> AcceptFamilyMemberInvitationResult:
        """Join the family that the token came from."""
        command = AcceptFamilyMemberInvitationCommand(
            token=values.InvitationToken(token), user_id=info.context.user.id
        )
        family = await info.context.run(AcceptFamilyMemberInvitationCommandHandler, command)
        return AcceptFamilyMemberInvitationPayload(family_id=family.id.value)


schema = LoggingSchema(
    query=Query, mutation=Mutation, extensions=[MaskedErrors, max_tokens, document_limits]
)

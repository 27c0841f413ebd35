"""What each query and mutation may answer: a payload, or what speaks against it."""

from typing import Annotated
from uuid import UUID

import strawberry

from family.api.errors import (
    AlreadyInvited,
    AlreadyMember,
    FamilyNotFound,
    InvalidEmail,
    InvalidFamilyName,
    InvitationAccepted,
    InvitationExpired,
    InvitationNotFound,
    NotAllowed,
    NotSignedIn,
    ResendTooSoon,
    RoleNotAllowed,
    TooManyInvitations,
    TooManyResends,
)
from family.api.types import FamilyType, InvitationType


@strawberry.type
class CreateFamilyPayload:
    family_id: UUID


@strawberry.type
class InviteFamilyMemberByEmailPayload:
    invitation: InvitationType


@strawberry.type
class ResendFamilyMemberInvitationPayload:
    invitation: InvitationType


@strawberry.type
class AcceptFamilyMemberInvitationPayload:
    family_id: UUID


FamilyResult = Annotated[
    FamilyType | NotSignedIn | FamilyNotFound,
    strawberry.union("FamilyResult"),
]
CreateFamilyResult = Annotated[
    CreateFamilyPayload | NotSignedIn | InvalidFamilyName,
    strawberry.union("CreateFamilyResult"),
]
InviteFamilyMemberByEmailResult = Annotated[
    InviteFamilyMemberByEmailPayload
    | NotSignedIn
    | InvalidEmail
    | FamilyNotFound
    | NotAllowed
    | RoleNotAllowed
    | AlreadyMember
    | AlreadyInvited
    | TooManyInvitations,
    strawberry.union("InviteFamilyMemberByEmailResult"),
]
ResendFamilyMemberInvitationResult = Annotated[
    ResendFamilyMemberInvitationPayload
    | NotSignedIn
    | InvitationNotFound
    | NotAllowed
    | RoleNotAllowed
    | InvitationAccepted
    | InvitationExpired
    | ResendTooSoon
    | TooManyResends,
    strawberry.union("ResendFamilyMemberInvitationResult"),
]
AcceptFamilyMemberInvitationResult = Annotated[
    AcceptFamilyMemberInvitationPayload
    | NotSignedIn
    | InvitationNotFound
    | InvitationAccepted
    | InvitationExpired
    | AlreadyMember,
    strawberry.union("AcceptFamilyMemberInvitationResult"),
]

"""What the API answers when it does not do what it was asked."""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.examples.family.database import Database
from tests.examples.family.users import ACCEPT, CREATE, INVITE, LOOK, RESEND, Someone, address


async def joined(ann: Someone, family: str, new: Someone, role: str, database: Database) -> None:
    invitation = (await ann.invite(family, new.email, role))["invitation"]["id"]
    answer = await new.accept(database.token(invitation))
    assert answer["__typename"] == "AcceptFamilyMemberInvitationPayload"


async def test_a_bad_address_is_refused(ann: Someone, family: str) -> None:
    assert await ann.invite(family, "nonsense") == {
        "__typename": "InvalidEmail",
        "message": "This is not an email address.",
    }


async def test_a_bad_name_is_refused(ann: Someone) -> None:
    assert (await ann.ask(CREATE, name=" "))["__typename"] == "InvalidFamilyName"


async def test_a_family_that_is_not_there_is_not_found(ann: Someone) -> None:
    assert (await ann.invite(str(uuid4())))["__typename"] == "FamilyNotFound"
    assert (await ann.look(str(uuid4())))["__typename"] == "FamilyNotFound"


async def test_a_stranger_does_not_see_a_family(
    ann: Someone, family: str, someone: Callable[[], Someone]
) -> None:
    invitation, stranger = (await ann.invite(family))["invitation"]["id"], someone()
    assert (await stranger.look(family))["__typename"] == "FamilyNotFound"
    assert (await stranger.invite(family))["__typename"] == "FamilyNotFound"
    assert (await stranger.resend(invitation))["__typename"] == "InvitationNotFound"


async def test_who_may_invite_depends_on_the_role(
    ann: Someone, family: str, someone: Callable[[], Someone], database: Database
) -> None:
    admin, child = someone(), someone()
    await joined(ann, family, admin, "ADMIN", database)
    await joined(ann, family, child, "CHILD", database)
    pending = (await ann.invite(family))["invitation"]["id"]
    assert (await ann.invite(family, role="OWNER"))["__typename"] == "RoleNotAllowed"
    assert (await admin.invite(family, role="ADMIN"))["__typename"] == "RoleNotAllowed"
    assert (await admin.invite(family))["__typename"] == "InviteFamilyMemberByEmailPayload"
    assert (await child.invite(family))["__typename"] == "NotAllowed"
    assert (await child.resend(pending))["__typename"] == "NotAllowed"


async def test_a_member_is_not_invited(ann: Someone, family: str) -> None:
    answer = await ann.invite(family, ann.email.upper())
    assert answer["__typename"] == "AlreadyMember"


async def test_a_member_does_not_join_again(ann: Someone, family: str, database: Database) -> None:
    invitation = (await ann.invite(family))["invitation"]["id"]
    answer = await ann.accept(database.token(invitation))
    assert answer["__typename"] == "AlreadyMember"
    assert database.invitations(family)[0]["status"] == "Pending"


async def test_an_address_is_not_invited_twice(ann: Someone, family: str) -> None:
    email = address()
    await ann.invite(family, email)
    assert (await ann.invite(family, email))["__typename"] == "AlreadyInvited"
    other = await ann.create_family()
    answer = await ann.invite(other, email)
    assert answer["__typename"] == "InviteFamilyMemberByEmailPayload"


async def test_an_expired_invitation_is_not_accepted(
    ann: Someone, family: str, someone: Callable[[], Someone], database: Database
) -> None:
    invitation = (await ann.invite(family))["invitation"]["id"]
    database.expire(invitation)
    answer = await someone().accept(database.token(invitation))
    assert answer["__typename"] == "InvitationExpired"
    assert (await ann.look(family))["invitations"][0]["status"] == "EXPIRED"


async def test_an_accepted_invitation_is_done_with(
    ann: Someone, family: str, someone: Callable[[], Someone], database: Database
) -> None:
    invitation = (await ann.invite(family))["invitation"]["id"]
    token = database.token(invitation)
    await someone().accept(token)
    assert (await someone().accept(token))["__typename"] == "InvitationAccepted"
    assert (await ann.resend(invitation))["__typename"] == "InvitationAccepted"


async def test_what_was_never_sent_is_not_found(ann: Someone) -> None:
    assert (await ann.accept("nonsense"))["__typename"] == "InvitationNotFound"
    assert (await ann.resend(str(uuid4())))["__typename"] == "InvitationNotFound"


@pytest.mark.parametrize(
    ("document", "variables"),
    [
        (CREATE, {"name": "Smith"}),
        (INVITE, {"familyId": str(uuid4()), "email": "j@example.com", "role": "CHILD"}),
        (RESEND, {"invitationId": str(uuid4())}),
        (ACCEPT, {"token": "x"}),
        (LOOK, {"id": str(uuid4())}),
    ],
    ids=["create", "invite", "resend", "accept", "look"],
)
async def test_nobody_does_anything_without_signing_in(
    ann: Someone, document: str, variables: dict[str, Any]
) -> None:
    for headers in (
        {},
        {"X-User-Id": ann.id},
        {"X-User-Email": ann.email},
        {"X-User-Id": "1", "X-User-Email": ann.email},
        {"X-User-Id": ann.id, "X-User-Email": "ann"},
    ):
        ann.headers = headers
        answer = await ann.ask(document, **variables)
        assert answer == {"__typename": "NotSignedIn", "message": "Sign in first."}


@pytest.mark.parametrize(
    "body",
    [b"null", b"12", b'"text"', b"[]", b'{"a": "\xff"}', b"[" * 100_000, b"1" * 6_000, b""],
    ids=["null", "number", "text", "list", "no UTF-8", "depth", "digits", "nothing"],
)
async def test_a_body_that_is_no_object_is_a_bad_request(
    http: httpx.AsyncClient, body: bytes
) -> None:
    headers = {"Content-Type": "application/json"}
    assert (await http.post("/graphql", content=body, headers=headers)).status_code == 400

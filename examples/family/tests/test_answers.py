"""What the API answers when it does not do what it was asked."""

from collections.abc import Callable
from uuid import uuid4

import httpx
import pytest
from conftest import token_of
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine
from users import ACCEPT, CREATE, INVITE, LOOK, RESEND, Answer, Someone, address

FAULT = (
    "CREATE FUNCTION auth.refuse() RETURNS trigger LANGUAGE plpgsql"
    " AS 'BEGIN RAISE EXCEPTION ''out of order''; END'",
    "CREATE TRIGGER refuse BEFORE INSERT ON auth.outbox_events EXECUTE FUNCTION auth.refuse()",
)


def kind(answer: Answer) -> str:
    return str(answer["__typename"])


async def test_members_see_each_other_and_the_invitations(ann: Someone, family: str) -> None:
    email = address()
    shown = (await ann.invite(family, email.upper(), role="CHILD"))["invitation"]
    assert shown == {"id": shown["id"], "email": email, "role": "CHILD", "status": "PENDING"}
    assert await ann.look(family) == {
        "__typename": "Family",
        "name": "Smith",
        "members": [{"userId": ann.id, "email": ann.email, "role": "OWNER"}],
        "invitations": [shown],
    }


async def test_each_rule_has_an_answer(
    ann: Someone, family: str, someone: Callable[[], Someone], engine: AsyncEngine
) -> None:
    child, stranger = someone(), someone()
    invitation = (await ann.invite(family, role="CHILD"))["invitation"]["id"]
    token = await token_of(engine, invitation)
    assert kind(await ann.accept(token)) == "AlreadyMember"
    await child.accept(token)
    assert kind(await stranger.accept(token)) == "InvitationAccepted"
    assert kind(await ann.resend(invitation)) == "InvitationAccepted"
    assert kind(await ann.ask(CREATE, name=" ")) == "InvalidFamilyName"
    assert kind(await ann.accept("nonsense")) == "InvitationNotFound"
    assert kind(await ann.invite(family, ann.email.upper())) == "AlreadyMember"
    assert kind(await ann.invite(family, role="OWNER")) == "RoleNotAllowed"
    assert kind(await child.invite(family)) == "NotAllowed"
    assert kind(await child.resend(await ann.invited(family))) == "NotAllowed"
    assert kind(await stranger.look(family)) == "FamilyNotFound"
    assert kind(await stranger.invite(family)) == "FamilyNotFound"
    assert kind(await stranger.resend(invitation)) == "InvitationNotFound"


async def test_an_expired_invitation_is_not_accepted(
    ann: Someone, family: str, someone: Callable[[], Someone], engine: AsyncEngine
) -> None:
    invitation = await ann.invited(family)
    expire = "UPDATE auth.family_member_invitations SET expires_at = now() WHERE id = :id"
    async with engine.begin() as connection:
        await connection.execute(text(expire), {"id": invitation})
    answer = await someone().accept(await token_of(engine, invitation))
    assert kind(answer) == "InvitationExpired"


@pytest.mark.parametrize(
    ("document", "variables"),
    [
        (CREATE, {"name": "Smith"}),
        (INVITE, {"family": str(uuid4()), "email": "j@example.com", "role": "CHILD"}),
        (RESEND, {"invitation": str(uuid4())}),
        (ACCEPT, {"token": "x"}),
        (LOOK, {"family": str(uuid4())}),
    ],
    ids=["create", "invite", "resend", "accept", "look"],
)
async def test_nobody_does_anything_without_signing_in(
    ann: Someone, document: str, variables: dict[str, str]
) -> None:
    for headers in ({"X-User-Id": ann.id}, {"X-User-Id": "1", "X-User-Email": ann.email}):
        ann.headers = headers
        assert kind(await ann.ask(document, **variables)) == "NotSignedIn"


@pytest.mark.parametrize("field", ["token", "tokenHash"])
async def test_the_api_knows_no_token(ann: Someone, family: str, field: str) -> None:
    document = INVITE.replace("{ id", f"{{ {field} id")
    response = await ann.post(document, family=family, email=address(), role="CHILD")
    assert "Cannot query field" in response.text


@pytest.mark.parametrize("body", [b"null", b'{"a": "\xff"}', b"[" * 100_000, b""])
async def test_a_body_that_is_no_object_is_a_bad_request(
    http: httpx.AsyncClient, body: bytes
) -> None:
    headers = {"Content-Type": "application/json"}
    assert (await http.post("/graphql", content=body, headers=headers)).status_code == 400


async def test_an_unexpected_error_leaves_nothing_and_is_told_to_the_log_only(
    ann: Someone, family: str, engine: AsyncEngine, caplog: pytest.LogCaptureFixture
) -> None:
    email = address()
    async with engine.begin() as connection:
        for statement in FAULT:
            await connection.execute(text(statement))
    try:
        response = await ann.post(INVITE, family=family, email=email, role="CHILD")
    finally:
        async with engine.begin() as connection:
            await connection.execute(text("DROP FUNCTION auth.refuse CASCADE"))
    [error] = response.json()["errors"]
    assert (error["message"], error["extensions"]) == ("internal error", {"code": "INTERNAL"})
    assert (await ann.look(family))["invitations"] == []
    assert "unexpected error at answer" in caplog.text
    assert "out of order" in caplog.text
    assert email not in caplog.text

"""What becomes of an invitation later: accepted, sent again, expired, made anew."""

import json
from collections.abc import Callable

from tests.examples.family.database import Database
from tests.examples.family.mailbox import JOINED, Mailbox
from tests.examples.family.users import Someone, address


async def test_who_accepts_is_a_member_and_the_world_is_told(
    ann: Someone, family: str, someone: Callable[[], Someone], mail: Mailbox, database: Database
) -> None:
    john = someone()
    await ann.invite(family, john.email, role="ADMIN")
    [invited] = await mail.payloads(family)
    answer = await john.accept(invited["token"]["value"])
    assert answer == {"__typename": "AcceptFamilyMemberInvitationPayload", "familyId": family}
    [_, message] = await mail.messages(family, 2)
    payload = json.loads(message.body)
    assert message.routing_key == JOINED
    assert payload == {
        "eventId": message.message_id,
        "occurredOn": payload["occurredOn"],
        "eventVersion": 1,
        "familyId": {"value": family},
        "userId": {"value": john.id},
        "email": {"value": john.email},
        "role": {"value": "Admin"},
    }
    assert database.records(family)[1]["aggregate_type"] == "Family"
    seen = await john.look(family)
    assert {"userId": john.id, "email": john.email, "role": "ADMIN"} in seen["members"]
    assert [each["status"] for each in seen["invitations"]] == ["ACCEPTED"]


async def test_a_resend_is_an_event_of_its_own_with_a_new_token(
    ann: Someone, family: str, someone: Callable[[], Someone], mail: Mailbox, database: Database
) -> None:
    first = (await ann.invite(family))["invitation"]
    database.age(first["id"], days=1)
    second = (await ann.resend(first["id"]))["invitation"]
    assert second == first | {"expiresAt": second["expiresAt"]}
    assert second["expiresAt"] > first["expiresAt"]
    before, after = await mail.payloads(family, 2)
    assert (before["isResend"], after["isResend"]) == (False, True)
    assert before["invitationId"] == after["invitationId"]
    assert after["expiresAt"] == second["expiresAt"].replace("+00:00", "Z")
    john = someone()
    old = await john.accept(before["token"]["value"])
    assert old["__typename"] == "InvitationNotFound"
    new = await john.accept(after["token"]["value"])
    assert new["__typename"] == "AcceptFamilyMemberInvitationPayload"


async def test_an_address_is_invited_again_once_its_invitation_has_expired(
    ann: Someone, family: str, database: Database, mail: Mailbox
) -> None:
    email = address()
    first = (await ann.invite(family, email))["invitation"]["id"]
    database.expire(first)
    second = await ann.invite(family, email)
    assert second["__typename"] == "InviteFamilyMemberByEmailPayload"
    status = {each["id"]: each["status"] for each in (await ann.look(family))["invitations"]}
    assert status == {first: "EXPIRED", second["invitation"]["id"]: "PENDING"}
    assert [each["isResend"] for each in await mail.payloads(family, 2)] == [False, False]
    assert (await ann.resend(first))["__typename"] == "InvitationExpired"


async def test_an_expired_invitation_is_renewed_by_a_resend(
    ann: Someone, family: str, someone: Callable[[], Someone], database: Database
) -> None:
    invitation = (await ann.invite(family))["invitation"]["id"]
    database.expire(invitation)
    answer = await ann.resend(invitation)
    assert answer["invitation"]["status"] == "PENDING"
    joined = await someone().accept(database.token(invitation))
    assert joined["__typename"] == "AcceptFamilyMemberInvitationPayload"

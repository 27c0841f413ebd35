"""From a GraphQL request to the message that a consumer gets, and what is written on the way."""

import json
from datetime import datetime, timedelta
from uuid import UUID

import pytest

from tests.examples.family.database import Database
from tests.examples.family.mailbox import EXCHANGE, INVITED, Mailbox
from tests.examples.family.users import Someone, address
from tests.support.broker import Broker
from tests.support.waiting import eventually


@pytest.mark.requirement("D1")
@pytest.mark.requirement("D8")
@pytest.mark.requirement("D11")
async def test_an_invitation_arrives_in_the_queue_for_invitations(
    ann: Someone, family: str, broker: Broker, mail: Mailbox
) -> None:
    email = address()
    answer = await ann.invite(family, email)
    [message] = await Mailbox(broker, "family-hub.invitations").messages(family)
    assert (message.exchange, message.routing_key) == (EXCHANGE, INVITED)
    assert (message.content_type, message.delivery_mode) == ("application/json", 2)
    payload, invitation = json.loads(message.body), answer["invitation"]
    assert payload == {
        "eventId": message.message_id,
        "occurredOn": payload["occurredOn"],
        "eventVersion": 1,
        "invitationId": {"value": invitation["id"]},
        "familyId": {"value": family},
        "email": {"value": email},
        "role": {"value": "Member"},
        "token": {"value": payload["token"]["value"]},
        "expiresAt": invitation["expiresAt"].replace("+00:00", "Z"),
        "invitedByUserId": {"value": ann.id},
        "isResend": False,
    }
    happened = datetime.fromisoformat(payload["occurredOn"])
    assert datetime.fromisoformat(payload["expiresAt"]) - happened == timedelta(days=14)
    assert payload["occurredOn"].endswith("Z")
    assert str(UUID(payload["eventId"])) == message.message_id


@pytest.mark.requirement("D3")
@pytest.mark.requirement("D4")
@pytest.mark.requirement("D9")
@pytest.mark.requirement("D10")
async def test_an_invitation_is_recorded_and_marked_once_it_is_published(
    ann: Someone, family: str, database: Database, mail: Mailbox
) -> None:
    invitation = (await ann.invite(family))["invitation"]["id"]
    [record] = database.records(family)
    assert record["event_type"] == INVITED
    assert record["event_version"] == 1
    assert (record["aggregate_type"], record["aggregate_id"]) == (
        "FamilyMemberInvitation",
        invitation,
    )
    assert record["max_retries"] is None
    [payload] = await mail.payloads(family)
    assert payload == record["payload"]
    await eventually(lambda: database.records(family)[0]["status"] == "published")
    [record] = database.records(family)
    assert record["published_at"] >= record["created_at"]
    assert record["updated_at"] >= record["created_at"]
    assert (record["retry_count"], record["error_message"]) == (0, None)


@pytest.mark.requirement("D7")
@pytest.mark.requirement("D9")
async def test_an_invitation_that_the_broker_refuses_is_tried_until_it_is_taken(
    ann: Someone, family: str, database: Database, broker: Broker, mail: Mailbox
) -> None:
    name = broker.name("full")
    full = broker.queue(name, INVITED, exchange=EXCHANGE, max_length=0, overflow="reject-publish")
    await ann.invite(family)
    await eventually(lambda: database.records(family)[0]["retry_count"] == 2)
    [record] = database.records(family)
    assert (record["status"], record["published_at"]) == ("pending", None)
    assert record["error_message"]
    assert record["due_at"] - record["updated_at"] == timedelta(seconds=1)

    broker.delete_queue(full)
    await eventually(lambda: database.records(family)[0]["status"] == "published")
    assert database.records(family)[0]["error_message"] is None
    assert await mail.messages(family)


async def test_an_invitation_is_shown_to_whoever_made_it(ann: Someone, family: str) -> None:
    email = address()
    answer = await ann.invite(family, email.upper(), role="CHILD")
    assert answer["__typename"] == "InviteFamilyMemberByEmailPayload"
    shown = answer["invitation"]
    assert shown == {
        "id": shown["id"],
        "email": email,
        "role": "CHILD",
        "status": "PENDING",
        "expiresAt": shown["expiresAt"],
        "invitedByUserId": ann.id,
    }
    assert await ann.look(family) == {
        "__typename": "Family",
        "id": family,
        "name": "Smith",
        "members": [{"userId": ann.id, "email": ann.email, "role": "OWNER"}],
        "invitations": [shown],
    }


async def test_a_document_may_hold_several_commands_each_a_transaction_of_its_own(
    ann: Someone, family: str, database: Database
) -> None:
    field = 'inviteFamilyMemberByEmail(input: {familyId: "%s", email: "%s", role: CHILD})'
    emails = [address(), "nonsense", address()]
    fields = [
        f"a{number}: {field % (family, email)} {{ __typename }}"
        for number, email in enumerate(emails)
    ]
    response = await ann.post(f"mutation {{ {' '.join(fields)} }}")
    assert [each["__typename"] for each in response.json()["data"].values()] == [
        "InviteFamilyMemberByEmailPayload",
        "InvalidEmail",
        "InviteFamilyMemberByEmailPayload",
    ]
    assert len(database.records(family)) == 2

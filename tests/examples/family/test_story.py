"""From a GraphQL request, through an outage of the broker, to the message that a consumer gets."""

import asyncio
import json
from datetime import datetime, timedelta
from typing import Any

import httpx
import pytest

from examples.family.tests.users import Answer, Someone
from tests.examples.applications import proxied
from tests.examples.family.conftest import start_server
from tests.examples.family.database import Database, Record
from tests.support.broker import Broker, Received
from tests.support.command import Commands
from tests.support.proxy import How
from tests.support.waiting import eventually

INVITED = "family.domain.events.FamilyMemberInvitedEvent"
TABLES = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'auth'"


@pytest.mark.requirement("D1")
@pytest.mark.requirement("D4")
@pytest.mark.requirement("D8")
@pytest.mark.requirement("D9")
@pytest.mark.requirement("D10")
@pytest.mark.requirement("D11")
async def test_an_invitation_waits_for_the_broker_and_arrives_in_the_queue_for_invitations(
    commands: Commands, database_url: str, database: Database, rabbitmq_url: str, broker: Broker
) -> None:
    async with proxied(rabbitmq_url) as (proxy, url):
        proxy.go_away(How.RST)
        server = await asyncio.to_thread(start_server, commands, database_url, url)
        async with server.client() as http:
            ann, john = Someone(http), Someone(http)
            family = await ann.create_family()
            invitation = (await ann.invite(family))["invitation"]
            await eventually(lambda: relay_is(http, "degraded"))
            [record] = database.records()
            assert (record.status, record.published_at, record.retry_count) == ("pending", None, 0)

            proxy.come_back()
            await eventually(lambda: broker.exists(queue="family-hub.invitations"))
            [message] = await broker.consume("family-hub.invitations", 1)
            await eventually(database.all_is_published)
            await eventually(lambda: relay_is(http, "ok"))
            payload = json.loads(message.body)
            assert payload == payload_of(invitation, family, ann, message)
            assert_is_published(database.records()[0], invitation, message)

            token = payload["token"]["value"]
            wrong = await ann.post(f'mutation {{ accept(token: "{token}") {{ x }} }}')
            joined = await john.accept(token)
            assert joined == {"__typename": "AcceptFamilyMemberInvitationPayload"}
            await broker.consume("family-hub.members", 1)
    log = server.command.out + server.command.err
    assert "INSERT INTO auth.family_member_invitations" in log  # there is something to look at
    assert token not in log + wrong.text
    holders = [table for [table] in database.rows(TABLES) if holds(database, table, token)]
    assert holders == ["outbox_events"]


async def relay_is(http: httpx.AsyncClient, status: str) -> bool:
    """Ask for the status of the relay; whatever it is, the application is ready."""
    ready = await http.get("/health/ready")
    assert (ready.status_code, ready.json()["status"]) == (200, "ok")
    return bool(ready.json()["relay"]["status"] == status)


def payload_of(invitation: Answer, family: str, ann: Someone, message: Received) -> dict[str, Any]:
    """Give what a message says of an invitation."""
    sent = json.loads(message.body)
    expires_at = datetime.fromisoformat(sent["occurredOn"]) + timedelta(days=14)
    return {
        "eventId": message.message_id,
        "occurredOn": sent["occurredOn"],
        "eventVersion": 1,
        "invitationId": {"value": invitation["id"]},
        "familyId": {"value": family},
        "email": {"value": invitation["email"]},
        "role": {"value": "Member"},
        "token": {"value": sent["token"]["value"]},
        "expiresAt": expires_at.isoformat().replace("+00:00", "Z"),
        "invitedByUserId": {"value": ann.id},
        "isResend": False,
    }


def assert_is_published(record: Record, invitation: Answer, message: Received) -> None:
    """Compare a record with its message, and see it marked."""
    assert (message.exchange, message.routing_key) == ("family-hub.events", INVITED)
    assert (message.content_type, message.delivery_mode) == ("application/json", 2)
    assert (record.event_type, record.event_version) == (INVITED, 1)
    assert record.aggregate_type == "FamilyMemberInvitation"
    assert record.aggregate_id == invitation["id"]
    assert record.payload == json.loads(message.body)
    assert record.published_at is not None
    assert min(record.published_at, record.updated_at) >= record.created_at
    assert (record.retry_count, record.max_retries, record.error_message) == (0, None, None)


def holds(database: Database, table: str, text: str) -> bool:
    """Tell whether a text is anywhere in a table."""
    return bool(
        database.rows(f"SELECT 1 FROM auth.{table} AS t WHERE t::text LIKE %s", f"%{text}%")
    )

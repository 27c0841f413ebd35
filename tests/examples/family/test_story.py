"""From a GraphQL request, through an outage of the broker, to the message that a consumer gets."""

import asyncio
import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import httpx
import pytest

from examples.family.tests.users import Answer, Someone
from tests.examples.applications import own_database, proxied
from tests.examples.other_connection import OtherConnection
from tests.examples.server import Server, serve
from tests.support.broker import Broker, Received
from tests.support.command import Commands
from tests.support.proxy import How
from tests.support.waiting import eventually

INVITED = "family.domain.events.FamilyMemberInvitedEvent"
LOG_EVERYTHING = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {"stderr": {"class": "logging.StreamHandler"}},
    "root": {"level": "DEBUG", "handlers": ["stderr"]},
    "loggers": {"sqlalchemy.engine": {"level": "INFO"}},
}
TABLES = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'auth'"


class Database(OtherConnection):
    """The application's."""

    def records(self) -> list[dict[str, Any]]:
        """Give all records, in their order."""
        query = "SELECT row_to_json(record) FROM auth.outbox_events AS record ORDER BY position"
        return [record for [record] in self.rows(query)]

    def all_is_published(self) -> bool:
        return {record["status"] for record in self.records()} == {"published"}

    def holders(self, text: str) -> list[str]:
        """Give the tables that hold a text anywhere."""
        like = "SELECT 1 FROM auth.{} AS t WHERE t::text LIKE %s"
        tables = [table for [table] in self.rows(TABLES)]
        return [table for table in tables if self.rows(like.format(table), f"%{text}%")]


@pytest.fixture
def database_url() -> Iterator[str]:
    with own_database("family") as url:
        yield url


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    with Database(database_url) as database:
        yield database


def start_server(commands: Commands, database_url: str, rabbitmq_url: str) -> Server:
    """Start a server, which logs all that it can."""
    config = commands.write("logging.json", json.dumps(LOG_EVERYTHING))
    options = ("--log-config", str(config), "--log-level", "trace")
    urls = {"DATABASE_URL": database_url, "RABBITMQ_URL": rabbitmq_url}
    return serve(commands, "family.main:create_app", *options, **urls)


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
            assert (record["status"], record["retry_count"]) == ("pending", 0)
            assert record["published_at"] is None

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
    assert database.holders(token) == ["outbox_events"]


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


def assert_is_published(record: dict[str, Any], invitation: Answer, message: Received) -> None:
    """Compare a record with its message, and see it marked."""
    assert (message.exchange, message.routing_key) == ("family-hub.events", INVITED)
    assert (message.content_type, message.delivery_mode) == ("application/json", 2)
    created, updated, published = (
        datetime.fromisoformat(record[f"{each}_at"]) for each in ("created", "updated", "published")
    )
    assert min(updated, published) >= created
    expected = {
        "event_type": INVITED,
        "event_version": 1,
        "aggregate_type": "FamilyMemberInvitation",
        "aggregate_id": invitation["id"],
        "payload": json.loads(message.body),
        "status": "published",
        "retry_count": 0,
        "max_retries": None,
        "error_message": None,
    }
    assert {name: record[name] for name in expected} == expected

"""A deployment in the middle of everything: nothing that was answered is lost."""

import asyncio
import json
import signal

import httpx
import pytest

from examples.family.tests.users import Someone
from tests.examples.family.conftest import start_server
from tests.examples.family.database import Database
from tests.support.broker import Broker
from tests.support.command import Commands
from tests.support.waiting import eventually

pytestmark = pytest.mark.extended
WRITERS = 6


async def invite_until_it_stops(ann: Someone, family: str, answered: list[str]) -> None:
    try:
        while True:
            answered.append(await ann.invited(family))
    except httpx.TransportError:
        pass


async def test_what_was_answered_before_sigterm_is_published_after_a_restart(
    commands: Commands, database_url: str, database: Database, rabbitmq_url: str, broker: Broker
) -> None:
    server = start_server(commands, database_url, rabbitmq_url)
    answered: list[str] = []
    async with server.client() as http:
        ann = Someone(http)
        family = await ann.create_family()
        writers = [invite_until_it_stops(ann, family, answered) for _ in range(WRITERS)]
        writing = asyncio.gather(*writers)
        await eventually(lambda: len(answered) >= 30)
        # uvicorn ends in good order, and then as the signal would have ended it.
        assert await server.command.stop() == -signal.SIGTERM
        await writing
    assert "Application shutdown complete" in server.command.err
    assert "Traceback" not in server.command.err

    saved = database.invitations()
    assert set(answered) <= saved
    assert sorted(saved) == sorted(record.aggregate_id for record in database.records())
    start_server(commands, database_url, rabbitmq_url)
    await eventually(database.all_is_published)
    messages = broker.take("family-hub.invitations")
    assert {json.loads(each.body)["invitationId"]["value"] for each in messages} == saved

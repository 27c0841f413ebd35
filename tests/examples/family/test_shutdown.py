"""A deployment in the middle of everything: nothing that was answered is lost."""

import asyncio
import signal

import httpx

from tests.examples.family.conftest import APP
from tests.examples.family.database import Database
from tests.examples.family.mailbox import mailbox
from tests.examples.family.users import Someone
from tests.support.broker import Broker
from tests.support.command import Commands
from tests.support.server import serve
from tests.support.waiting import eventually

WRITERS = 6


async def invite_until_it_stops(ann: Someone, family: str, answered: list[str]) -> None:
    try:
        while True:
            answered.append((await ann.invite(family))["invitation"]["id"])
    except httpx.TransportError:
        pass


async def test_what_was_answered_before_sigterm_is_published_after_a_restart(
    commands: Commands,
    own_database_url: str,
    own_database: Database,
    rabbitmq_url: str,
    broker: Broker,
) -> None:
    urls = {"DATABASE_URL": own_database_url, "RABBITMQ_URL": rabbitmq_url}
    server = serve(commands, APP, **urls)
    answered: list[str] = []
    async with server.client() as http:
        ann = Someone(http)
        family = await ann.create_family()
        mail = await mailbox(broker)
        writers = [
            asyncio.create_task(invite_until_it_stops(ann, family, answered))
            for _ in range(WRITERS)
        ]
        await eventually(lambda: len(answered) >= 30)
        # uvicorn ends in good order, and then as the signal would have ended it.
        assert await server.command.stop() == -signal.SIGTERM
        await asyncio.gather(*writers)
    assert "Application shutdown complete" in server.command.err
    assert "Traceback" not in server.command.err

    saved = {str(row["id"]) for row in own_database.invitations(family)}
    records = [record["aggregate_id"] for record in own_database.records(family)]
    assert set(answered) <= saved == set(records)
    assert len(records) == len(saved)
    serve(commands, APP, **urls)
    payloads = await mail.payloads(family, len(saved))
    assert {payload["invitationId"]["value"] for payload in payloads} == saved
    await eventually(
        lambda: {each["status"] for each in own_database.records(family)} == {"published"}
    )

"""From a request to the message that a consumer gets."""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from aio_pika.abc import AbstractChannel, AbstractIncomingMessage
from conftest import PATIENCE, PROJECT, eventually, serving
from postroom.testing import RecordingPublisher
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine
from users import Someone, address

from family.settings import Settings

INVITED = "family.domain.events.FamilyMemberInvitedEvent"
JOINED = "family.domain.events.FamilyMemberJoinedEvent"
POSTROOM = Path(sys.executable).with_name("postroom")


async def is_published(engine: AsyncEngine, email: str) -> bool:
    query = "SELECT status FROM auth.outbox_events WHERE payload #>> '{email,value}' = :email"
    async with engine.connect() as connection:
        return bool(await connection.scalar(text(query), {"email": email}) == "published")


async def mail_to(email: str, channel: AbstractChannel, queue: str) -> AbstractIncomingMessage:
    """Wait for the message of an address, in a queue that exists."""
    async with (await channel.get_queue(queue)).iterator(timeout=PATIENCE) as messages:
        async for message in messages:
            await message.ack()
            if email in message.body.decode():
                return message
    raise TimeoutError


async def test_an_invitation_is_announced_and_accepted_with_its_token(
    ann: Someone,
    family: str,
    someone: Callable[[], Someone],
    delivered: Callable[[], Awaitable[Any]],
    publisher: RecordingPublisher,
) -> None:
    email = address()
    await ann.invite(family, email)
    await delivered()
    invited = publisher.assert_published(INVITED, email={"value": email}, isResend=False)
    assert invited.payload["familyId"] == {"value": family}
    john = someone()
    answer = await john.accept(invited.payload["token"]["value"])
    assert answer["__typename"] == "AcceptFamilyMemberInvitationPayload"
    await delivered()
    publisher.assert_published(
        JOINED, email={"value": email}, userId={"value": john.headers["X-User-Id"]}
    )


async def test_the_application_publishes_to_rabbitmq(
    publishing: Settings, channel: AbstractChannel, engine: AsyncEngine
) -> None:
    async with serving(publishing) as http:
        ann, email = Someone(http), address()
        await ann.invite(await ann.create_family(), email)
        await eventually(lambda: is_published(engine, email))
    message = await mail_to(email, channel, f"{publishing.rabbitmq_prefix}.invitations")
    assert message.exchange == f"{publishing.rabbitmq_prefix}.events"
    assert message.routing_key == INVITED
    payload = json.loads(message.body)
    assert payload["email"] == {"value": email}
    assert payload["eventId"] == message.message_id


async def test_a_worker_publishes_to_rabbitmq(
    settings: Settings, channel: AbstractChannel, ann: Someone, family: str
) -> None:
    email = address()
    await ann.invite(family, email)
    environment = {
        "DATABASE_URL": settings.database_url,
        "RABBITMQ_URL": settings.rabbitmq_url,
        "RABBITMQ_PREFIX": settings.rabbitmq_prefix,
    }
    worker = await asyncio.create_subprocess_exec(
        *(POSTROOM, "worker", "family.worker:make_publisher", "--once"),
        cwd=PROJECT,
        env={**os.environ, **environment},
    )
    assert await worker.wait() == 0
    message = await mail_to(email, channel, f"{settings.rabbitmq_prefix}.invitations")
    assert message.routing_key == INVITED

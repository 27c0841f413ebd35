"""From the sign-up to the profile, through the outbox."""

from collections.abc import Awaitable, Callable

import httpx
from accounts_api import (
    FailingProfiles,
    client_of,
    eventually,
    profile_of,
    running,
    sign_up,
    wired,
)
from fastapi import FastAPI
from postroom import Outbox, OutboxRelay, Tally
from postroom.testing import RecordingPublisher
from sqlalchemy.ext.asyncio import AsyncEngine

from accounts.main import container_of
from accounts.settings import Settings


async def test_a_profile_is_there_after_the_delivery(
    client: httpx.AsyncClient, delivered: Callable[[], Awaitable[Tally]]
) -> None:
    account = await sign_up(client)
    assert await profile_of(client, account) is None
    assert (await delivered()).delivered == 1
    assert await profile_of(client, account) == account["email"].partition("@")[0]


async def test_the_event_says_who_signed_up_and_holds_no_secret(
    client: httpx.AsyncClient, app: FastAPI
) -> None:
    container, publisher = container_of(app), RecordingPublisher()
    outbox, engine = await container.get(Outbox), await container.get(AsyncEngine)
    account = await sign_up(client)
    await OutboxRelay(outbox, engine, publisher).run_once()
    message = publisher.assert_published("AccountCreated", **account)
    assert set(message.payload) == {*account, "event_id", "occurred_at"}


async def test_a_handler_that_fails_is_run_again(settings: Settings) -> None:
    async with wired(settings, FailingProfiles(times=1)) as app, client_of(app) as client:
        account = await sign_up(client)
        relay = await container_of(app).get(OutboxRelay)
        tally = await relay.run_once()
        assert (tally.retried, tally.delivered) == (1, 1)
        assert await profile_of(client, account) == account["email"].partition("@")[0]


async def test_the_relay_of_a_running_application_delivers_by_itself(settings: Settings) -> None:
    async with running(settings) as client:
        account = await sign_up(client)

        async def has_profile() -> bool:
            return await profile_of(client, account) is not None

        await eventually(has_profile)

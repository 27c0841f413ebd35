"""How tests use the application: over HTTP, with and without its lifespan, and with faults."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import httpx
from dishka import Provider, Scope, provide
from fastapi import FastAPI

from accounts.core.application.ports import ProfileRepository
from accounts.core.domain.profile import Profile
from accounts.core.infrastructure.persistence.repository import SqlAlchemyProfileRepository
from accounts.main import container_of, create_app
from accounts.settings import Settings
from accounts.shared.infrastructure.persistence.session import MainAsyncSession

PASSWORD = "correct horse battery staple"


def new_email(name: str = "ann") -> str:
    """Return an address that has no account yet."""
    return f"{name}.{uuid4().hex}@example.com"


async def sign_up(client: httpx.AsyncClient, email: str | None = None) -> dict[str, Any]:
    """Sign up successfully; return the account."""
    body = {"email": email or new_email(), "password": PASSWORD}
    answer = await client.post("/sign-up", json=body)
    assert answer.status_code == 201, answer.text
    account: dict[str, Any] = answer.json()
    return account


@asynccontextmanager
async def client_of(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    """Open a client of an application, whose lifespan is not run."""
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://accounts") as client:
        yield client


@asynccontextmanager
async def wired(settings: Settings, *overrides: Provider) -> AsyncIterator[FastAPI]:
    """Create an application whose relay does not run; close its container at the end."""
    app = create_app(settings, *overrides)
    try:
        yield app
    finally:
        await container_of(app).close()


@asynccontextmanager
async def running(settings: Settings, *overrides: Provider) -> AsyncIterator[httpx.AsyncClient]:
    """Start an application with its lifespan, as uvicorn does; yield a client of it."""
    app = create_app(settings, *overrides)
    async with app.router.lifespan_context(app), client_of(app) as client:
        yield client


async def profile_of(client: httpx.AsyncClient, account: dict[str, Any]) -> str | None:
    """Return the display name of an account's profile; None if there is no profile."""
    answer = await client.get(f"/profiles/{account['account_id']}")
    assert answer.status_code in (200, 404), answer.text
    name: str | None = answer.json().get("display_name")
    return name


async def eventually(condition: Callable[[], Awaitable[bool]], within: float = 30) -> None:
    """Wait until a condition is true; raise TimeoutError after `within` seconds."""
    async with asyncio.timeout(within):
        while True:
            if await condition():
                return
            await asyncio.sleep(0.01)


class FailingProfiles(Provider):
    """Gives repositories of profiles whose `add` fails, the first `times` times."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times

    @provide(scope=Scope.REQUEST)
    def profiles(self, session: MainAsyncSession) -> ProfileRepository:
        return FailingProfileRepository(session, self)


class FailingProfileRepository(SqlAlchemyProfileRepository):
    def __init__(self, session: MainAsyncSession, failing: FailingProfiles) -> None:
        super().__init__(session)
        self._failing = failing

    def add(self, profile: Profile) -> None:
        if self._failing.times > 0:
            self._failing.times -= 1
            raise RuntimeError("profiles cannot be added")
        super().add(profile)

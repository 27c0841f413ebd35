"""Liveness says that the process runs; readiness says that the database can be used."""

import httpx
import pytest
from accounts_api import client_of, running, wired

from accounts.settings import EventDispatch, Settings

NOWHERE = Settings(database_url="postgresql+asyncpg://app:hunter2@127.0.0.1:1/accounts")
LIVE = {"status": "ok"}


async def test_a_running_application_is_live_and_ready(settings: Settings) -> None:
    async with running(settings) as client:
        live, ready = await client.get("/health/live"), await client.get("/health/ready")
    assert (live.status_code, live.json()) == (200, LIVE)
    assert (ready.status_code, ready.json()["database"]) == (200, "ok")
    assert ready.json()["relay"]["status"] in ("ok", "degraded")


async def test_a_relay_that_does_not_run_is_reported_and_changes_nothing(
    client: httpx.AsyncClient,
) -> None:
    answer = await client.get("/health/ready")
    assert answer.status_code == 200
    assert answer.json()["relay"] == {"status": "stopped", "reason": None}


async def test_without_an_outbox_there_is_no_relay_to_report(settings: Settings) -> None:
    in_process = settings.model_copy(update={"event_dispatch": EventDispatch.IN_PROCESS})
    async with running(in_process) as client:
        answer = await client.get("/health/ready")
    assert answer.json() == {"status": "ok", "database": "ok", "relay": None}


@pytest.mark.parametrize("dispatch", EventDispatch)
async def test_without_its_database_it_is_live_and_not_ready(dispatch: EventDispatch) -> None:
    nowhere = NOWHERE.model_copy(update={"event_dispatch": dispatch})
    async with wired(nowhere) as app, client_of(app) as client:
        live, ready = await client.get("/health/live"), await client.get("/health/ready")
    assert (live.status_code, live.json()) == (200, LIVE)
    assert ready.status_code == 503
    assert (ready.json()["status"], ready.json()["database"]) == ("unavailable", "unavailable")
    assert "hunter2" not in ready.text

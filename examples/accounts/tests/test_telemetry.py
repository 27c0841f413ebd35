"""Metrics and traces are off, until a setting switches them on."""

import asyncio
import json
import os
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from accounts_api import eventually, running, sign_up

from accounts.main import create_app
from accounts.settings import Settings

ROOT = Path(__file__).parents[1]
DELIVERIES = 'postroom_deliveries_total{event_type="AccountCreated",outbox="outbox"} 1.0'

PARENTS = {
    "POST /sign-up": None,
    "create AccountCreated": "POST /sign-up",
    "send AccountCreated": "create AccountCreated",
    "process AccountCreated:log_account": "send AccountCreated",
    "process AccountCreated:create_profile": "send AccountCreated",
}
"""The spans of a sign-up, and the parent of each."""


async def test_there_are_no_metrics_by_default(client: httpx.AsyncClient) -> None:
    assert (await client.get("/metrics")).status_code == 404


async def test_metrics_count_deliveries(settings: Settings) -> None:
    async with running(settings.model_copy(update={"metrics_enabled": True})) as client:
        await sign_up(client)

        async def is_counted() -> bool:
            answer = await client.get("/metrics")
            assert answer.status_code == 200
            return DELIVERIES in answer.text

        await eventually(is_counted)


@pytest.mark.parametrize(
    ("settings", "package"),
    [
        (Settings(metrics_enabled=True), "prometheus_client"),
        (Settings(tracing_enabled=True), "opentelemetry"),
    ],
    ids=["metrics", "tracing"],
)
def test_a_missing_extra_is_named(
    settings: Settings, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [each for each in sys.modules if each.startswith("accounts.shared.infrastructure")]:
        if name.endswith((".metrics", ".tracing")):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(SystemExit, match=r"pip install 'accounts\[telemetry\]'"):
        create_app(settings)


@asynccontextmanager
async def uvicorn(output: Path, **environment: str) -> AsyncIterator[str]:
    """Run the application in a process of its own; yield its URL."""
    words = ["-m", "uvicorn", "--factory", "accounts.main:create_app", "--port", "0"]
    log = output.with_suffix(".log")
    with output.open("wb") as out, log.open("wb") as err:
        process = await asyncio.create_subprocess_exec(
            sys.executable, *words, cwd=ROOT, env=os.environ | environment, stdout=out, stderr=err
        )

    async def is_up() -> bool:
        assert process.returncode is None, "uvicorn has ended"
        return address_in(log) is not None

    try:
        await eventually(is_up)
        yield address_in(log) or ""
    finally:
        process.terminate()
        await process.wait()


def address_in(log: Path) -> str | None:
    """Return the address that uvicorn has written, if it has."""
    found = re.search(r"Uvicorn running on (http://\S+)", log.read_text())
    return None if found is None else found[1]


def spans_in(output: Path) -> list[dict[str, Any]]:
    """Return the spans that the console exporter has written, as JSON objects."""
    objects = re.findall(r"^{$.*?^}$", output.read_text(), flags=re.MULTILINE | re.DOTALL)
    return [json.loads(each) for each in objects]


async def test_a_trace_goes_from_the_request_to_the_handlers(
    settings: Settings, tmp_path: Path
) -> None:
    switches = {"TRACING_ENABLED": "true", "OTEL_TRACES_EXPORTER": "console"}
    output = tmp_path / "spans.json"
    async with uvicorn(output, DATABASE_URL=settings.database_url, **switches) as url:
        async with httpx.AsyncClient(base_url=url) as client:
            await client.get("/health/ready")
            await sign_up(client)

        async def is_handled() -> bool:
            return {span["name"] for span in spans_in(output)} == set(PARENTS)

        await eventually(is_handled)
    spans = spans_in(output)
    assert len({span["context"]["trace_id"] for span in spans}) == 1
    assert {span["resource"]["attributes"]["service.name"] for span in spans} == {"accounts"}
    named = {span["context"]["span_id"]: span["name"] for span in spans}
    assert {span["name"]: named.get(span["parent_id"]) for span in spans} == PARENTS

"""Metrics and traces: switched off, and on."""

import asyncio
import json
import os
import re
import signal
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from aio_pika.abc import AbstractChannel
from conftest import PATIENCE, PROJECT, eventually, serving, token_of
from sqlalchemy.ext.asyncio import AsyncEngine
from users import Someone

from family.main import create_app
from family.settings import Settings

INVITED = "family.domain.events.FamilyMemberInvitedEvent"
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
ADDRESS = re.compile(r"Uvicorn running on (http://\S+)")


async def test_without_settings_there_are_no_metrics(http: httpx.AsyncClient) -> None:
    assert (await http.get("/metrics")).status_code == 404


async def test_an_application_that_publishes_measures_its_publisher(publishing: Settings) -> None:
    publishing.metrics_enabled = True
    async with serving(publishing) as http:

        async def is_running() -> bool:
            metrics = (await http.get("/metrics")).text
            return 'postroom_relay_running{outbox="auth.outbox_events"} 1.0' in metrics

        await eventually(is_running)
        assert "process_cpu_seconds_total" in (await http.get("/metrics")).text


async def test_an_application_with_a_worker_measures_the_outbox(
    settings: Settings, ann: Someone, family: str
) -> None:
    await ann.invite(family)
    settings.metrics_enabled = True
    async with serving(settings) as http:

        async def is_counted() -> bool:
            return f'event_type="{INVITED}"' in (await http.get("/metrics")).text

        await eventually(is_counted)


async def test_a_request_and_the_delivery_of_its_event_are_one_trace(
    settings: Settings, channel: AbstractChannel, engine: AsyncEngine, tmp_path: Path
) -> None:
    out, err = tmp_path / "out", tmp_path / "err"
    environment = {
        "DATABASE_URL": settings.database_url,
        "RABBITMQ_URL": settings.rabbitmq_url,
        "RABBITMQ_PREFIX": settings.rabbitmq_prefix,
        "OTEL_TRACES_EXPORTER": "console",
        "TRACING_ENABLED": "true",
    }
    with out.open("wb") as stdout, err.open("wb") as stderr:
        server = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "uvicorn", "--factory", "family.main:create_app"),
            *("--port", "0", "--no-access-log"),
            cwd=PROJECT,
            env={**os.environ, **environment},
            stdout=stdout,
            stderr=stderr,
        )

    async def is_serving() -> bool:
        assert server.returncode is None, err.read_text()
        return ADDRESS.search(err.read_text()) is not None

    try:
        await eventually(is_serving)
        [url] = ADDRESS.findall(err.read_text())
        async with httpx.AsyncClient(base_url=url, timeout=PATIENCE) as http:
            ann = Someone(http)
            family = await ann.create_family()
            ann.headers["traceparent"] = f"00-{TRACE}-00f067aa0ba902b7-01"
            invitation = await ann.invited(family)

        async def is_traced() -> bool:
            traced = [each["name"] for each in spans(out.read_text()) if TRACE in str(each)]
            return {"POST /graphql", f"create {INVITED}", f"send {INVITED}"} <= set(traced)

        await eventually(is_traced)
    finally:
        server.send_signal(signal.SIGTERM)
        await server.wait()
    assert "family" in str(spans(out.read_text())[0]["resource"])
    assert await token_of(engine, invitation) not in out.read_text()


def test_without_the_extra_it_says_what_to_install(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "family.metrics", raising=False)
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    settings.metrics_enabled = True
    with pytest.raises(SystemExit, match=r"need the extra `telemetry`: pip install"):
        create_app(settings)


def spans(written: str) -> list[dict[str, Any]]:
    """Read what the console exporter has written: JSON documents, one after another."""
    decoder, found, rest = json.JSONDecoder(), [], written.lstrip()
    while rest:
        try:
            span, end = decoder.raw_decode(rest)
        except json.JSONDecodeError:
            break  # it is being written
        found.append(span)
        rest = rest[end:].lstrip()
    return found

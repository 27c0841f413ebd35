"""Metrics and traces, off without their settings: the application as a process, on SQLite."""

import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from account import Account
from opentelemetry import trace
from waiting import eventually

from messaging.settings import Settings
from messaging.telemetry import Telemetry

PROJECT = Path(__file__).parents[1]
ADDRESS = re.compile(r"Uvicorn running on (http://\S+)")
SWITCHED_ON = {
    "METRICS_ENABLED": "true",
    "TRACING_ENABLED": "true",
    "OTEL_TRACES_EXPORTER": "console",
}


@contextmanager
def process(folder: Path, **environment: str) -> Iterator[Path]:
    """Run the application in a folder; give the file that has what it prints."""
    printed = folder / "printed"
    own = {"PATH": os.environ["PATH"], "PYTHONPATH": str(PROJECT), **environment}
    migrate = [sys.executable, "-m", "alembic", "-c", str(PROJECT / "alembic.ini")]
    subprocess.run([*migrate, "upgrade", "head"], cwd=folder, env=own, check=True)
    serve = [sys.executable, "-m", "uvicorn", "--port", "0", "--factory"]
    with printed.open("wb") as output:
        command = [*serve, "messaging.main:create_app"]
        running = subprocess.Popen(
            command, cwd=folder, env=own, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        yield printed
    finally:
        running.terminate()
        running.wait()


@asynccontextmanager
async def account_of(printed: Path) -> AsyncIterator[Account]:
    async def has_started() -> bool:
        return bool(addresses(printed))

    await eventually(has_started, "it has started")
    async with httpx.AsyncClient(base_url=addresses(printed)[0]) as client:
        yield Account(client)


def addresses(printed: Path) -> list[str]:
    return ADDRESS.findall(printed.read_text())


def spans(printed: str) -> list[dict[str, Any]]:
    """Return the spans that the console exporter has printed, among other lines."""
    found, decoder = [], json.JSONDecoder()
    for start in re.finditer(r"^\{$", printed, re.MULTILINE):
        try:
            found.append(decoder.raw_decode(printed, start.start())[0])
        except ValueError:  # it is being printed
            break
    return found


async def test_one_trace_leads_from_the_request_to_the_processing(tmp_path: Path) -> None:
    with process(tmp_path, **SWITCHED_ON) as printed:
        async with account_of(printed) as account:
            message = await account.group_message("queued")
            expected = {
                "PATCH /group-messages/{message_id}",
                "create group_message.queued",
                "send group_message.queued",
                "process group_message.queued",
                "create group_message.completed",
                "send group_message.completed",
            }

            async def is_one_trace() -> bool:
                traces: dict[str, set[str]] = {}
                for each in spans(printed.read_text()):
                    traces.setdefault(each["context"]["trace_id"], set()).add(each["name"])
                return any(expected <= names for names in traces.values())

            await eventually(is_one_trace, "all spans are in one trace")
            assert await account.status(message) == "completed"

            async def is_counted() -> bool:  # a delivery counts when the database has it
                metrics = (await account.client.get("/metrics")).text
                return 'postroom_deliveries_total{event_type="group_message.queued"' in metrics

            await eventually(is_counted, "the delivery is counted")
            await account.client.get("/health/live")
    assert "/health/live" not in {each["name"] for each in spans(printed.read_text())}


async def test_without_the_settings_there_is_neither(account: Account) -> None:
    assert (await account.client.get("/metrics")).status_code == 404
    assert isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)  # nobody set one


@pytest.mark.parametrize(
    "settings", [Settings(metrics_enabled=True), Settings(tracing_enabled=True)]
)
def test_without_the_extra_the_process_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    for name in ("messaging.metrics", "messaging.tracing"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    for name in ("prometheus_client", "opentelemetry"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(SystemExit, match=r"pip install 'messaging\[telemetry\]'"):
        Telemetry(settings)

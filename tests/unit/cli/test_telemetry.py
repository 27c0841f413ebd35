"""OpenTelemetry in a worker: on if its SDK is set up."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.requirement("E8")

RELAY = """
import sys
from sqlalchemy import MetaData
from sqlalchemy.ext.asyncio import create_async_engine
from postroom import MemoryPublisher, Outbox, OutboxRelay
from postroom.cli.telemetry import instrument

engine = create_async_engine("sqlite+aiosqlite:///shop.db")
relay = OutboxRelay(Outbox(MetaData()), engine, MemoryPublisher())
"""
ALONE = "instrument(relay); print(len(relay.observers), 'opentelemetry' in sys.modules)"
WITH_API = f"import opentelemetry.trace; {ALONE}"
WITH_SDK = f"""
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import set_tracer_provider
set_tracer_provider(TracerProvider())
{ALONE}
"""


def run(code: str) -> list[str]:
    command = [sys.executable, "-W", "error", "-c", RELAY + code]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()


def test_without_opentelemetry_nothing_is_imported_and_nobody_observes() -> None:
    assert run(ALONE) == ["0", "False"]


def test_the_api_alone_switches_nothing_on() -> None:
    assert run(WITH_API) == ["0", "True"]


def test_a_relay_is_instrumented_once_if_a_provider_is_set() -> None:
    once, _ = run(WITH_SDK)
    assert int(once) > 0
    assert run(WITH_SDK + ALONE) == [once, "True"] * 2

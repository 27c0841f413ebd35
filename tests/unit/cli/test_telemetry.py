"""OpenTelemetry in a worker: on if its SDK is set up."""

import subprocess
import sys

import pytest

PROGRAM = """
import sys
from sqlalchemy import MetaData
from sqlalchemy.ext.asyncio import create_async_engine
from postroom import MemoryPublisher, Outbox, OutboxRelay
from postroom.cli.telemetry import instrument

engine = create_async_engine("sqlite+aiosqlite:///shop.db")
relay = OutboxRelay(Outbox(MetaData()), engine, MemoryPublisher())

def observers():
    instrument(relay)
    return len(relay.observers)

assert observers() == 0
assert "opentelemetry" not in sys.modules
import opentelemetry.trace  # the API alone
assert observers() == 0
from opentelemetry.sdk.trace import TracerProvider
opentelemetry.trace.set_tracer_provider(TracerProvider())
once = observers()
assert once > 0
assert observers() == once
"""


@pytest.mark.requirement("E8")
def test_a_relay_is_instrumented_once_if_a_provider_is_set_and_else_nothing_is_imported() -> None:
    subprocess.run([sys.executable, "-W", "error", "-c", PROGRAM], check=True)

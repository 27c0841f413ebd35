"""One trace through three processes, and metrics, when the settings switch them on."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.examples.messaging.conftest import FACTORY, account_at, start_worker
from tests.support.command import Command, Commands
from tests.support.server import serve
from tests.support.waiting import eventually

pytestmark = pytest.mark.extended

TRACED = {"TRACING_ENABLED": "true", "OTEL_TRACES_EXPORTER": "console"}
OF_API = {"PATCH /group-messages/{message_id}", "create group_message.queued"}
OF_WORKER = {"send group_message.queued", "send group_message.completed"}
OF_CONSUMER = {"process group_message.queued", "create group_message.completed"}


def spans(command: Command) -> Iterator[dict[str, Any]]:
    """Give the spans that a process has printed, among other lines."""
    for start in re.finditer(r"^\{$", command.out, re.MULTILINE):
        try:
            yield json.JSONDecoder().raw_decode(command.out, start.start())[0]
        except ValueError:  # it is being printed
            return


def names(command: Command, trace_id: str) -> set[str]:
    return {each["name"] for each in spans(command) if each["context"]["trace_id"] == trace_id}


async def test_a_request_its_delivery_and_its_processing_are_one_trace(
    commands: Commands, database_url: str, rabbitmq_url: str
) -> None:
    urls = {"DATABASE_URL": database_url, "RABBITMQ_URL": rabbitmq_url, **TRACED}
    worker = start_worker(commands, database_url, rabbitmq_url, PYTHONUNBUFFERED="1", **TRACED)
    await worker.says("delivers from table")
    consumer = commands.python("-m", "messaging.consumer", **urls)
    server = serve(commands, FACTORY, METRICS_ENABLED="true", **urls)
    async with account_at(server) as account:
        await account.group_message("queued")

        def is_one_trace() -> bool:
            requests = [each for each in spans(server.command) if each["name"] in OF_API]
            return any(
                names(server.command, trace_id) >= OF_API
                and names(worker, trace_id) >= OF_WORKER
                and names(consumer, trace_id) >= OF_CONSUMER
                for trace_id in {each["context"]["trace_id"] for each in requests}
            )

        await eventually(is_one_trace)

        async def counts_the_worker() -> bool:
            metrics = (await account.client.get("/metrics")).text
            return 'postroom_workers{outbox="outbox_events",state="alive"} 1.0' in metrics

        await eventually(counts_the_worker)
    for each in (worker, consumer):
        assert await each.stop() == 0

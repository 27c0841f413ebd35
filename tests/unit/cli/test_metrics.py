"""The route /metrics of a worker's health port."""

import json
import sys

import pytest
from prometheus_client import generate_latest
from sqlalchemy import MetaData
from sqlalchemy.ext.asyncio import create_async_engine

from postroom import MemoryPublisher, Outbox, OutboxRelay
from postroom.cli.health import Answer
from postroom.cli.metrics import metrics_of


@pytest.fixture
def relay() -> OutboxRelay:
    engine = create_async_engine("sqlite+aiosqlite://")
    return OutboxRelay(Outbox(MetaData()), engine, MemoryPublisher())


def ask(relay: OutboxRelay) -> Answer:
    with metrics_of(relay) as routes:
        assert routes.keys() == {"/live", "/ready", "/metrics"}
        return routes["/metrics"](lambda: None, False)


def test_a_worker_can_be_measured_again_in_the_same_process(relay: OutboxRelay) -> None:
    for _ in range(2):
        answer = ask(relay)
        assert (answer.status, answer.content_type[:10]) == (200, "text/plain")
        assert b'postroom_relay_running{outbox="outbox"} 0.0' in answer.body
        assert b"postroom" not in generate_latest()  # of the default registry, afterwards


def test_without_the_extra_the_answer_says_what_to_install(
    relay: OutboxRelay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    answer = ask(relay)
    assert answer.status == 501
    assert "pip install 'postroom[prometheus]'" in json.loads(answer.body)["error"]

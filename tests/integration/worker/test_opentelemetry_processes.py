"""One trace across three processes and RabbitMQ: a request, a worker, and a consumer."""

import json
from dataclasses import dataclass
from typing import Any

import pytest
from yarl import URL

from tests.support.broker import Broker
from tests.support.command import ROOT, Command, Commands

pytestmark = pytest.mark.requirement("E8")

APP = "tests.integration.worker.traced_app"


@dataclass(frozen=True, slots=True)
class Spans:
    """The spans that several processes have printed."""

    found: list[dict[str, Any]]

    @classmethod
    def printed_by(cls, *commands: Command) -> "Spans":
        return cls([json.loads(line) for each in commands for line in each.out.splitlines()])

    def named(self, name: str) -> list[dict[str, Any]]:
        return [span for span in self.found if span["name"] == name]

    def path(self, span: dict[str, Any]) -> list[str]:
        """Give the names of a span's ancestors, the first one first, and its own."""
        by_id = {each["context"]["span_id"]: each for each in self.found}
        parent = by_id.get(span["parent_id"])
        return [*([] if parent is None else self.path(parent)), span["name"]]


async def test_request_delivery_and_consumer_are_one_trace(
    broker: Broker, postroom: Commands, postgres_url: str, database_url: str, rabbitmq_url: str
) -> None:
    for exchange in ("shop", "audit"):
        broker.exchange(exchange)
    orders = broker.queue("orders", "order.*", exchange="shop")
    audit = broker.queue("audit", "paid", exchange="audit")
    urls = {"DATABASE_URL": postgres_url, "RABBITMQ_URL": rabbitmq_url}

    request = postroom.python("-m", APP, "place", "order.placed=1", "order.paid=2", **urls)
    assert await request.code() == 0, request.err
    worker = postroom("worker", f"{APP}:relay", "--once", **urls, PYTHONPATH=str(ROOT))
    assert await worker.code() == 0, worker.err
    assert "traces and metrics go to OpenTelemetry" in worker.err
    consumers = [
        postroom.python("-m", APP, "consume", queue, count, **urls)
        for queue, count in ((orders, "2"), (audit, "1"))
    ]
    for consumer in consumers:
        assert await consumer.code() == 0, consumer.err

    spans = Spans.printed_by(request, worker, *consumers)
    assert len({span["context"]["trace_id"] for span in spans.found}) == 1
    assert sorted(spans.path(span) for span in spans.found) == sorted(
        [
            ["POST /orders"],
            ["POST /orders", "create order.placed"],
            ["POST /orders", "create order.placed", "send order.placed"],
            ["POST /orders", "create order.placed", f"process {orders}"],
            ["POST /orders", "create order.paid"],
            ["POST /orders", "create order.paid", "send order.paid"],
            ["POST /orders", "create order.paid", f"process {orders}"],
            ["POST /orders", "create order.paid", f"process {audit}"],
        ]
    )
    received = [span for span in spans.found if span["name"].startswith("process")]
    assert {span["attributes"]["tenant"] for span in received} == {"blue"}  # the baggage
    assert "canary" not in json.dumps(spans.found)

    [sent] = spans.named("send order.placed")
    assert sent["kind"] == "SpanKind.CLIENT"
    assert sent["attributes"]["messaging.system"] == "rabbitmq"
    assert sent["attributes"]["messaging.destination.name"] == "shop:order.placed"
    assert sent["attributes"]["messaging.rabbitmq.destination.routing_key"] == "order.placed"
    assert sent["attributes"]["server.port"] == URL(rabbitmq_url).port
    [twice] = spans.named("send order.paid")
    assert twice["attributes"]["messaging.destination.name"] == "shop:order.paid, audit:paid"

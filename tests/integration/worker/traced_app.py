"""An application in three processes, each of which prints its spans, one as JSON on each line.

- `python -m tests.integration.worker.traced_app place ORDER…`: a request that places orders
- `postroom worker tests.integration.worker.traced_app:relay`: the worker
- `python -m tests.integration.worker.traced_app consume QUEUE COUNT`: a consumer, not postroom's
"""

import asyncio
import os
import sys

import pika  # type: ignore[import-untyped]
from opentelemetry import baggage, trace
from opentelemetry.context import attach
from opentelemetry.propagate import extract
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
from opentelemetry.trace import SpanKind
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from postroom import OutboxRelay, UntypedEvent
from postroom.integrations.opentelemetry import OpenTelemetry
from postroom.publishers.rabbitmq import RabbitMQPublisher, Route
from tests.support.shop import outbox
from tests.support.waiting import PATIENCE

tracer = trace.get_tracer("shop")


def relay() -> OutboxRelay:
    """Make a relay; the worker instruments it, because a tracer provider is set."""
    print_spans()
    engine = create_async_engine(os.environ["DATABASE_URL"])
    routes = {"order.paid": [Route(), Route(exchange="audit", routing_key="paid")]}
    publisher = RabbitMQPublisher(os.environ["RABBITMQ_URL"], exchange="shop", routes=routes)
    return OutboxRelay(outbox, engine, publisher)


async def place(*orders: str) -> None:
    OpenTelemetry().instrument(outbox)
    engine = create_async_engine(os.environ["DATABASE_URL"])
    attach(baggage.set_baggage("tenant", "blue"))
    with tracer.start_as_current_span("POST /orders", kind=SpanKind.SERVER):
        async with AsyncSession(engine) as session, session.begin():
            await outbox.dispatcher(session).dispatch([event(*each.split("=")) for each in orders])
    await engine.dispose()


def event(event_type: str, order: str) -> UntypedEvent:
    return UntypedEvent(
        event_type=event_type,
        aggregate_type="order",
        aggregate_id=order,
        payload={"note": f"canary-{order}"},
    )


def consume(queue: str, count: str) -> None:
    connection = pika.BlockingConnection(pika.URLParameters(os.environ["RABBITMQ_URL"]))
    channel = connection.channel()
    for method, properties, _ in channel.consume(queue, inactivity_timeout=PATIENCE):
        context = extract(properties.headers)
        with tracer.start_as_current_span(
            f"process {queue}",
            context,
            kind=SpanKind.CONSUMER,
            attributes={"tenant": str(baggage.get_baggage("tenant", context))},
        ):
            channel.basic_ack(method.delivery_tag)
        if method.delivery_tag == int(count):
            break
    connection.close()


def print_spans() -> None:
    provider = TracerProvider()
    exporter = ConsoleSpanExporter(formatter=lambda span: f"{span.to_json(indent=None)}\n")
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)


if __name__ == "__main__":
    command, *words = sys.argv[1:]
    print_spans()
    if command == "place":
        asyncio.run(place(*words))
    else:
        consume(*words)

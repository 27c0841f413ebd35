"""What metrics and traces cost: the drain rate of a relay with them, as a ratio to one without.

Both relays have their default settings, drain a backlog alike, in one process, and take turns, a
tenth at a time. The metrics are scraped every second. With traces, every record has the context of
its own in its headers, and one of a hundred is recorded; without, records have no headers.
"""

import argparse
import asyncio
import gc
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from datetime import timedelta
from typing import Final

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from prometheus_client import CollectorRegistry, generate_latest
from sqlalchemy import MetaData
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from benchmarks.backlog import add_records, key_names, vacuum
from benchmarks.drain import Effort, Gauge, Sink, running, take_turns
from benchmarks.measure import bench_database, bench_vhost, ratio
from postroom import HandlersPublisher, Outbox, OutboxRelay, Publisher
from postroom.integrations.opentelemetry import OpenTelemetry
from postroom.integrations.prometheus import OutboxCollector
from postroom.publishers.rabbitmq import Binding, Exchange, Queue, RabbitMQPublisher, Topology

TRACE = "'00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-'"
HEADERS: Final = f"""jsonb_build_object('traceparent',
    {TRACE} || CASE WHEN n % 100 = 0 THEN '01' ELSE '00' END)"""
"""In SQL: the trace context of event number `n`."""
KEYS: Final = 20_000
"""So many that no few of them fill a partition while a relay waits for its turn."""
SPARE: Final = 30_000
"""Records that are left at the end: what is in flight when a turn ends counts in none."""
EXCHANGE: Final = "telemetry"
KINDS: Final = ("prometheus", "otel", "all")
TARGETS: Final = ("rabbitmq", "handlers", "sink")


class Discard(SpanExporter):
    """Takes spans, and sends them nowhere."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return SpanExportResult.SUCCESS


@contextmanager
def telemetry(kind: str, relay: OutboxRelay) -> Iterator[None]:
    """Switch on what is measured; scrape it every second for as long as the block lasts."""
    registry, collector, ended = CollectorRegistry(), OutboxCollector(), threading.Event()
    registry.register(collector)
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(Discard()))
    reader = InMemoryMetricReader()
    meters = MeterProvider([reader])
    if kind in ("prometheus", "all"):
        relay.observe(collector.observer(relay.outbox))
    if kind in ("otel", "all"):
        OpenTelemetry(tracer_provider=provider, meter_provider=meters).instrument(relay)

    def scrape() -> None:
        while not ended.wait(1.0):
            generate_latest(registry)
            reader.collect()

    thread = threading.Thread(target=scrape)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        provider.shutdown()
        meters.shutdown()


def publisher_to(target: str, broker: str) -> Publisher:
    """Make a publisher: to a queue that keeps little, to a handler, or to nowhere."""
    if target == "sink":
        return Sink()
    if target == "handlers":
        return HandlersPublisher()
    return RabbitMQPublisher(
        broker,
        exchange=EXCHANGE,
        topology=Topology(
            exchanges=[Exchange(EXCHANGE)],
            queues=[Queue(EXCHANGE, [Binding(EXCHANGE)], max_length=1000, overflow="drop-head")],
        ),
    )


async def load(engine: AsyncEngine, outbox: Outbox, count: int, *, traced: bool) -> None:
    columns = {"headers": HEADERS} if traced else {}
    async with engine.begin() as connection:
        await connection.run_sync(outbox.create_tables)
        await add_records(connection, outbox, count, key_names("order", KEYS), **columns)
    await vacuum(engine, outbox)


async def compare(
    engine: AsyncEngine, kind: str, make_publisher: Callable[[], Publisher], total: int
) -> tuple[Effort, Effort, list[float]]:
    """Drain two tables alike, with telemetry and without; return the efforts and the ratios."""
    outboxes = [Outbox(MetaData(), table=f"{kind}_{side}") for side in ("on", "off")]
    for outbox, traced in zip(outboxes, (kind != "prometheus", False), strict=True):
        await load(engine, outbox, total + SPARE, traced=traced)
    gauges = [Gauge(make_publisher(), total) for _ in outboxes]
    on, off = Effort(), Effort()
    relays = [
        OutboxRelay(outbox, engine, gauge, grace=timedelta())
        for outbox, gauge in zip(outboxes, gauges, strict=True)
    ]
    with telemetry(kind, relays[0]):
        gc.freeze()  # as `postroom worker` does
        async with AsyncExitStack() as stack:
            for relay, gauge in zip(relays, gauges, strict=True):
                await stack.enter_async_context(running(relay, gauge))
            sides = [(on, gauges[0].deliver), (off, gauges[1].deliver)]
            ratios = await take_turns(sides, total)
    return on, off, ratios


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--to", choices=TARGETS, nargs="*", default=TARGETS[:1])
    parser.add_argument("--kinds", choices=KINDS, nargs="*", default=KINDS)
    options = parser.parse_args()
    with bench_vhost() as broker:
        for target in options.to:
            for kind in options.kinds:
                with bench_database() as url:
                    asyncio.run(run(url, broker, target, kind, options.records))


async def run(url: str, broker: str, target: str, kind: str, records: int) -> None:
    """Measure one kind of telemetry, and print what it costs."""
    engine = create_async_engine(url)
    on, off, ratios = await compare(engine, kind, lambda: publisher_to(target, broker), records)
    cpu = (on.cpu / on.records) / (off.cpu / off.records)
    print(f"to {target}, with {kind}: {on}\nto {target}, without: {off}")
    print(f"rate, as a ratio to that without (median, quartiles): {ratio(ratios)}")
    print(f"CPU time per record, as a ratio to that without: {cpu:.2f} ×\n", flush=True)
    await engine.dispose()


if __name__ == "__main__":
    main()

"""The metrics of relays and outboxes, on both databases."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from threading import Thread

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import MetaData
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from postroom import (
    ClaimedRecord,
    MemoryPublisher,
    Outbox,
    OutboxRelay,
    Outcome,
    RetrySchedule,
    UntypedEvent,
)
from postroom.integrations.metrics.names import METRICS
from postroom.integrations.metrics.outbox_metrics import (
    MAX_AGE,
    READ_EVERY,
    WANTED_FOR,
    OutboxMetrics,
)
from postroom.integrations.metrics.relay_metrics import MAX_TYPES, EventTypes
from postroom.integrations.prometheus import OutboxCollector
from postroom.testing import FakeClock, RecordingPublisher
from tests.integration.worker.prometheus import promtool
from tests.support.rows import save
from tests.support.shop import outbox
from tests.support.waiting import PATIENCE, eventually

CARD = "4111-1111-1111-1111"
LATER = RetrySchedule.seconds(3600)


class Scraped:
    """A registry with one collector, as an application has it."""

    def __init__(self) -> None:
        self.collector = OutboxCollector()
        self._registry = CollectorRegistry(auto_describe=True)
        self._registry.register(self.collector)

    def relay(self, engine: AsyncEngine, publisher: MemoryPublisher) -> OutboxRelay:
        observers = [self.collector.observer(outbox)]
        return OutboxRelay(outbox, engine, publisher, retry=LATER, observers=observers)

    def text(self) -> str:
        return generate_latest(self._registry).decode()

    def value(self, name: str, **labels: str) -> float | None:
        """Give a value, of the shop's outbox unless the labels name another one."""
        wanted = {"outbox": "outbox", **labels}
        for family in text_string_to_metric_families(self.text()):
            for sample in family.samples:
                if sample.name == name and sample.labels == wanted:
                    return sample.value
        return None

    def labels(self, name: str, label: str) -> set[str]:
        families = text_string_to_metric_families(self.text())
        samples = [sample for family in families for sample in family.samples]
        return {sample.labels[label] for sample in samples if sample.name == name}


@pytest.fixture
def scraped() -> Scraped:
    return Scraped()


def happened(name: str, key: str | None = None) -> UntypedEvent:
    return UntypedEvent(event_type=name, payload={"card": CARD}, aggregate_id=key)


@pytest.mark.requirement("E8")
async def test_deliveries_refusals_and_failures_are_counted_by_type(
    database: AsyncEngine, scraped: Scraped
) -> None:
    publisher = RecordingPublisher()
    publisher.refuse("refused", "no")
    publisher.refuse("failed", "never", permanent=True)
    await save(database, *map(happened, ["sent", "sent", "refused", "failed"]))
    await scraped.relay(database, publisher).run_once()
    assert scraped.value("postroom_deliveries_total", event_type="sent") == 2
    assert scraped.value("postroom_refusals_total", event_type="refused") == 1
    assert scraped.value("postroom_refusals_total", event_type="failed") == 1
    assert scraped.value("postroom_failures_total", event_type="failed") == 1
    assert scraped.value("postroom_delivery_duration_seconds_count") == 4
    assert scraped.value("postroom_end_to_end_duration_seconds_count") == 2
    assert scraped.value("postroom_end_to_end_duration_seconds_bucket", le="60.0") == 2
    assert scraped.value("postroom_publish_batch_records_sum") == 4
    assert scraped.value("postroom_claim_batch_records_sum") == 4
    name = "postroom_statement_duration_seconds_count"
    assert (scraped.value(name, statement="settlement.delivered_free") or 0) >= 1
    assert scraped.value("postroom_in_flight_records") == 0
    assert scraped.value("postroom_relay_running") == 0


@pytest.mark.requirement("E8")
async def test_what_is_in_the_outbox_is_there_while_a_relay_runs(
    database: AsyncEngine, scraped: Scraped
) -> None:
    publisher = RecordingPublisher()
    publisher.refuse("failed", "never", permanent=True)
    await save(database, happened("failed", "7"), happened("behind", "7"))
    await scraped.relay(database, publisher).run_once()
    async with scraped.relay(database, publisher).running():
        await eventually(lambda: scraped.value("postroom_blocked_keys") == 1)
        assert scraped.value("postroom_failed_records", event_type="failed") == 1
        assert scraped.value("postroom_pending_records", event_type="behind") == 1
        assert scraped.value("postroom_pending_records", event_type="failed") == 0
        assert (scraped.value("postroom_oldest_pending_seconds", event_type="behind") or 0) > 0
        assert scraped.value("postroom_ready_records") == 0
        assert scraped.value("postroom_relay_running") == 1
        assert scraped.value("postroom_pauses") == 0
        assert scraped.value("postroom_waiting_routes") == 0


async def test_an_application_without_a_relay_sees_the_outbox(
    sqlite_file: AsyncEngine, scraped: Scraped
) -> None:
    await save(sqlite_file, happened("waiting"))
    async with scraped.collector.watching(outbox, sqlite_file):
        await eventually(lambda: scraped.value("postroom_ready_records") == 1)
        assert scraped.value("postroom_workers", state="alive") == 0
        assert scraped.value("postroom_relay_running") is None
    assert scraped.value("postroom_ready_records") is None


@pytest.mark.extended
@pytest.mark.requirement("E8")
async def test_promtool_accepts_the_metrics(sqlite_file: AsyncEngine, scraped: Scraped) -> None:
    publisher = RecordingPublisher()
    publisher.refuse("failed", 'it is "broken"\n', permanent=True)
    await save(sqlite_file, happened('a "quoted"\nname \\ ä'), happened("failed"))
    async with scraped.relay(sqlite_file, publisher).running():
        await eventually(lambda: scraped.value("postroom_failures_total", event_type="failed"))
        await eventually(lambda: scraped.value("postroom_ready_records") is not None)
        text = scraped.text()
    assert promtool("check", "metrics", stdin=text) == ""
    assert CARD not in text
    assert "broken" not in text


async def test_every_metric_is_exported_by_a_running_relay(
    engine: AsyncEngine, scraped: Scraped
) -> None:
    publisher = RecordingPublisher()
    publisher.refuse("failed", "never", permanent=True)
    publisher.refuse("refused", "no")
    await save(engine, happened("sent"), happened("failed"), happened("refused"))
    async with scraped.relay(engine, publisher).running():
        await eventually(lambda: scraped.value("postroom_ready_records") is not None)
        await eventually(lambda: scraped.value("postroom_failures_total", event_type="failed"))
        await eventually(lambda: scraped.value("postroom_listener_connected") == 1)
        families = list(text_string_to_metric_families(scraped.text()))
    assert [each.name for each in families] == list(METRICS)
    empty = {each.name for each in families if not each.samples}
    assert empty == {"postroom_postponements"}  # that needs a broker


async def test_event_types_beyond_a_number_share_a_series(
    sqlite_file: AsyncEngine, scraped: Scraped
) -> None:
    names = [f"type {number}" for number in range(MAX_TYPES + 20)]
    await save(sqlite_file, *map(happened, names))
    relay = scraped.relay(sqlite_file, MemoryPublisher())
    await relay.run_once()
    labels = scraped.labels("postroom_deliveries_total", "event_type")
    assert len(labels) == MAX_TYPES + 1
    assert scraped.value("postroom_deliveries_total", event_type="other") == 20


async def test_an_outage_is_a_state_of_the_breaker(
    sqlite_file: AsyncEngine, scraped: Scraped
) -> None:
    def is_open() -> bool:
        about = {"breaker": "publisher", "state": "open"}
        return scraped.value("postroom_breaker_state", **about) == 1

    publisher = RecordingPublisher()
    publisher.outage = "the broker is away"
    async with scraped.relay(sqlite_file, publisher).running():
        await eventually(is_open)
        publisher.outage = None
        await eventually(lambda: not is_open())


async def test_records_are_in_flight_until_the_publisher_has_answered(
    sqlite_file: AsyncEngine, scraped: Scraped
) -> None:
    class Held(MemoryPublisher):
        async def publish(self, records: Sequence[ClaimedRecord]) -> Sequence[Outcome]:
            await go_on.wait()
            return await super().publish(records)

    go_on = asyncio.Event()
    await save(sqlite_file, happened("a"), happened("b"))
    async with scraped.relay(sqlite_file, Held()).running():
        await eventually(lambda: scraped.value("postroom_in_flight_records") == 2)
        go_on.set()
        await eventually(lambda: scraped.value("postroom_in_flight_records") == 0)


async def test_one_collector_serves_several_outboxes(
    sqlite_file: AsyncEngine, scraped: Scraped, tmp_path: Path
) -> None:
    second = Outbox(MetaData(), table="second")
    other = create_async_engine(f"sqlite+aiosqlite:///{tmp_path / 'second.db'}")
    async with other.begin() as connection:
        await connection.run_sync(second.create_tables)
    async with (
        scraped.relay(sqlite_file, MemoryPublisher()).running(),
        scraped.collector.watching(second, other),
    ):
        await eventually(lambda: scraped.value("postroom_ready_records") == 0)
        await eventually(lambda: scraped.value("postroom_ready_records", outbox="second") == 0)
        names = [each.name for each in text_string_to_metric_families(scraped.text())]
        assert len(names) == len(set(names))
    await other.dispose()


async def test_a_scrape_in_another_thread_needs_neither_the_loop_nor_the_sqlite_file(
    sqlite_file: AsyncEngine, scraped: Scraped
) -> None:
    await save(sqlite_file, happened("sent"))
    async with scraped.relay(sqlite_file, MemoryPublisher()).running():
        await eventually(lambda: scraped.value("postroom_deliveries_total", event_type="sent"))
        found: list[str] = []
        thread = Thread(target=lambda: found.append(scraped.text()))
        thread.start()
        thread.join(PATIENCE)  # meanwhile the event loop stands still
        assert "postroom_deliveries_total" in found[0]


@pytest.mark.parametrize("before", [0.0, 2 * WANTED_FOR], ids=["at once", "after a long silence"])
async def test_the_outbox_is_read_again_as_long_as_somebody_asks(
    before: float, database: AsyncEngine, scraped: Scraped
) -> None:
    clock = FakeClock()
    metrics = OutboxMetrics(outbox, database, EventTypes(), clock)
    scraped.collector._measurements._outboxes["outbox"] = metrics
    async with metrics.reading():
        await eventually(lambda: scraped.value("postroom_ready_records") == 0)
        clock.advance(timedelta(seconds=before))
        await save(database, happened("sent"))

        def is_read_again() -> bool:
            clock.advance(timedelta(seconds=READ_EVERY / 2))
            return scraped.value("postroom_ready_records") == 1

        await eventually(is_read_again)


async def test_values_that_are_too_old_are_left_out(
    sqlite_file: AsyncEngine, scraped: Scraped
) -> None:
    clock = FakeClock()
    metrics = OutboxMetrics(outbox, sqlite_file, EventTypes(), clock)
    scraped.collector._measurements._outboxes["outbox"] = metrics
    async with metrics.reading():
        await eventually(lambda: scraped.value("postroom_ready_records") == 0)
    clock.advance(timedelta(seconds=MAX_AGE / 2))
    assert (scraped.value("postroom_outbox_read_age_seconds") or 0) >= MAX_AGE / 2
    clock.advance(timedelta(seconds=MAX_AGE / 2))
    assert scraped.value("postroom_ready_records") is None


async def test_a_database_that_is_away_leaves_the_metrics_of_the_relay(
    tmp_path: Path, scraped: Scraped, caplog: pytest.LogCaptureFixture
) -> None:
    nowhere = create_async_engine("postgresql+asyncpg://nobody:s3cret@127.0.0.1:1/nowhere")
    async with scraped.relay(nowhere, MemoryPublisher()).running():
        about = "no metrics of the outbox"
        await eventually(lambda: about in caplog.text)
        assert scraped.value("postroom_relay_running") == 1
        assert scraped.value("postroom_ready_records") is None
        closed = {"breaker": "database", "state": "closed"}
        await eventually(lambda: scraped.value("postroom_breaker_state", **closed) == 0)
    assert "s3cret" not in caplog.text

"""Metrics through OpenTelemetry: those of Prometheus, under the same names."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader, Metric
from sqlalchemy import MetaData
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from postroom import Outbox, OutboxRelay, RetrySchedule, UntypedEvent
from postroom.integrations.metrics.names import METRICS
from postroom.integrations.opentelemetry import OpenTelemetry
from postroom.testing import RecordingPublisher
from tests.support.dropping import drop_tables
from tests.support.waiting import eventually

pytestmark = pytest.mark.requirement("E8")


class Meters:
    """A meter provider of a test's own, and the metrics that it would export."""

    def __init__(self) -> None:
        self._reader = InMemoryMetricReader()
        self._provider = MeterProvider([self._reader])
        self.telemetry = OpenTelemetry(meter_provider=self._provider)

    def metrics(self) -> dict[str, Metric]:
        data = self._reader.get_metrics_data()
        found = [] if data is None else data.resource_metrics
        scopes = [scope for one in found for scope in one.scope_metrics]
        return {metric.name: metric for scope in scopes for metric in scope.metrics}

    def points(self, name: str) -> dict[frozenset[Any], Any]:
        """Give the values of a metric by their attributes, without the outbox."""
        metric = self.metrics().get(name)
        if metric is None:
            return {}
        points = {labels(each.attributes or {}): each for each in metric.data.data_points}
        assert {(each.attributes or {})["outbox"] for each in points.values()} == {"measured"}
        return points

    def value(self, name: str, **attributes: str) -> Any:
        point = self.points(name).get(labels(attributes))
        return None if point is None else point.value

    def distribution(self, name: str, **attributes: str) -> HistogramDataPoint:
        found: HistogramDataPoint = self.points(name)[labels(attributes)]
        return found


def labels(attributes: Mapping[str, Any]) -> frozenset[Any]:
    return frozenset((name, value) for name, value in attributes.items() if name != "outbox")


@pytest.fixture
def meters() -> Meters:
    return Meters()


@pytest.fixture
async def outbox(database: AsyncEngine) -> AsyncIterator[Outbox]:
    outbox = Outbox(MetaData(), table="measured")
    async with database.begin() as connection:
        await connection.run_sync(outbox.create_tables)
    yield outbox
    await drop_tables(database, outbox.metadata)


async def save(outbox: Outbox, engine: AsyncEngine, *event_types: str) -> None:
    events = [UntypedEvent(event_type=each, payload={"n": "canary"}) for each in event_types]
    async with AsyncSession(engine) as session, session.begin():
        await outbox.dispatcher(session).dispatch(events)


async def test_deliveries_are_counted_by_event_type_and_timed_once_for_each_call(
    outbox: Outbox, database: AsyncEngine, meters: Meters
) -> None:
    publisher = RecordingPublisher()
    publisher.refuse("b", times=1)
    publisher.refuse("c", times=1, permanent=True)
    relay = OutboxRelay(outbox, database, publisher, retry=RetrySchedule.seconds(3600))
    meters.telemetry.instrument(relay)
    await save(outbox, database, "a", "a", "b", "c")
    await relay.run_once()
    assert meters.value("postroom.deliveries", event_type="a") == 2
    assert meters.value("postroom.refusals", event_type="b") == 1
    assert meters.value("postroom.failures", event_type="c") == 1
    assert meters.distribution("postroom.publish_batch_records").sum == 4
    assert meters.distribution("postroom.claim_batch_records").sum == 4
    assert meters.distribution("postroom.delivery_duration").count == 1
    assert meters.distribution("postroom.end_to_end_duration").count == 1
    assert {dict(each)["statement"] for each in meters.points("postroom.statement_duration")}
    assert "canary" not in str(meters.metrics())


async def test_what_is_in_the_database_is_read_while_a_relay_runs(
    outbox: Outbox, database: AsyncEngine, meters: Meters
) -> None:
    publisher = RecordingPublisher()
    publisher.refuse("b", "no", permanent=True)
    relay = OutboxRelay(outbox, database, publisher)
    meters.telemetry.instrument(relay)
    await save(outbox, database, "b")
    await relay.run_once()
    async with relay.running():
        await eventually(lambda: meters.value("postroom.failed_records", event_type="b") == 1)
        assert meters.value("postroom.relay_running") == 1
        assert meters.value("postroom.breaker_state", breaker="database", state="closed") == 1
        assert meters.value("postroom.pending_records", event_type="b") == 0
    assert meters.value("postroom.relay_running") == 0


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)  # which has a listener
async def test_every_metric_of_prometheus_is_there_under_its_name(
    outbox: Outbox, database: AsyncEngine, meters: Meters
) -> None:
    publisher = RecordingPublisher()
    publisher.refuse("b", times=1, permanent=True)
    publisher.queue("some", "a", "b")
    relay = OutboxRelay(outbox, database, publisher)
    meters.telemetry.instrument(relay)
    await save(outbox, database, "a", "b", "c")
    async with relay.running():
        await eventually(lambda: meters.value("postroom.postponements", event_type="c"))
        await eventually(lambda: meters.value("postroom.listener_connected") == 1)
        await eventually(lambda: meters.points("postroom.pending_records"))
        found = meters.metrics()
    assert {as_prometheus(metric) for metric in found.values()} == METRICS.keys()
    assert {metric.description for metric in found.values()} == {
        each.help for each in METRICS.values()
    }


def as_prometheus(metric: Metric) -> str:
    """Name a metric as OpenTelemetry's exporter for Prometheus does."""
    return metric.name.replace(".", "_") + ("_seconds" if metric.unit == "s" else "")


async def test_one_object_measures_several_relays(
    outbox: Outbox, database: AsyncEngine, meters: Meters
) -> None:
    for event_type in ("a", "b"):
        relay = OutboxRelay(outbox, database, RecordingPublisher())
        meters.telemetry.instrument(relay)
        await save(outbox, database, event_type)
        await relay.run_once()
    assert meters.value("postroom.deliveries", event_type="a") == 1
    assert meters.value("postroom.deliveries", event_type="b") == 1

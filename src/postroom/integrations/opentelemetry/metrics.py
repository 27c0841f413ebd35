"""Metrics through OpenTelemetry: the same facts as for Prometheus, under the same names.

`postroom.deliveries` and `postroom.delivery_duration` (in seconds) become, where they are exported
to Prometheus, what the alerts and the dashboard ask for.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

from opentelemetry.metrics import CallbackOptions, Histogram, Meter, Observation

from postroom.integrations.metrics.distribution import RECORDS, SECONDS, Distribution
from postroom.integrations.metrics.measurements import Measurements
from postroom.integrations.metrics.names import METRICS, OUTBOX, labels_of
from postroom.publishers.base import Delivered
from postroom.record import ClaimedRecord
from postroom.relay.observer import Answer, RelayObserver
from postroom.relay.relay import OutboxRelay

IN_SECONDS: Final = "_seconds"


def instrument_name(metric: str) -> str:
    """Return the name of a metric as OpenTelemetry has it."""
    return metric.replace("_", ".", 1).removesuffix(IN_SECONDS)


class Metrics:
    """The instruments of all relays of a process. Counters and gauges are read when exported."""

    def __init__(self, meter: Meter) -> None:
        self._measurements = Measurements()
        self._histograms: dict[str, Histogram] = {}
        for name in METRICS:
            self._create(meter, name)

    def observe(self, relay: OutboxRelay) -> None:
        """Measure a relay, and its outbox while it runs."""
        relay.observe(self._measurements.observer(relay.outbox))
        relay.observe(Histograms(self._histograms, relay.outbox.tables.records.fullname))

    def _create(self, meter: Meter, name: str) -> None:
        metric, unit = METRICS[name], "s" if name.endswith(IN_SECONDS) else ""
        known = instrument_name(name)
        match metric.kind:
            case "counter":
                meter.create_observable_counter(known, [self._reader(name)], unit, metric.help)
            case "gauge":
                meter.create_observable_gauge(known, [self._reader(name)], unit, metric.help)
            case "histogram" | "summary":
                self._histograms[name] = meter.create_histogram(
                    known,
                    unit,
                    metric.help,
                    explicit_bucket_boundaries_advisory=SECONDS if unit else RECORDS,
                )

    def _reader(self, name: str) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def read(_: CallbackOptions) -> Iterable[Observation]:
            values = Values(name)
            self._measurements.write(values)
            return values.found

        return read


class Values:
    """A page that takes the values of one counter or gauge."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.found: list[Observation] = []

    def add(self, name: str, outbox: str, value: float, *labels: str) -> None:
        """See `Page`."""
        if name == self._name:
            self.found.append(Observation(value, labels_of(name, outbox, labels)))

    def add_distribution(self, name: str, outbox: str, values: Distribution) -> None:
        """Do nothing: the values of histograms are recorded as they come."""

    def add_summary(self, name: str, outbox: str, count: int, total: float, *labels: str) -> None:
        """Do nothing, as for a histogram."""


class Histograms(RelayObserver):
    """Records durations and sizes as they come: once for a call, not for each of its records.

    A value that is recorded takes some microseconds, which is much for each of 10,000 records in
    a second.
    """

    def __init__(self, histograms: dict[str, Histogram], outbox: str) -> None:
        self._histograms = histograms
        self._labels = {OUTBOX: outbox}

    def claimed(self, records: int, seconds: float) -> None:
        """See `RelayObserver`."""
        if records:
            self._record("postroom_claim_batch_records", records)

    def published(
        self, records: Sequence[ClaimedRecord], answers: Sequence[Answer], seconds: float
    ) -> None:
        """See `RelayObserver`. End to end, it is the time of the oldest record of the call."""
        self._record("postroom_publish_batch_records", len(records))
        self._record("postroom_delivery_duration_seconds", seconds)
        pairs = zip(records, answers, strict=True)
        times = [record.created_at for record, answer in pairs if isinstance(answer, Delivered)]
        if times:
            age = (datetime.now(UTC) - min(times)).total_seconds()
            self._record("postroom_end_to_end_duration_seconds", max(0.0, age))

    def statement_run(self, name: str, seconds: float) -> None:
        """See `RelayObserver`."""
        self._record("postroom_statement_duration_seconds", seconds, statement=name)

    def _record(self, name: str, value: float, **labels: str) -> None:
        self._histograms[name].record(value, {**self._labels, **labels})

"""The metrics of one scrape."""

from collections.abc import Iterable

from prometheus_client.core import Metric

from postroom.integrations.metrics.distribution import Distribution
from postroom.integrations.metrics.names import METRICS, labels_of


class ScrapePage:
    """The metrics of one scrape: each of METRICS once, with the samples of all outboxes."""

    def __init__(self) -> None:
        self._families = {name: Metric(name, it.help, it.kind) for name, it in METRICS.items()}

    def add(self, name: str, outbox: str, value: float, *labels: str) -> None:
        """Add a value of a counter or a gauge."""
        suffix = "_total" if METRICS[name].kind == "counter" else ""
        self._families[name].add_sample(f"{name}{suffix}", labels_of(name, outbox, labels), value)

    def add_distribution(self, name: str, outbox: str, values: Distribution) -> None:
        """Add the buckets of a histogram."""
        labels, buckets = labels_of(name, outbox), values.buckets()
        family = self._families[name]
        for bound, count in buckets:
            family.add_sample(f"{name}_bucket", {**labels, "le": bound}, count)
        family.add_sample(f"{name}_count", labels, buckets[-1][1])
        family.add_sample(f"{name}_sum", labels, values.sum)

    def add_summary(self, name: str, outbox: str, count: int, total: float, *labels: str) -> None:
        """Add the count and the sum of a summary."""
        named = labels_of(name, outbox, labels)
        self._families[name].add_sample(f"{name}_count", named, count)
        self._families[name].add_sample(f"{name}_sum", named, total)

    def families(self) -> Iterable[Metric]:
        """Return all metrics, those without a value too."""
        return self._families.values()

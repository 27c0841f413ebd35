"""docs/reference/metrics.md: each metric with its type, its labels and its help text."""

from collections.abc import Mapping

from postroom.integrations.metrics.names import OUTBOX_METRICS, RELAY_METRICS, Description
from postroom.integrations.opentelemetry.metrics import instrument_name
from scripts.reference.blocks import Block, Table, code


def blocks() -> dict[str, Block]:
    """Return the tables of the metrics."""
    return {"relays": _table(RELAY_METRICS), "outbox": _table(OUTBOX_METRICS)}


def _table(metrics: Mapping[str, Description]) -> Table:
    columns = "Prometheus, OpenTelemetry", "type and labels", "meaning"
    return Table(columns, [_row(name, metric) for name, metric in metrics.items()])


def _row(name: str, metric: Description) -> tuple[str, str, str]:
    prometheus = f"{name}_total" if metric.kind == "counter" else name
    labels = ", ".join(map(code, metric.labels))
    kind = f"{metric.kind} by {labels}" if labels else metric.kind
    return f"{code(prometheus)}, {code(instrument_name(name))}", kind, metric.help

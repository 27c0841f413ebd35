"""The page of metrics has every metric, with its type, its labels and its OpenTelemetry name."""

from typing import Any

from postroom.integrations.metrics.distribution import RECORDS, SECONDS
from postroom.integrations.metrics.names import METRICS
from postroom.integrations.metrics.outbox_metrics import MAX_AGE, READ_EVERY, WANTED_FOR
from postroom.integrations.metrics.relay_metrics import MAX_TYPES
from postroom.integrations.opentelemetry.metrics import Metrics
from tests.docs.markdown import MarkdownTable, code, table_under
from tests.docs.pages import ROOT

PAGE = ROOT / "docs/reference/metrics.md"


class RecordingMeter:
    """Notes the names of the instruments that are made, in order."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def __getattr__(self, name: str) -> Any:
        assert name.startswith("create_"), name
        return self._create

    def _create(self, name: str, *_: Any, **__: Any) -> None:
        self.names.append(name)


def documented() -> dict[str, tuple[str, str, list[str]]]:
    every: list[MarkdownTable] = [
        table_under(PAGE, f"Of {each}") for each in ("relays", "the outbox")
    ]
    found: dict[str, tuple[str, str, list[str]]] = {}
    for table in every:
        for names, kind, _ in table.rows:
            prometheus, otel = code(names)
            found[prometheus] = otel, kind.partition(" ")[0], code(kind)
    return found


def test_the_metrics_are_those_of_the_code() -> None:
    meter: Any = RecordingMeter()
    Metrics(meter)
    expected = {
        f"{name}_total" if it.kind == "counter" else name: (otel, it.kind, list(it.labels))
        for (name, it), otel in zip(METRICS.items(), meter.names, strict=True)
    }
    assert documented() == expected


def test_the_limits_are_those_of_the_code() -> None:
    text = PAGE.read_text()
    assert f"At most {MAX_TYPES} event types" in text
    assert f"every {READ_EVERY:.0f} s at most" in text
    assert (WANTED_FOR, MAX_AGE) == (5 * 60, 2 * 60)
    assert (SECONDS[0], SECONDS[-1], RECORDS[0], RECORDS[-1]) == (0.001, 7200, 1, 2500)

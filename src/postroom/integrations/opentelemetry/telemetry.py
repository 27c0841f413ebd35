"""Switches OpenTelemetry on for outboxes and relays."""

from functools import cached_property
from importlib.metadata import version
from typing import Final

from opentelemetry.metrics import MeterProvider, get_meter
from opentelemetry.trace import TracerProvider, get_tracer

from postroom.integrations.opentelemetry.metrics import Metrics
from postroom.integrations.opentelemetry.spans import CreateSpans, DeliverySpans
from postroom.outbox import Outbox
from postroom.publishers.handlers.publisher import HandlersPublisher
from postroom.relay.relay import OutboxRelay

SCHEMA: Final = "https://opentelemetry.io/schemas/1.44.0"
"""The version of the semantic conventions that names and attributes are of."""


class OpenTelemetry:
    """Traces and metrics of outboxes and relays, through OpenTelemetry. Make one per process.

    - `tracer_provider`, `meter_provider`: the global providers by default
    """

    def __init__(
        self,
        *,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
    ) -> None:
        self._tracer = get_tracer("postroom", version("postroom"), tracer_provider, SCHEMA)
        self._meter_provider = meter_provider

    def instrument(self, target: Outbox | OutboxRelay) -> None:
        """Switch on traces of an outbox, or traces and metrics of a relay. Call it at start-up.

        An outbox makes a span for each captured event, and stores the trace context in the record.
        A relay makes a span for each delivery and each handler. To instrument a relay instruments
        its outbox too.
        """
        if isinstance(target, OutboxRelay):
            self._instrument_relay(target)
        else:
            self._instrument_outbox(target)

    def _instrument_outbox(self, outbox: Outbox) -> None:
        if not any(isinstance(each, CreateSpans) for each in outbox.settings.callbacks):
            outbox.on_capture(CreateSpans(self._tracer))

    def _instrument_relay(self, relay: OutboxRelay) -> None:
        if any(isinstance(each, DeliverySpans) for each in relay.observers):
            return
        self._instrument_outbox(relay.outbox)
        spans = DeliverySpans(self._tracer, relay.publisher, relay.outbox.redact)
        relay.observe(spans)
        if isinstance(relay.publisher, HandlersPublisher):
            relay.publisher.wrap_handlers(spans.handling)
        self._metrics.observe(relay)

    @cached_property
    def _metrics(self) -> Metrics:
        return Metrics(get_meter("postroom", version("postroom"), self._meter_provider, SCHEMA))

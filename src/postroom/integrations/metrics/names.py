"""The metrics: names, kinds, help texts and labels. Each is listed once, here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from postroom.integrations.metrics.distribution import Distribution

Kind = Literal["counter", "gauge", "histogram", "summary"]
OUTBOX: Final = "outbox"
"""The label of every metric: the name of the table, with its schema."""


@dataclass(frozen=True, slots=True)
class Description:
    """What a metric is, and which labels it has beside `outbox`."""

    kind: Kind
    help: str
    labels: tuple[str, ...] = ()


RELAY_METRICS: Final[Mapping[str, Description]] = {
    "postroom_relay_running": Description("gauge", "Relays of this process that run."),
    "postroom_deliveries": Description("counter", "Records delivered.", ("event_type",)),
    "postroom_refusals": Description(
        "counter",
        "Refusals by the publisher or a handler; a record that fails is refused too.",
        ("event_type",),
    ),
    "postroom_postponements": Description(
        "counter", "Records postponed because their route cannot be used.", ("event_type",)
    ),
    "postroom_failures": Description(
        "counter", "Records that failed: refused for the last time.", ("event_type",)
    ),
    "postroom_delivery_duration_seconds": Description(
        "histogram", "Time from sending a record to the answer of the publisher."
    ),
    "postroom_end_to_end_duration_seconds": Description(
        "histogram",
        "Time from the insert of a record to its delivery, delays and retries included.",
    ),
    "postroom_publish_batch_records": Description(
        "histogram", "Records per call of the publisher."
    ),
    "postroom_claim_batch_records": Description("histogram", "Records per claim that found any."),
    "postroom_in_flight_records": Description("gauge", "Records sent and not yet answered."),
    "postroom_leased_partitions": Description(
        "gauge", "Partitions leased by the relays of this process, of 64."
    ),
    "postroom_breaker_state": Description(
        "gauge",
        "1 for the state of a breaker (publisher, database): closed, open (an outage), half_open.",
        ("breaker", "state"),
    ),
    "postroom_listener_connected": Description(
        "gauge",
        "1 if the relay is notified of commits, 0 if it only polls; absent if it does not listen.",
    ),
    "postroom_listener_reconnects": Description(
        "counter", "Connections of the listener after the first one."
    ),
    "postroom_statement_duration_seconds": Description(
        "summary",
        "Time of the relay's statements in the database; commit: that of several statements.",
        ("statement",),
    ),
}
"""What the relays of this process do."""

OUTBOX_METRICS: Final[Mapping[str, Description]] = {
    "postroom_pending_records": Description(
        "gauge", "Records that are not delivered and have not failed.", ("event_type",)
    ),
    "postroom_oldest_pending_seconds": Description(
        "gauge", "Age of the oldest pending record.", ("event_type",)
    ),
    "postroom_ready_records": Description("gauge", "Pending records that may be sent now."),
    "postroom_oldest_ready_seconds": Description(
        "gauge", "Age of the oldest record that may be sent now."
    ),
    "postroom_failed_records": Description(
        "gauge", "Failed records that an operator has to retry or discard.", ("event_type",)
    ),
    "postroom_blocked_keys": Description(
        "gauge", "Keys whose later records wait for an earlier one."
    ),
    "postroom_workers": Description(
        "gauge", "Relays of all processes: alive, or missing (no heartbeat).", ("state",)
    ),
    "postroom_pauses": Description("gauge", "Pauses in force, of the outbox, a type or a key."),
    "postroom_waiting_routes": Description(
        "gauge", "Routes that cannot be used, so that records wait, as the workers report them."
    ),
    "postroom_waiting_route_seconds": Description(
        "gauge", "Time since records began to wait for a route, the longest of all routes."
    ),
    "postroom_outbox_read_seconds": Description(
        "gauge", "Time that the last reading of these values from the database took."
    ),
    "postroom_outbox_read_age_seconds": Description(
        "gauge", "Age of these values. Values older than 2 minutes are left out."
    ),
}
"""What is in the database, whichever process delivers it."""

METRICS: Final[Mapping[str, Description]] = {**RELAY_METRICS, **OUTBOX_METRICS}
"""All of them. By name, as Prometheus has it without _total, _bucket, _sum and _count."""


class Page(Protocol):
    """Takes the values of metrics, of all outboxes, in the form that a system wants them in."""

    def add(self, name: str, outbox: str, value: float, *labels: str) -> None:
        """Add a value of a counter or a gauge."""

    def add_distribution(self, name: str, outbox: str, values: Distribution) -> None:
        """Add a histogram."""

    def add_summary(self, name: str, outbox: str, count: int, total: float, *labels: str) -> None:
        """Add the count and the sum of a summary."""


def labels_of(name: str, outbox: str, values: Sequence[str] = ()) -> dict[str, str]:
    """Return the labels of a value with their names."""
    names = (OUTBOX, *METRICS[name].labels)
    return dict(zip(names, (outbox, *values), strict=True))

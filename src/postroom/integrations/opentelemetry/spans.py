"""The spans of an event's journey: create, send, process. All are in the trace of the capture.

A call of the publisher may take hundreds of records, of as many traces, so each record has a `send`
span of its own. One span for the call, with links, would be in a trace of its own: who looks at a
request would not see its deliveries.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final

from opentelemetry import trace
from opentelemetry.context import Context, attach, detach
from opentelemetry.propagate import inject
from opentelemetry.trace import Link, Span, SpanKind, StatusCode, Tracer

from postroom.integrations.opentelemetry.context import sampled_out, span_in, stored_context
from postroom.integrations.opentelemetry.errors import add_error, error_type
from postroom.publishers.base import NamesDestinations, Publisher
from postroom.record import ClaimedRecord, OutboxRecord, secrets_of
from postroom.relay.observer import Answer, RelayObserver

SYSTEM: Final = "postroom"
"""The messaging system of captures, of handlers, and of publishers that name no other."""
Attributes = dict[str, str | int]


class CreateSpans:
    """Makes a span for each captured event, and stores its context in the record's headers.

    A trace context that the application has put there (`Outbox(headers=…)`) stays as it is.
    """

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def __call__(self, record: OutboxRecord) -> None:
        """Store with a captured record the context of a new span, child of the current one."""
        if record.headers and span_in(stored_context(record.headers)) is not None:
            return
        span = self._tracer.start_span(
            f"create {record.event_type}",
            kind=SpanKind.PRODUCER,
            attributes=_attributes("create", record, record.event_type),
        )
        inject(record.headers, trace.set_span_in_context(span))
        span.end()


class DeliverySpans(RelayObserver):
    """Makes a span for each record that a publisher is given, and for each handler's call."""

    def __init__(self, tracer: Tracer, publisher: Publisher, redact: Sequence[str]) -> None:
        self._tracer, self._publisher, self._redact = tracer, publisher, redact
        self._open: dict[int, Span] = {}
        """By the position of the record."""

    @contextmanager
    def publishing(self, records: Sequence[ClaimedRecord]) -> Iterator[None]:
        """Have a span for each record while the publisher has it.

        The span of a record that is sent alone is the current one, for the spans of handlers.
        """
        started = [each for each in records if not sampled_out(each.headers)]
        for record in started:
            self._open[record.position] = self._start(record)
        token = attach(self._context(records[0])) if len(records) == 1 else None
        try:
            yield
        finally:
            if token is not None:
                detach(token)
            for record in started:
                self._end(record, "cancelled")  # unless it was answered

    def published(
        self, records: Sequence[ClaimedRecord], answers: Sequence[Answer], seconds: float
    ) -> None:
        """End the spans of records with what the publisher answered."""
        if not self._open:
            return
        for record, answer in zip(records, answers, strict=True):
            if record.position in self._open:
                self._end(record, error_type(answer), getattr(answer, "reason", ""))

    @contextmanager
    def handling(self, record: ClaimedRecord, handler: str) -> Iterator[None]:
        """Have a current span while a handler runs, with a link to the capture."""
        created = span_in(stored_context(record.headers))
        name = f"{record.event_type}:{handler}"
        span = self._tracer.start_span(
            f"process {name}",
            kind=SpanKind.CONSUMER,
            attributes=_attributes("process", record, name),
            links=[] if created is None else [Link(created)],
        )
        with trace.use_span(
            span, end_on_exit=True, record_exception=False, set_status_on_exception=False
        ):
            try:
                yield
            except BaseException as error:
                if span.is_recording():
                    add_error(span, error, secrets_of(record, self._redact))
                raise

    def _start(self, record: ClaimedRecord) -> Span:
        attributes = _attributes("send", record, record.event_type)
        attributes["postroom.attempt"] = record.retry_count + 1
        kind = SpanKind.INTERNAL  # as in handlers of this process
        if isinstance(self._publisher, NamesDestinations):
            kind = SpanKind.CLIENT
            with suppress(Exception):  # of a function that tells a routing key, say: it is refused
                attributes |= self._publisher.messaging_attributes(record)
        return self._tracer.start_span(
            f"send {record.event_type}",
            context=stored_context(record.headers),
            kind=kind,
            attributes=attributes,
        )

    def _context(self, record: ClaimedRecord) -> Context:
        """Return the context in which a record is delivered: its span, and its baggage."""
        stored, span = stored_context(record.headers), self._open.get(record.position)
        return stored if span is None else trace.set_span_in_context(span, stored)

    def _end(self, record: ClaimedRecord, error: str | None, reason: str = "") -> None:
        span = self._open.pop(record.position, None)
        if span is None:
            return
        if error is not None and span.is_recording():
            span.set_attribute("error.type", error)
            span.set_status(StatusCode.ERROR, reason)
        span.end()


def _attributes(
    operation: str, record: OutboxRecord | ClaimedRecord, destination: str
) -> Attributes:
    return {
        "messaging.system": SYSTEM,
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
        "messaging.destination.name": destination,
        "messaging.message.id": str(record.id),
    }

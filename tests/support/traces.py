"""Spans in memory, and what tests ask of them."""

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, ParentBased, Sampler

from postroom.integrations.opentelemetry import OpenTelemetry


class Traces:
    """A tracer provider of a test's own, and the spans that have ended, in order of their end."""

    def __init__(self, sampler: Sampler | None = None) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider(sampler=sampler or ParentBased(ALWAYS_ON))
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = self.provider.get_tracer("test")

    def telemetry(self) -> OpenTelemetry:
        """Make what switches the traces on."""
        return OpenTelemetry(tracer_provider=self.provider)

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self._exporter.get_finished_spans())

    @property
    def names(self) -> list[str]:
        return [span.name for span in self.spans]

    def named(self, beginning: str) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name.startswith(beginning)]

    def one(self, beginning: str) -> ReadableSpan:
        """Give the only span whose name begins so."""
        [span] = self.named(beginning)
        return span

    def path(self, span: ReadableSpan) -> list[str]:
        """Give the names of a span's ancestors, the first one first, and its own."""
        by_id = {id_of(each): each for each in self.spans}
        parent = None if span.parent is None else by_id.get(span.parent.span_id)
        return [*([] if parent is None else self.path(parent)), span.name]

    def text(self) -> str:
        """Give all that the spans say."""
        return "\n".join(span.to_json() for span in self.spans)


def id_of(span: ReadableSpan) -> int:
    return context_of(span).span_id


def context_of(span: ReadableSpan) -> trace.SpanContext:
    context = span.get_span_context()
    assert context is not None
    return context


def traceparent(span: ReadableSpan) -> str:
    """Write a span's context as the header does."""
    context = context_of(span)
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"

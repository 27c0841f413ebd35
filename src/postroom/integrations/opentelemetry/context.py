"""The trace context in the headers of a record."""

from collections.abc import Mapping
from typing import Any

from opentelemetry.context import Context
from opentelemetry.propagate import extract
from opentelemetry.trace import SpanContext, get_current_span


def stored_context(headers: Mapping[str, Any]) -> Context:
    """Return the context in a record's headers, baggage included; an empty one if there is none."""
    texts = {name: value for name, value in headers.items() if isinstance(value, str)}
    return extract(texts, Context())


def span_in(context: Context) -> SpanContext | None:
    """Return the span of a context; None if there is none."""
    found = get_current_span(context).get_span_context()
    return found if found.is_valid else None


def sampled_out(headers: Mapping[str, Any]) -> bool:
    """Return whether the trace in a record's headers is not recorded. Quick: no parsing."""
    stored = headers.get("traceparent")
    # "00-<trace id>-<span id>-<flags>": the lowest bit of the flags says that it is recorded.
    return isinstance(stored, str) and len(stored) == 55 and stored[54] in "02468ace"
